"""Rows of a table: each is one or more processes of the program, recorded once and never made twice."""
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

USAGE, DATA, LOCKED, NUMERICAL = 2, 3, 4, 7  # exit codes of the program
# Options that change where a run reads, writes or waits, and not what it computes.
NOT_COMPARED = {"--data-root", "--init-from", "--kernels", "--checkpoint-every", "--keep", "--watchdog-seconds"}


class UsageError(Exception):
    """A mistake of the user: ends the command."""


class RowFailed(Exception):
    """A row that cannot be made: the others are."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


class Interrupted(Exception):
    """The user stopped the command."""


def as_arguments(options):
    """{"--lr": 0.1, "--augment": False} as the program takes them."""
    return [part for flag, value in options.items()
            for part in (flag, str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float)
                         else str(value))]


class Program:
    """Starts the program, tells its processes to stop when the user does, and reads what they print."""

    def __init__(self, path):
        self.path = pathlib.Path(path).absolute()
        self.others = []  # programs that stop with it
        self.running = set()
        self.lock = threading.RLock()  # a signal may come while it is held
        self.stopped = False

    def call(self, *arguments):
        """What the command prints as JSON on its last line. Raises RowFailed with the program's own message."""
        with self.lock:
            if self.stopped:
                raise Interrupted
            try:
                process = subprocess.Popen([self.path, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True, start_new_session=True)
            except OSError as error:
                raise UsageError(f"cannot start {self.path}: {error.strerror}; build it, or name it with --triaccel") from error
            self.running.add(process)
            if self.stopped:
                process.terminate()
        output, errors = process.communicate()
        with self.lock:
            self.running.discard(process)
        if self.stopped:
            raise Interrupted
        if process.returncode != 0:
            lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
            message = next((line for line in lines if line.startswith("triaccel: ")), lines[-1])
            raise RowFailed(message.removeprefix("triaccel: "), process.returncode)
        return json.loads(output.splitlines()[-1]) if output.strip() else {}

    def stop(self):
        """A run that is told to stop saves itself first."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()
        for other in self.others:
            other.stop()


@dataclasses.dataclass
class Run:
    """One training run in a folder of its own, made, resumed, or taken as it is when it is done."""
    folder: pathlib.Path
    options: dict
    undecided: tuple = ()  # options that may differ from those of the stored run

    @property
    def options_file(self):
        return self.folder.with_name(self.folder.name + ".options.json")

    def summary(self):
        """Of a finished run; None otherwise."""
        file = self.folder / "summary.json"
        summary = json.loads(file.read_text()) if file.exists() else {"status": "running"}
        return summary if summary["status"] in ("finished", "stopped early") else None

    def check(self):
        """Refuses a folder that holds a run of other options."""
        if not self.options_file.exists():
            return
        stored = json.loads(self.options_file.read_text())
        wanted = {flag: as_arguments({flag: value})[1] for flag, value in self.options.items()}
        for flag in sorted(stored.keys() | wanted.keys()):
            if flag not in NOT_COMPARED and flag not in self.undecided and stored.get(flag) != wanted.get(flag):
                raise UsageError(f"'{self.folder}' holds a run with {flag} {stored.get(flag, '(not given)')}, not "
                                 f"{wanted.get(flag, '(not given)')}; choose another --out, or delete that folder")

    def make(self, program):
        """Its summary. Raises RowFailed, also when the trained network gives no finite loss."""
        self.check()
        summary = self.summary()
        if summary is None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.options_file, json.dumps({flag: as_arguments({flag: value})[1]
                                                      for flag, value in self.options.items()}, indent=1) + "\n")
            summary = self._train(program)
        self._require_whole_evaluations()
        return summary

    def _train(self, program):
        for waits in range(1 << 30):
            if (summary := self.summary()) is not None:
                return summary
            begun = (self.folder / "config.toml").exists()
            try:
                if begun:
                    return program.call("resume", self.folder, "--json", "--quiet")
                return program.call("train", *as_arguments(self.options), "--out", self.folder, "--json", "--quiet")
            except RowFailed as failure:
                begun_meanwhile = not begun and failure.code == USAGE and (self.folder / "config.toml").exists()
                if failure.code != LOCKED and not begun_meanwhile:
                    raise
            if waits == 0:
                say(f"{self.folder}: another process trains this run; waiting for it")
            time.sleep(1)

    def metrics(self, kind):
        with contextlib.suppress(FileNotFoundError):
            for line in (self.folder / "metrics.jsonl").read_text().splitlines():
                record = json.loads(line)
                if record.get("kind") == kind:
                    yield record

    def _require_whole_evaluations(self):
        """An evaluation leaves out batches whose loss is not finite: its accuracy would be of fewer samples, or of none."""
        last = {record["split"]: record["samples"] for record in self.metrics("evaluation")}
        held_out = int(self.options.get("--val-split", 0))
        if last.get("test") == 0 or last.get("validation", held_out) < held_out:
            raise RowFailed(f"{self.folder}: the trained network gives losses that are not finite; give smaller --rates, "
                            "in another --out", NUMERICAL)

    def weights(self):
        """The file with the weights that a finished run ended with."""
        steps = sorted((self.folder / "checkpoints").glob("step-*/weights.safetensors"),
                       key=lambda file: int(file.parent.name.partition("-")[2]))
        whole = self.folder / "weights.safetensors"  # of a run in integers
        if not steps and not whole.exists():
            raise RowFailed(f"it starts from the weights of {self.folder.name}, which has none")
        return whole if whole.exists() else steps[-1]


class Results:
    """result.json: a list with one row per line. Processes that record into one folder wait for each other."""

    def __init__(self, folder, key, name="result.json"):
        self.file = folder / name
        self.key = key  # names of the fields that make two rows the same
        self.rows = self.read()
        self.thread_lock = threading.Lock()

    def read(self):
        try:
            rows = json.loads(self.file.read_text()) if self.file.exists() else []
        except json.JSONDecodeError:
            rows = None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UsageError(f"{self.file}: not a JSON list of rows; is the file damaged?")
        return rows

    def same(self, a, b):
        return all(a.get(field) == b.get(field) for field in self.key)

    def find(self, like):
        return next((row for row in self.rows if self.same(row, like)), None)

    def record(self, row):
        with self.thread_lock, folder_lock(self.file.parent):
            self.rows = self.read()
            places = [i for i, other in enumerate(self.rows) if self.same(other, row)]
            self.rows[places[0] if places else len(self.rows):places[0] + 1 if places else None] = [row]
            lines = ",\n ".join(json.dumps(each) for each in self.rows)
            write_file(self.file, f"[\n {lines}\n]\n")


class Failures:
    """Rows that could not be made. A data set that is missing is reported once, whatever rows want it."""

    def __init__(self):
        self.rows = []  # {"row", "code", "message"}
        self.missing = {}  # data set -> message
        self.skipped = 0
        self.lock = threading.Lock()

    @property
    def exit_code(self):
        return self.rows[0]["code"] if self.rows else 0

    @contextlib.contextmanager
    def guard(self, name, data):
        """For the work of one row; use skips() first."""
        try:
            yield
        except RowFailed as failure:
            with self.lock:
                if failure.code == DATA and data in self.missing:
                    self.skipped += 1
                    return
                if failure.code == DATA:
                    self.missing[data] = str(failure)
                    say(f"{data}: {failure}")
                else:
                    say(f"{name} failed: {failure}")
                self.rows.append({"row": data if failure.code == DATA else name, "code": failure.code,
                                  "message": str(failure)})

    def skips(self, data):
        with self.lock:
            self.skipped += data in self.missing
            return data in self.missing

    def notes(self):
        notes = [f"Failed: {row['row']}: {row['message']}" for row in self.rows]
        return notes + ([f"{self.skipped} more were not tried for the same reason."] if self.skipped else [])


def run_stages(stages, jobs, failures):
    """Makes rows stage by stage, `jobs` of a stage at a time. A row is (name, data set, function)."""
    def make(name, data, work):
        if failures.skips(data):
            return
        with failures.guard(name, data):
            work()

    for stage in stages:
        rows = stage() if callable(stage) else stage
        if jobs == 1:
            for row in rows:
                make(*row)
            continue
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(make, *row) for row in rows]):
                done.result()


@contextlib.contextmanager
def folder_lock(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_file(path, text):
    """All or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    unfinished.write_text(text)
    unfinished.replace(path)


def say(line):
    print(line, file=sys.stderr, flush=True)
