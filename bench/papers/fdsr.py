"""FDSR: compressed activations against FP32, AMP and other systems' codecs, in bytes, speed, accuracy and gradients."""
import dataclasses
import json
import math

from paper_figures import FDSR as PAPER
from rows import Results, Run, UsageError, as_arguments, say, write_file
from tables import NAN, Page, Section, Spread, Table, number, ratio

KEY = ("model", "image_size", "batch", "codec", "data", "epochs", "seed", "target_ratio")
GROUP = ("model", "image_size", "batch", "data", "epochs", "device")
FIELDS = ("model", "image_size", "batch", "codec", "held_ratio", "peak_ratio", "accuracy", "accuracy_drop",
          "throughput_ratio_to_fp32", "commit", "data", "epochs", "seed", "target_ratio", "training_ratio", "held_bytes",
          "fp32_bytes", "peak_bytes", "reserved_bytes", "reserved_ratio", "budget_bytes", "largest_batch", "samples_per_second",
          "timed", "gradient_error", "gradient_bias", "gradient_cosine", "device")
OTHERS = ("bf16", "gact", "actnn", "division")  # registered by the program triaccel_baselines
CODECS = ("fdsr", "lossless", "fp32", "amp", *OTHERS)  # in the order of the table
FIRST_RATIO = 10.2  # of --activation-ratio
OWN_PIXELS = 32  # of the data sets that rows are trained on
TRAINED_PIXELS = (OWN_PIXELS, 64)  # rows of other sizes are measured on synthetic images, not trained
SET_BY_TABLE = {
    "--method": "use --codecs, of which fp32 and amp are methods", "--activations": "use --codecs", "--model": "use --rows",
    "--stem": "give it with the network: --rows resnet18-cifar@32/128", "--data": "use --sets", "--seed": "use --seeds",
    "--image-size": "give it with the network: --rows resnet50@224/64", "--steps": "use --epochs",
    "--batch": "give it with the network: --rows resnet50@224/64",
    "--budget": "the budget of the largest batch is what FP32 took", "--init-from": "every row starts from initial weights",
    "--name": "runs are named by their rows, below --out"}


def add_options(parser, listed):
    parser.add_argument("--rows", type=listed(str), help="network@pixels/batch; those of 32 and 64 pixels are trained")
    parser.add_argument("--sets", type=listed(str), default=["cifar10"], help="data sets to train on")
    parser.add_argument("--codecs", type=listed(str), default=["fp32", "amp", "fdsr", "lossless", *OTHERS], help="codecs to measure")
    parser.add_argument("--trained", type=listed(str), default=["fp32", "fdsr"],
                        help="codecs to train with, for accuracy and gradient error")
    parser.add_argument("--epochs", type=float, default=30.0)
    parser.add_argument("--timings", type=int, default=10, help="number of timings of a step")
    parser.add_argument("--draws", type=int, default=16, help="number of random rounding offsets for the gradient error")
    parser.add_argument("--no-largest-batch", action="store_true",
                        help="skip the search for the largest batch in the memory that FP32 takes")
    parser.add_argument("--baselines", help="the program with other systems' codecs (next to --triaccel: triaccel_baselines)")
    parser.set_defaults(out="runs/reproduce-fdsr", command=Fdsr, set_by_table=SET_BY_TABLE)


ROWS = ["resnet18-cifar@32/128", "resnet18@32/128", "efficientnet-b0@32/128", "resnet50@224/256", "vgg16-bn@224/32",
        "densenet121@224/32", "efficientnet-b0@224/32", "vit-small@224/32"]


def network_row(given):
    """"resnet18-cifar@32/128": network with its stem, pixels per side, batch."""
    name, at, rest = given.partition("@")
    pixels, slash, batch = rest.partition("/")
    if not (name and at and slash and pixels.isdigit() and batch.isdigit() and int(pixels) > 0 and int(batch) > 0):
        raise UsageError(f"--rows: '{given}' should be network@pixels/batch, as resnet50@224/64")
    return name, int(pixels), int(batch)


