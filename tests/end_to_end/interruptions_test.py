"""Runs that are stopped, killed and resumed: nothing is lost, and the result is the same."""
import concurrent.futures
import json
import random
import signal
import time
import unittest

from program import SMALL_RUN, checkpoints, final_weights, run, scratch_folder, start, train

LONG_RUN = ["--steps", 60, "--checkpoint-every", 5, "--control-interval", 5]


def resume_to_the_end(directory):
    done = run("resume", directory, "--json", "--quiet")
    if done.returncode != 0:
        raise AssertionError(f"resume: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def steps_in_metrics(directory):
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [line["step"] for line in map(json.loads, lines) if line["kind"] == "interval"]


class Kills(unittest.TestCase):
    def test_twenty_kills_leave_a_valid_checkpoint_and_the_same_weights(self):
        generator = random.Random(4)
        with scratch_folder() as folder:
            train(*LONG_RUN, "--out", folder / "whole")
            directory, kills = folder / "killed", 0
            arguments = ["train", *SMALL_RUN, *LONG_RUN, "--out", directory, "--quiet"]
            while kills < 20:
                process = start(*arguments)
                time.sleep(generator.uniform(0.3, 1.2))
                process.kill()  # of no effect on a process that has ended
                _, errors = process.communicate()
                if process.returncode == 0:  # finished in between: a fresh run takes the remaining kills
                    self.assertEqual(final_weights(directory), final_weights(folder / "whole"))
                    directory = folder / f"killed-{kills}"
                    arguments = ["train", *SMALL_RUN, *LONG_RUN, "--out", directory, "--quiet"]
                    continue
                self.assertEqual(process.returncode, -signal.SIGKILL, errors)
                kills += 1
                if not (directory / "config.toml").exists():
                    continue  # killed before the run began
                arguments = ["resume", directory, "--quiet"]
                if checkpoints(directory):
                    inspected = json.loads(run("inspect", directory, "--json").stdout)
                    self.assertEqual(inspected["checkpoints"][-1]["damage"], "")
            if not (directory / "config.toml").exists():  # the last kill came before the run began
                train(*LONG_RUN, "--out", directory)
            summary = resume_to_the_end(directory)
            self.assertEqual(summary["steps"], 60)
            self.assertEqual(final_weights(directory), final_weights(folder / "whole"))
            self.assertEqual(steps_in_metrics(directory), steps_in_metrics(folder / "whole"))


class Signals(unittest.TestCase):
    def one_signal(self, folder, number):
        generator = random.Random(number)
        which = generator.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        directory = folder / str(number)
        process = start("train", *SMALL_RUN, "--epochs", 200, "--out", directory, "--quiet")
        while not (directory / "metrics.jsonl").exists():
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 0.5))
        asked = time.monotonic()
        process.send_signal(which)
        process.communicate(timeout=30)
        return (process.returncode == 128 + which and time.monotonic() - asked < 10 and
                json.loads((directory / "summary.json").read_text())["status"] == "stopped" and
                json.loads(run("inspect", directory, "--json").stdout)["checkpoints"][-1]["damage"]
                == "")

    def test_fifty_signals_finish_the_step_and_save(self):
        with scratch_folder() as folder:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                good = list(pool.map(lambda n: self.one_signal(folder, n), range(50)))
            self.assertEqual(good, [True] * 50)

    def test_two_signals_of_one_cause_save_as_one_does(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, "--epochs", 200, "--checkpoint-every", 10, "--out",
                            folder / "run", "--quiet")
            while len(checkpoints(folder / "run")) < 2:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 143)
            self.assertEqual(json.loads((folder / "run/summary.json").read_text())["status"], "stopped")
            inspected = json.loads(run("inspect", folder / "run", "--json").stdout)
            self.assertEqual(inspected["checkpoints"][-1]["damage"], "")

    def test_a_signal_a_second_later_leaves_at_once(self):
        long_steps = ["--model", "resnet18", "--data", "synthetic", "--train-samples", 2048, "--batch", 2048, "--device", "cpu",
                      "--threads", 1, "--method", "fp32"]
        with scratch_folder() as folder:
            process = start("train", *long_steps, "--epochs", 3, "--out", folder / "run", "--quiet")
            while not (folder / "run/metrics.jsonl").exists():
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            time.sleep(1.2)
            self.assertIsNone(process.poll(), "a step takes longer")
            asked = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 143)
            self.assertLess(time.monotonic() - asked, 1)
            self.assertEqual(checkpoints(folder / "run"), [])


class Damage(unittest.TestCase):
    def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(self):
        with scratch_folder() as folder:
            train(*LONG_RUN, "--out", folder / "whole")
            process = start("train", *SMALL_RUN, *LONG_RUN, "--out", folder / "run", "--quiet")
            while len(checkpoints(folder / "run")) < 2:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            newest = checkpoints(folder / "run")[-1] / "weights.safetensors"
            data = bytearray(newest.read_bytes())
            data[-100] ^= 4
            newest.write_bytes(data)
            done = run("resume", folder / "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(newest.parent.name, done.stderr)
            self.assertEqual(final_weights(folder / "run"), final_weights(folder / "whole"))

    def test_a_torn_metrics_line_is_mended(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, *LONG_RUN, "--out", folder / "run", "--quiet")
            while len(checkpoints(folder / "run")) < 2:
                time.sleep(0.02)
            process.kill()
            process.communicate()
            with open(folder / "run/metrics.jsonl", "a") as metrics:
                metrics.write('{"kind":"interval","step":9')
            resume_to_the_end(folder / "run")
            steps = steps_in_metrics(folder / "run")
            self.assertEqual(steps, sorted(set(steps)))
            self.assertLessEqual(set(range(5, 61, 5)), set(steps))


if __name__ == "__main__":
    unittest.main()
