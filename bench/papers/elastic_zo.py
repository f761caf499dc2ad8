"""ElasticZO against zeroth order, its frozen control and backpropagation, in FP32 and in integers, trained and fine-tuned."""
import dataclasses

from grid import HELD_OUT, Grid, combinations, scaled
from paper_figures import ELASTIC_ZO as PAPER
from rows import Results, RowFailed, Run, UsageError, as_arguments, say
from tables import Page, Section, Spread, Table, ratio

KEY = ("model", "data", "rotation", "train_samples", "method", "number_format", "bp_layers", "seed", "epochs")
GROUP = ("model", "data", "rotation", "train_samples", "epochs")
SET_BY_TABLE = {
    "--method": "use --methods", "--model": "use --models", "--data": "use --sets", "--seed": "use --seeds",
    "--lr": "use --rates", "--zo-lr": "use --zo-rates", "--bp-layers": "give it with the method: --methods elasticzo-2",
    "--freeze-head": "give it as a method: --methods frozen-2", "--rotate": "use --rotations", "--int8-bits": "use --bits",
    "--int8-rate": "use --zo-exponents", "--move-boundary": "the rows have fixed boundaries",
    "--init-from": "fine-tuning starts from the rows trained on upright images",
    "--val-split": "samples are held out where learning rates are chosen", "--steps": "use --epochs",
    "--name": "runs are named by their rows, below --out"}
# What `--tuned` chooses from: as many tries for the control as for what it controls and for zeroth order alone, six in
# training and three in fine-tuning.
RATES, BITS = [0.003, 0.01, 0.02, 0.03, 0.06, 0.1], ["2-1", "3-1", "4-1", "5-1", "4-2", "5-2"]
TUNED = {
    ("fp32", False): {"zo": {"--zo-lr": [2e-5, 3e-5, 4.5e-5, 6e-5, 9e-5, 1.2e-4]},
                      "elasticzo": {"--lr": [0.01, 0.03, 0.06], "--zo-lr": [1e-5, 2e-5]},
                      "frozen": {"--lr": RATES}, "bp": {"--lr": RATES}},
    ("int8", False): {"zo": {"--int8-rate": ["3-7", "4-7", "4-8", "4-9", "5-7", "5-9"]},
                      "elasticzo": {"--int8-bits": ["3-1", "4-1", "5-1"], "--int8-rate": ["4-10", "4-12"]},
                      "frozen": {"--int8-bits": BITS}, "bp": {"--int8-bits": BITS}},
    ("fp32", True): {"zo": {"--zo-lr": [2e-5, 6e-5, 1.2e-4]},
                     **dict.fromkeys(("elasticzo", "frozen", "bp"), {"--lr": [0.003, 0.01, 0.03]})},
    ("int8", True): {"zo": {"--int8-rate": ["4-7", "5-7", "5-9"]},
                     **dict.fromkeys(("elasticzo", "frozen", "bp"), {"--int8-bits": ["2-1", "3-1", "4-1"]})}}


def add_options(parser, listed):
    parser.add_argument("--sets", type=listed(str), default=["mnist", "fashion-mnist"], help="data sets; also: modelnet40, for PointNet")
    parser.add_argument("--models", type=listed(str), default=["lenet5", "pointnet-plain"],
                        help="networks; INT8 trains lenet5 and pointnet-plain. Also: pointnet, with norms")
    parser.add_argument("--methods", type=listed(str), default=["bp", "zo", "frozen-1", "elasticzo-1", "frozen-2", "elasticzo-2"],
                        help="bp, zo, frozen-N or elasticzo-N, with N layers by backpropagation")
    parser.add_argument("--formats", type=listed(str), default=["fp32", "int8"])
    parser.add_argument("--epochs", type=float, default=8.0)
    parser.add_argument("--rotations", type=listed(float), default=[30.0, 45.0],
                        help="fine-tune on images rotated by these degrees, from the weights bp trained on upright ones")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-fine-tuning", action="store_true")
    only.add_argument("--only-fine-tuning", action="store_true", help="fine-tune what an earlier command trained in the same folder")
    parser.add_argument("--tuning-samples", type=int, default=1000)
    parser.add_argument("--tuning-epochs", type=float, default=50.0)
    parser.add_argument("--rates", type=listed(float), default=[0.01], help="FP32: learning rates of backpropagated layers")
    parser.add_argument("--zo-rates", type=listed(float), default=[],
                        help="FP32: learning rates of zeroth-order layers (default: the method's)")
    parser.add_argument("--bits", type=listed(str), default=[], help="INT8: bits of backpropagated updates to choose from, such as 4-1")
    parser.add_argument("--zo-exponents", type=listed(str), default=[],
                        help="INT8: step sizes 2^-N of zeroth-order layers to choose from, N such as 3-6")
    parser.add_argument("--tuned", action="store_true", help="choose from six settings per row, three in fine-tuning")
    parser.add_argument("--grid-epochs", type=float, default=2.0, help="epochs of each run that compares settings")
    parser.set_defaults(out="runs/reproduce-elasticzo", command=ElasticZo, set_by_table=SET_BY_TABLE)


