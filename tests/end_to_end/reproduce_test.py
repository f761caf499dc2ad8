"""The paper's tables, made small: what is written, what is refused and what survives."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from program import TRIACCEL, run, scratch_folder, start

SMALL_TABLE = ["--quick", "--sets", "synthetic", "--models", "resnet18", "--seeds", 1, "--threads", 1,
               "--device", "cpu"]
KEYS = ("model", "stem", "data", "method", "seed", "epochs", "accuracy", "seconds_per_epoch",
        "peak_allocated_mb", "peak_reserved_mb", "score", "commit")


def reproduce(out, *arguments, table="table1"):
    return run("reproduce", table, *SMALL_TABLE, "--out", out, *arguments)


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
        self.assertIn("<svg", page)
        self.assertIsNone(re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page))
        self.assertNotIn("@import", page)
        for ending in ("csv", "txt"):
            self.assertTrue((out / f"{table}.{ending}").exists(), ending)

    def test_table1_is_written_once_and_other_settings_are_refused(self):
        with scratch_folder() as folder:
            done = reproduce(folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("paper: %", done.stdout)
            self.assertIn("triaccel over fp32", done.stdout)
            self.assertEqual([row["method"] for row in rows_in(folder)], ["fp32", "amp", "triaccel"])
            for row in rows_in(folder):
                self.assertLessEqual(set(KEYS), set(row))
                self.assertEqual((row["epochs"], row["learning_rate"]), (2, 0.1))
                self.assertGreater(row["score"], 0)
            self.check_files(folder, "table1")

            before = files_in(folder)
            again = reproduce(folder)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(again.stdout, done.stdout)
            self.assertNotIn("step", again.stderr)
            self.assertEqual(reproduce(folder, "--shared").returncode, 0)
            for other, key in ((["--epochs", 1], "train.epochs"), (["--rates", 0.2], "train.lr"),
                               (["--policy", "paper"], "control.policy"),
                               (["--budget-share", 0.9], "device.budget")):
                refused = reproduce(folder, *other)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                for word in (key, str(folder / "runs"), "another --out"):
                    self.assertIn(word, refused.stderr)
            self.assertEqual(files_in(folder), before)

    def test_table2_has_the_four_configurations(self):
        with scratch_folder() as folder:
            done = reproduce(folder, table="table2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("paper: MB", done.stdout)
            self.assertEqual([row["configuration"] for row in rows_in(folder)],
                             ["standard", "dynamic-batch", "dynamic-precision", "full"])
            self.check_files(folder, "table2")

    def test_a_killed_table_is_completed_by_the_same_command(self):
        with scratch_folder() as folder:
            process = start("reproduce", "table1", *SMALL_TABLE, "--out", folder)
            metrics = folder / "runs/table1-resnet18-imagenet-synthetic-amp-1/metrics.jsonl"
            while not metrics.exists() and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            first = rows_in(folder)
            self.assertEqual([row["method"] for row in first], ["fp32"])
            done = reproduce(folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([row["method"] for row in rows_in(folder)], ["fp32", "amp", "triaccel"])
            self.assertEqual(rows_in(folder)[0], first[0])

    def test_a_row_that_fails_does_not_block_the_table(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "--sets", "cifar10,synthetic", "--data-root", folder,
                             "--methods", "fp32,triaccel")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("cifar10-fp32-1 failed", done.stderr)
            self.assertIn("FP32 has failed", done.stderr)
            self.assertEqual({row["data"] for row in rows_in(folder)}, {"synthetic"})
            self.check_files(folder, "table1")

    def test_a_row_that_diverges_is_no_measurement(self):
        with scratch_folder() as folder:
            done = reproduce(folder, "--methods", "fp32", "--rates", "1e8")
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn("not finite", done.stderr)
            self.assertEqual(rows_in(folder), [])


class Grid(unittest.TestCase):
    def test_processes_share_one_choice_made_on_held_out_samples(self):
        with scratch_folder() as folder:
            arguments = ["--quick", "--sets", "synthetic", "--models", "resnet18", "--methods",
                         "fp32", "--threads", 1, "--device", "cpu", "--rates", "1e-6,0.1,1e8",
                         "--grid-epochs", 2, "--out", folder]
            both = [start("reproduce", "table1", *arguments, "--seeds", seed) for seed in (1, 2)]
            for process in both:
                _, errors = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, errors)
            [choice] = json.loads((folder / "grid.json").read_text())
            self.assertEqual(choice["lr"], 0.1)
            self.assertEqual({row["learning_rate"] for row in rows_in(folder)}, {0.1})
            self.assertIsNone(choice["points"][2]["accuracy"])  # diverged
            for point in choice["points"][:2]:
                name = f"lr{point['lr']:g}-wd0.0005"
                seen = evaluations_in(folder / "grid" / choice["group"] / name, "validation")
                self.assertAlmostEqual(point["accuracy"], max(seen))
            before = files_in(folder)
            self.assertEqual(run("reproduce", "table1", *arguments, "--seeds", "1,2").returncode, 0)
            # The files of the table itself show the rows of whichever command came last.
            for path, content in before.items():
                if not path.name.startswith("table1."):
                    self.assertEqual((folder / path).read_bytes(), content, path)


class Elastic(unittest.TestCase):
    ARGUMENTS = ["--quick", "--sets", "synthetic", "--seeds", 1, "--rotations", 45, "--threads", 1,
                 "--device", "cpu"]
    KEYS = ("model", "data", "method", "number_format", "bp_layers", "seed", "accuracy", "peak_bytes",
            "seconds_per_epoch", "commit")

    def compare(self, out, *arguments):
        return run("reproduce", "elasticzo", *self.ARGUMENTS, "--out", out, *arguments)

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
            for ending in ("csv", "txt", "html"):
                self.assertTrue((folder / f"elasticzo.{ending}").exists(), ending)
            before = files_in(folder)
            self.assertEqual(self.compare(folder, *methods).stdout, done.stdout)
            self.assertEqual(files_in(folder), before)

    def test_rates_are_chosen_on_held_out_samples(self):
        with scratch_folder() as folder:
            done = self.compare(folder, "--methods", "frozen-1", "--formats", "int8", "--no-fine-tuning",
                                "--bits", "1,4-1")
            self.assertEqual(done.returncode, 0, done.stderr)
            trials = [max(evaluations_in(trial, "validation"))
                      for trial in sorted((folder / "grid").glob("*/*"))]
            self.assertEqual(len(trials), 2)
            config = (folder / "runs/lenet5-synthetic-int8-frozen1-1/config.toml").read_text()
            wanted = ("1", "4-1")[trials.index(max(trials))]
            self.assertIn(f'gradient_bits = "{wanted}"', config)

    def test_a_rate_that_diverges_is_left_out_and_not_tried_again(self):
        with scratch_folder() as folder:
            arguments = ["--methods", "frozen-1", "--formats", "fp32", "--no-fine-tuning", "--rates", "0.01,1e9"]
            self.assertEqual(self.compare(folder, *arguments).returncode, 0)
            self.assertEqual([row["learning_rate"] for row in rows_in(folder)], [0.01])
            trial, before = "grid/lenet5-synthetic-fp32-frozen1/2/", files_in(folder)
            self.assertIn(pathlib.Path(trial, "diverged.txt"), before)
            self.assertEqual(self.compare(folder, *arguments).returncode, 0)
            self.assertEqual(files_in(folder), before)
            self.assertEqual(self.compare(folder, *arguments[:-1], "0.01,1e8").returncode, 2)

    def test_what_was_trained_is_fine_tuned_by_a_command_with_other_choices(self):
        with scratch_folder() as folder:
            formats = ["--formats", "int8"]
            self.assertEqual(self.compare(folder, "--methods", "bp", *formats, "--no-fine-tuning").returncode, 0)
            done = self.compare(folder, "--methods", "zo", *formats, "--only-fine-tuning", "--zo-exponents", "5-7")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([(row["method"], row["rotation"]) for row in rows_in(folder)], [("bp", 0), ("zo", 45)])

    def test_unknown_methods_are_refused_before_anything_is_made(self):
        with scratch_folder() as folder:
            for given in (["--methods", "elasticzo"], ["--formats", "int4"], ["--lr", 1]):
                self.assertEqual(self.compare(folder / "out", *given).returncode, 2, given)
                self.assertFalse((folder / "out").exists())

    def test_memory_is_predicted_as_the_abstract_prints_it(self):
        shown = run("memory", "--model", "lenet5", "--batch", 256).stdout
        self.assertRegex(shown, r"1 BP layer +18\.936 MB +0\.072%.* 1\.46x")


class Matrix(unittest.TestCase):
    TOOL = pathlib.Path(__file__).parents[2] / "tools" / "elasticzo_matrix"

    def start(self, out, state):
        return subprocess.Popen(
            [sys.executable, self.TOOL, "--triaccel", TRIACCEL, "--out", out, "--state", state, "--jobs", "2", "--quick",
             "--sets", "synthetic", "--turned-sets", "synthetic", "--rotations", "45", "--formats", "int8", "--methods", "bp",
             "--seeds", "1"], stdout=subprocess.PIPE, text=True)

    def test_goes_on_elsewhere_with_what_is_missing(self):
        with scratch_folder() as folder:
            state = folder / "state.tar.gz"
            with self.start(folder / "here", state) as first:
                while not state.exists():
                    time.sleep(0.01)
                first.terminate()
                told = first.communicate()[0]
            self.assertEqual(first.returncode, 1)
            self.assertIn("missing: synthetic-turned45-int8-bp-1", told)
            done_here = {path.stem for path in (folder / "here/jobs").glob("*.done")}
            self.assertTrue(done_here)
            with self.start(folder / "there", state) as second:
                told = second.communicate()[0]
            self.assertEqual(second.returncode, 0, told)
            self.assertIn("0 of 2 rows missing", told)
            done_there = {path.stem for path in (folder / "there/jobs").glob("*.log")}
            self.assertEqual(done_here & done_there, set())
            self.assertEqual([row["rotation"] for row in rows_in(folder / "there")], [0, 45])


class Flags(unittest.TestCase):
    def test_what_the_table_sets_is_refused_with_a_hint(self):
        for given, hint in ((["--lr", 0.1], "--rates"), (["--weight-decay", 0], "--decays"),
                            (["--model", "resnet18"], "--models"), (["--data", "mnist"], "--sets"),
                            (["--seed", 3], "--seeds"), (["--method", "amp"], "--methods"),
                            (["--stem", "cifar"], "resnet18-cifar"), (["--batch", 32], "96"),
                            (["train.lr=0.3"], "--rates"),
                            (["--shared", "--timing-epochs", 1], "--timing-epochs")):
            with scratch_folder() as folder:
                done = reproduce(folder / "out", *given)
                self.assertEqual(done.returncode, 2, given)
                self.assertIn(hint, done.stderr)
                self.assertFalse((folder / "out").exists())

    def test_help_tells_its_own_defaults(self):
        shown = run("reproduce", "--help").stdout
        self.assertRegex(shown, r"--epochs NUMBER=30\b")
        self.assertNotIn("--print-config", shown)
        self.assertNotRegex(shown, r"--lr\b")


if __name__ == "__main__":
    unittest.main()