def saved_name(network, codec, target):
    """Folder of the bit widths of every tensor, or a run without its seed; target 0: auto."""
    ratio = "" if target is None else "-auto" if target == 0 else f"-{target:g}x"
    return f"{network}-{codec}{ratio}"


@dataclasses.dataclass
class Plan:
    row: dict  # what names it
    options: dict
    trained: bool
    out: object

    @property
    def codec(self):
        return self.row["codec"]

    @property
    def network(self):
        return "{model}-{image_size}px-batch{batch}-{data}".format(**self.row)

    @property
    def name(self):
        return f"{saved_name(self.network, self.codec, self.row['target_ratio'])}-{self.row['seed']}"

    @property
    def run(self):
        return Run(self.out / "runs" / self.name, self.options)


class Fdsr:
    def __init__(self, wanted, program):
        self.wanted, self.program = wanted, program
        self.baselines = type(program)(wanted.baselines or program.path.with_name("triaccel_baselines"))
        program.others.append(self.baselines)
        for flag, codecs in (("--codecs", wanted.codecs), ("--trained", wanted.trained)):
            for codec in codecs:
                if codec not in CODECS:
                    raise UsageError(f"{flag}: unknown codec '{codec}'; there are {', '.join(CODECS)}")
        if wanted.timings < 1 or wanted.draws < 2:
            raise UsageError("--timings must be at least 1, and --draws at least 2")
        if wanted.quick:
            wanted.epochs = min(wanted.epochs, 1.0)
        wanted.rows = wanted.rows or (["resnet18-cifar@32/16"] if wanted.quick else ROWS)
        self.results = Results(wanted.out, KEY)
        self.plans = [plan for given in wanted.rows for plan in self.plans_of(*network_row(given))]
        for plan in self.plans:
            if plan.trained:
                plan.run.check()

    @property
    def ratio(self):
        """0: auto, which every run finds by itself."""
        given = self.wanted.options.get("--activation-ratio", FIRST_RATIO)
        return 0.0 if given == "auto" else float(given)

    def plans_of(self, model, pixels, batch):
        """FP32's before those that are measured against it."""
        wanted, trains = self.wanted, pixels in TRAINED_PIXELS
        for data in wanted.sets if trains else ["synthetic"]:
            for codec in dict.fromkeys(["fp32", *wanted.codecs]):
                trained = trains and codec in wanted.trained
                for seed in wanted.seeds if trained else wanted.seeds[:1]:
                    target = self.ratio if codec == "fdsr" else None
                    row = {"model": model, "image_size": pixels, "batch": batch, "codec": codec, "data": data,
                           "epochs": wanted.epochs if trains else 0.0, "seed": seed, "target_ratio": target}
                    yield Plan(row, self.options(row), trained, wanted.out)

    def options(self, row):
        stem = "cifar" if row["model"].endswith("-cifar") else "imagenet"
        kept = {"fdsr": "compressed", "fp32": "raw", "amp": "raw"}.get(row["codec"], row["codec"])
        options = {**self.wanted.options, "--epochs": self.wanted.epochs, "--model": row["model"].removesuffix("-cifar"),
                   "--stem": stem, "--data": row["data"], "--method": "amp" if row["codec"] == "amp" else "fp32",
                   "--image-size": 0 if row["image_size"] == OWN_PIXELS else row["image_size"], "--batch": row["batch"],
                   "--seed": row["seed"], "--activations": kept}
        if kept != "compressed":  # which is the only one they have an effect on
            options = {flag: value for flag, value in options.items() if not flag.startswith("--activation-")}
        if self.wanted.quick:
            options |= {"--width": 8, "--train-samples": 256, "--control-interval": 4}
        return options

    def program_for(self, codec):
        return self.baselines if codec in OTHERS else self.program

    def stages(self):
        for first in (True, False):
            yield [(plan.name, plan.row["data"], lambda plan=plan: self.make(plan)) for plan in self.plans
                   if (plan.codec == "fp32") == first]

    def recorded(self, plan, codec):
        """The row of the same network, settings and seed, of another codec; FP32's of the first seed where it has none."""
        same = [row for row in self.results.rows if row["codec"] == codec
                and all(row[field] == plan.row[field] for field in ("model", "image_size", "batch", "data", "epochs"))]
        return next((row for row in same if row["seed"] == plan.row["seed"]), None)

    def make(self, plan):
        row = self.results.find(plan.row) or dict.fromkeys(FIELDS) | plan.row | {"timed": not self.wanted.shared}
        before = dict(row)
        if row["samples_per_second"] is None:
            say(plan.name)
            self.measure(row, plan)
            self.results.record(row)
        seeks = not self.wanted.no_largest_batch and plan.row["seed"] == self.wanted.seeds[0]
        if seeks and row["largest_batch"] is None and row["budget_bytes"]:
            row["largest_batch"] = self.program_for(plan.codec).call(
                "bench", "largest-batch", *as_arguments(plan.options), "--budget", row["budget_bytes"], "--json")["largest_batch"]
            self.results.record(row)
        folder = self.wanted.out / "saved" / saved_name(plan.network, plan.codec, self.ratio)
        if plan.codec == "fdsr" and not (folder / "saved.html").exists():
            self.program.call("inspect", "--saved", *as_arguments(plan.options), "--bit-widths", folder, "--json")
        if plan.trained:
            self.train(row, plan)
        self.judge_gradients(row, plan)
        if row != before:
            self.results.record(row)

    def measure(self, row, plan):
        """Bytes and speed."""
        timing = self.program_for(plan.codec).call("bench", "step", *as_arguments(plan.options), "--samples",
                                                   self.wanted.timings, "--json")
        size = lambda key: round(1e6 * timing[key])
        row |= {"commit": timing["commit"], "device": timing["device"], "peak_bytes": size("allocated_mb"),
                "reserved_bytes": size("reserved_mb"), "samples_per_second": 1e3 * plan.row["batch"] / timing["ms"]}
        if "held_mb" in timing:
            row |= {"held_bytes": size("held_mb"), "fp32_bytes": size("fp32_mb"), "held_ratio": timing["held_ratio"]}
        if plan.codec == "fp32":  # what the device's allocator took, which may be more than what lies in tensors
            row |= {"held_ratio": 1.0, "budget_bytes": row["reserved_bytes"]}
        fp32 = row if plan.codec == "fp32" else self.recorded(plan, "fp32")
        if fp32 and fp32["samples_per_second"]:
            row |= {"peak_ratio": fp32["peak_bytes"] / row["peak_bytes"], "budget_bytes": fp32["budget_bytes"],
                    "reserved_ratio": ratio(fp32["reserved_bytes"], row["reserved_bytes"]),
                    "throughput_ratio_to_fp32": row["samples_per_second"] / fp32["samples_per_second"]}

    def train(self, row, plan):
        run = plan.run
        summary = run.make(self.program_for(plan.codec))
        row |= {"accuracy": summary["accuracy"], "commit": summary["commit"]}
        # Over all intervals of the run, in which accuracy may have lowered the ratio.
        saved = [record["saved"] for record in run.metrics("interval") if record.get("saved")]
        held = sum(each["held_bytes"] for each in saved)
        row["training_ratio"] = sum(each["fp32_bytes"] for each in saved) / held if held else None
        fp32 = row if plan.codec == "fp32" else self.recorded(plan, "fp32")
        if fp32 and fp32["accuracy"] is not None:
            row["accuracy_drop"] = fp32["accuracy"] - row["accuracy"]

    def judge_gradients(self, row, plan):
        """At the weights that FP32 of the same seed ended with."""
        kept = plan.options["--activations"]
        fp32 = Run(self.wanted.out / "runs" / f"{plan.network}-fp32-{plan.row['seed']}", {})
        if kept == "raw" or row["gradient_error"] is not None or fp32.summary() is None:
            return
        needs = self.program_for(plan.codec)
        asked = self.ratio or FIRST_RATIO
        file = self.wanted.out / "gradients" / f"{plan.network}-{plan.row['seed']}-{needs.path.name}-{asked}x{self.wanted.draws}.json"
        if not file.exists():
            judged = needs.call("inspect", fp32.folder, "--gradients", "--ratios", asked, "--samples", plan.row["batch"],
                                "--draws", self.wanted.draws, "--json")
            write_file(file, json.dumps(judged, indent=1) + "\n")
        # Of ours: as a run has it, bit widths by the noise of layers.
        best = next(each for each in json.loads(file.read_text()) if each["activations"] == kept
                    and (kept != "compressed" or each["by_layer"]))
        row |= {"gradient_error": best["error"], "gradient_bias": best["bias"], "gradient_cosine": best["cosine"]}

    def page(self):
        """Its name, the page, and the rows that it shows."""
        return "fdsr", page_of(self.results.rows, self.wanted.out), self.results.rows


