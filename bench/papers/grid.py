"""Chooses options, as learning rates, by the accuracy on training samples that were held out."""
import itertools

from rows import NUMERICAL, Results, RowFailed, Run, as_arguments, say, write_file

HELD_OUT = 5000  # training samples


def combinations(options):
    """{"--lr": [0.1, 0.2]} as [{"--lr": 0.1}, {"--lr": 0.2}]; one empty choice where there is nothing to choose."""
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


def scaled(options, epochs):
    """The same run at another length; the warm-up keeps its share."""
    changed = options | {"--epochs": epochs}
    if float(options.get("--warmup-epochs", 0)) > 0:
        changed["--warmup-epochs"] = float(options["--warmup-epochs"]) * epochs / float(options["--epochs"])
    return changed


class Grid:
    """Trials below OUT/grid; all runs of a group share one choice, which grid.json records."""

    def __init__(self, out, program):
        self.out = out
        self.program = program

    def trial(self, group, options, candidate):
        name = "-".join(flag.lstrip("-") + value for flag, value in zip(candidate, as_arguments(candidate)[1::2]))
        # Rows of other seeds have slightly other budgets; trials are run under the first one's.
        return Run(self.out / "grid" / group / name, options | candidate | {"--seed": 1}, undecided=("--budget",))

    def make(self, trial):
        """Trains a candidate; one that diverges loses, and is not tried again."""
        diverged = trial.folder.with_name(trial.folder.name + ".diverged.txt")
        trial.check()
        if diverged.exists():
            return
        try:
            trial.make(self.program)
        except RowFailed as failure:
            if failure.code != NUMERICAL:
                raise
            say(f"{trial.folder}: {failure}")
            write_file(diverged, f"{failure}\n")

    def rows(self, group, data, options, candidates):
        """The trials of a group, for run_stages; none where there is nothing to choose."""
        if len(candidates) == 1:
            return []
        trials = [self.trial(group, options, candidate) for candidate in candidates]
        return [(f"trial {group}/{trial.folder.name}", data, lambda trial=trial: self.make(trial)) for trial in trials]

    def chosen(self, group, options, candidates):
        """The candidate with the highest accuracy on held-out samples, after its trials."""
        if len(candidates) == 1:
            return candidates[0]
        points = []
        for candidate in candidates:
            trial = self.trial(group, options, candidate)
            self.make(trial)
            summary = trial.summary()
            diverged = trial.folder.with_name(trial.folder.name + ".diverged.txt").exists()
            points.append(candidate | {"accuracy": None if diverged or not summary else summary["best_accuracy"]})
        known = [i for i, point in enumerate(points) if point["accuracy"] is not None]
        if not known:
            raise RowFailed(f"{group}: none of the settings to choose from trains; give smaller ones", NUMERICAL)
        best = candidates[max(known, key=lambda i: points[i]["accuracy"])]
        Results(self.out, ("group",), "grid.json").record({"group": group, **best, "points": points})
        return best
