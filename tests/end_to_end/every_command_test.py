"""What every command must do with closed pipes, full disks, odd names, signals and no terminal."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time
import unittest

from data_sets_test import write_mnist
from program import SMALL_RUN, call, run, scratch_folder, start, train, ugly_part

TINY = [*SMALL_RUN, "--data", "synthetic", "--train-samples", "64", "--steps", "1"]


def write_image(path):
    """One image as safetensors, of the size of MNIST's."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [1, 1, 28, 28],
                               "data_offsets": [0, 784]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(196)) * 4)


class Commands:
    """An invocation of each command that succeeds in about a second; {run} is a run's folder."""
    all = {
        "train": ["train", *TINY, "--quiet", "--out", "{new}"],
        "train --print-config": ["train", "--print-config"],
        "resume": ["resume", "{run}", "--quiet"],
        "eval": ["eval", "{run}"],
        "predict": ["predict", "{run}", "{image}"],
        "find-lr": ["find-lr", *SMALL_RUN, "--train-samples", "64", "--trial-steps", "10", "--rates",
                    "0.01"],
        "demo": ["demo", *SMALL_RUN, "--data", "synthetic", "--train-samples", "64", "--epochs",
                 "0.5", "--out", "{new}"],
        "plan": ["plan", *SMALL_RUN, "--data", "synthetic", "--train-samples", "64"],
        "memory": ["memory", "--batch", "32"],
        "doctor": ["doctor", "--device", "cpu"],
        "inspect": ["inspect", "{run}"],
        "inspect --saved": ["inspect", "--saved", "--model", "lenet5"],
        "inspect --gradients": ["inspect", "{run}", "--gradients", "--samples", "4", "--draws", "1"],
        "bench step": ["bench", "step", *SMALL_RUN, "--samples", "1", "--warmup", "0"],
        "bench largest-batch": ["bench", "largest-batch", *SMALL_RUN, "--budget", "4MiB"],
        "ls": ["ls", "{runs}"],
        "budget": ["budget", "{run}"],
        "version": ["version"],
        "help": ["help", "train"],
    }
    with_json = tuple(name for name in all if name != "help")
    of_a_run = ("resume", "eval", "predict", "inspect", "inspect --gradients", "ls", "budget")


class EveryCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch_folder()
        cls.folder = cls.scratch.__enter__()
        write_mnist(cls.folder / "mnist")
        train(*TINY, "--data", "mnist", "--data-root", cls.folder, "--out", cls.folder / "runs/run")
        write_image(cls.folder / "image.safetensors")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    def arguments(self, name, run_folder=None):
        run_folder = run_folder or self.folder / "runs/run"
        new = self.folder / f"new-{time.monotonic_ns()}"
        places = {"{run}": run_folder, "{runs}": run_folder.parent, "{new}": new,
                  "{image}": self.folder / "image.safetensors"}
        return [*(str(places.get(word, word)) for word in Commands.all[name])]

    def check_text(self, text, name):
        self.assertEqual(ugly_part(text.encode("utf-8", "surrogateescape")), "", name)

    def test_full_disk_is_a_storage_error(self):
        for name in Commands.all:
            with open("/dev/full", "w") as full:
                done = call(self.arguments(name), stdout=full, text=True, timeout=60)
            self.assertEqual(done.returncode, 5, (name, done.stderr))
            self.assertIn("standard output", done.stderr, name)

    def test_a_closed_standard_output_is_a_storage_error(self):
        for name in ("train", "eval", "ls", "version"):
            done = call(self.arguments(name), stdout=None, text=True, timeout=60,
                        preexec_fn=lambda: os.close(1))
            self.assertEqual(done.returncode, 5, (name, done.stderr))

    def test_a_reader_that_goes_away_is_no_failure(self):
        for name in Commands.all:
            if name == "demo":  # as train, three times
                continue
            process = start(*self.arguments(name))
            process.stdout.close()
            error = process.stderr.read()
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), 0, (name, error))
            self.check_text(error, name)

    def test_plain_text_without_a_terminal(self):
        for changes in ({"TERM": "dumb", "LC_ALL": "C"}, {"NO_COLOR": "1", "COLUMNS": "1"}):
            for name in ("train", "eval", "ls", "doctor", "inspect", "help"):
                done = run(*self.arguments(name), timeout=60, env={**os.environ, **changes})
                self.assertEqual(done.returncode, 0, (name, done.stderr))
                self.check_text(done.stdout + done.stderr, name)

    def test_odd_names(self):
        for odd in ("with space", "line\nbreak", "esc\x1b[31m", "c1\x9b2J", os.fsdecode(b"\xff\x9b"), "-dash",
                    "quote'\"", "é" * 60):
            place = self.folder / f"odd-{time.monotonic_ns()}" / odd
            shutil.copytree(self.folder / "runs/run", place)
            for name, more in ((name, more) for name in Commands.of_a_run for more in ([], ["--json"])):
                done = call(self.arguments(name, place) + more, timeout=60)
                shown = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
                # The path of the weights becomes part of a configuration, which is UTF-8.
                refused = name == "inspect --gradients" and "\udcff" in odd
                self.assertEqual(done.returncode, 2 if refused else 0, (name, odd, shown))
                self.check_text(shown, name)
                if more:
                    json.loads(done.stdout.decode())

    def test_one_json_document(self):
        for name in Commands.with_json:
            done = run(*self.arguments(name), "--json", timeout=60)
            self.assertEqual(done.returncode, 0, (name, done.stderr))
            json.loads(done.stdout)

    def failure(self, arguments, exit_code, kind):
        done = run(*arguments, timeout=60)
        self.assertEqual(done.returncode, exit_code, (arguments, done.stderr))
        document = json.loads(done.stdout)
        self.assertEqual(document["exit"], exit_code)
        self.assertEqual(document["error"]["kind"], kind)
        self.assertTrue(document["error"]["message"] and document["error"]["next"], arguments)

    def test_one_json_document_of_a_failure(self):
        for name in Commands.with_json:
            self.failure(self.arguments(name) + ["--json", "--nonsense"], 2, "usage")
            if name in Commands.of_a_run:
                self.failure(self.arguments(name, self.folder / "none/none") + ["--json"], 2, "usage")
        for words in ([], ["bench"], ["bogus"], ["bench", "bogus"]):
            self.failure([*words, "--json"], 2, "usage")
        weights = self.folder / "image.safetensors"  # of no network
        for name in ("train", "find-lr", "demo", "bench step"):
            self.failure(self.arguments(name) + ["--json", "--init-from", weights], 3, "data")

    def test_paths_that_lead_nowhere(self):
        os.symlink(self.folder / "loop", self.folder / "loop")
        os.mkfifo(self.folder / "fifo")
        for place in ("loop", "fifo", "n" * 300, "image.safetensors", ""):
            for name in Commands.of_a_run:
                if (name, place) in (("inspect", "image.safetensors"), ("eval", "")):
                    continue
                words = self.arguments(name, pathlib.Path("/placeholder/run"))
                target = str(self.folder / place) if place else ""
                words = [target if word.startswith("/placeholder") else word for word in words]
                done = run(*words, timeout=10)
                self.assertIn(done.returncode, (2, 3, 5), (words, done.stderr))
                self.check_text(done.stderr, name)

    def test_signals_stop_what_trains(self):
        for name, flag, more in (("train", "--steps", []), ("find-lr", "--trial-steps", ["--epochs", "1000000"])):
            for number in (signal.SIGINT, signal.SIGTERM):
                words = self.arguments(name)
                words[words.index(flag) + 1] = "1000000"
                process = start(*words, *more)
                time.sleep(2)
                process.send_signal(number)
                process.communicate(timeout=10)
                self.assertEqual(process.returncode, 128 + number, name)

    def test_help_and_wrong_options(self):
        for name in Commands.all:
            words = [word for word in Commands.all[name] if not word.startswith(("-", "{"))]
            command = words[:2] if words[0] == "bench" else words[:1]
            if command == ["help"]:
                continue
            shown = run(*command, "--help")
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), name)
            done = run(*command, "--no-such-option-at-all")
            self.assertEqual(done.returncode, 2, name)
            self.assertEqual(done.stdout, "", name)


if __name__ == "__main__":
    unittest.main()