class Line:
    """One codec on one network, over seeds."""

    def __init__(self, codec, target, rows):
        self.codec, self.target, self.rows = codec, target, rows
        self.label = codec if target is None else f"{codec}, {f'target {target:g}x' if target else 'auto'}"

    def spread(self, key):
        return Spread.of([row[key] for row in self.rows])

    @property
    def throughput(self):
        return Spread.of([row["throughput_ratio_to_fp32"] for row in self.rows if row["timed"]])

    @property
    def largest_batch(self):
        return max((row["largest_batch"] or 0 for row in self.rows), default=0)


class Group:
    """One network at one image size and batch, on one data set, for as many epochs, on one device."""

    def __init__(self, key, rows):
        self.key, self.rows = dict(zip(GROUP, key)), rows
        place = lambda line: (CODECS.index(line[0]), line[1] or -1)
        keys = sorted(dict.fromkeys((row["codec"], row["target_ratio"]) for row in rows), key=place)
        self.lines = [Line(codec, target, [row for row in rows if (row["codec"], row["target_ratio"]) == (codec, target)])
                      for codec, target in keys]

    @property
    def name(self):
        key = self.key
        epochs = f", {key['epochs']:g} epoch{'' if key['epochs'] == 1 else 's'}" if key["epochs"] else ""
        return f"{key['model']}, {key['image_size']} px, batch {key['batch']}, {key['data']}{epochs}"

    @property
    def title(self):
        return f"{self.name}, {self.key['device']}"

    def line(self, codec):
        return next((line for line in self.lines if line.codec == codec), None)

    def over_actnn(self, line):
        actnn = self.line("actnn")
        return ratio(line.throughput.mean, actnn.throughput.mean) if actnn else NAN

    def tables(self):
        table = Table(["codec", "held ratio", "in training", "peak ratio", "reserved ratio", "largest batch", "accuracy %", "drop",
                       "speed / FP32", "/ ActNN"])
        gradients = Table(["gradients", "held ratio", "error²", "bias²", "cosine"])
        for line in self.lines:
            table.rows.append([line.label, line.spread("held_ratio").text(2), line.spread("training_ratio").text(2),
                               line.spread("peak_ratio").text(2), line.spread("reserved_ratio").text(2),
                               str(line.largest_batch or "-"),
                               line.spread("accuracy").text(2), line.spread("accuracy_drop").text(2), line.throughput.text(3),
                               number(self.over_actnn(line), 3)])
            if line.spread("gradient_error").count:
                gradients.rows.append([line.label, line.spread("held_ratio").text(2), number(line.spread("gradient_error").mean, 5),
                                       number(line.spread("gradient_bias").mean, 5),
                                       number(line.spread("gradient_cosine").mean, 5)])
        return [table.without_empty_columns()] + ([gradients] if gradients.rows else [])


