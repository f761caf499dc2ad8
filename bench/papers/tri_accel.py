"""Tables 1 and 2 of Tri-Accel: FP32, AMP and Tri-Accel, and what each of its parts saves."""
import dataclasses

from grid import HELD_OUT, Grid, combinations, scaled
from paper_figures import TRI_ACCEL, Figure
from rows import Results, RowFailed, Run, UsageError, say
from tables import NAN, Page, Section, Spread, Table, number, ratio, signed

KEY = ("table", "model", "stem", "image_size", "data", "method", "configuration", "seed", "epochs")
COMPARED = ("table", "model", "stem", "image_size", "data", "epochs")  # the same in all rows that are compared
OTHER_SET = {"cifar10": "cifar100", "cifar100": "cifar10", "synthetic": "synthetic"}  # that pre-trained weights come from
SET_BY_TABLE = {
    "--method": "use --methods", "--model": "use --models", "--stem": "give it with the network: --models resnet18-cifar",
    "--data": "use --sets", "--seed": "use --seeds", "--lr": "use --rates", "--weight-decay": "use --decays",
    "--batch": "every row of the paper's tables starts with a batch of 96", "--steps": "use --epochs",
    "--replay": "every row decides its own plans", "--name": "runs are named by their rows, below --out"}
# Mechanisms that a configuration of table 2 switches off.
ABLATION = {"standard": ("--precision", "--curvature", "--batch-control"), "dynamic-batch": ("--precision", "--curvature"),
            "dynamic-precision": ("--curvature", "--batch-control"), "full": ()}
TITLES = {"table1": "Table 1: accuracy, time and memory next to the paper's",
          "table2": "Table 2: what each part saves, next to the paper's"}
# What only the control loop reads: the program refuses them where it has no effect.
CONTROL_LOOP = {"--policy", "--precision", "--curvature", "--batch-control", "--replay", "--kernels", "--variance-decay", "--tau-low",
                "--tau-high", "--prefer-fp16", "--dwell", "--most-changes", "--curvature-every", "--curvature-batch",
                "--curvature-top", "--curvature-block", "--alpha", "--tau-curvature", "--curvature-cap", "--smallest-rate",
                "--rho-low", "--rho-high", "--batch-up", "--batch-down", "--smallest-batch", "--largest-batch",
                "--batch-growth", "--batch-rate", "--noise-share"}


def add_options(parser, listed):
    parser.add_argument("table", choices=("table1", "table2"))
    parser.add_argument("--models", type=listed(str), default=["resnet18", "resnet18-cifar", "efficientnet-b0"],
                        help="networks; suffix -cifar: with the CIFAR stem; -224: at 224 px, pre-trained on the other data set")
    parser.add_argument("--sets", type=listed(str), default=["cifar10", "cifar100"], help="data sets; table 2 takes the first")
    parser.add_argument("--methods", type=listed(str), help="fp32, amp, triaccel; fp32 before triaccel. Table 2: fp32 is 'standard', triaccel the other three")
    parser.add_argument("--epochs", type=float, default=30.0)
    parser.add_argument("--timing-epochs", type=float, default=0.0,
                        help="> 0: take times from runs of this many epochs, made after the others")
    parser.add_argument("--pretrain-epochs", type=float, default=5.0, help="epochs of the runs that -224 starts from")
    parser.add_argument("--tune", type=tunable(listed), action="append", default=[], metavar="FLAG=VALUES",
                        help="Tri-Accel's rows: an option of the control loop and values to choose from, as --tau-high=1e-5,1e-4")
    parser.add_argument("--budget-share", type=float, default=0.7,
                        help="Tri-Accel's memory budget as a fraction of what FP32 reserved, data set included")
    parser.add_argument("--rates", type=listed(float), help="learning rates to choose from (0.05,0.1,0.2; --quick: 0.1)")
    parser.add_argument("--decays", type=listed(float), help="weight decays to choose from (1e-4,5e-4; --quick: 5e-4)")
    parser.add_argument("--grid-epochs", type=float, default=5.0, help="epochs of each run that compares learning rates and weight decays")
    parser.set_defaults(out="runs/reproduce", command=TriAccel, set_by_table=SET_BY_TABLE)


