"""How the papers' tables are put together from rows: no program is started."""
import contextlib
import html.parser
import io
import json
import math
import pathlib
import shlex
import sys
import threading
import unittest

from program import scratch_folder

BENCH = pathlib.Path(__file__).parents[2] / "bench"
sys.path[:0] = [str(BENCH / "papers"), str(BENCH)]
import elastic_zo  # noqa: E402
import fdsr  # noqa: E402
import gpu_jobs  # noqa: E402
import memory_accuracy  # noqa: E402
import reproduce  # noqa: E402
import tri_accel  # noqa: E402
from paper_figures import TRI_ACCEL  # noqa: E402
from rows import DATA, Failures, Results, RowFailed, Run, UsageError, run_stages  # noqa: E402
from tables import Spread, csv_text  # noqa: E402


def first_fault(page):
    """The first element that is not closed, or closed and not open; "" in a well-formed page."""
    class Checker(html.parser.HTMLParser):
        open, fault = [], ""

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "!doctype"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            if not self.open or self.open.pop() != tag:
                self.fault = self.fault or tag

    checker = Checker()
    checker.open = []
    checker.feed(page)
    return checker.fault or "".join(checker.open)


def table_row(method, seed, accuracy, seconds=2.0, megabytes=400.0, table="table1", configuration=""):
    return {"table": table, "model": "resnet18", "stem": "imagenet", "data": "cifar10", "method": method,
            "configuration": configuration, "seed": seed, "epochs": 30.0, "accuracy": accuracy, "seconds_per_epoch": seconds,
            "peak_allocated_mb": megabytes - 50, "peak_reserved_mb": megabytes,
            "score": accuracy / (seconds * megabytes / 1000), "commit": "abc1234", "device": "a <machine>", "batch_final": 96,
            "learning_rate": 0.1, "weight_decay": 5e-4, "timed": True}


def table_rows():
    return [table_row("fp32", 1, 86.0), table_row("fp32", 2, 87.0), table_row("triaccel", 1, 86.5, 1.5, 300.0),
            table_row("triaccel", 2, 87.5, 1.5, 300.0)]


def ablation_row(configuration, megabytes):
    return table_row("fp32" if configuration == "standard" else "triaccel", 1, 86.0, 2.0, megabytes, "table2", configuration)


class PaperFigures(unittest.TestCase):
    def test_scores_follow_from_the_columns_in_eleven_of_twelve_rows(self):
        follow = [abs(figure.accuracy / (figure.seconds_per_epoch * figure.gigabytes) - figure.score) < 0.011
                  for figure in TRI_ACCEL["table1"]]
        self.assertEqual((len(follow), sum(follow), len(TRI_ACCEL["table2"])), (12, 11, 8))


class Spreads(unittest.TestCase):
    def test_mean_and_deviation_of_the_sample(self):
        self.assertEqual(Spread.of([1, 2, math.nan, None, 3]), Spread(3, 2, 1))
        self.assertEqual(Spread.of([81.0, 81.4]).text(2), "81.20 ± 0.28")
        self.assertEqual(Spread.of([5.0]).text(1), "5.0")
        self.assertEqual(Spread.of([]).text(1), "-")