def groups_of(rows):
    return [Group(key, [row for row in rows if tuple(row[field] for field in GROUP) == key])
            for key in dict.fromkeys(tuple(row[field] for field in GROUP) for row in rows)]


def page_of(rows, out):
    """Links to what lies below the folder `out`."""
    groups = groups_of(rows)
    sections = [Section("What it shows", [], findings(groups)), *overviews(groups)] if rows else []
    for group in groups:
        network = "{model}-{image_size}px-batch{batch}-{data}".format(**group.rows[0])
        pages = [(line.label, f"saved/{saved_name(network, line.codec, line.target)}/saved.html")
                 for line in group.lines if line.codec == "fdsr"]
        links = [(f"Bit widths of every tensor: {label}", page) for label, page in pages if (out / page).exists()]
        sections.append(Section(group.title, group.tables(), links=links))
    return Page("FDSR: compressed activations, by codec", sections, notes(rows))


OVERVIEWS = (("Held bytes: how many times less than FP32", lambda line: line.spread("held_ratio"), 2),
             ("Peak of a step: how many times less than FP32", lambda line: line.spread("peak_ratio"), 2),
             ("Reserved memory: how many times less than FP32", lambda line: line.spread("reserved_ratio"), 2),
             ("Accuracy: points below FP32", lambda line: line.spread("accuracy_drop"), 2),
             ("Throughput over FP32's", lambda line: line.throughput, 3))


