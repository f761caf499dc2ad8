"""Compressed activations: the comparison made small, what a model saves, how good gradients are."""
import json
import re
import subprocess
import unittest

from program import run, scratch_folder
from reproduce_test import BASELINES, reproduce, rows_in

KEYS = ("model", "image_size", "batch", "codec", "held_ratio", "peak_ratio", "accuracy", "accuracy_drop",
        "throughput_ratio_to_fp32", "commit")
TRAINED = ["--rows", "resnet18-cifar@32/8", "--codecs", "fdsr"]
MEASURED = ["--rows", "resnet18@48/4", "--codecs", "fdsr,actnn", "--no-largest-batch"]


def compare(out, *arguments):
    return reproduce(out, "fdsr", "--timings", 1, "--draws", 2, "--baselines", BASELINES, *arguments)


def with_baselines(*arguments):
    return subprocess.run([BASELINES, *map(str, arguments)], capture_output=True, text=True, timeout=240)


class Comparison(unittest.TestCase):
    def test_rows_are_made_once_and_say_what_codecs_save_and_cost(self):
        with scratch_folder() as folder:
            done = compare(folder, *TRAINED)
            self.assertEqual(done.returncode, 0, done.stderr)
            fp32, ours = rows_in(folder)
            self.assertEqual((fp32["codec"], ours["codec"]), ("fp32", "fdsr"))
            self.assertEqual((fp32["held_ratio"], fp32["peak_ratio"], fp32["accuracy_drop"]), (1, 1, 0))
            self.assertGreaterEqual(ours["held_ratio"], 10.19)
            self.assertGreaterEqual(ours["training_ratio"], 4)
            self.assertGreater(ours["peak_ratio"], 1)
            self.assertGreater(ours["largest_batch"], fp32["largest_batch"])
            self.assertAlmostEqual(ours["accuracy_drop"], fp32["accuracy"] - ours["accuracy"])
            self.assertLess(ours["gradient_error"], 0.1)
            self.assertIn("(abstract: 10.20)", done.stdout)
            again = compare(folder, *TRAINED)
            self.assertEqual(again.stdout, done.stdout)
            self.assertEqual(rows_in(folder), [fp32, ours])

            more = compare(folder, *MEASURED)
            self.assertEqual(more.returncode, 0, more.stderr)
            rows = rows_in(folder)
            self.assertEqual(rows[:2], [fp32, ours])
            self.assertEqual([(row["model"], row["codec"]) for row in rows[2:]],
                             [("resnet18", codec) for codec in ("fp32", "fdsr", "actnn")])
            for row in rows:
                self.assertEqual(list(row)[:len(KEYS)], list(KEYS))
                self.assertGreater(row["samples_per_second"], 0)
                self.assertEqual(row["accuracy"] is not None, row["model"] == "resnet18-cifar")
            page = (folder / "fdsr.html").read_text()
            for name in ("resnet18-cifar-32px-batch8", "resnet18-48px-batch4"):
                self.assertIn(f"saved/{name}-synthetic-fdsr-10.2x/saved.html", page)
            self.assertIsNone(re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", page))
            for path in re.findall(r'href="([^"]*)"', page):
                self.assertTrue((folder / path).exists(), path)
            for ending in ("csv", "txt", "md"):
                self.assertTrue((folder / f"fdsr.{ending}").exists(), ending)
            self.check_gradients(folder)

    def check_gradients(self, folder):
        trained = next(path for path in (folder / "runs").glob("*fp32-1") if path.is_dir())
        gradients = with_baselines("inspect", trained, "--gradients", "--ratios", 12, "--samples", 16, "--draws", 2, "--json")
        self.assertEqual(gradients.returncode, 0, gradients.stderr)
        by_name = {(row["activations"], row["by_layer"]): row for row in json.loads(gradients.stdout)}
        self.assertEqual(by_name["lossless", None]["error"], 0)
        for by_layer in (False, True):
            coded = by_name["compressed", by_layer]
            self.assertGreaterEqual(coded["held_ratio"], 12)
            self.assertLess(coded["error"], by_name["actnn", None]["error"] / 4)
        looked = run("inspect", next(path for path in (folder / "runs").glob("*fdsr*-1") if path.is_dir()))
        self.assertRegex(looked.stdout, r"compression adds .* % to the mini-batch noise; largest in \S+: ")

    def test_what_it_does_not_know_is_refused_before_anything_is_made(self):
        with scratch_folder() as folder:
            for given, hint in ((["--rows", "resnet18"], "network@pixels/batch"), (["--codecs", "zip"], "unknown codec"),
                                (["--trained", "zip"], "unknown codec"), (["--activations", "compressed"], "--codecs"),
                                (["--batch", 8], "--rows"), (["--draws", 1], "--draws")):
                done = compare(folder / "out", *TRAINED, *given)
                self.assertEqual(done.returncode, 2, given)
                self.assertIn(hint, done.stderr)
                self.assertFalse((folder / "out").exists())
            nothing = run("inspect", folder, "--gradients")
            self.assertEqual(nothing.returncode, 2, nothing.stderr)
            self.assertIn("not a run with a checkpoint", nothing.stderr)


class Baselines(unittest.TestCase):
    SMALL = ["train", "--model", "lenet5", "--train-samples", 256, "--batch", 32, "--epochs", 1, "--threads", 1, "--device",
             "cpu", "--control-interval", 4, "--json", "--quiet"]

    def test_registered_codecs_train_and_only_in_the_program_that_registers_them(self):
        with scratch_folder() as folder:
            for codec in ("bf16", "actnn"):
                done = with_baselines(*self.SMALL, "--activations", codec, "--out", folder / codec)
                self.assertEqual(done.returncode, 0, done.stderr)
                intervals = [line for line in map(json.loads, (folder / codec / "metrics.jsonl").read_text().splitlines())
                             if line["kind"] == "interval"]
                self.assertGreater(intervals[-1]["saved"]["held_by_codec"]["registered"], 0)
                self.assertIn(f'"{codec}"', (folder / codec / "plans.jsonl").read_text())
            refused = run(*self.SMALL, "--activations", "actnn", "--out", folder / "none")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("triaccel_baselines", refused.stderr)


class Offloaded(unittest.TestCase):
    RUN = ["train", "--model", "resnet18", "--stem", "cifar", "--width", 8, "--train-samples", 256, "--batch", 64, "--epochs", 1,
           "--method", "fp32", "--threads", 1, "--device", "cpu", "--control-interval", 2, "--json", "--quiet"]

    def test_weights_are_those_of_raw_in_less_memory(self):
        with scratch_folder() as folder:
            summaries, weights = {}, {}
            for keep in ("raw", "offloaded"):
                done = run(*self.RUN, "--activations", keep, "--out", folder / keep)
                self.assertEqual(done.returncode, 0, done.stderr)
                summaries[keep] = json.loads((folder / keep / "summary.json").read_text())
                weights[keep] = (folder / keep / "checkpoints/step-4/weights.safetensors").read_bytes()
            raw, offloaded = summaries["raw"], summaries["offloaded"]
            self.assertEqual(weights["offloaded"], weights["raw"])
            self.assertEqual(offloaded["loss"], raw["loss"])
            self.assertLess(offloaded["peak_bytes"], 0.75 * raw["peak_bytes"])
            self.assertEqual(raw["host_activation_bytes"], 0)
            self.assertGreater(offloaded["host_activation_bytes"], 10_000_000)
            self.assertIn('"host"', (folder / "offloaded/plans.jsonl").read_text())
            self.assertIn("host memory for activations", (folder / "offloaded/report.html").read_text())

    def test_it_is_refused_where_nothing_is_saved(self):
        refused = run("train", "--method", "zo", "--activations", "offloaded")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--activations", refused.stderr)


class Saved(unittest.TestCase):
    ARGUMENTS = ["--saved", "--model", "resnet18", "--width", 8, "--threads", 1, "--device", "cpu"]

    def test_what_a_pass_saves_is_counted_once_and_as_often_as_it_is_saved(self):
        census = json.loads(run("inspect", *self.ARGUMENTS, "--json").stdout)
        unique = [entry for i, entry in enumerate(census["entries"])
                  if entry["same_as"] == i and entry["class"] != "constant"]
        self.assertEqual(census["unique_bytes"], sum(entry["bytes"] for entry in unique))
        self.assertGreater(census["passed_bytes"], census["unique_bytes"])

    def test_it_is_told_by_reader_and_takes_no_path(self):
        shown = run("inspect", *self.ARGUMENTS).stdout
        for words in ("NativeBatchNorm", "norm", "mask", "can be recomputed"):
            self.assertIn(words, shown)
        self.assertEqual(run("inspect", "runs/x", *self.ARGUMENTS).returncode, 2)

    def test_bit_widths_are_written_for_compressed_activations(self):
        with scratch_folder() as folder:
            done = run("inspect", *self.ARGUMENTS, "--activations", "compressed", "--bit-widths", folder / "widths")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads((folder / "widths/saved.json").read_text())
            self.assertTrue({"groups", "mask"} & {row["codec"] for row in rows})
            self.assertIn("<svg", (folder / "widths/saved.html").read_text())
            self.assertEqual(run("inspect", *self.ARGUMENTS, "--bit-widths", folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
