"""tools/run_jobs: order, dependencies, a stop in the middle, and going on from there."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from program import scratch_folder

RUN_JOBS = pathlib.Path(__file__).parents[2] / "tools" / "run_jobs"


class RunJobs(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(scratch_folder())

    def run_jobs(self, jobs, *options):
        (self.folder / "jobs.json").write_text(json.dumps(jobs))
        return subprocess.run([sys.executable, RUN_JOBS, "jobs.json", *options], cwd=self.folder, capture_output=True, text=True, timeout=60)

    def events(self):
        return [json.loads(line) for line in (self.folder / "logs/jobs.jsonl").read_text().splitlines()]

    def test_runs_each_with_its_environment_and_output(self):
        done = self.run_jobs([{"name": "one", "command": "echo $WORD; ls /no/such/file", "environment": {"WORD": "hello"}},
                              {"name": "two", "command": "exit 0"}])
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 passed, 1 failed: one", done.stdout)
        log = (self.folder / "logs/one.log").read_text()
        self.assertTrue(log.startswith("hello"))
        self.assertIn("/no/such/file", log)

    def test_what_passed_is_not_repeated(self):
        jobs = [{"name": "counts", "command": "echo x >> count"}, {"name": "fails", "command": "test -e mended"}]
        self.assertEqual(self.run_jobs(jobs).returncode, 1)
        (self.folder / "mended").touch()
        self.assertEqual(self.run_jobs(jobs).returncode, 0)
        self.assertEqual((self.folder / "count").read_text(), "x\n")
        self.assertEqual(self.run_jobs([{"name": "counts", "command": "echo y >> count"}]).returncode, 0)
        self.assertEqual((self.folder / "count").read_text(), "x\ny\n", "another command under the same name")

    def test_order(self):
        jobs = [{"name": "alone", "command": "true", "alone": True}, {"name": "short", "command": "true", "expected": 1},
                {"name": "long", "command": "true", "expected": 9}, {"name": "first", "command": "sleep 0.3"},
                {"name": "then", "command": "true", "after": ["first"], "expected": 100}]
        self.assertEqual(self.run_jobs(jobs, "--workers", "1").returncode, 0)
        self.assertEqual([one["name"] for one in self.events()], ["long", "short", "first", "then", "alone"])

    def test_nothing_runs_next_to_a_job_that_is_alone(self):
        take = "mkdir lock && sleep 0.2 && rmdir lock"
        jobs = [{"name": f"other{i}", "command": "sleep 0.1; test ! -e lock"} for i in range(4)]
        self.assertEqual(self.run_jobs(jobs + [{"name": "a", "command": take, "alone": True}, {"name": "b", "command": take, "alone": True}],
                                       "--workers", "8").returncode, 0)

    def test_a_job_that_is_alone_may_have_others_after_it(self):
        jobs = [{"name": "first", "command": "true", "alone": True}, {"name": "then", "command": "true", "after": ["first"]}]
        self.assertEqual(self.run_jobs(jobs).returncode, 0)

    def test_an_interruption_stops_what_runs(self):
        (self.folder / "jobs.json").write_text(json.dumps([{"name": "long", "command": "echo $$ > pid; sleep 60"}]))
        for number in (signal.SIGINT, signal.SIGTERM):
            pid = self.folder / "pid"
            pid.unlink(missing_ok=True)
            process = subprocess.Popen([sys.executable, RUN_JOBS, "jobs.json"], cwd=self.folder, stdout=subprocess.DEVNULL)
            while not (pid.exists() and pid.read_text().strip()):
                time.sleep(0.02)
            process.send_signal(number)
            self.assertEqual(process.wait(20), 130)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid.read_text()), 0)

    def test_waits_for_files_and_not_for_jobs_that_failed(self):
        jobs = [{"name": "reads", "command": "cat data", "needs": ["data"]}, {"name": "writes", "command": "sleep 0.2; echo x > data"},
                {"name": "fails", "command": "exit 4"}, {"name": "never", "command": "touch ran", "after": ["fails"]}]
        done = self.run_jobs(jobs)
        self.assertIn("2 passed, 2 failed: fails, never", done.stdout)
        self.assertFalse((self.folder / "ran").exists())

    def test_stops_what_runs_too_long_and_goes_on_later(self):
        jobs = [{"name": "quick", "command": "echo x >> count"}, {"name": "slow", "command": "test -e mended || sleep 60"}]
        done = self.run_jobs(jobs, "--seconds", "0.5")
        self.assertEqual(done.returncode, 3)
        self.assertIn("stopped  slow", done.stdout)
        (self.folder / "mended").touch()
        self.assertEqual(self.run_jobs(jobs).returncode, 0)
        self.assertEqual((self.folder / "count").read_text(), "x\n")

    def test_names_what_is_wrong_in_the_list(self):
        for jobs, message in (([{"name": "a", "command": "true", "enviroment": {}}], "unknown keys ['enviroment']"),
                              ([{"name": "a", "command": "true", "after": ["b"]}], "which no job is called"),
                              ([{"name": "a", "command": "true"}] * 2, "the same name")):
            done = self.run_jobs(jobs)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