def method_of(name):
    """"elasticzo-2" is method "elasticzo" with two layers by backpropagation."""
    method, _, layers = name.partition("-")
    if name in ("bp", "zo"):
        return name, 0
    if method not in ("frozen", "elasticzo") or not layers.isdigit() or not 1 <= int(layers) <= 9:
        raise UsageError(f"--methods: unknown method '{name}'; there are bp, zo, frozen-N and elasticzo-N, with N layers by "
                         "backpropagation")
    return method, int(layers)


@dataclasses.dataclass
class Plan:
    row: dict
    options: dict
    out: object

    @property
    def group(self):
        row = self.row
        turned = f"-rotated{row['rotation']:g}" if row["rotation"] else ""
        layers = str(row["bp_layers"]) if row["method"] in ("frozen", "elasticzo") else ""
        return f"{row['model']}-{row['data']}{turned}-{row['number_format']}-{row['method']}{layers}"

    @property
    def name(self):
        return f"{self.group}-{self.row['seed']}"

    @property
    def folder(self):
        return self.out / "runs" / self.name

    @property
    def pretrained(self):
        """The run whose weights fine-tuning starts from."""
        return Run(Plan(self.row | {"rotation": 0.0, "method": "bp"}, {}, self.out).folder, {})


class ElasticZo:
    def __init__(self, wanted, program):
        self.wanted, self.program = wanted, program
        for given, known, flag in ((wanted.formats, ("fp32", "int8"), "--formats"),
                                   (wanted.models, ("lenet5", "pointnet", "pointnet-plain"), "--models")):
            for name in given:
                if name not in known:
                    raise UsageError(f"{flag}: unknown '{name}'; there are {', '.join(known)}")
        if wanted.no_fine_tuning:
            wanted.rotations = []
        self.results = Results(wanted.out, KEY)
        self.grid = Grid(wanted.out, program)
        plans = {}
        for data in wanted.sets:
            for model in wanted.models:
                # PointNet takes point clouds; the integer one has no norms.
                if (data == "modelnet40") == model.startswith("pointnet"):
                    for number_format in wanted.formats:
                        if number_format == "fp32" or model != "pointnet":
                            self.add_plans(plans, model, data, number_format)
        self.plans = list(plans.values())
        if not self.plans:
            raise UsageError("--models: none of the networks takes any of the data sets, or there is nothing to fine-tune")

    def add_plans(self, plans, model, data, number_format):
        for name in self.wanted.methods:
            method, layers = method_of(name)
            for seed in self.wanted.seeds:
                row = {"model": model, "data": data, "method": method, "number_format": number_format, "seed": seed,
                       "bp_layers": (5 if model == "lenet5" else 8) if method == "bp" else layers}
                rotations = [] if data == "modelnet40" else self.wanted.rotations
                wanted = [] if self.wanted.only_fine_tuning else [row | {"rotation": 0.0}]
                if rotations and not self.wanted.only_fine_tuning:
                    wanted.append(row | {"rotation": 0.0, "method": "bp", "bp_layers": 5 if model == "lenet5" else 8})
                for each in wanted + [row | {"rotation": degrees} for degrees in rotations]:
                    plan = self.plan(each)
                    plans.setdefault(plan.name, plan)

    def plan(self, row):
        wanted, turned = self.wanted, row["rotation"] != 0
        epochs = 1.0 if wanted.quick else wanted.tuning_epochs if turned else wanted.epochs
        samples = 320 if wanted.quick else wanted.tuning_samples if turned else int(wanted.options.get("--train-samples", 0))
        # The same initial weights for every FP32 row of a seed; integers augment nothing, so neither does FP32.
        options = {"--init": "kaiming", **wanted.options, "--epochs": wanted.epochs}
        if row["data"] != "modelnet40":
            options = {"--augment": False, **options}
        options = scaled(options, epochs)
        options |= {"--model": row["model"], "--data": row["data"], "--rotate": row["rotation"], "--train-samples": samples,
                    "--seed": row["seed"]}
        if row["number_format"] == "int8":
            options |= {"--method": "elasticzo-int8", "--bp-layers": row["bp_layers"]}
            if options.get("--device") == "cuda":  # the CPU backpropagates through convolutions in integers
                options["--device"] = "auto"
        elif row["method"] in ("bp", "zo"):
            options["--method"] = "fp32" if row["method"] == "bp" else "zo"
        else:
            options |= {"--method": "elasticzo", "--bp-layers": row["bp_layers"]}
        if row["method"] == "frozen":
            options["--freeze-head"] = True
        if row["method"] == "bp" or row["number_format"] == "int8":  # the program refuses what has no effect
            options = {flag: value for flag, value in options.items() if not flag.startswith("--zo-")}
        fields = {"model": row["model"], "data": row["data"], "rotation": row["rotation"], "train_samples": samples,
                  "method": row["method"], "number_format": row["number_format"], "bp_layers": row["bp_layers"],
                  "seed": row["seed"], "epochs": epochs}
        return Plan(fields, options, wanted.out)

    def candidates(self, plan):
        """The settings that a row may choose from."""
        row, wanted = plan.row, self.wanted
        if wanted.tuned:
            return combinations(TUNED[row["number_format"], row["rotation"] != 0][row["method"]])
        options = {}
        fp32 = row["number_format"] == "fp32"
        if row["method"] != "zo" and (wanted.rates if fp32 else wanted.bits):
            options["--lr" if fp32 else "--int8-bits"] = wanted.rates if fp32 else wanted.bits
        if row["method"] in ("zo", "elasticzo") and (wanted.zo_rates if fp32 else wanted.zo_exponents):
            options["--zo-lr" if fp32 else "--int8-rate"] = wanted.zo_rates if fp32 else wanted.zo_exponents
        return combinations(options)

    def trial_options(self, plan):
        options = self.started(plan)
        if plan.row["rotation"] == 0 and not self.wanted.quick:  # a few steps of fine-tuning tell little: as long as the row
            options = scaled(options, self.wanted.grid_epochs)
        held_out = 64 if self.wanted.quick else 984 if plan.row["data"] == "modelnet40" else HELD_OUT
        return options | {"--val-split": held_out}

    def started(self, plan):
        return plan.options | ({"--init-from": plan.pretrained.weights()} if plan.row["rotation"] else {})

    def made_elsewhere(self, plan):
        """What fine-tuning starts from may be another command's, with choices of its own."""
        return (plan.row["method"] == "bp" and plan.row["rotation"] == 0 and "bp" not in self.wanted.methods
                and Run(plan.folder, {}).summary() is not None)

    def stages(self):
        """What is fine-tuned after what it starts from; trials before the rows whose settings they choose."""
        for turned in (False, True):
            plans = [plan for plan in self.plans if (plan.row["rotation"] != 0) == turned and not self.made_elsewhere(plan)]
            yield lambda plans=plans: self.trials(plans)
            yield [(plan.name, plan.row["data"], lambda plan=plan: self.make(plan)) for plan in plans]

    def trials(self, plans):
        rows = []
        for group, plan in {plan.group: plan for plan in reversed(plans)}.items():
            try:
                rows += self.grid.rows(group, plan.row["data"], self.trial_options(plan), self.candidates(plan))
            except RowFailed:  # its rows will say so
                continue
        return rows

    def make(self, plan):
        candidates = self.candidates(plan)
        first = next(other for other in self.plans if other.group == plan.group)
        chosen = candidates[0] if len(candidates) == 1 else self.grid.chosen(plan.group, self.trial_options(first), candidates)
        run = Run(plan.folder, self.started(plan) | chosen)
        was_done = run.summary() is not None
        if not was_done:
            say(plan.name)
        summary = run.make(self.program)
        known = self.results.find(plan.row)
        if was_done and known:
            return
        fp32 = plan.row["number_format"] == "fp32"
        row = plan.row | {
            "accuracy": summary["accuracy"], "accuracy_upright": None, "accuracy_before": None,
            "peak_bytes": summary["peak_bytes"] - summary["data_bytes"], "predicted_bytes": summary["predicted_bytes"],
            "seconds_per_epoch": summary["seconds_per_epoch"], "timed": not self.wanted.shared,
            "batch": summary["batch_final"], "learning_rate": chosen.get("--lr", 0) if fp32 else 0,
            "zo_rate": chosen.get("--zo-lr", 0) if fp32 else 0, "device": summary["device"], "commit": summary["commit"]}
        if plan.row["rotation"]:
            row["accuracy_upright"] = plan.pretrained.summary()["accuracy"]
            row["accuracy_before"] = self.before_tuning(plan)
        self.results.record(row)

    def before_tuning(self, plan):
        """The same for every method that starts from the same weights."""
        same = ("model", "data", "rotation", "train_samples", "number_format", "seed", "epochs")
        for row in self.results.rows:
            if row["accuracy_before"] is not None and all(row[field] == plan.row[field] for field in same):
                return row["accuracy_before"]
        return self.program.call("eval", *as_arguments(self.started(plan)), "--json")["accuracy"]

    def page(self):
        """Its name, the page, and the rows that it shows."""
        return "elasticzo", page_of(self.results.rows), self.results.rows


