"""What every command prints, writes and returns."""
import fcntl
import json
import os
import re
import resource
import shutil
import unittest

from program import SMALL_RUN, run, scratch_folder, start, train, ugly_part


class Train(unittest.TestCase):
    def test_learns_the_built_in_set(self):
        with scratch_folder() as folder:
            summary = train("--out", folder / "run", "--width", 0, "--train-samples", 0, "--epochs", 3,
                            "--lr", 0.02, "--threads", 2)  # at the usual 0.05 some seeds diverge, in FP32 too
            self.assertGreater(summary["accuracy"], 94)
            self.assertEqual(summary["status"], "finished")
            for key in ("method", "model", "data", "seed", "accuracy", "loss", "seconds", "samples",
                        "peak_bytes", "budget_bytes", "batch_final", "steps", "commit", "device", "device_type"):
                self.assertIn(key, summary)
            stored = json.loads((folder / "run/summary.json").read_text())
            self.assertEqual(stored["accuracy"], summary["accuracy"])
            for name in ("config.toml", "metrics.jsonl", "metrics.csv", "report.html"):
                self.assertTrue((folder / "run" / name).exists(), name)

    def test_keeps_inside_its_memory_budget(self):
        with scratch_folder() as folder:
            summary = train("--out", folder / "run", "--model", "resnet18", "--width", 8, "--stem",
                            "cifar", "--batch", 128, "--steps", 2, "--budget", "36MiB", "--threads", 2,
                            "--control-interval", 1, "--curvature-every", 1)  # predicted with its probes
            self.assertLessEqual(summary["peak_bytes"], 36 * 2**20)
            self.assertLessEqual(summary["predicted_bytes"], 36 * 2**20)
            self.assertLess(abs(summary["predicted_bytes"] / summary["peak_bytes"] - 1), 0.03)

    def test_reads_file_then_flags_then_overrides(self):
        with scratch_folder() as folder:
            (folder / "run.toml").write_text("[train]\nbatch = 11\nlr = 0.25\nepochs = 7\n")
            done = run("train", "--config", folder / "run.toml", "--batch", 22, "--print-config",
                       "train.epochs=3")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("batch = 22\n", done.stdout)
            self.assertIn("lr = 0.25\n", done.stdout)
            self.assertRegex(done.stdout, r"epochs = 3(\.0)?\n")

    def test_prints_plain_lines_without_a_terminal(self):
        with scratch_folder() as folder:
            done = run("train", *SMALL_RUN, "--steps", 4, "--out", folder / "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("\x1b", done.stderr)
            self.assertNotIn("\r", done.stderr)
            self.assertIn("accuracy", done.stdout)

    def test_names_runs_that_were_not_named(self):
        with scratch_folder() as folder:
            for expected in ("lenet5-synthetic-triaccel", "lenet5-synthetic-triaccel-2"):
                train("--steps", 2, cwd=folder)
                self.assertTrue((folder / "runs" / expected / "summary.json").exists())

    def test_shows_the_batch_that_an_epoch_allows(self):
        with scratch_folder() as folder:
            summary = train("--batch", 100000, "--steps", 2, "--out", folder / "run")
            self.assertEqual(summary["batch_final"], 512)

    def test_trains_with_amp(self):
        with scratch_folder() as folder:
            self.assertEqual(train("--method", "amp", "--steps", 4, "--out",
                                   folder / "run")["method"], "amp")


class Demo(unittest.TestCase):
    def test_compares_the_methods_and_reports_its_timing_of_steps(self):
        with scratch_folder() as folder:
            done = run("demo", *SMALL_RUN, "--data", "synthetic", "--out", folder / "demo")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("lenet5 on synthetic, 1 epoch, budget 100 MiB", done.stdout.replace("100MiB", "100 MiB"))
            table = done.stdout[done.stdout.index("method "):]
            for method in ("fp32", "amp", "triaccel"):
                self.assertIn(f"\n{method} ", table)
            # The first run starts before anything is timed; AMP is trained, or skipped with a reason.
            self.assertLess(done.stderr.index("fp32"), done.stderr.index("timing a few steps of amp"))
            if not (folder / "demo/amp/summary.json").exists():
                self.assertRegex(table, r"\namp +skipped: \d+ ms per step on this machine, \d+\.\d times fp32\n")
                self.assertIn("skipping amp: ", done.stderr)
            self.assertTrue((folder / "demo/report.html").exists())


class ExitCodes(unittest.TestCase):
    def expect(self, code, words, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_usage(self):
        self.expect(2, ["--bacth", "did you mean '--batch'"], "train", "--bacth", 3)
        self.expect(2, ["'trian'", "did you mean 'train'"], "trian")
        self.expect(2, ["resnet81", "did you mean 'resnet18'"], "train", "--model", "resnet81")
        self.expect(2, ["no run"], "resume", "/no/such/run")
        self.expect(2, ["text", "images"], "train", "--model", "gpt-small")

    def test_configuration_file(self):
        with scratch_folder() as folder:
            (folder / "run.toml").write_text("[train]\nbacth = 3\n")
            self.expect(2, ["run.toml:2:1", "did you mean 'batch'"], "train", "--config",
                        folder / "run.toml")

    def test_data(self):
        with scratch_folder() as folder:
            self.expect(3, ["cifar10", str(folder)], "train", "--data", "cifar10", "--data-root",
                        folder, "--out", folder / "run")

    def test_locked_run(self):
        with scratch_folder() as folder:
            (folder / "run").mkdir()
            with open(folder / "run/.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.expect(4, [], "train", *SMALL_RUN, "--out", folder / "run")

    def test_storage(self):
        with scratch_folder() as folder:
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            done = run("train", *SMALL_RUN, "--steps", 3, "--out", folder / "run", preexec_fn=limit)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("run", done.stderr)

    def test_out_of_memory_at_the_smallest_batch(self):
        with scratch_folder() as folder:
            self.expect(6, ["budget", "--budget"], "train", *SMALL_RUN, "--width", 0, "--budget", "16MiB",
                        "--out", folder / "run")

    def test_numerical_failure(self):
        with scratch_folder() as folder:
            self.expect(7, ["not finite", "--lr"], "train", *SMALL_RUN, "--lr", "1e8", "--epochs",
                        20, "--out", folder / "run")

    def test_hang(self):
        with scratch_folder() as folder:
            self.expect(8, ["no progress", "resume"], "train", *SMALL_RUN, "--watchdog-seconds",
                        "0.000001", "--out", folder / "run")


class ReadCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch_folder()
        cls.folder = cls.scratch.__enter__()
        cls.summary = train("--steps", 6, "--out", cls.folder / "run")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    def json_of(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_eval_agrees_with_the_run(self):
        self.assertAlmostEqual(self.json_of("eval", self.folder / "run")["accuracy"],
                               self.summary["accuracy"], places=6)

    def test_eval_takes_weights_in_place_of_a_run(self):
        weights = ["--init-from", self.folder / "run/checkpoints/step-6/weights.safetensors"]
        evaluated = self.json_of("eval", *SMALL_RUN, *weights)
        self.assertAlmostEqual(evaluated["accuracy"], self.summary["accuracy"], delta=1)
        losses = {method: self.json_of("eval", *SMALL_RUN, *weights, "--method", method)["loss"]
                  for method in ("fp32", "triaccel")}
        self.assertEqual(evaluated["loss"], losses["fp32"])
        self.assertNotEqual(evaluated["loss"], losses["triaccel"])
        nothing = run("eval")
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("--init-from", nothing.stderr)

    def test_ls(self):
        self.assertEqual(self.json_of("ls", self.folder)[0]["status"], "finished")
        self.assertIn("finished", run("ls", self.folder).stdout)

    def test_ls_keeps_its_columns_where_a_method_has_a_long_name(self):
        with scratch_folder() as folder:
            for name, method in (("a", "zo"), ("b", "elasticzo-int8")):
                (folder / name).mkdir()
                shutil.copy(self.folder / "run" / "config.toml", folder / name)
                summary = json.loads((self.folder / "run" / "summary.json").read_text())
                (folder / name / "summary.json").write_text(json.dumps({**summary, "method": method}))
            lines = run("ls", folder).stdout.splitlines()
            self.assertEqual(len(lines), 3)
            self.assertEqual({len(line) for line in lines}, {len(lines[0])}, lines)

    def test_ls_marks_runs_whose_files_are_no_regular_files(self):
        for name in ("config.toml", "summary.json", "metrics.jsonl"):
            with scratch_folder() as folder:
                shutil.copytree(self.folder / "run", folder / "run")
                (folder / "run" / name).unlink()
                os.mkfifo(folder / "run" / name)
                done = run("ls", folder, timeout=20)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("not a regular file", done.stdout)

    def test_strings_from_outside_are_escaped(self):
        with scratch_folder() as folder:
            shutil.copytree(self.folder / "run", folder / "a\x1b[2Jb")
            summary = json.loads((self.folder / "run" / "summary.json").read_text())
            (folder / "a\x1b[2Jb" / "summary.json").write_text(
                json.dumps({**summary, "method": "fp32\x1b[31m"}))
            header = b'{"w\\u001b[2J\\n\\u009b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
            (folder / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"x")
            for arguments in (["ls", folder], ["inspect", folder / "a\x1b[2Jb"],
                              ["inspect", folder / "x.safetensors"],
                              ["inspect", folder / "none\x1b[2J"]):
                for more in ([], ["--json"]):
                    shown = run(*arguments, *more)
                    self.assertEqual(ugly_part((shown.stdout + shown.stderr).encode()), "", arguments)
                done = run(*arguments)
                self.assertIn("\\x1b[2J", done.stdout + done.stderr, arguments)

    def test_inspect_refuses_another_file(self):
        done = run("inspect", self.folder / "run" / "config.toml")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("not a safetensors file", done.stderr)

    def test_prints_one_closing_line(self):
        with scratch_folder() as folder:
            with open(folder / "log", "w") as log:
                done = run("train", *SMALL_RUN, "--steps", 2, "--out", folder / "run", stdout=log, stderr=log)
            self.assertEqual(done.returncode, 0)
            self.assertEqual((folder / "log").read_text().count("finished"), 1)

    def test_inspect(self):
        inspected = self.json_of("inspect", self.folder / "run")
        self.assertEqual([c["damage"] for c in inspected["checkpoints"]], [""])
        weights = self.folder / "run/checkpoints/step-6/weights.safetensors"
        names = [t["name"] for t in self.json_of("inspect", weights)["tensors"]]
        self.assertTrue(any(name.endswith("weight") for name in names))
        self.assertIn("elements", run("inspect", weights).stdout)

    def test_inspect_refuses_options_without_effect(self):
        for words, named in ((["--bit-widths", self.folder / "widths"], "--bit-widths"), (["--ratios", "3"], "--ratios"),
                             (["--model", "vit-small"], "--model"), (["--gradients", "--device", "cuda"], "--device")):
            done = run("inspect", self.folder / "run", *words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn(f"[{named}]", done.stderr)

    def test_inspect_of_a_run_with_a_damaged_line(self):
        with scratch_folder() as folder:
            shutil.copytree(self.folder / "run", folder / "run")
            metrics = folder / "run" / "metrics.jsonl"
            metrics.write_text(metrics.read_text() + "{\n")
            done = run("inspect", folder / "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("metrics.jsonl:", done.stderr)

    def test_doctor(self):
        cells = self.json_of("doctor", "--device", "cpu")["formats"]
        self.assertEqual(len(cells), 9)
        self.assertIn("allocator", run("doctor", "--device", "cpu").stdout)

    def test_plan(self):
        page = self.folder / "plans.html"
        published = [*SMALL_RUN, "--width", 0]  # large enough next to the data
        plan = self.json_of("plan", *published, "--sweep", "--plot", page)
        self.assertGreaterEqual(plan["plan"]["bytes"], plan["least_bytes"])
        self.assertEqual(plan["plan"]["bytes"], sum(plan["plan"][f"{part}_bytes"] for part in (
            "weight", "state", "data", "step", "activation")))
        sizes = [one["bytes"] for one in plan["sweep"]]
        self.assertEqual(sizes, sorted(sizes))
        self.assertLessEqual(sizes[0], plan["least_bytes"])
        self.assertIn(f"<code>{plan['sweep'][0]['options']}</code>", page.read_text())
        row = plan["sweep"][len(plan["sweep"]) // 2]
        # A lossy plan may measure faster the second time; an exact one must still be there.
        exact = row["lossiness"] == "exact"
        again = self.json_of("plan", *published, "--budget", row["budget_bytes"], *(["--lossy", "never"] if exact else []))["plan"]
        self.assertLessEqual(again["bytes"], row["budget_bytes"])
        if exact:
            self.assertEqual(again["lossiness"], "exact")
        with scratch_folder() as folder:
            for share, code in ((1, 0), (0.95, 6)):
                budget = int(share * plan["least_bytes"])
                done = run("train", *published, "--steps", 3, "--budget", budget, "--out", folder / f"run{code}")
                self.assertEqual(done.returncode, code, (share, done.stderr))
                self.assertIn(*(("finished", done.stdout) if code == 0 else ("the least is", done.stderr)))
            least = re.search(r"the least is ([\d.]+ \w+)", done.stderr)[1]
            done = run("train", *published, "--steps", 3, "--budget", least, "--out", folder / "least")
            self.assertEqual(done.returncode, 0, (least, done.stderr))
        small = run("plan", *SMALL_RUN, "--budget", "1MiB")
        self.assertEqual(small.returncode, 6, small.stderr)
        self.assertIn("the least is", small.stderr)
        small = run("plan", *SMALL_RUN, "--budget", "1MiB", "--json")
        self.assertEqual((small.returncode, json.loads(small.stdout)["exit"]), (6, 6))
        self.assertIn("optimizer state", run("plan", *SMALL_RUN, "--budget", "1GiB").stdout)

    def test_bench_step(self):
        timing = self.json_of("bench", "step", *SMALL_RUN, "--samples", 3)
        self.assertLessEqual(timing["ms_p10"], timing["ms"])
        self.assertLessEqual(timing["ms"], timing["ms_p90"])
        self.assertGreater(timing["allocated_mb"], 0)
        self.assertEqual(timing["batch"], 32)

    def test_bench_step_names_the_batch_it_measured(self):
        for words, batch in ((["--batch", 100000], 512), (["--batch", 32, "--accumulate", 4], 128)):
            timing = self.json_of("bench", "step", *SMALL_RUN, *words, "--method", "fp32", "--samples", 1, "--warmup", 0)
            self.assertEqual(timing["batch"], batch)

    def test_bench_step_of_zo_is_compared_with_two_forward_passes(self):
        timing = self.json_of("bench", "step", *SMALL_RUN, "--method", "zo", "--samples", 3)
        self.assertAlmostEqual(timing["times_two_forwards"], timing["ms"] / timing["two_forwards_ms"])
        self.assertLess(timing["times_inference_memory"], 1.1)

    def test_version(self):
        self.assertIn("commit", self.json_of("version"))

    def test_resume_of_a_finished_run_says_so(self):
        done = run("resume", self.folder / "run")
        self.assertEqual(done.returncode, 0)
        self.assertIn("already finished", done.stderr)

    def test_init_from_starts_at_the_trained_weights(self):
        weights = self.folder / "run/checkpoints/step-6/weights.safetensors"
        summary = train("--init-from", weights, "--steps", 1, "--lr", "1e-12", "--weight-decay", 0,
                        "--out", self.folder / "second")
        self.assertAlmostEqual(summary["accuracy"], self.summary["accuracy"], delta=0.2)

    def test_help_names_every_command(self):
        shown = run("--help").stdout
        for command in ("train", "resume", "eval", "doctor", "inspect", "bench", "ls", "version"):
            self.assertIn(command, shown)


class Help(unittest.TestCase):
    def flags(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        return re.findall(r"^  (?:-\w, )?(--[\w-]+)", done.stdout, re.MULTILINE)

    def test_shows_everyday_options_and_all_of_them(self):
        everyday, every = self.flags("train", "--help"), self.flags("train", "--help-all")
        for flags in (everyday, every):
            self.assertEqual(len(flags), len(set(flags)), flags)
        self.assertLess(set(everyday), set(every))
        own = {"--help", "--help-all", "--config", "--print-config", "--json", "--quiet"}
        self.assertLessEqual(own, set(everyday))
        self.assertTrue(15 <= len(set(everyday) - own) <= 25, everyday)
        keys = re.findall(r"^\w+ = ", run("train", "--print-config").stdout, re.MULTILINE)
        self.assertEqual(len(set(every) - own), len(keys))

    def test_ends_with_examples(self):
        self.assertIn("Examples:", run("train", "--help").stdout)
        self.assertIn("Examples:", run("--help").stdout)

    def test_of_a_command_by_its_name(self):
        for words in (["train"], ["bench", "step"], ["ls"]):
            self.assertEqual(run("help", *words).stdout, run(*words, "--help").stdout)
        self.assertEqual(run("help").stdout, run("--help").stdout)

    def test_version(self):
        for flag in ("-v", "--version"):
            self.assertTrue(run(flag).stdout.startswith("triaccel "))

    def test_refuses_unknown_commands(self):
        for words in (["bogus", "--help"], ["help", "bogus"], ["bogus"]):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn("unknown command 'bogus'", done.stderr)
        bare = run("bench")
        self.assertEqual(bare.returncode, 2)
        self.assertIn("step", bare.stderr)

    def test_takes_the_names_people_type(self):
        shown = run("train", "--learning-rate", "0.3", "--batch-size", 7, "--wd", "0.01", "-o", "x",
                    "--activations", "coded", "--activation-look-every", 9, "--print-config").stdout
        for line in ("lr = 0.3", "batch = 7", "weight_decay = 0.01", 'out = "x"',
                     'keep = "compressed"', "profile_every = 9"):
            self.assertIn(line + "\n", shown)

    def test_suggests_only_what_is_near(self):
        self.assertIn("did you mean '--epochs'", run("train", "--epoch", 3).stderr)
        far = run("train", "--nonsense-flag", 3)
        self.assertEqual(far.returncode, 2)
        self.assertNotIn("did you mean", far.stderr)
        self.assertIn("--help-all", far.stderr)


class RefusedOptions(unittest.TestCase):
    def refuse(self, *arguments, command="train"):
        with scratch_folder() as folder:
            done = run(command, *arguments, cwd=folder)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertEqual(done.stdout, "", arguments)
            self.assertEqual(list(folder.iterdir()), [], arguments)
            return done.stderr

    def test_without_effect(self):
        fp32 = ("--method", "fp32")
        for flag, *arguments in (("--kernels", "--kernels", "nosuch", *fp32), ("--zo-lr", "--zo-lr", 5),
                                 ("--rho-low", "rho_low=0.5", *fp32), ("--precision", "--precision", "bf16", *fp32),
                                 ("--stem", "--model", "lenet5", "--stem", "cifar"),
                                 ("--activation-ratio", "--activation-ratio", 8),
                                 ("--steps", "--epochs", 1, "--steps", 5)):
            self.assertIn(f"[{flag}]", self.refuse(*arguments))
        with scratch_folder() as folder:
            (folder / "own.toml").write_text("[control]\nrho_low = 0.5\n")
            self.assertIn("--method triaccel", self.refuse("--config", folder / "own.toml", *fp32))

    def test_but_not_when_an_earlier_run_wrote_them(self):
        with scratch_folder() as folder:
            train("--steps", 1, "--method", "triaccel", "--out", folder / "run")
            for method in ("fp32", "zo"):
                done = run("train", "--config", folder / "run/config.toml", "--method", method,
                           "--print-config")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_an_earlier_run_filled_in_follows_other_options_again(self):
        with scratch_folder() as folder:
            train("--steps", 2, "--weight-decay", 0.1, "--out", folder / "run")
            shown = run("train", "--config", folder / "run/config.toml", "--optimizer", "adamw", "--epochs", 3,
                        "--model", "resnet18", "--name", "second", "--print-config").stdout
            for line in ("lr = 0.001", "weight_decay = 0.1", "steps = 0", "epochs = 3.0", 'kernels = "auto"', 'out = ""'):
                self.assertIn(line + "\n", shown)

    def test_names_that_are_no_folder_below_runs(self):
        for name in ("..", ".", "../evil", "/abs", "n" * 300, os.fsdecode(b"\xff")):
            self.assertIn("[--name]", self.refuse(*SMALL_RUN, "--steps", 1, "--name", name))

    def test_weights_that_cannot_be_read(self):
        with scratch_folder() as folder:
            os.symlink(folder / "loop", folder / "loop")
            for path in (folder / "loop", folder / ("n" * 300), folder / os.fsdecode(b"\xff")):
                error = self.refuse("--init-from", path)
                self.assertIn("[--init-from]", error)
                self.assertNotIn("filesystem error", error)

    def test_numbers_out_of_range(self):
        self.assertIn("[--rates]", self.refuse("--trial-steps", 10, "--rates=-1,nan",
                                               command="find-lr"))
        self.assertIn("[--batch]", self.refuse("--batch=-5", command="memory"))
        self.assertIn("[--samples]", self.refuse("step", "--samples", 0, command="bench"))
        self.assertIn("(0, 1e+06]", self.refuse("--epochs", 0))

    def test_a_pass_without_a_variance(self):
        with scratch_folder() as folder:
            done = run("train", "--model", "resnet18", "--width", 8, "--data", "synthetic", "--train-samples", 64, "--batch", 1,
                       "--steps", 1, "--device", "cpu", "--out", folder / "run")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("two samples or more", done.stderr)

    def test_a_search_for_what_there_is_not(self):
        integers = ("--method", "elasticzo-int8", "--model", "lenet5", "--trial-steps", 10)
        self.assertIn("no learning rate", self.refuse(*integers, command="find-lr"))


if __name__ == "__main__":
    unittest.main()