def tunable(listed):
    def parse(text):
        flag, _, values = text.partition("=")
        if flag not in CONTROL_LOOP or not values:
            raise ValueError(text)
        return flag, listed(float)(values)
    parse.__name__ = "option of the control loop"
    return parse


def score(accuracy, seconds, bytes_):
    """The paper's efficiency score: accuracy in % over seconds per epoch times GB."""
    return accuracy / (seconds * bytes_ / 1e9) if seconds > 0 and bytes_ > 0 else NAN


def epoch_scores(run):
    """The score of every epoch that ended with an evaluation on the test set: that accuracy, its seconds and its memory."""
    intervals, scores, before = list(run.metrics("interval")), [], {"epoch": 0, "step": 0}
    for one in run.metrics("evaluation"):
        if one["split"] != "test" or one["epoch"] - before["epoch"] < 0.01:
            continue
        within = [interval for interval in intervals if before["step"] < interval["step"] <= one["step"]]
        seconds = sum(interval["seconds"] for interval in within) / (one["epoch"] - before["epoch"])
        reserved = max((interval["memory"]["reserved"] for interval in within), default=0)
        scores.append(round(score(100 * one["accuracy"], seconds, reserved), 4))
        before = one
    return scores


class TriAccel:
    def __init__(self, wanted, program):
        self.wanted, self.program = wanted, program
        if "amp" in (wanted.methods or []) and wanted.table == "table2":
            raise UsageError("--methods: table 2 has no row of amp; name fp32, triaccel or both")
        if wanted.shared and wanted.timing_epochs > 0:
            raise UsageError("--shared: times taken on a shared machine do not count; drop --timing-epochs, and make the "
                             "timed runs later with the machine to themselves")
        wanted.methods = wanted.methods or ["fp32", "amp", "triaccel"]
        if wanted.quick:
            wanted.epochs = min(wanted.epochs, 2.0)
        if wanted.table == "table2":
            wanted.sets = wanted.sets[:1]
        wanted.rates = wanted.rates or ([0.1] if wanted.quick else [0.05, 0.1, 0.2])
        wanted.decays = wanted.decays or ([5e-4] if wanted.quick else [1e-4, 5e-4])
        if min(wanted.rates) <= 0 or min(wanted.decays) < 0:
            raise UsageError("--rates, --decays: learning rates must be positive, weight decays must not be negative")
        self.rates = {"--lr": wanted.rates, "--weight-decay": wanted.decays}
        self.results = Results(wanted.out, KEY)
        self.grid = Grid(wanted.out, program)
        self.plans = [self.plan(data, model, *line, seed) for data in wanted.sets for model in wanted.models
                      for line in self.lines() for seed in wanted.seeds]
        for plan in self.plans:
            candidates = self.candidates(plan)
            undecided = ("--budget",) + tuple(flag for flag in candidates[0] if len(candidates) > 1)
            Run(plan.folder, plan.options | candidates[0], undecided).check()

    def candidates(self, plan):
        """The settings to choose from: the same rates for all methods, thresholds for Tri-Accel."""
        tuned = dict(self.wanted.tune) if plan.row["method"] == "triaccel" else {}
        return combinations(self.rates | tuned)

    def lines(self):
        """(method, configuration, options that switch mechanisms off)."""
        everything = ABLATION["standard"]
        if self.wanted.table == "table2":
            lines = [("fp32" if name == "standard" else "triaccel", name, off) for name, off in ABLATION.items()]
            return [line for line in lines if line[0] in self.wanted.methods]
        return [(method, "", () if method == "triaccel" else everything) for method in self.wanted.methods]

    def plan(self, data, model, method, configuration, off, seed):
        large = model.endswith("-224")
        stem = "cifar" if model.endswith("-cifar") else "imagenet"
        name = model.removesuffix("-cifar").removesuffix("-224")
        # The budget is what FP32 took, to the byte: use it, and let steps that do not fit be redone.
        options = {"--rho-low": 0.94, "--rho-high": 0.97, **self.wanted.options, "--epochs": self.wanted.epochs,
                   "--model": name, "--stem": stem, "--data": data, "--method": method, "--seed": seed, "--batch": 96,
                   **{flag: "off" for flag in off}}
        if large:
            options |= {"--image-size": 64 if self.wanted.quick else 224, "--new-head": True}
        if self.wanted.quick:
            options |= {"--width": 4, "--train-samples": 480, "--control-interval": 2, "--curvature-every": 4,
                        "--kernels": "gemm"}
        if method != "triaccel":
            options = {flag: value for flag, value in options.items() if flag not in CONTROL_LOOP or value == "off"}
        row = {"table": self.wanted.table, "model": name, "stem": stem if model.startswith("resnet") else "", "data": data,
               "method": method, "configuration": configuration, "seed": seed, "epochs": self.wanted.epochs,
               "image_size": options["--image-size"] if large else None}
        group = "-".join(str(row[field]) for field in ("table", "model", "stem", "data")) + "".join(
            f"-{part}" for part in ("224" if large else "", method, configuration) if part)
        return Plan(row, options, group, self.wanted.out / "runs" / f"{group}-{seed}")

    def stages(self):
        """Weights to start from; FP32 before Tri-Accel, whose budget is a share of what FP32 took; trials before the rows whose
        settings they choose."""
        starts = {run.folder: run for run in map(self.pretraining, self.plans) if run}
        yield [(run.folder.name, run.options["--data"], lambda run=run: run.make(self.program)) for run in starts.values()]
        first = [plan for plan in self.plans if plan.row["method"] != "triaccel"]
        last = [plan for plan in self.plans if plan.row["method"] == "triaccel"]
        for plans in (first, last):
            yield lambda plans=plans: self.trials(plans)
            yield [(plan.folder.name, plan.row["data"], lambda plan=plan: self.make(plan)) for plan in plans]

    def pretraining(self, plan):
        """The run whose weights a row starts from, the same for all methods; None: from none."""
        if "--new-head" not in plan.options:
            return None
        data = OTHER_SET[plan.row["data"]]
        kept = {flag: value for flag, value in plan.options.items()
                if flag not in CONTROL_LOOP and flag not in ("--new-head", "--budget", *SET_BY_TABLE)}
        return Run(self.wanted.out / "runs" / f"pretrained-{plan.row['model']}-{data}",
                   scaled(kept | {"--model": plan.row["model"], "--data": data, "--method": "triaccel", "--seed": 1, "--batch": 96,
                                  "--lr": self.wanted.rates[0], "--weight-decay": self.wanted.decays[0]},
                          self.wanted.pretrain_epochs))

    def trials(self, plans):
        rows = []
        for group, plan in {plan.group: plan for plan in reversed(plans)}.items():
            try:
                rows += self.grid.rows(group, plan.row["data"], self.trial_options(plan), self.candidates(plan))
            except RowFailed:  # its rows will say so
                continue
        return rows

    def trial_options(self, plan):
        samples = int(plan.options.get("--train-samples", 0))
        options = scaled(self.started(plan), self.wanted.grid_epochs)
        return options | {"--val-split": min(HELD_OUT, samples // 6) if samples > 0 else HELD_OUT}

    def started(self, plan):
        """Its options, with the weights it starts from and the budget."""
        before = self.pretraining(plan)
        return self.limited(plan) | ({"--init-from": before.weights()} if before else {})

    def limited(self, plan):
        """Tri-Accel trains within a share of what FP32 took."""
        if plan.row["method"] != "triaccel" or "--budget" in plan.options:
            return plan.options
        same = [other for other in self.plans if other.row["method"] == "fp32"
                and all(other.row.get(field) == plan.row.get(field) for field in COMPARED)]
        recorded = [row for row in self.results.rows if row["method"] == "fp32"
                    and all(row.get(field) == plan.row.get(field) for field in COMPARED)]
        if not recorded and same:
            raise RowFailed("its budget is what FP32 took, and FP32 has failed")
        if not recorded:
            raise UsageError(f"--methods: {plan.folder.name}: its budget is what FP32 took, and there is no such row; name fp32 "
                             "before triaccel, or give --budget")
        # Of the same seed or, where there is none, of the lowest.
        fp32 = min(recorded, key=lambda row: (row["seed"] != plan.row["seed"], row["seed"]))
        folder = plan.folder.with_name(plan.folder.name.replace(
            "-".join(filter(None, (plan.row["method"], plan.row["configuration"], str(plan.row["seed"])))),
            "-".join(filter(None, ("fp32", fp32["configuration"], str(fp32["seed"]))))))
        summary = Run(folder, {}).summary()
        # A GPU's data set may go to host memory; on a CPU it stays where it is.
        fixed = summary["data_bytes"] if summary.get("device_type") == "cpu" else 0
        return plan.options | {"--budget": int(self.wanted.budget_share * (summary["peak_reserved_bytes"] - fixed)) + fixed}

    def make(self, plan):
        options = self.started(plan) | self.grid.chosen(plan.group, self.trial_options(plan), self.candidates(plan))
        run = Run(plan.folder, options)
        was_done = run.summary() is not None
        if not was_done:
            say(f"{plan.folder.name}: lr {options['--lr']:g}, weight decay {options['--weight-decay']:g}, budget "
                f"{options.get('--budget', 'none')}")
        summary = run.make(self.program)
        known = self.results.find(plan.row)
        row = known if was_done and known else plan.row | self.measured(summary, options) | {"epoch_scores": epoch_scores(run)}
        if self.wanted.timing_epochs > 0:
            self.time_alone(row, options, plan)
        if row != known:
            self.results.record(row)

    def measured(self, summary, options):
        megabytes = lambda key: summary[key] / 1e6
        return {"accuracy": summary["accuracy"], "seconds_per_epoch": summary["seconds_per_epoch"],
                "peak_allocated_mb": megabytes("peak_bytes"), "peak_reserved_mb": megabytes("peak_reserved_bytes"),
                "score": score(summary["accuracy"], summary["seconds_per_epoch"], 1e6 * megabytes("peak_reserved_bytes")),
                "commit": summary["commit"], "device": summary["device"], "batch_final": summary["batch_final"],
                "learning_rate": options["--lr"], "weight_decay": options["--weight-decay"], "timed": not self.wanted.shared,
                "tuned": ", ".join(f"{flag} {options[flag]:g}" for flag, _ in self.wanted.tune if flag in options)}

    def time_alone(self, row, options, plan):
        """Seconds and memory from a short run that has the machine to itself."""
        folder = plan.folder.with_name(plan.folder.name + "-timing")
        options = scaled(options, self.wanted.timing_epochs)
        timing = self.measured(Run(folder, options).make(self.program), options)
        for key in ("peak_allocated_mb", "peak_reserved_mb"):
            row[key] = max(row[key], timing[key])
        row["seconds_per_epoch"], row["timed"] = timing["seconds_per_epoch"], True
        row["score"] = score(row["accuracy"], row["seconds_per_epoch"], 1e6 * row["peak_reserved_mb"])

    def page(self):
        """Its name, the page, and the rows that it shows."""
        rows = [row for row in self.results.rows if row["table"] == self.wanted.table]
        return self.wanted.table, page_of(rows, self.wanted.table), rows


@dataclasses.dataclass
class Plan:
    row: dict
    options: dict
    group: str  # its name without the seed
    folder: object


@dataclasses.dataclass
class Line:
    """A method, or a configuration of the ablation, over all its seeds."""
    method: str
    configuration: str
    paper: Figure = None
    rows: list = dataclasses.field(default_factory=list)

    def spread(self, key, timed=False):
        return Spread.of([row[key] for row in self.rows if row["timed"] or not timed])

    @property
    def label(self):
        return self.configuration or self.method

    @property
    def seeds(self):
        return len(self.rows)

    @property
    def folder(self):
        """Of the run of the lowest seed."""
        row = min(self.rows, key=lambda row: row["seed"])
        return "-".join([row["table"], row["model"], row["stem"], row["data"]] + ["224"] * bool(row.get("image_size"))
                        + [row["method"]] + [row["configuration"]] * bool(row["configuration"]) + [str(row["seed"])])

    @property
    def epochs_text(self):
        """How its score changes over the epochs, in runs that had the machine to themselves; "" where that is not known."""
        timed = [row["epoch_scores"] for row in self.rows if row["timed"] and len(row.get("epoch_scores", [])) > 1]
        if not timed:
            return ""
        return (f"Score of {self.label} by epoch: {Spread.of([scores[0] for scores in timed]).text(1)} in the first, "
                f"{Spread.of([scores[-1] for scores in timed]).text(1)} in the last")

    @property
    def is_baseline(self):
        return self.configuration == "standard" if self.configuration else self.method in ("fp32", "amp")


@dataclasses.dataclass
class Group:
    """One network on one data set: what is compared with each other."""
    model: str
    stem: str
    image_size: int  # None: the data set's own
    data: str
    epochs: float
    lines: list

    @property
    def title(self):
        size = f", {self.image_size} px, pre-trained on {OTHER_SET[self.data]}" if self.image_size else ""
        return f"{self.model}{f' ({self.stem} stem)' if self.stem else ''} on {self.data}{size}, {self.epochs:g} epochs"


def table_groups(rows, table):
    """By network, stem, image size, data and epochs in the order they first appear; the paper's lines in its order, then others."""
    groups = []
    key_of = lambda row: tuple(row.get(field) for field in COMPARED[1:])
    for key in dict.fromkeys(map(key_of, rows)):
        lines = {(figure.method, figure.configuration): Line(figure.method, figure.configuration, figure)
                 for figure in TRI_ACCEL[table] if (figure.model, figure.data) == (key[0], key[3])}
        for row in rows:
            if key_of(row) == key:
                name = (row["method"], row["configuration"])
                lines.setdefault(name, Line(*name)).rows.append(row)
        groups.append(Group(*key, list(lines.values())))
    return groups


def page_of(rows, table):
    groups = table_groups(rows, table)
    sections = []
    for group in groups:
        cells = comparison(group) if table == "table1" else ablation(group)
        links = [(line.label, f"runs/{line.folder}/report.html") for line in group.lines if line.seeds]
        findings = [gain.text() for gain in gains(group)] + [line.epochs_text for line in group.lines if line.epochs_text]
        sections.append(Section(group.title, [cells], findings, links))
    return Page(TITLES[table], sections, notes(rows, groups, table))


def comparison(group):
    table = Table(["method", "seeds", "accuracy %", "s/epoch", "reserved MB", "allocated MB", "score", "paper: %", "s/epoch",
                   "MB", "score"])
    for line in group.lines:
        paper = line.paper or Figure("", "", "", "")
        table.rows.append([line.label, str(line.seeds or "-"), line.spread("accuracy").text(2),
                           line.spread("seconds_per_epoch", timed=True).text(), line.spread("peak_reserved_mb").text(1),
                           line.spread("peak_allocated_mb").text(1), line.spread("score", timed=True).text(),
                           number(paper.accuracy, 1), number(paper.seconds_per_epoch, 1), number(1000 * paper.gigabytes, 0),
                           number(paper.score, 2)])
    return table


def ablation(group):
    table = Table(["configuration", "seeds", "reserved MB", "less %", "allocated MB", "accuracy %", "s/epoch", "score",
                   "paper: MB", "less %", "by its MB"])
    standard = next((line for line in group.lines if line.configuration == "standard"), None)
    for line in group.lines:
        paper = line.paper or Figure("", "", "", "")
        ours = theirs = NAN
        if standard is not None and line is not standard:
            ours = 100 * (1 - ratio(line.spread("peak_reserved_mb").mean, standard.spread("peak_reserved_mb").mean))
            if standard.paper is not None:
                theirs = 100 * (1 - ratio(paper.gigabytes, standard.paper.gigabytes))
        table.rows.append([line.label, str(line.seeds or "-"), line.spread("peak_reserved_mb").text(1), number(ours, 1),
                           line.spread("peak_allocated_mb").text(1), line.spread("accuracy").text(2),
                           line.spread("seconds_per_epoch", timed=True).text(), line.spread("score", timed=True).text(),
                           number(1000 * paper.gigabytes, 0), number(paper.reduction, 1), number(theirs, 1)])
    return table


@dataclasses.dataclass
class Gain:
    """How one line differs from another: points of accuracy, % of the rest; NaN where a side is not known."""
    of: str
    over: str
    ours: tuple
    paper: tuple = None

    def text(self):
        out = f"{self.of} over {self.over}: {self.numbers(self.ours)}"
        return out + (f"; in the paper: {self.numbers(self.paper)}" if self.paper else "")

    @staticmethod
    def numbers(gain):
        shown = zip(("accuracy", "time", "memory", "score"), gain, (2, 1, 1, 1), (" points", " %", " %", " %"))
        known = [f"{name} {signed(value, decimals, unit)}" for name, value, decimals, unit in shown if value == value]
        return ", ".join(known) or "nothing to compare"


def gains(group):
    """Each method of ours over FP32 and over AMP; each configuration over standard training."""
    def difference(of, over):
        return (of[0] - over[0], *(100 * (ratio(a, b) - 1) for a, b in zip(of[1:], over[1:])))

    ours = lambda line: (line.spread("accuracy").mean, line.spread("seconds_per_epoch", timed=True).mean,
                         line.spread("peak_reserved_mb").mean, line.spread("score", timed=True).mean)
    theirs = lambda line: (line.paper.accuracy, line.paper.seconds_per_epoch, line.paper.gigabytes, line.paper.score)
    return [Gain(of.label, over.label, difference(ours(of), ours(over)),
                 difference(theirs(of), theirs(over)) if of.paper and over.paper else None)
            for of in group.lines for over in group.lines
            if not of.is_baseline and over.is_baseline and of.seeds and over.seeds]


def notes(rows, groups, table):
    out = ["Mean ± standard deviation over seeds. Memory is the peak, data set included where the device holds it; "
           "1 MB = 1e6 bytes; score = accuracy % / (s/epoch × GB reserved).",
           "The paper's figures are as printed, from its own hardware; it gives no spread."]
    if table == "table2":
        out.append("The paper's printed reductions do not all follow from its memory column; the last column does.")
    if untimed := sum(not row["timed"] for row in rows):
        out.append(f"Time and score of {untimed} run(s) that shared the machine with others do not count.")
    made = {(group.model, group.data) for group in groups}
    missing = dict.fromkeys(f"{figure.model} on {figure.data}" for figure in TRI_ACCEL[table]
                            if (figure.model, figure.data) not in made)
    if missing:
        out.append("Not run: " + ", ".join(missing) + ".")
    devices = dict.fromkeys(row["device"] for row in rows)
    return out + (["Device: " + " · ".join(devices) + "."] if devices else [])