@dataclasses.dataclass
class Cell:
    """One method in one number format, over its seeds."""
    rows: list

    def spread(self, key, scale=1.0):
        return Spread.of([None if row[key] is None else row[key] * scale for row in self.rows])

    @property
    def seconds(self):
        return Spread.of([row["seconds_per_epoch"] for row in self.rows if row["timed"]])

    @property
    def megabytes(self):
        return self.spread("peak_bytes", 1e-6)

    def points_over(self, other):
        return self.spread("accuracy").mean - other.spread("accuracy").mean


class Group:
    def __init__(self, key, rows):
        self.key, self.rows = dict(zip(GROUP, key)), rows
        # From least to most by backpropagation, the control before what it controls.
        place = lambda line: {"zo": 0, "bp": 1000}.get(line[0], 2 * line[1] + (line[0] != "frozen"))
        self.lines = sorted(dict.fromkeys((row["method"], row["bp_layers"]) for row in rows), key=place)

    @property
    def title(self):
        key = self.key
        return (f"{key['model']} on {key['data']}" + (f" rotated by {key['rotation']:g}° (fine-tuning)" if key["rotation"] else "")
                + (f", {key['train_samples']} training samples" if key["train_samples"] else "") + f", {key['epochs']:g} epochs")

    def cell(self, line, number_format):
        return Cell([row for row in self.rows if (row["method"], row["bp_layers"]) == line
                     and row["number_format"] == number_format])

    @staticmethod
    def label(line):
        method, layers = line
        return method if method in ("zo", "bp") else f"{method}, {layers} BP layer{'' if layers == 1 else 's'}"

    def table(self):
        table = Table(["method"], [[self.label(line)] for line in self.lines])
        for number_format in ("fp32", "int8"):
            cells = [self.cell(line, number_format) for line in self.lines]
            if not any(cell.rows for cell in cells):
                continue
            table.header += [f"{number_format.upper()}: seeds", "accuracy %", "s/epoch", "peak MB"]
            for row, cell in zip(table.rows, cells):
                row += [str(len(cell.rows) or "-"), cell.spread("accuracy").text(2), cell.seconds.text(), cell.megabytes.text(3)]
        return table

    def findings(self):
        out = []
        for line in self.lines:
            if line[0] == "elasticzo":
                for number_format in ("fp32", "int8"):
                    out += self.comparisons(line, number_format)
        for line in self.lines:
            fp32, int8 = self.cell(line, "fp32"), self.cell(line, "int8")
            if fp32.rows and int8.rows:
                out.append(f"INT8 against FP32, {self.label(line)}: {int8.points_over(fp32):+.2f} points (abstract: "
                           f"{PAPER['int8_points']}), {ratio(fp32.megabytes.mean, int8.megabytes.mean):.2f} times less memory "
                           f"(abstract: {PAPER['int8_memory']})")
                faster = ratio(fp32.seconds.mean, int8.seconds.mean)
                if faster == faster:
                    out[-1] += f", {faster:.2f} times faster (abstract: {PAPER['int8_speed']})"
        return out + self.won_back()

    def comparisons(self, line, number_format):
        """ElasticZO against zeroth order, its control and backpropagation in one number format."""
        own = self.cell(line, number_format)
        if not own.rows:
            return []
        out, who = [], f"{number_format.upper()} {self.label(line)}"
        find = lambda method, layers=None: next((self.cell(other, number_format) for other in self.lines if other[0] == method
                                                 and layers in (None, other[1])), Cell([]))
        zo, frozen, bp = find("zo"), find("frozen", line[1]), find("bp")
        if zo.rows:
            more = 100 * (ratio(own.megabytes.mean, zo.megabytes.mean) - 1)
            out.append(f"{who} over zo: {own.points_over(zo):+.2f} points (abstract: {PAPER['points_over_zo']}), memory "
                       f"{more:+.3f} % (abstract: {PAPER['memory_over_zo']})")
        if frozen.rows:
            out.append(f"{who} over the same layers on frozen features: {own.points_over(frozen):+.2f} points")
        if bp.rows:
            out.append(f"{who} against backpropagation: {own.points_over(bp):+.2f} points")
        return out

    def won_back(self):
        out = []
        for line in self.lines:
            for number_format in ("fp32", "int8"):
                cell = self.cell(line, number_format)
                before, upright = cell.spread("accuracy_before").mean, cell.spread("accuracy_upright").mean
                if upright - before > 0:
                    share = 100 * (cell.spread("accuracy").mean - before) / (upright - before)
                    out.append(f"{number_format.upper()} {self.label(line)}: the rotation cost {upright - before:.2f} points "
                               f"({upright:.2f} to {before:.2f} %), {share:.0f} % of which were recovered")
        return out


def groups_of(rows):
    return [Group(key, [row for row in rows if tuple(row[field] for field in GROUP) == key])
            for key in dict.fromkeys(tuple(row[field] for field in GROUP) for row in rows)]


def page_of(rows):
    return Page("ElasticZO: zeroth order, backpropagation and both, in FP32 and in integers",
                [Section(group.title, [group.table()], group.findings()) for group in groups_of(rows)], notes(rows))


def notes(rows):
    out = ["Mean ± standard deviation over seeds; accuracy on the test set after the last epoch. Memory is the peak of a run "
           "less its data, 1 MB = 1e6 bytes: of libtorch's allocator in FP32, of the arena and the weights in INT8.",
           "frozen: the same layers by backpropagation while all others keep their random (in fine-tuning their pre-trained) "
           "weights: what is left of a gain over zo compared with it is what zeroth order adds.",
           "The ranges in brackets are the abstract's, over its own networks, data and devices."]
    if untimed := sum(not row["timed"] for row in rows):
        out.append(f"The time of {untimed} run(s) that shared the machine with others does not count.")
    devices = dict.fromkeys(row["device"] for row in rows)
    return out + (["Device: " + " · ".join(devices) + "."] if devices else [])
