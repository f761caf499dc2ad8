"""triaccel-int8 by itself: budgets, interruptions, and what every command must do."""
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import time
import unittest

from int8_program import SANITIZED, call, results, start, succeed, write_clouds, write_digits
from program import checkpoints, scratch_folder, ugly_part

# With sanitizers every product is also computed in 64 bits: smaller runs.
SIZE, TRAIN, TEST = (["--width", "2"], 80, 20) if SANITIZED else ([], 300, 60)
SHORT = ["--epochs", "1", "--batch", "32", *SIZE]
LONG = ["--epochs", "1000", "--batch", "8", "--checkpoint-every", "5", *SIZE]


class WithDigits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch_folder()
        cls.folder = cls.scratch.__enter__()
        cls.root = write_digits(cls.folder / "digits", TRAIN, TEST)
        succeed("train", "--data-root", cls.root, *SHORT, "--out", cls.folder / "run")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    def new(self):
        return self.folder / f"new-{time.monotonic_ns()}"

    def words(self, name, run=None):
        run = run or self.folder / "run"
        return {"train": ["train", "--data-root", self.root, *SHORT, "--quiet", "--out", self.new()],
                "resume": ["resume", run, "--quiet"],
                "eval": ["eval", run],
                "export": ["export", run, self.new()],
                "version": ["version"]}[name]


class Training(WithDigits):
    def test_learns_and_says_what_it_needs(self):
        run = self.new()
        done = call("train", "--data-root", self.root, "--epochs", "8", "--bp-layers", "5", *SIZE, "--out", run)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = done.stderr.decode()
        self.assertLess(shown.index("needs "), shown.index("epoch "))
        self.assertRegex(shown, r"needs [\d.]+ MiB: weights [\d.]+ KiB, step ")
        summary = json.loads((run / "summary.json").read_text())
        self.assertGreater(summary["accuracy"], 20 if SANITIZED else 90)
        self.assertEqual(succeed("eval", run)["accuracy"], summary["accuracy"])

    def test_threads_and_budget_do_not_change_the_result(self):
        expected = results(self.folder / "run")
        for words in (["--threads", "1"], ["--threads", "4"], ["--int8-kernel", "scalar"]):
            run = self.new()
            summary = succeed("train", "--data-root", self.root, *SHORT, *words, "--out", run)
            self.assertEqual(results(run), expected, words)
            if not SANITIZED:
                self.assertLessEqual(summary["peak_bytes"], summary["predicted_bytes"])

    def test_stays_within_the_least_budget_it_names(self):
        run = self.new()
        refused = call("train", "--data-root", self.root, *SHORT, "--budget", "100KiB", "--out", run)
        self.assertEqual(refused.returncode, 6, refused.stderr)
        self.assertFalse(run.exists())
        least = int(re.search(r"--budget (\d+)", refused.stderr.decode())[1])
        self.assertEqual(call("train", "--data-root", self.root, *SHORT, "--budget", least - 1, "--out", run).returncode, 6)
        summary = succeed("train", "--data-root", self.root, *SHORT, "--budget", least, "--out", run)
        self.assertEqual(results(run), results(self.folder / "run"))
        self.assertLessEqual(summary["predicted_bytes"], least)
        if not SANITIZED:
            self.assertLessEqual(summary["peak_bytes"], least)

    def test_trains_point_clouds(self):
        root = write_clouds(self.folder / "clouds")
        words = ["--model", "pointnet-plain", "--data", "modelnet40", "--data-root", root, "--width", "8"]
        run = self.new()
        summary = succeed("train", *words, "--epochs", "2", "--batch", "8", "--out", run)
        self.assertEqual(summary["steps"], 6)
        exported = self.new()
        succeed("export", run, exported)
        self.assertEqual(exported.read_bytes(), results(run)[0])


