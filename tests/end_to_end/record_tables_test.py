"""tools/tables on a small tree of documents and records: each way in which they can disagree is found and named."""
import contextlib
import io
import json
import pathlib
import runpy
import shutil
import subprocess
import sys
import unittest

from program import scratch_folder

TABLES = pathlib.Path(__file__).parents[2] / "tools" / "tables"
sys.path.insert(0, str(TABLES.parent))
tables_main = runpy.run_path(str(TABLES))["main"]
RECORD = "bench/records/2026-01-01_gpu_speed"
RUNS = [
    {"model": "resnet18", "method": "fp32", "seed": 1, "accuracy": 90.0, "ms": 2.0, "reserved_mb": 1500.0, "commit": "abc1234"},
    {"model": "resnet18", "method": "fp32", "seed": 2, "accuracy": 91.0, "ms": 2.0, "reserved_mb": 1500.0, "commit": "abc1234"},
    {"model": "resnet18", "method": "ours", "seed": 1, "accuracy": 90.5, "ms": 0.5, "reserved_mb": 900.0, "commit": "abc1234"},
    {"model": "resnet18", "method": "ours", "seed": 2, "accuracy": 91.5, "ms": 0.5, "reserved_mb": 900.0, "commit": "abc1234"},
    {"model": "resnet18", "method": "ours", "seed": 2, "accuracy": 99.9, "ms": 0.1, "commit": "abc1234-changed"},
]
DESCRIPTION = """
[records]
speed = "2026-01-01_gpu_speed"
[runs]
fp32 = "speed(method='fp32')"
ours = "speed(method='ours')"
[figures]
saved = "100 * (1 - ours.reserved_mb / fp32.reserved_mb)"
[table.claims]
head = "the paper's claim | ours | seeds | record"
lines = ["50 % faster | {100 * (1 - ours.ms / fp32.ms):.0f} % faster, {ours.accuracy - fp32.accuracy:+.2f} points | {ours.seeds} | {speed}"]
[table.accuracy]
head = "| FP32 | ours | ms"
lines = ["{row} | {fp32.accuracy:±.2f} | {ours.accuracy:±.2f} | {ours.ms:.2f}"]
rows = [{ row = "ResNet-18", model = "resnet18" }]
"""
DOCUMENT = f"""# A paper

<!-- table: claims -->
<!-- end -->

## Settings
<!-- not measured -->

At most 5 s, in blocks of 8 MiB.

## Measured

A step takes 0.5 ms, FP32 2.00 ms ([record](../../{RECORD})), at 5 %<!-- not measured --> noise:

<!-- table: accuracy -->
<!-- end -->

- It reserves 0.9 GB instead of 1,500 MB, 40 %<!-- = saved --> less.
- The paper says 12 %. <!-- not measured -->
"""


