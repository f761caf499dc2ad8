"""Generated hostile cases: options with wrong values, and run folders with damaged files.

Every case ends within ten seconds with a documented exit code, without stack frames or control
characters, and overwrites nothing."""
import concurrent.futures
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

from program import SMALL_RUN, call, checkpoints, run, scratch_folder, start, ugly_part

DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 8}
FEW_SAMPLES = [*SMALL_RUN, "--train-samples", "64"]
VALUES = ["", "nan", "inf", "-1", "-0", "1e999", "9223372036854775808", "0x10", "1,2", "true", "..",
          "/", "\x1b[2J", "line\nbreak", os.fsdecode(b"\xff"), "\x9b2J", os.fsdecode(b"\x9b2J"), "n" * 5000, "ü", "%s%n", "=", "[]"]


def problem_of(arguments, expected=DOCUMENTED, **options):
    """What is wrong with how a case ended; empty: nothing."""
    try:
        done = call(arguments, timeout=10, **options)
    except subprocess.TimeoutExpired:
        return f"{arguments}: hangs"
    shown = done.stdout + done.stderr
    if done.returncode not in expected:
        return f"{arguments}: exit {done.returncode}: {shown[-500:]}"
    if done.returncode != 0 and not done.stderr:
        return f"{arguments}: exit {done.returncode} without a word"
    found = ugly_part(shown)
    return f"{arguments}: {found}" if found else ""


def digest(folder):
    """Names and contents of all files, without the lock, which names the last process."""
    found = []
    for path in sorted(folder.rglob("*")):
        regular = path.is_file() and not path.is_symlink() and path.name != ".lock"
        content = hashlib.sha256(path.read_bytes()).hexdigest() if regular else ""
        found.append((str(path.relative_to(folder)), content))
    return found


class Options(unittest.TestCase):
    def test_hostile_values(self):
        flags = sorted(set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+) [A-Z\[]", run(
            "train", "--help-all").stdout, re.MULTILINE)) - {"--config"})
        self.assertGreater(len(flags), 70)
        generator = random.Random(23)
        cases = [(flag, generator.choice(VALUES)) for flag in flags]
        cases += [(generator.choice(flags), generator.choice(VALUES)) for _ in range(125 - len(flags))]
        cases += [("--config", value) for value in VALUES]
        with scratch_folder() as folder:
            def one(case):
                return problem_of(["train", f"{case[0]}={case[1]}", "--print-config"],
                                  expected={0, 2}, cwd=folder)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                problems = [problem for problem in pool.map(one, cases) if problem]
            self.assertEqual(problems, [])
            self.assertEqual(list(folder.iterdir()), [])
        self.assertGreater(len(cases), 120)


def damage(path, how):
    data = b"" if path.is_dir() else path.read_bytes()
    if how == "flip":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1:])
        return
    if how == "half":
        path.write_bytes(data[:len(data) // 2])
        return
    path.unlink()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "garbage":
        path.write_bytes(random.Random(1).randbytes(1000))
    elif how == "folder":
        path.mkdir()
    elif how == "loop":
        os.symlink(path, path)
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "json":
        path.write_text('{"status": [1, {"\\u001b": -1e400}], "step": "\\u001b[2J"}\n')


DAMAGES = ["flip", "half", "missing", "empty", "garbage", "folder", "loop", "fifo", "json"]


class DamagedRuns(unittest.TestCase):
    def test_damaged_files(self):
        with scratch_folder() as folder:
            whole = folder / "whole"
            process = start("train", *FEW_SAMPLES, "--epochs", 100, "--checkpoint-every", 1, "--keep",
                            1, "--out", whole, "--quiet")
            while not checkpoints(whole):
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            step = int(checkpoints(whole)[-1].name.split("-")[1])
            (whole / "notes.txt").write_text("mine")
            names = ["config.toml", "summary.json", "metrics.jsonl", "metrics.csv", "plans.jsonl",
                     ".lock"]
            names += [f"checkpoints/step-{step}/{name}" for name in
                      ("weights.safetensors", "optimizer.safetensors", "trainer.safetensors",
                       "manifest.json")]
            commands = (["ls", "{}"], ["inspect", "{}"], ["eval", "{}"],
                        ["resume", "{}", "--quiet", "--steps", step + 1],
                        ["train", *FEW_SAMPLES, "--steps", 1, "--init-from", "{}", "--out", "{}-new"])
            cases = [(name, how, command) for name in names for how in DAMAGES
                     for command in commands]
            cases = random.Random(5).sample(cases, 80)

            def one(numbered):
                number, (name, how, command) = numbered
                place = folder / f"case-{number}"
                shutil.copytree(whole, place)
                damage(place / name, how)
                before = digest(place)
                words = [str(word).replace("{}", str(place)) for word in command]
                problem = problem_of(words, cwd=folder)
                writes = command[0] == "resume"
                if not problem and not writes and digest(place) != before:
                    problem = "changed the run it read"
                if not problem and (place / "notes.txt").read_text() != "mine":
                    problem = "overwrote a file of the user"
                shutil.rmtree(place)
                return f"{name} {how}: {problem}" if problem else ""

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                problems = [problem for problem in pool.map(one, enumerate(cases)) if problem]
            self.assertEqual(problems, [], "\n" + "\n".join(problems))


if __name__ == "__main__":
    unittest.main()
