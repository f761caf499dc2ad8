"""The papers' tables, made small by bench/papers/reproduce.py: what is written, what is refused and what survives."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import int8_program
from program import TRIACCEL, run, scratch_folder

SCRIPT = pathlib.Path(__file__).parents[2] / "bench" / "papers" / "reproduce.py"
BASELINES = os.environ.get("TRIACCEL_BASELINES", "build/release/triaccel_baselines")
SMALL = ["--quick", "--threads", 1, "--device", "cpu", "--triaccel", TRIACCEL]
KEYS = ("model", "stem", "data", "method", "seed", "epochs", "accuracy", "seconds_per_epoch",
        "peak_allocated_mb", "peak_reserved_mb", "score", "commit")


def start(out, *arguments):
    return subprocess.Popen([sys.executable, SCRIPT, *map(str, arguments), *map(str, SMALL), "--out", out],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def reproduce(out, *arguments, timeout=240):
    with start(out, *arguments) as process:
        output, errors = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def rows_in(out):
    return json.loads((out / "result.json").read_text())


def files_in(out):
    """Every file but the locks, with its bytes."""
    return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*"))
            if path.is_file() and path.name != ".lock"}


def evaluations_in(directory, split):
    lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [100 * line["accuracy"] for line in lines
            if line["kind"] == "evaluation" and line["split"] == split]


class Tables(unittest.TestCase):
    def check_files(self, out, table):
        page = (out / f"{table}.html").read_text()
        self.assertIsNone(re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page))
        self.assertNotIn("@import", page)
        for path in re.findall(r'href="([^"]*)"', page):
            self.assertTrue((out / path).exists(), path)
        for ending in ("csv", "txt", "md"):
            self.assertTrue((out / f"{table}.{ending}").exists(), ending)

    def test_table1_is_written_once_and_other_settings_are_refused(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("paper: %", done.stdout)
            self.assertIn("triaccel over fp32", done.stdout)
            self.assertEqual([row["method"] for row in rows_in(folder)], ["fp32", "amp", "triaccel"])
            for row in rows_in(folder):
                self.assertLessEqual(set(KEYS), set(row))
                self.assertEqual((row["data"], row["epochs"], row["learning_rate"]), ("synthetic", 2, 0.1))
                self.assertGreater(row["score"], 0)
            self.check_files(folder, "table1")

            before = files_in(folder)
            again = reproduce(folder, "tri_accel", "table1")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual((again.stdout, again.stderr), (done.stdout, ""))
            self.assertEqual(reproduce(folder, "tri_accel", "table1", "--shared").returncode, 0)
            for other in (["--epochs", 1], ["--rates", 0.2], ["--policy", "paper"], ["--budget-share", 0.9]):
                refused = reproduce(folder, "tri_accel", "table1", *other)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                named = {"--rates": "--lr", "--budget-share": "--budget"}.get(other[0], other[0])
                for word in (named, str(folder / "runs"), "another --out"):
                    self.assertIn(word, refused.stderr)
            self.assertEqual(files_in(folder), before)

    def test_rows_start_from_weights_of_another_data_set_with_tuned_thresholds(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table1", "--models", "resnet18-224", "--methods", "fp32,triaccel", "--epochs", 1,
                             "--tune=--noise-share=0.1,1", "--pretrain-epochs", 1, "--grid-epochs", 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("pre-trained on synthetic", done.stdout)
            self.assertEqual([(row["method"], row["image_size"], row["tuned"][:13]) for row in rows_in(folder)],
                             [("fp32", 64, ""), ("triaccel", 64, "--noise-share")])
            for name in ("fp32", "triaccel"):
                options = json.loads((folder / f"runs/table1-resnet18-imagenet-synthetic-224-{name}-1.options.json").read_text())
                self.assertIn("pretrained-resnet18-synthetic", options["--init-from"])
                self.assertEqual(options["--new-head"], "true")
            refused = reproduce(folder, "tri_accel", "table1", "--tune=--lr=0.1,1")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("--tune", refused.stderr)

    def test_table2_has_the_four_configurations(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table2", "--jobs", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("paper: MB", done.stdout)
            self.assertEqual({row["configuration"] for row in rows_in(folder)},
                             {"standard", "dynamic-batch", "dynamic-precision", "full"})
            self.assertIn("Time and score of 4 run(s)", done.stdout)  # two at a time
            self.check_files(folder, "table2")

    def test_table2_takes_the_rows_of_a_method_alone(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table2", "--methods", "triaccel", "--budget", "2GB")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual({row["configuration"] for row in rows_in(folder)}, {"dynamic-batch", "dynamic-precision", "full"})
            refused = reproduce(folder, "tri_accel", "table2", "--methods", "amp")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("--methods", refused.stderr)

    def test_a_killed_table_is_completed_by_the_same_command(self):
        with scratch_folder() as folder:
            with start(folder, "tri_accel", "table1") as process:
                metrics = folder / "runs/table1-resnet18-imagenet-synthetic-amp-1/metrics.jsonl"
                while not metrics.exists() and process.poll() is None:
                    time.sleep(0.01)
                process.kill()
                process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            first = rows_in(folder)
            self.assertEqual([row["method"] for row in first], ["fp32"])
            done = reproduce(folder, "tri_accel", "table1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([row["method"] for row in rows_in(folder)], ["fp32", "amp", "triaccel"])
            self.assertEqual(rows_in(folder)[0], first[0])

    def test_a_stopped_table_saves_its_run_and_resumes_it(self):
        with scratch_folder() as folder:
            arguments = ["tri_accel", "table1", "--methods", "fp32", "--epochs", 2]
            with start(folder, *arguments) as process:
                metrics = folder / "runs/table1-resnet18-imagenet-synthetic-fp32-1/metrics.jsonl"
                while not metrics.exists() and process.poll() is None:
                    time.sleep(0.01)
                process.terminate()
                _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
            self.assertIn("the same command goes on", errors)
            self.assertFalse((folder / "result.json").exists())
            done = reproduce(folder, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([row["epochs"] for row in rows_in(folder)], [2])

    def test_missing_data_is_reported_once_and_the_other_rows_are_made(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table1", "--sets", "cifar10,synthetic", "--data-root", folder,
                             "--methods", "fp32,triaccel", "--seeds", 2)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(re.findall("^cifar10: ", done.stderr, re.MULTILINE)), 1, done.stderr)
            self.assertIn("3 more were not tried for the same reason", done.stdout)
            [failed] = json.loads((folder / "failed.json").read_text())
            self.assertEqual((failed["row"], failed["code"]), ("cifar10", 3))
            self.assertIn(failed["message"], done.stdout)
            self.assertEqual([(row["data"], row["method"]) for row in rows_in(folder)],
                             [("synthetic", method) for method in ("fp32", "fp32", "triaccel", "triaccel")])
            self.check_files(folder, "table1")

    def test_a_row_that_diverges_is_no_measurement(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "tri_accel", "table1", "--rates", "1e8")
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertRegex(done.stderr, "not finite|steps in a row were skipped")
            self.assertIn("FP32 has failed", done.stderr)
            self.assertNotIn("fp32", {row["method"] for row in rows_in(folder)} if (folder / "result.json").exists() else ())


class Grid(unittest.TestCase):
    def test_processes_share_one_choice_made_on_held_out_samples(self):
        with scratch_folder() as folder:
            arguments = ["tri_accel", "table1", "--methods", "fp32", "--rates", "1e-6,0.1,1e8", "--grid-epochs", 2]
            both = [start(folder, *arguments, "--seeds", seed) for seed in ("1,", "2,")]
            for process in both:
                _, errors = process.communicate(timeout=240)
                self.assertEqual(process.returncode, 0, errors)
            [choice] = json.loads((folder / "grid.json").read_text())
            self.assertEqual(choice["--lr"], 0.1)
            self.assertEqual({row["learning_rate"] for row in rows_in(folder)}, {0.1})
            self.assertEqual({row["seed"] for row in rows_in(folder)}, {1, 2})
            self.assertIsNone(choice["points"][2]["accuracy"])  # diverged
            for point in choice["points"][:2]:
                name = f"lr{point['--lr']:g}-weight-decay0.0005"
                seen = evaluations_in(folder / "grid" / choice["group"] / name, "validation")
                self.assertAlmostEqual(point["accuracy"], max(seen))
            before = files_in(folder)
            self.assertEqual(reproduce(folder, *arguments, "--seeds", 2).returncode, 0)
            # The files of the table itself show the rows of whichever command came last.
            for path, content in before.items():
                if not path.name.startswith("table1."):
                    self.assertEqual((folder / path).read_bytes(), content, path)


class Elastic(unittest.TestCase):
    KEYS = ("model", "data", "method", "number_format", "bp_layers", "seed", "accuracy", "peak_bytes",
            "seconds_per_epoch", "commit")

    def compare(self, out, *arguments):
        return reproduce(out, "elastic_zo", "--rotations", 45, *arguments)

    def test_every_method_is_made_in_both_formats_and_fine_tuned_from_backpropagation(self):
        with scratch_folder() as folder:
            methods = ["--methods", "zo,elasticzo-1"]
            done = self.compare(folder, *methods)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = rows_in(folder)
            for row in rows:
                self.assertLessEqual(set(self.KEYS), set(row))
            made = {(row["method"], row["number_format"], row["rotation"]) for row in rows}
            self.assertEqual(made, {(method, number, turn) for number in ("fp32", "int8") for method, turn in
                                    (("bp", 0), ("zo", 0), ("elasticzo", 0), ("zo", 45), ("elasticzo", 45))})
            for row in rows:
                if row["number_format"] == "int8":
                    self.assertEqual(row["peak_bytes"], row["predicted_bytes"])
                self.assertEqual(row["accuracy_before"] is None, row["rotation"] == 0)
            self.assertIn("abstract: +5.2 to +9.5", done.stdout)
            for ending in ("csv", "txt", "md", "html"):
                self.assertTrue((folder / f"elasticzo.{ending}").exists(), ending)
            before = files_in(folder)
            self.assertEqual(self.compare(folder, *methods).stdout, done.stdout)
            self.assertEqual(files_in(folder), before)

    def test_settings_are_chosen_on_held_out_samples(self):
        with scratch_folder() as folder:
            done = self.compare(folder, "--methods", "frozen-1", "--formats", "int8", "--no-fine-tuning",
                                "--bits", "1,4-1", "--jobs", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            trials = {path.name: max(evaluations_in(path, "validation"))
                      for path in (folder / "grid").glob("*/*") if path.is_dir()}
            self.assertEqual(set(trials), {"int8-bits1", "int8-bits4-1"})
            config = (folder / "runs/lenet5-synthetic-int8-frozen1-1/config.toml").read_text()
            wanted = max(("1", "4-1"), key=lambda bits: trials[f"int8-bits{bits}"])
            self.assertIn(f'gradient_bits = "{wanted}"', config)

    def test_a_rate_that_diverges_loses_and_is_not_tried_again(self):
        with scratch_folder() as folder:
            arguments = ["--methods", "frozen-1", "--formats", "fp32", "--no-fine-tuning", "--rates", "0.01,1e9"]
            self.assertEqual(self.compare(folder, *arguments).returncode, 0)
            self.assertEqual([row["learning_rate"] for row in rows_in(folder)], [0.01])
            before = files_in(folder)
            self.assertIn(pathlib.Path("grid/lenet5-synthetic-fp32-frozen1/lr1e+09.diverged.txt"), before)
            self.assertEqual(self.compare(folder, *arguments).returncode, 0)
            self.assertEqual(files_in(folder), before)

    def test_what_was_trained_is_fine_tuned_by_a_command_with_other_choices(self):
        with scratch_folder() as folder:
            formats = ["--formats", "int8"]
            self.assertEqual(self.compare(folder, "--methods", "bp", *formats, "--no-fine-tuning").returncode, 0)
            done = self.compare(folder, "--methods", "zo", *formats, "--only-fine-tuning", "--zo-exponents", "5-7")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([(row["method"], row["rotation"]) for row in rows_in(folder)], [("bp", 0), ("zo", 45)])

    def test_point_clouds_get_no_option_of_images_or_of_another_method(self):
        with scratch_folder() as folder:
            int8_program.write_clouds(folder / "modelnet40", train=320)
            done = self.compare(folder / "out", "--sets", "modelnet40", "--data-root", folder, "--models", "pointnet-plain",
                                "--methods", "bp,elasticzo-1", "--zo-one-sided", "true", "--width", 8, "--batch", 32)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual({(row["method"], row["number_format"]) for row in rows_in(folder / "out")},
                             {(method, number) for method in ("bp", "elasticzo") for number in ("fp32", "int8")})

    def test_unknown_methods_are_refused_before_anything_is_made(self):
        with scratch_folder() as folder:
            for given in (["--methods", "elasticzo"], ["--formats", "int4"], ["--lr", 1]):
                self.assertEqual(self.compare(folder / "out", *given).returncode, 2, given)
                self.assertFalse((folder / "out").exists())

    def test_memory_is_predicted_as_the_abstract_prints_it(self):
        shown = run("memory", "--model", "lenet5", "--batch", 256).stdout
        self.assertRegex(shown, r"1 BP layer +18\.936 MB +0\.072%.* 1\.46x")


class Flags(unittest.TestCase):
    def test_what_the_table_sets_is_refused_with_a_hint(self):
        for given, hint in ((["--lr", 0.1], "--rates"), (["--weight-decay", 0], "--decays"),
                            (["--model", "resnet18"], "--models"), (["--data", "mnist"], "--sets"),
                            (["--seed", 3], "--seeds"), (["--method", "amp"], "--methods"),
                            (["--stem", "cifar"], "resnet18-cifar"), (["--batch", 32], "96"),
                            (["train.lr=0.3"], "--name value"),
                            (["--shared", "--timing-epochs", 1], "--timing-epochs")):
            with scratch_folder() as folder:
                done = reproduce(folder / "out", "tri_accel", "table1", *given)
                self.assertEqual(done.returncode, 2, given)
                self.assertIn(hint, done.stderr)
                self.assertFalse((folder / "out").exists())

    def test_the_old_command_names_the_script(self):
        done = run("reproduce", "table1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("python3 bench/papers/reproduce.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
