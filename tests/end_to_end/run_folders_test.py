"""What a run does to its folder and says about itself: files in the way, statuses, longer runs."""
import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

from data_sets_test import write_mnist
from program import (SMALL_RUN, checkpoints, final_weights, run, scratch_folder, start,
                     train)


def summary_of(directory):
    return json.loads((directory / "summary.json").read_text())


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


def write_images(path, count):
    """Grey images of three channels as safetensors."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [count, 3, 32, 32],
                               "data_offsets": [0, 3072 * count]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(256)) * (12 * count))


def write_weights(path, change):
    """A safetensors file with the tensors of `path` after `change(name, bytes)`."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = bytearray(data[8 + size:])
    for name, tensor in header.items():
        if name != "__metadata__":
            first, last = tensor["data_offsets"]
            body[first:last] = change(name, bytes(body[first:last]))
    path.write_bytes(data[:8 + size] + body)


class FilesInTheWay(unittest.TestCase):
    def test_files_of_the_user_are_not_overwritten(self):
        for name in ("metrics.csv", "report.html", "summary.json", "plans.jsonl", ".lock",
                     "checkpoints/step-1.tmp/mine", "replayed_plans.jsonl"):
            with scratch_folder() as folder:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("mine")
                before = sorted(folder.rglob("*"))
                done = run("train", *SMALL_RUN, "--steps", 1, "--out", folder)
                self.assertEqual(done.returncode, 2, (name, done.stderr))
                self.assertIn(name.split("/")[0], done.stderr)
                self.assertEqual((folder / name).read_text(), "mine")
                self.assertEqual(sorted(folder.rglob("*")), before)

    def test_a_link_is_not_written_through(self):
        with scratch_folder() as folder:
            (folder / "run").mkdir()
            os.symlink(folder / "elsewhere", folder / "run/metrics.csv")
            self.assertEqual(run("train", *SMALL_RUN, "--steps", 1, "--out",
                                 folder / "run").returncode, 2)
            self.assertFalse((folder / "elsewhere").exists())

    def test_other_files_stay_where_they_are(self):
        names = ["notes.txt", *(name + ".partial" for name in (
            "config.toml", "summary.json", "report.html", "metrics.jsonl", "plans.jsonl"))]
        with scratch_folder() as folder:
            for name in names:
                (folder / name).write_text("mine")
            train("--steps", 1, "--out", folder)
            self.assertEqual(run("resume", folder, "--steps", 2, "--quiet").returncode, 0)
            for name in names:
                self.assertEqual((folder / name).read_text(), "mine")

    def test_pictures_of_bit_widths_replace_no_file(self):
        for name in ("saved.html", "saved.json", "saved.csv"):
            with scratch_folder() as folder:
                (folder / name).write_text("mine")
                done = run("inspect", "--saved", "--model", "lenet5", "--activations", "compressed",
                           "--bit-widths", folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(name, done.stderr)
                self.assertEqual([(p.name, p.read_text()) for p in folder.iterdir()], [(name, "mine")])

    def test_wrong_inputs_leave_no_folder(self):
        with scratch_folder() as folder:
            (folder / "garbage").write_text("garbage\n")
            for arguments in (["--method", "triaccel", "--replay", folder / "garbage"],
                              ["--init-from", folder / "garbage"],
                              ["--data", "cifar10", "--data-root", folder]):
                done = run("train", *SMALL_RUN, *arguments, "--steps", 1, "--out", folder / "run")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertFalse((folder / "run").exists(), arguments)


class Inputs(unittest.TestCase):
    def test_weights_that_are_not_finite_are_named(self):
        with scratch_folder() as folder:
            train("--steps", 1, "--out", folder / "run")
            weights = checkpoints(folder / "run")[-1] / "weights.safetensors"
            broken = folder / "broken.safetensors"
            shutil.copy(weights, broken)
            write_weights(broken, lambda name, data: struct.pack("<f", float("nan")) + data[4:]
                          if name.endswith("weight") else data)
            done = run("train", *SMALL_RUN, "--init-from", broken, "--out", folder / "second")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("broken.safetensors", done.stderr)
            self.assertRegex(done.stderr, r"tensor '\S*weight'")
            self.assertNotIn("--lr", done.stderr)

    def test_a_run_without_a_finite_loss_fails(self):
        with scratch_folder() as folder:
            train("--steps", 1, "--out", folder / "run")
            huge = folder / "huge.safetensors"
            shutil.copy(checkpoints(folder / "run")[-1] / "weights.safetensors", huge)
            write_weights(huge, lambda name, data: struct.pack("<f", 3e38) * (len(data) // 4))
            for number, arguments in enumerate((["--lr", "1e9", "--batch", 96, "--steps", 25],
                                                ["--init-from", huge, "--steps", 20])):
                place = folder / str(number)
                done = run("train", *SMALL_RUN, *arguments, "--out", place, "--json")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assertEqual(json.loads(done.stdout)["error"]["kind"], "numerical")
                self.assertEqual(summary_of(place)["status"], "failed")
                with open(place / "metrics.csv") as metrics:
                    losses = [row["loss"] for row in csv.DictReader(metrics) if row["loss"]]
                self.assertIn(losses[-1], ("inf", "nan"), losses)
                self.assertNotIn(0, map(float, losses))

    def test_init_from_takes_a_run(self):
        with scratch_folder() as folder:
            train("--steps", 3, "--out", folder / "first")
            train("--steps", 1, "--lr", "1e-30", "--weight-decay", 0, "--init-from",
                  folder / "first", "--out", folder / "second")
            weights = checkpoints(folder / "first")[-1] / "weights.safetensors"
            self.assertIn(str(weights), (folder / "second/config.toml").read_text())
            self.assertEqual(final_weights(folder / "second"), final_weights(folder / "first"))
            (folder / "none").mkdir()
            self.assertNotEqual(run("train", *SMALL_RUN, "--init-from", folder / "none", "--out",
                                    folder / "third").returncode, 0)

    def test_what_does_not_fit_without_a_budget(self):
        for option in (["--width", 1000000], ["--image-size", 100000]):
            with scratch_folder() as folder:
                done = run("train", "--model", "resnet18", "--data", "synthetic", "--device", "cpu",
                           "--steps", 1, *option, "--out", folder / "run")
                self.assertEqual(done.returncode, 6, done.stderr)
                self.assertIn("fit in memory", done.stderr)
                self.assertNotIn("0 B", done.stderr)
                if (folder / "run").exists():  # weights and data fit, the first step did not
                    self.assertEqual(summary_of(folder / "run")["status"], "failed")

    def test_a_replayed_run_takes_its_kernels_too(self):
        with scratch_folder() as folder:
            few = ["--method", "triaccel", "--steps", 6, "--control-interval", 2]
            train(*few, "--kernels", "stock", "--out", folder / "first")
            train(*few, "--replay", folder / "first/plans.jsonl", "--out", folder / "second")
            kernels = [[line for line in (folder / name / "config.toml").read_text().splitlines()
                        if line.startswith("kernels")] for name in ("first", "second")]
            self.assertEqual(kernels[0], kernels[1])
            self.assertEqual(final_weights(folder / "first"), final_weights(folder / "second"))


class Predict(unittest.TestCase):
    def test_agrees_with_the_evaluation_and_takes_files_and_folders(self):
        with scratch_folder() as folder:
            train("--steps", 3, "--out", folder / "run")
            (folder / "images").mkdir()
            write_images(folder / "images/a,b.safetensors", 5)
            (folder / "images/notes.txt").write_text("not an image")
            for path in (folder / "images", folder / "images/a,b.safetensors"):
                found = json.loads(run("predict", folder / "run", path, "--json").stdout)
                self.assertEqual([p["image"] for p in found["predictions"]], list(range(5)))
                for prediction in found["predictions"]:
                    self.assertIn(prediction["class"], range(10))
                    self.assertTrue(0.1 <= prediction["probability"] <= 1, prediction)
            lines = run("predict", folder / "run", folder / "images").stdout.splitlines()
            self.assertEqual(lines[0], "file,image,class,probability")
            self.assertEqual(len(lines), 6)
            (folder / "grey.idx").write_bytes(struct.pack(">IIII", 0x803, 1, 28, 28) + bytes(784))
            wrong = run("predict", folder / "run", folder / "grey.idx")
            self.assertEqual(wrong.returncode, 3, wrong.stderr)
            self.assertIn("1x28x28", wrong.stderr)

    def test_takes_more_than_the_budget_of_training(self):
        with scratch_folder() as folder:
            train("--steps", 2, "--budget", "40MiB", "--out", folder / "run")
            write_images(folder / "many.safetensors", 20000)
            done = run("predict", folder / "run", folder / "many.safetensors")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 20001)

    @unittest.skipUnless(os.path.exists("/dev/nvidia0"), "this machine has no CUDA device")
    def test_a_run_on_a_cpu_is_evaluated_and_goes_on_on_a_gpu(self):
        with scratch_folder() as folder:
            train("--method", "fp32", "--steps", 3, "--out", folder / "run")
            plain = json.loads(run("eval", folder / "run", "--json").stdout)
            there = json.loads(run("eval", folder / "run", "--device", "cuda", "--json").stdout)
            self.assertAlmostEqual(plain["loss"], there["loss"], 3)

    def test_eval_takes_other_data_and_no_other_training(self):
        with scratch_folder() as folder:
            train("--steps", 3, "--out", folder / "run")
            plain = json.loads(run("eval", folder / "run", "--json").stdout)
            turned = json.loads(run("eval", folder / "run", "--rotate", 90, "--device", "cpu",
                                    "--json").stdout)
            self.assertNotEqual(plain["loss"], turned["loss"])
            write_mnist(folder / "mnist")
            other = run("eval", folder / "run", "--data", "mnist", "--data-root", folder)
            self.assertEqual(other.returncode, 2, other.stderr)
            self.assertIn("[--data] 'mnist' does not fit", other.stderr)
            done = run("eval", folder / "run", "--lr", 3)
            self.assertEqual(done.returncode, 2)
            self.assertIn("[--lr]", done.stderr)


class Output(unittest.TestCase):
    def test_training_goes_on_without_a_reader(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, "--steps", 30, "--control-interval", 1, "--out",
                            folder / "run")
            process.stderr.readline()
            process.stderr.close()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertEqual(summary_of(folder / "run")["steps"], 30)

    def test_stack_frames_of_libtorch_stay_hidden(self):
        with scratch_folder() as folder:
            done = run("train", *SMALL_RUN, "--steps", 2, "--quiet", "--budget", "18MiB", "--out",
                       folder / "run")
            self.assertIn(done.returncode, (0, 6))
            self.assertNotIn("frame #", done.stderr)
            if done.returncode == 0:
                self.assertEqual(done.stderr, "")


class Stopped(unittest.TestCase):
    def test_time_stopped_does_not_count_for_the_watchdog(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, "--epochs", 200, "--watchdog-seconds", 2, "--out",
                            folder / "run", "--quiet")
            wait_until((folder / "run/metrics.jsonl").exists)
            process.send_signal(signal.SIGSTOP)
            time.sleep(4)
            process.send_signal(signal.SIGCONT)
            time.sleep(1)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 143)


class Status(unittest.TestCase):
    def listed(self, folder):
        return json.loads(run("ls", folder, "--json").stdout)[0]["status"]

    def test_of_a_run_under_way_killed_and_resumed(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, "--epochs", 200, "--checkpoint-every", 5, "--out",
                            folder / "run", "--quiet")
            wait_until(lambda: len(checkpoints(folder / "run")) >= 2)
            summary = summary_of(folder / "run")
            self.assertEqual((summary["status"], summary["process"]), ("running", process.pid))
            self.assertRegex(summary["heartbeat"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertEqual(self.listed(folder), "running")
            process.kill()
            process.communicate()
            self.assertEqual(self.listed(folder), "killed")
            self.assertIn("killed", run("ls", folder).stdout)
            self.assertIn("killed", run("inspect", folder / "run").stdout)
            process = start("resume", folder / "run", "--quiet")
            wait_until(lambda: self.listed(folder) == "running")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(self.listed(folder), "stopped")
            self.assertNotIn("process", summary_of(folder / "run"))

    def test_of_a_failed_run(self):
        with scratch_folder() as folder:
            done = run("train", *SMALL_RUN, "--lr", "1e8", "--epochs", 20, "--json", "--quiet",
                       "--out", folder / "run")
            self.assertEqual(done.returncode, 7)
            summary = summary_of(folder / "run")
            self.assertEqual(summary["status"], "failed")
            self.assertIn("lower --lr", summary["reason"])
            self.assertEqual(self.listed(folder), "failed")
            document = json.loads(done.stdout)
            self.assertEqual((document["exit"], document["error"]["kind"]), (7, "numerical"))
            self.assertIn("--lr", document["error"]["next"])

    def test_of_a_run_that_hangs(self):
        with scratch_folder() as folder:
            done = run("train", *SMALL_RUN, "--watchdog-seconds", "0.000001", "--json", "--out",
                       folder / "run")
            self.assertEqual(done.returncode, 8)
            self.assertEqual(json.loads(done.stdout)["error"]["kind"], "hang")

    def test_of_earlier_versions(self):
        with scratch_folder() as folder:
            train("--steps", 2, "--out", folder / "run")
            summary = summary_of(folder / "run")
            for then, now in (("interrupted", "stopped"), ("stopped early", "finished")):
                (folder / "run/summary.json").write_text(json.dumps({**summary, "status": then}))
                self.assertEqual(self.listed(folder), now)
                self.assertEqual(run("eval", folder / "run").returncode, 0)
                resumed = run("resume", folder / "run", "--json", "--quiet")
                self.assertEqual(resumed.returncode, 0, resumed.stderr)
                self.assertEqual(json.loads(resumed.stdout)["status"], "finished")


class Resume(unittest.TestCase):
    def test_a_damaged_line_of_the_metrics_is_dropped(self):
        with scratch_folder() as folder:
            train("--steps", 40, "--checkpoint-every", 20, "--out", folder / "run")
            metrics = folder / "run/metrics.jsonl"
            lines = metrics.read_bytes().splitlines(keepends=True)
            metrics.write_bytes(b"".join([*lines[:2], bytes(20) + b"\n", *lines[2:]]))
            done = run("resume", folder / "run", "--steps", 44, "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, "metrics.jsonl:3: .*dropping this line")
            self.assertEqual(summary_of(folder / "run")["steps"], 44)

    def test_warns_where_checkpoints_are_gone_or_damaged(self):
        with scratch_folder() as folder:
            process = start("train", *SMALL_RUN, "--epochs", 200, "--checkpoint-every", 5, "--out",
                            folder / "run", "--quiet")
            wait_until(lambda: len(checkpoints(folder / "run")) >= 3)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            newest = checkpoints(folder / "run")[-1]
            with open(newest / "weights.safetensors", "r+b") as weights:
                weights.truncate(100)
            config = folder / "run/config.toml"
            write_images(folder / "image.safetensors", 1)
            for reading in (["eval", folder / "run"],
                            ["predict", folder / "run", folder / "image.safetensors"],
                            ["train", *SMALL_RUN, "--steps", 1, "--quiet", "--init-from",
                             folder / "run", "--out", folder / "second"]):
                read = run(*reading)
                self.assertEqual(read.returncode, 0, read.stderr)
                self.assertRegex(read.stderr, f"warning: .*{newest.name}.*; using the checkpoint")
            done = run("resume", folder / "run", "--quiet", "--steps",
                       int(newest.name.split("-")[1]) + 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(newest.name, done.stderr)
            self.assertRegex(done.stderr, r"warning: .*; using the checkpoint of step \d+")
            shutil.rmtree(folder / "run/checkpoints")
            (folder / "run/summary.json").unlink()
            config.write_text(config.read_text().replace("steps = ", "steps = 2 # "))
            done = run("resume", folder / "run", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no checkpoint", done.stderr)

    def test_extends_a_run(self):
        with scratch_folder() as folder:
            train("--steps", 4, "--out", folder / "run")
            done = run("resume", folder / "run", "--steps", 9, "--json", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["steps"], 9)
            self.assertEqual(summary_of(folder / "run")["steps"], 9)
            again = run("resume", folder / "run", "--epochs", 1, "--json", "--quiet")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertAlmostEqual(json.loads(again.stdout)["epochs"], 1)
            self.assertEqual(run("eval", folder / "run").returncode, 0)
            for wrong in (["--steps", 3], ["--epochs", 0.5], ["--epochs", -1], ["--steps", 0],
                          ["--epochs", 3, "--steps", 30]):
                self.assertEqual(run("resume", folder / "run", *wrong).returncode, 2, wrong)

    def test_extends_to_the_same_bytes_where_the_schedule_does_not_change(self):
        for arguments in (["--method", "zo"], ["--warmup-epochs", 50],
                          ["--method", "triaccel", "--kernels", "gemm", "--warmup-epochs", 50]):
            with scratch_folder() as folder:
                train(*arguments, "--steps", 5, "--out", folder / "run")
                done = run("resume", folder / "run", "--steps", 19, "--quiet")
                self.assertEqual(done.returncode, 0, done.stderr)
                train(*arguments, "--steps", 19, "--out", folder / "whole")
                self.assertEqual(final_weights(folder / "run"), final_weights(folder / "whole"))

    def test_an_extended_run_that_is_stopped_goes_on(self):
        with scratch_folder() as folder:
            train("--steps", 4, "--checkpoint-every", 2, "--out", folder / "run")
            process = start("resume", folder / "run", "--epochs", 200, "--quiet")
            wait_until(lambda: "epochs = 200" in (folder / "run/config.toml").read_text())
            process.kill()
            process.communicate()
            done = run("resume", folder / "run", "--steps", 60, "--json", "--quiet")
            if done.returncode == 2:  # it was faster than the signal
                self.skipTest("more than 60 steps were done")
            self.assertEqual(json.loads(done.stdout)["steps"], 60)


class Budgets(unittest.TestCase):
    def notices(self, directory):
        lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
        return [line["message"] for line in lines if line["kind"] == "notice"]

    def test_a_run_follows_another_budget_while_it_trains(self):
        with scratch_folder() as folder:
            directory = folder / "run"
            process = start("train", *SMALL_RUN, "--epochs", 400, "--control-interval", 5, "--budget", "400MiB", "--out",
                            directory, "--quiet")
            while not (directory / "metrics.jsonl").exists():
                time.sleep(0.02)
            changed = run("budget", directory, "300MiB", "--json")
            self.assertEqual(changed.returncode, 0, changed.stderr)
            self.assertEqual(json.loads(changed.stdout), {
                "run": str(directory), "budget": "300MiB", "before": "400MiB", "takes_effect": "from its next decision on"})
            for _ in range(500):
                if any("400 MiB -> 300 MiB" in notice for notice in self.notices(directory)):
                    break
                time.sleep(0.02)
            (directory / "budget.txt").write_text("plenty\n")
            for _ in range(500):
                if any("holds no budget" in notice for notice in self.notices(directory)):
                    break
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 143)
            found = self.notices(directory)
            self.assertEqual(sum("400 MiB -> 300 MiB" in notice for notice in found), 1, found)
            self.assertEqual(sum("holds no budget: 'plenty'" in notice for notice in found), 1, found)
            self.assertEqual(json.loads((directory / "summary.json").read_text())["budget_bytes"], 300 << 20)

    def test_a_stopped_run_follows_when_it_is_resumed(self):
        with scratch_folder() as folder:
            directory = folder / "run"
            train("--steps", 4, "--budget", "400MiB", "--out", directory)
            self.assertIn("budget 400MiB", run("budget", directory).stdout)
            self.assertIn("400MiB -> 350MiB, if it is extended", run("budget", directory, "350MiB").stdout)
            self.assertIn("budget 350MiB", run("budget", directory).stdout)
            done = run("resume", directory, "--steps", 8, "--json", "--quiet")
            self.assertEqual(json.loads(done.stdout)["budget_bytes"], 350 << 20, done.stderr)

    def test_a_wrong_budget_changes_nothing(self):
        with scratch_folder() as folder:
            train("--steps", 2, "--out", folder / "run")
            for size in ("much", "0", "-1GB", "120%"):
                done = run("budget", folder / "run", "--", size)
                self.assertEqual(done.returncode, 2, (size, done.stderr))
                self.assertIn("[size]", done.stderr)
                self.assertFalse((folder / "run/budget.txt").exists())
            self.assertEqual(run("budget", folder / "none", "1GB").returncode, 2)
            train("--method", "elasticzo-int8", "--steps", 1, "--out", folder / "integers")
            refused = run("budget", folder / "integers", "1GB")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("trains in integers", refused.stderr)


if __name__ == "__main__":
    unittest.main()