def overviews(groups):
    """A row per network, a column per codec."""
    one_device = len({group.key["device"] for group in groups}) == 1
    for title, figure, decimals in OVERVIEWS:
        codecs = list(dict.fromkeys(line.label for group in groups for line in group.lines if figure(line).count))
        table = Table(["network", *codecs])
        for group in groups:
            known = {line.label: figure(line).text(decimals) for line in group.lines if figure(line).count}
            if known:
                table.rows.append([group.name if one_device else group.title, *(known.get(codec, "-") for codec in codecs)])
        if table.rows:
            yield Section(title, [table])


def findings(groups):
    """What the groups say about the abstract's claims, one sentence each with the abstract's own figure behind it."""
    ours = [(group, group.line("fdsr")) for group in groups if group.line("fdsr")]
    best = lambda values: max(((value, group.key["model"]) for value, group in values if math.isfinite(value)), default=None)

    def over_others(group, line):
        others = [other.spread("held_ratio").mean for other in group.lines if other.codec in OTHERS]
        return ratio(line.spread("held_ratio").mean, max((each for each in others if math.isfinite(each)), default=None))

    out = []
    held = Spread.of([line.spread("held_ratio").mean for _, line in ours])
    if held.count:
        out.append(f"Held bytes: {held.mean:.2f} times less than FP32 on average over {held.count} measured networks (abstract: "
                   f"{PAPER['held_ratio']}).")
    if memory := best((over_others(group, line), group) for group, line in ours):
        out.append(f"Against the best other codec in this repository: up to {memory[0]:.3f} times less, on {memory[1]} "
                   f"(abstract: {PAPER['held_ratio_to_others']}).")
    if peak := best((line.spread("peak_ratio").mean, group) for group, line in ours):
        out.append(f"Peak of a whole step: up to {peak[0]:.2f} times less than FP32's, on {peak[1]}.")
    drop = Spread.of([line.spread("accuracy_drop").mean for _, line in ours])
    if drop.count:
        out.append(f"Accuracy: {drop.mean:.2f} points below FP32 on average over {drop.count} (abstract: "
                   f"{PAPER['accuracy_drop']}).")
    if speed := best((group.over_actnn(line), group) for group, line in ours):
        out.append(f"Throughput: up to {speed[0]:.3f} times that of ActNN's codec, on {speed[1]} (abstract: "
                   f"{PAPER['throughput_to_others']}).")
    return out


def notes(rows):
    out = ["Held bytes are those kept between forward and backward, in the first step; ratios are over what FP32 saves with every "
           "tensor once; masks, ranges and what stays raw are counted in. Mean ± standard deviation over seeds.",
           "Peak ratio: allocated at the peak of a whole step, weights, gradients and optimizer counted in, FP32's over this "
           "one's. Largest batch: in the memory that FP32 takes for its own.",
           "error², bias², cosine: of gradients at the weights FP32 has trained, against exact ones; noise has no part in the "
           "bias, which may come out below 0.",
           "actnn, gact, division: the quantizers of these systems, reimplemented here; bf16: rounded."]
    if untimed := sum(not row["timed"] for row in rows):
        out.append(f"The speed of {untimed} run(s) that shared the machine with others does not count.")
    return out