class Rows(unittest.TestCase):
    def test_come_back_from_their_file_and_replace_the_same_run(self):
        with scratch_folder() as folder:
            results = Results(folder, tri_accel.KEY)
            rows = table_rows()
            for row in rows:
                results.record(row)
            rows[2]["accuracy"] = 90.0
            results.record(rows[2])
            other = rows[2] | {"epochs": 15.0}
            results.record(other)
            self.assertEqual(Results(folder, tri_accel.KEY).rows, rows + [other])
            self.assertEqual((folder / "result.json").read_text().count("\n"), 5 + 2)

    def test_are_not_lost_when_several_runs_end_at_once(self):
        with scratch_folder() as folder:
            def record(seed):
                results = Results(folder, tri_accel.KEY)
                for method in ("fp32", "amp", "triaccel"):
                    results.record(table_row(method, seed, 86.0))

            threads = [threading.Thread(target=record, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(Results(folder, tri_accel.KEY).rows), 12)

    def test_a_damaged_file_is_named(self):
        with scratch_folder() as folder:
            for bad in ("[{", "3", "[3]"):
                (folder / "result.json").write_text(bad)
                with self.assertRaisesRegex(UsageError, "result.json.*damaged"):
                    Results(folder, tri_accel.KEY)

    def test_a_failed_row_does_not_block_the_others_and_missing_data_is_reported_once(self):
        failures, made = Failures(), []

        def fail(code):
            made.append(code)
            raise RowFailed(f"failed with {code}", code)

        for jobs in (1, 2):
            failures, made = Failures(), []
            run_stages([[("a", "here", lambda: fail(7))], [("b", "missing", lambda: fail(DATA))],
                        [("c", "missing", lambda: fail(DATA)), ("d", "missing", lambda: fail(DATA))],
                        lambda: [("e", "here", lambda: made.append("e"))]], jobs, failures)
            self.assertEqual(made, [7, DATA, "e"])
            self.assertEqual([(row["row"], row["code"]) for row in failures.rows], [("a", 7), ("missing", DATA)])
            self.assertEqual(failures.exit_code, 7)
            self.assertEqual(failures.notes()[-1], "2 more were not tried for the same reason.")

    def test_a_run_of_other_options_is_refused(self):
        with scratch_folder() as folder:
            run = Run(folder / "run", {"--lr": 0.1, "--data-root": "here", "--augment": False})
            run.options_file.write_text(json.dumps({"--lr": "0.1", "--data-root": "there", "--augment": "false"}))
            run.check()
            with self.assertRaisesRegex(UsageError, "--lr 0.1, not 0.2; choose another --out"):
                Run(folder / "run", run.options | {"--lr": 0.2}).check()
            Run(folder / "run", run.options | {"--lr": 0.2}, undecided=("--lr",)).check()


class TriAccel(unittest.TestCase):
    def test_stands_next_to_the_papers_figures(self):
        text = tri_accel.page_of(table_rows(), "table1").text()
        for part in ("resnet18 (imagenet stem) on cifar10, 30 epochs", "86.50 ± 0.71", "87.00 ± 0.71", "300.0", "77.0", "10.48",
                     "12.92", "triaccel over fp32: accuracy +0.50 points, time -25.0 %, memory -25.0 %, score +78.8 %; in the "
                     "paper: accuracy +1.10 points, time -7.1 %, memory -11.4 %, score +23.3 %",
                     "Not run: efficientnet-b0 on cifar10, resnet18 on cifar100, efficientnet-b0 on cifar100"):
            self.assertIn(part, text)
        self.assertNotIn("over amp", text)  # which was not run
        self.assertNotIn("nan", text)

    def test_times_of_runs_that_shared_the_machine_do_not_count(self):
        rows = table_rows()
        rows[0] |= {"timed": False, "seconds_per_epoch": 1000.0}
        fp32 = tri_accel.table_groups(rows, "table1")[0].lines[0]
        self.assertEqual((fp32.seeds, fp32.spread("seconds_per_epoch", timed=True).mean, fp32.spread("accuracy").mean),
                         (2, 2.0, 86.5))
        self.assertIn("Time and score of 1 run(s)", tri_accel.page_of(rows, "table1").text())

    def test_the_ablation_is_compared_with_standard_training(self):
        rows = [ablation_row("standard", 400.0), ablation_row("full", 300.0), ablation_row("no-curvature", 320.0)]
        text = tri_accel.page_of(rows, "table2").text()
        for part in ("25.0", "12.3", "20.0", "full over standard", "no-curvature", "dynamic-precision"):
            self.assertIn(part, text)
        self.assertIn("Not run: resnet18 on cifar10", tri_accel.page_of([], "table1").text())

    def test_runs_of_different_length_and_stem_stay_apart(self):
        rows = table_rows()
        rows[1]["epochs"], rows[2]["stem"] = 15.0, "cifar"
        self.assertEqual(len(tri_accel.table_groups(rows, "table1")), 3)

    def test_pages_are_well_formed_and_escape_their_texts(self):
        page = tri_accel.page_of(table_rows(), "table1")
        self.assertEqual(first_fault(page.html()), "")
        self.assertIn("a &lt;machine&gt;", page.html())
        self.assertIn("| fp32 | 2 | 86.50 ± 0.71 |", page.markdown())
        self.assertEqual(csv_text(table_rows()).count("\n"), 5)


def elastic_row(method, layers, number_format, seed, accuracy, **changes):
    int8 = number_format == "int8"
    return {"model": "lenet5", "data": "mnist", "rotation": 0.0, "train_samples": 0, "method": method,
            "number_format": number_format, "bp_layers": layers, "seed": seed, "epochs": 8.0, "accuracy": accuracy,
            "accuracy_upright": None, "accuracy_before": None, "peak_bytes": 200000 if int8 else 1000000 + 10000 * layers,
            "predicted_bytes": 0, "seconds_per_epoch": 1.0 if int8 else 1.4, "timed": True, "batch": 32, "learning_rate": 0.01,
            "zo_rate": 0, "device": "a <machine>", "commit": "abc1234"} | changes


def elastic_rows(**changes):
    return [elastic_row(*row, **changes) for row in (
        ("bp", 5, "fp32", 1, 98), ("zo", 0, "fp32", 1, 80), ("zo", 0, "fp32", 2, 82), ("elasticzo", 2, "fp32", 1, 94),
        ("frozen", 2, "fp32", 1, 93), ("elasticzo", 2, "int8", 1, 92), ("elasticzo", 1, "fp32", 1, 89))]


class ElasticZo(unittest.TestCase):
    def test_methods_are_ordered_from_zeroth_order_to_backpropagation(self):
        [group] = elastic_zo.groups_of(elastic_rows())
        self.assertEqual([group.label(line) for line in group.lines],
                         ["zo", "elasticzo, 1 BP layer", "frozen, 2 BP layers", "elasticzo, 2 BP layers", "bp"])
        self.assertEqual(group.cell(group.lines[0], "fp32").spread("accuracy").mean, 81)
        self.assertEqual(group.cell(group.lines[0], "int8").rows, [])

    def test_fine_tuning_stays_apart_from_training(self):
        rows = elastic_rows() + [elastic_row("elasticzo", 2, "fp32", 1, 94, rotation=30.0, train_samples=1000)]
        self.assertEqual([group.title for group in elastic_zo.groups_of(rows)][1],
                         "lenet5 on mnist rotated by 30° (fine-tuning), 1000 training samples, 8 epochs")

    def test_findings_stand_next_to_the_abstracts_ranges(self):
        findings = "\n".join(elastic_zo.groups_of(elastic_rows())[0].findings())
        for part in ("FP32 elasticzo, 2 BP layers over zo: +13.00 points (abstract: +5.2 to +9.5), memory +2.000 %",
                     "over the same layers on frozen features: +1.00 points", "against backpropagation: -4.00 points",
                     "INT8 against FP32, elasticzo, 2 BP layers: -2.00 points", "5.10 times less memory", "1.40 times faster"):
            self.assertIn(part, findings)
        turned = elastic_row("elasticzo", 2, "int8", 1, 90, rotation=45.0, accuracy_upright=95, accuracy_before=75)
        self.assertIn("the rotation cost 20.00 points (95.00 to 75.00 %), 75 % of which were recovered",
                      "\n".join(elastic_zo.groups_of([turned])[0].findings()))

    def test_times_of_runs_that_shared_the_machine_do_not_count(self):
        text = elastic_zo.page_of(elastic_rows(timed=False)).text()
        self.assertIn("The time of 7 run(s)", text)
        for word in ("nan", "faster"):
            self.assertNotIn(word, text)

    def test_a_number_format_that_nothing_ran_in_has_no_columns(self):
        page = elastic_zo.page_of([elastic_row("zo", 0, "int8", 1, 76)])
        self.assertNotIn("FP32: seeds", page.text())
        self.assertIn("INT8: seeds", page.html())
        self.assertEqual(first_fault(elastic_zo.page_of(elastic_rows()).html()), "")


def codec_row(model, codec, held, speed, seed=1, **changes):
    return dict.fromkeys(fdsr.FIELDS) | {
        "model": model, "image_size": 32, "batch": 128, "codec": codec, "held_ratio": held, "peak_ratio": held / 2,
        "accuracy": 90.0, "accuracy_drop": 0.2 * seed if codec == "fdsr" else 0.0, "throughput_ratio_to_fp32": speed,
        "commit": "abc1234", "data": "cifar10", "epochs": 30.0, "seed": seed, "largest_batch": 1024, "timed": True,
        "device": "a <machine>"} | changes


def codec_rows(**changes):
    return [codec_row(*row, **changes) for row in (
        ("resnet18", "actnn", 7, 0.7), ("resnet18", "fp32", 1, 1), ("resnet18", "fdsr", 10.4, 0.9),
        ("resnet18", "fdsr", 10.6, 0.9, 2), ("resnet18", "division", 6.4, 0.8), ("vit", "fdsr", 8.5, 0.85))]


class Fdsr(unittest.TestCase):
    def page(self, rows):
        return fdsr.page_of(rows, pathlib.Path("/nowhere"))

    def test_groups_have_a_line_per_codec_over_seeds(self):
        groups = fdsr.groups_of(codec_rows())
        self.assertEqual([line.label for line in groups[0].lines], ["fdsr", "fp32", "actnn", "division"])
        self.assertEqual(groups[0].lines[0].spread("held_ratio").mean, 10.5)
        self.assertAlmostEqual(groups[0].over_actnn(groups[0].lines[0]), 0.9 / 0.7)
        self.assertTrue(math.isnan(groups[1].over_actnn(groups[1].lines[0])))  # no such codec
        self.assertEqual(groups[0].title, "resnet18, 32 px, batch 128, cifar10, 30 epochs, a <machine>")
        self.assertEqual(len(fdsr.groups_of(codec_rows() + [codec_row("resnet18", "fdsr", 12, 1, target_ratio=12.0)])[0].lines), 5)

    def test_findings_stand_next_to_the_abstracts_figures(self):
        findings = "\n".join(fdsr.findings(fdsr.groups_of(codec_rows())))
        for part in ("9.50 times less than FP32 on average over 2", "up to 1.500 times less, on resnet18",
                     "0.25 points below FP32", "up to 1.286 times that of ActNN's codec", "(abstract: 10.20)"):
            self.assertIn(part, findings)
        self.assertEqual(fdsr.findings([]), [])

    def test_gradients_of_those_that_were_judged_are_shown(self):
        self.assertNotIn("cosine\n", self.page(codec_rows()).text())
        self.assertIn("0.12500", self.page([codec_row("resnet18", "fdsr", 10, 1, gradient_error=0.125)]).text())

    def test_speed_of_runs_that_shared_the_machine_does_not_count(self):
        text = self.page(codec_rows(timed=False)).text()
        self.assertIn("The speed of 6 run(s)", text)
        for words in ("nan", "that of ActNN's codec", "in training"):
            self.assertNotIn(words, text)

    def test_pages_are_well_formed_and_escape_their_texts(self):
        page = self.page(codec_rows()).html()
        self.assertEqual(first_fault(page), "")
        self.assertIn("a &lt;machine&gt;", page)
        self.assertIn("Throughput over FP32", page)

    def test_rows_that_are_no_rows_are_refused(self):
        for given in ("resnet18", "resnet18@32", "resnet18@/8", "@32/8", "resnet18@32/0"):
            with self.assertRaisesRegex(UsageError, "network@pixels/batch"):
                fdsr.network_row(given)



class GpuJobs(unittest.TestCase):
    def test_are_rows_that_the_tables_have(self):
        jobs = [job for rows in (gpu_jobs.shared_rows, gpu_jobs.timed_rows) for job in json.loads(gpu_jobs.jobs(rows("/data")))]
        self.assertEqual(len({job["name"] for job in jobs}), len(jobs))
        for job in jobs:
            program, *words = shlex.split(job["command"])[1:]
            if program.endswith("reproduce.py"):
                self.assertEqual(reproduce.parsed(words).options.get("--device"), "cuda", job)
            else:
                options = dict(zip(words[::2], words[1::2]))
                self.assertIn(options["--networks"], memory_accuracy.NETWORKS)
                self.assertIn(options["--methods"], memory_accuracy.METHODS)

    def test_excerpts_leave_out_intervals(self):
        with scratch_folder() as folder:
            (folder / "run").mkdir()
            lines = [json.dumps({"kind": kind, "step": 1}) for kind in ("start", "interval", "notice", "evaluation", "finish")]
            (folder / "run" / "metrics.jsonl").write_text("\n".join(lines) + "\n")
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                gpu_jobs.excerpt(folder)
            self.assertEqual(shown.getvalue().splitlines(), [f"==== {folder / 'run' / 'metrics.jsonl'}", *(lines[:1] + lines[2:])])


if __name__ == "__main__":
    unittest.main()