class Interruptions(WithDigits):
    def test_kills_leave_a_valid_checkpoint_and_the_same_result(self):
        words = ["train", "--data-root", self.root, "--epochs", "3" if SANITIZED else "12", "--batch", "8",
                 "--checkpoint-every", "7", "--quiet", *SIZE]
        succeed(*words, "--out", self.folder / "whole")
        generator, run, kills = random.Random(3), self.new(), 0
        arguments = [*words, "--out", run]
        for _ in range(40):
            process = start(*arguments)
            time.sleep(generator.uniform(0.02, 0.12))
            process.kill()
            _, errors = process.communicate()
            self.assertIn(process.returncode, (0, -signal.SIGKILL), errors)
            kills += process.returncode != 0
            if (run / "run.json").exists():
                arguments = ["resume", run, "--quiet"]
            if process.returncode == 0:
                break
        self.assertGreater(kills, 0)
        if not (run / "run.json").exists():
            succeed(*words, "--out", run)
        succeed("resume", run)
        self.assertEqual(results(run), results(self.folder / "whole"))

    def test_signals_save_and_a_resumed_run_is_the_same(self):
        words = ["train", "--data-root", self.root, "--steps", "100" if SANITIZED else "1500", "--batch", "8",
                 "--checkpoint-every", "30", *SIZE]
        succeed(*words, "--out", self.folder / "unstopped")
        for number in (signal.SIGINT, signal.SIGTERM):
            run = self.new()
            process = start(*words, "--out", run)
            while not checkpoints(run):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(number)
            output, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 128 + number, errors)
            self.assertIn(b"triaccel-int8 resume", output)
            step = json.loads((run / "summary.json").read_text())["steps"]
            self.assertEqual(checkpoints(run)[-1].name, f"step-{step}")
            stopped = json.loads((run / "summary.json").read_text())
            finished = succeed("resume", run)
            self.assertEqual(finished["status"], "finished")
            self.assertGreater(finished["seconds"], stopped["seconds"])
            self.assertEqual(results(run), results(self.folder / "unstopped"))
            self.assertEqual(succeed("resume", run), finished)
            self.assertEqual(json.loads((run / "summary.json").read_text()), finished)

    def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(self):
        run, first = self.new(), self.new()
        shutil.copy(self.folder / "run" / "weights.safetensors", first)
        succeed("train", "--data-root", self.root, "--steps", "12", "--checkpoint-every", "4", "--init-from", first, *SIZE,
                "--out", run)
        first.unlink()  # nor are initial weights needed any more
        expected = results(run)
        newest = checkpoints(run)[-1] / "weights.safetensors"
        newest.write_bytes(newest.read_bytes()[:-1] + b"x")
        done = call("resume", run, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"warning", done.stderr)
        self.assertIn(b"using the checkpoint of step 8", done.stderr)
        self.assertEqual(results(run), expected)

    def test_one_process_per_run(self):
        run = self.new()
        process = start("train", "--data-root", self.root, *LONG, "--out", run, "--quiet")
        try:
            while not checkpoints(run):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            refused = call("resume", run)
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn(f"process {process.pid}".encode(), refused.stderr)
            self.assertEqual(call("eval", run).returncode, 0)
        finally:
            process.kill()
            process.communicate()

    def test_a_full_disk_is_a_storage_error_with_the_path(self):
        run = self.new()
        done = call("train", "--data-root", self.root, *SHORT, "--out", run,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(b"weights.safetensors", done.stderr)
        self.assertEqual(call("resume", run).returncode, 0)
        self.assertEqual(results(run), results(self.folder / "run"))


class EveryCommand(WithDigits):
    names = ("train", "resume", "eval", "export", "version")

    def test_lost_output_is_a_storage_error(self):
        for name in self.names:
            with open("/dev/full", "w", encoding="ascii") as full:
                done = call(*self.words(name), stdout=full)
            self.assertEqual(done.returncode, 5, (name, done.stderr))
            closed = call(*self.words(name), stdout=None, preexec_fn=lambda: os.close(1))
            self.assertEqual(closed.returncode, 5, (name, closed.stderr))

    def test_a_reader_that_goes_away_is_no_failure(self):
        for name in self.names:
            process = start(*self.words(name))
            process.stdout.close()
            errors = process.stderr.read()
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), 0, (name, errors))

    def test_one_json_document_also_of_a_failure(self):
        for name in self.names:
            succeed(*self.words(name))
            if name != "version":
                done = call(*self.words(name), "--json", "--nonsense")
                self.assertEqual(done.returncode, 2, (name, done.stderr))
                self.assertEqual(json.loads(done.stdout)["error"]["kind"], "usage")
        for name in ("resume", "eval", "export"):
            done = call(*self.words(name, self.folder / "none"), "--json")
            self.assertEqual((done.returncode, json.loads(done.stdout)["exit"]), (2, 2), (name, done.stderr))

    def test_wrong_values_create_nothing(self):
        run = self.new()
        for words in (["--epochs", "0"], ["--epochs", "nan"], ["--batch", "0"], ["--batch", "3x"], ["--steps"],
                      ["--bp-layers", "6"], ["--int8-rate", "3-99"], ["--int8-conventions", "mine"],
                      ["--int8-kernel", "abacus"], ["--model", "resnet18"], ["--model", "pointnet-plain"],
                      ["--data", "cifar10"], ["--budget", "much"], ["--threads", "65"], ["--val-split", "300"],
                      ["--epoch", "3"], ["word"]):
            done = call("train", "--data-root", self.root, "--out", run, *words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertEqual(ugly_part(done.stderr), "", words)
        self.assertIn(b"did you mean '--epochs'", call("train", "--epoch", "3").stderr)
        self.assertEqual(call("train", "--data-root", self.root).returncode, 2)
        for words in ([], ["bogus"], ["--bogus"], ["eval"], ["export", self.folder / "run"]):
            self.assertEqual(call(*words).returncode, 2, words)
        self.assertFalse(run.exists())

    def test_a_batch_whose_gradients_do_not_fit_creates_nothing(self):
        with scratch_folder() as folder:
            root = write_digits(folder / "digits", 700, 20)
            done = call("train", "--data-root", root, "--bp-layers", "5", "--batch", "700", "--out", folder / "run")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"up to a batch of", done.stderr)
            self.assertFalse((folder / "run").exists())

    def test_goes_on_from_another_folder(self):
        run = self.new()
        done = call("train", "--data-root", self.root.name, *SHORT, "--out", run, cwd=self.root.parent)
        self.assertEqual(done.returncode, 0, done.stderr)
        succeed("eval", run, cwd="/")

    def test_evaluates_what_it_holds_out_at_the_end(self):
        done = call("train", "--data-root", self.root, *SHORT, "--val-split", "20", "--out", self.new())
        self.assertIn(b"validation accuracy", done.stderr)

    def test_fewer_samples_need_fewer_bytes(self):
        def least(*words):
            done = call("train", "--data-root", self.root, *LONG, "--budget", "100KiB", "--out", self.new(), *words)
            return int(re.search(r"--budget (\d+)", done.stderr.decode())[1])

        self.assertLess(least("--train-samples", "30"), least())

    def test_bad_data_is_named(self):
        for change, expected in ((lambda p: p.unlink(), b"missing file"),
                                 (lambda p: p.write_bytes(p.read_bytes()[:-5]), b"truncated"),
                                 (lambda p: p.write_bytes(b""), b"empty"),
                                 (lambda p: (p.unlink(), os.mkfifo(p)), b"not a regular file"),
                                 (lambda p: (p.unlink(), os.symlink(p, p)), b"check"),
                                 (lambda p: (p.with_suffix(".gz").write_bytes(gzip.compress(p.read_bytes())), p.unlink()),
                                  b"gunzip -k")):
            root = write_digits(self.new(), 20, 20)
            change(root / "train-images-idx3-ubyte")
            done = call("train", "--data-root", root, *SHORT, "--out", self.new())
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(b"train-images-idx3-ubyte", done.stderr)
            self.assertIn(expected, done.stderr)

    def test_files_of_the_user_stay(self):
        for name in ("weights.safetensors", "checkpoints", "run.json", "slopes.i8", "summary.json"):
            run = self.new()
            run.mkdir()
            (run / name).write_text("mine")
            done = call("train", "--data-root", self.root, *SHORT, "--out", run)
            self.assertEqual(done.returncode, 2, (name, done.stderr))
            self.assertEqual([p.name for p in run.iterdir()], [name])
        exported = self.new()
        exported.write_text("mine")
        self.assertEqual(call("export", self.folder / "run", exported).returncode, 2)
        self.assertEqual(exported.read_text(), "mine")
        self.assertEqual(call("export", self.folder / "run", "/nowhere/file").returncode, 5)

    def test_odd_names(self):
        for odd in ("with space", "line\nbreak", "esc\x1b[31m", "c1\x9b2J", os.fsdecode(b"\xff\x9b"), "quote'\"", "é" * 60):
            place = self.new() / odd
            shutil.copytree(self.folder / "run", place)
            for name in ("resume", "eval", "export"):
                for more in ([], ["--json"]):
                    done = call(*self.words(name, place), *more)
                    self.assertEqual(done.returncode, 0, (name, odd, done.stderr))
                    self.assertEqual(ugly_part(done.stdout + done.stderr), "", (name, odd))
                    if more:
                        json.loads(done.stdout)
        refused = call("train", "--data-root", os.fsdecode(b"/\xff"), "--out", self.new())
        self.assertEqual((refused.returncode, ugly_part(refused.stderr)), (2, ""), refused.stderr)

    def test_paths_that_lead_nowhere(self):
        os.symlink(self.folder / "loop", self.folder / "loop")
        os.mkfifo(self.folder / "fifo")
        for place in ("loop", "fifo", "n" * 300, "digits", ""):
            for name in ("resume", "eval", "export"):
                words = self.words(name, pathlib.Path("/placeholder"))
                words[1] = self.folder / place if place else ""
                done = call(*words, timeout=30)
                self.assertIn(done.returncode, (2, 3, 5), (words, done.stderr))
                self.assertEqual(ugly_part(done.stderr), "", words)
        for weights in ("digits", "fifo", "none"):
            done = call("eval", "--data-root", self.root, "--init-from", self.folder / weights, timeout=30)
            self.assertIn(done.returncode, (2, 3), (weights, done.stderr))

    def test_help(self):
        for words in (["--help"], ["help"], ["train", "--help"], ["eval", "-h"]):
            done = call(*words)
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
            self.assertIn(b"--bp-layers", done.stdout)
        self.assertRegex(call("--version").stdout.decode(), r"^triaccel-int8 \d+\.\d+\.\d+ \(")


if __name__ == "__main__":
    unittest.main()