class RecordTables(unittest.TestCase):
    def setUp(self):
        self.root = self.enterContext(scratch_folder())
        self.paper = self.root / "docs" / "papers" / "paper.md"
        self.record = self.root / RECORD
        for folder in (self.paper.parent, self.root / "docs" / "tables", self.record):
            folder.mkdir(parents=True)
        (self.root / "README.md").write_text("# Project\n\nNo figure.\n")
        (self.root / "docs" / "benchmarks.md").write_text("# Benchmarks\n")
        (self.root / "docs" / "tables" / "paper.toml").write_text(DESCRIPTION)
        self.paper.write_text(DOCUMENT)
        (self.record / "command.txt").write_text("# Question: how fast? Commit abc1234.\n")
        (self.record / "raw.log").write_text("0.5 ms\n")
        (self.record / "result.json").write_text(json.dumps(RUNS))
        self.run_tables("--write")

    def run_tables(self, mode):
        """(exit code, output)"""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            return int(tables_main([mode, str(self.root)])), output.getvalue()

    def replace(self, old, new, path=None):
        path = path or self.paper
        text = path.read_text()
        self.assertEqual(text.count(old), 1, text)
        path.write_text(text.replace(old, new))

    def assert_found(self, *parts):
        """The check fails with one message, which has these parts."""
        code, output = self.run_tables("--check")
        self.assertEqual(code, 1, output)
        for part in parts:
            self.assertIn(part, output)
        self.assertEqual(sum(not line.startswith(" ") for line in output.splitlines()), 1, output)

    def line_of(self, text):
        return f"docs/papers/paper.md:{self.paper.read_text().splitlines().index(text) + 1}:"

    def test_tables_are_filled_with_mean_and_deviation_and_pass(self):
        text = self.paper.read_text()
        self.assertIn("| 50 % faster | 75 % faster, +0.50 points | 1, 2 | [record](../../bench/records/2026-01-01_gpu_speed) |", text)
        self.assertIn("| | FP32 | ours | ms |\n| --- | --- | --- | --- |\n| ResNet-18 | 90.50 ± 0.71 | 91.00 ± 0.71 | 0.50 |", text)
        result = subprocess.run([TABLES, "--check", self.root], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "tables ok: 2 in the documents, 1 records\n", ""))

    def test_a_table_that_differs_from_its_record(self):
        self.replace("91.00 ± 0.71", "92.00 ± 0.71")
        self.assert_found(self.line_of("| ResNet-18 | 90.50 ± 0.71 | 92.00 ± 0.71 | 0.50 |"), "91.00", "tools/tables --write")

    def test_a_record_that_changed_under_its_table(self):
        self.replace('"accuracy": 91.5', '"accuracy": 91.7', self.record / "result.json")
        code, output = self.run_tables("--check")
        self.assertEqual((code, output.count("the records give another line")), (1, 2))
        self.run_tables("--write")
        self.assertEqual(self.run_tables("--check")[0], 0)

    def test_a_figure_that_is_in_no_linked_record(self):
        self.replace("takes 0.5 ms", "takes 0.6 ms")
        self.assert_found("paper.md:16: 0.6 ms", "nearest: 0.5 (ms in 2026-01-01_gpu_speed)", "correct it, link its record")

    def test_a_figure_that_only_a_modified_tree_gave(self):
        self.replace("takes 0.5 ms", "takes 0.1 ms")
        self.assert_found("0.1 ms")

    def test_a_figure_of_another_unit_does_not_count(self):
        self.replace("takes 0.5 ms", "takes 0.5 us")
        self.assert_found("0.5 us")

    def test_each_figure_of_a_range(self):
        self.replace("FP32 2.00 ms", "FP32 1.90 to 2.00 ms")
        self.assert_found("1.90 ms")

    def test_a_figure_without_any_record(self):
        (self.root / "README.md").write_text("# Project\n\nIt is 4 times faster.\n")
        self.assert_found("README.md:3: 4 times", "link its record")

    def test_a_figure_in_a_list_item_uses_the_record_linked_above_it(self):
        self.replace("1,500 MB", "1,400 MB")
        self.assert_found(self.line_of("- It reserves 0.9 GB instead of 1,400 MB, 40 %<!-- = saved --> less."), "1,400 MB")

    def test_a_figure_that_is_not_what_its_expression_gives(self):
        self.replace("40 %<!--", "41 %<!--")
        self.assert_found("41 %", "nearest: 40 (saved)")

    def test_a_figure_typed_into_the_description(self):
        self.replace("{100 * (1 - ours.ms / fp32.ms):.0f} % faster", "74 % faster", self.root / "docs" / "tables" / "paper.toml")
        self.run_tables("--write")
        self.assert_found("paper.md:6: 74 %")

    def test_a_selection_of_runs_that_do_not_differ_in_their_seed(self):
        self.replace("fp32 = \"speed(method='fp32')\"", 'fp32 = "speed"', self.root / "docs" / "tables" / "paper.toml")
        self.assert_found("docs/tables/paper.toml:1:", "speed.reserved_mb selects 4 runs", "add a condition")

    def test_a_table_that_is_not_described(self):
        self.replace("<!-- table: accuracy -->", "<!-- table: accuracies -->")
        self.assert_found(self.line_of("<!-- table: accuracies -->"), "[table.accuracies]")

    def test_a_cited_record_that_does_not_exist(self):
        self.replace(f"2.00 ms ([record](../../{RECORD}))", f"2.00 ms ([record](../../{RECORD}), [record](../../bench/records/none))")
        self.assert_found("paper.md:16: record none does not exist")

    def test_a_record_without_its_output(self):
        (self.record / "raw.log").unlink()
        self.assert_found(f"{RECORD}/raw.log:1: missing")

    def test_an_output_of_another_commit(self):
        (self.record / "raw.log").write_text('{"ms": 0.5, "commit": "def5678"}')
        self.assert_found(f"{RECORD}/command.txt:1: raw.log comes from commit def5678")

    def test_a_number_without_unit_is_compared_with_its_expression(self):
        self.replace("It reserves", "It takes 0.24<!-- = ours.ms / fp32.ms --> of the time, reserves")
        self.assert_found("0.24", "nearest: 0.25")

    def test_a_result_that_is_not_json(self):
        self.replace("}]", "}", self.record / "result.json")
        code, output = self.run_tables("--check")
        self.assertEqual(code, 1)
        self.assertIn(f"{RECORD}/result.json:1: not valid JSON", output)

    def test_a_commit_that_is_not_in_the_history_unless_the_clone_is_shallow(self):
        def git(*words, folder=self.root):
            identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
            return subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True).stdout.strip()

        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("commit", "-q", "--allow-empty", "-m", "second")
        for file in ("command.txt", "result.json"):
            path = self.record / file
            path.write_text(path.read_text().replace("abc1234", git("rev-parse", "HEAD~")))
        self.assertEqual(self.run_tables("--check")[0], 0)
        self.replace("Commit ", "Commit deadbeef1 and ", self.record / "command.txt")
        self.assert_found(f"{RECORD}/command.txt:1: commit deadbeef1 is not in the history")
        git("clone", "-q", "--depth", "1", f"file://{self.root}", "shallow")
        shutil.rmtree(self.root / ".git")
        (self.root / "shallow" / ".git").rename(self.root / ".git")
        self.assertEqual(self.run_tables("--check")[0], 0)


if __name__ == "__main__":
    unittest.main()
