"""The runs of bench/records: reading, selecting and averaging them, and whether the records are whole."""
import json
import operator
import re
import statistics
import subprocess

COMMIT = re.compile(r"(?:(?<=commit )|(?<=commits )|(?=[0-9]*[a-f])(?=[a-f]*[0-9]))\b[0-9a-f]{7,40}\b", re.IGNORECASE)  # in a text


class Problem(Exception):
    """What is wrong and what to try; the caller adds file and line."""


def entries(result):
    """The runs of a result.json that come from a clean tree: a list, or an object of objects (their names become "key")."""
    if isinstance(result, dict):
        nested = result and all(isinstance(value, dict) for value in result.values())
        result = [{"key": key, **value} for key, value in result.items()] if nested else [result]
    return [run for run in result if isinstance(run, dict) and re.fullmatch(r"[0-9a-f]{7,40}", run.get("commit", "0000000"))]


def show(value, spec):
    """A number as text: halves are rounded up, the minus is a real one."""
    text = format(value * (1 + 1e-12), spec or "g").rstrip(".")
    if not text.strip("+-0."):
        text = text.lstrip("+-")
    return text.replace("-", "−", 1) if text.startswith("-") else text


class Figures(list):
    """The values of a field, one per selected run. In arithmetic and in a table it is their mean."""

    def __init__(self, values, seeds, name):
        super().__init__(values)
        self.seeds, self.name = seeds, name

    def __float__(self):
        if len(self) > 1 and len(set(self.seeds) - {None}) < len(self):
            raise Problem(f"{self.name} selects {len(self)} runs that do not differ in their seed: add a condition")
        return statistics.fmean(self)

    def __format__(self, spec):
        text = show(float(self), spec.removeprefix("±"))
        return f"{text} ± {show(statistics.stdev(self), spec[1:])}" if spec.startswith("±") and len(self) > 1 else text


for sign in ("add", "sub", "mul", "truediv"):
    of = getattr(operator, sign)
    setattr(Figures, f"__{sign}__", lambda self, other, of=of: of(float(self), float(other)))
    setattr(Figures, f"__r{sign}__", lambda self, other, of=of: of(float(other), float(self)))


class Runs:
    """Some runs of a record. runs(method="fp32", seed=[1, 2], kernel="~regular expression") narrows them, runs.ms are their Figures."""

    def __init__(self, found, name, link):
        self._found, self._name, self._link = found, name, link

    def __call__(self, **conditions):
        def meets(value, wanted):
            if isinstance(wanted, (list, tuple)):
                return value in wanted
            if isinstance(wanted, str) and wanted.startswith("~"):
                return re.search(wanted[1:], str(value)) is not None
            return value == wanted
        found = [run for run in self._found if all(meets(run.get(key), wanted) for key, wanted in conditions.items())]
        return Runs(found, f"{self._name}({', '.join(f'{key}={wanted!r}' for key, wanted in conditions.items())})", self._link)

    def __len__(self):
        return len(self._found)

    def __add__(self, other):
        return Runs(self._found + other._found, f"({self._name} + {other._name})", self._link)

    def __getattr__(self, field):
        if field.startswith("_"):
            raise AttributeError(field)
        name = f"{self._name}.{field}"
        if not self._found:
            raise Problem(f"{self._name} selects no run of a clean tree: correct its conditions")
        seeds = [run.get("seed") for run in self._found]
        if field == "seeds":
            return ", ".join(map(str, sorted(seeds)))
        values = [run.get(field) for run in self._found]
        if None in values:
            raise Problem(f"{name}: not in all of the {len(values)} selected runs: correct the field or the conditions")
        if all(isinstance(value, list) for value in values):
            return Runs([inner for value in values for inner in value], name, self._link)
        if not isinstance(values[0], (int, float)):
            raise Problem(f"{name} is not a number: name another field")
        return Figures(values, seeds, name)

    def __format__(self, text):
        return f"[{text or 'record'}]({self._link})"


def check_records(root):
    """What is wrong with the records, and {folder: content of result.json}."""
    errors, results, commits = [], {}, {}
    for folder in sorted(path for path in (root / "bench" / "records").iterdir() if path.is_dir()):
        place = folder.relative_to(root)
        results[folder.name] = []
        for file in ("command.txt", "raw.log", "result.json"):
            if not (folder / file).is_file():
                errors.append(f"{place}/{file}:1: missing: add it, or remove the record and what cites it")
        try:
            results[folder.name] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        except ValueError as error:
            errors.append(f"{place}/result.json:{getattr(error, 'lineno', 1)}: not valid JSON ({error}): correct it")
        except OSError:
            continue
        commits |= {run["commit"]: f"{place}/result.json:1" for run in entries(results[folder.name]) if "commit" in run}
        if (folder / "command.txt").is_file():
            for number, line in enumerate((folder / "command.txt").read_text(encoding="utf-8").splitlines(), 1):
                if "commit" in line.lower():
                    commits |= {commit: f"{place}/command.txt:{number}" for commit in COMMIT.findall(line)}
            named = (folder / "command.txt").read_text(encoding="utf-8") + json.dumps(results[folder.name])
            output = (folder / "raw.log").read_text(encoding="utf-8", errors="replace") if (folder / "raw.log").is_file() else ""
            for commit in sorted(set(re.findall(r'"commit": ?"([0-9a-f]{7,40})', output))):
                if commit[:7] not in named:
                    errors.append(f"{place}/command.txt:1: raw.log comes from commit {commit}, which is not named here: name it, or measure again")

    def git(*words, text=""):
        return subprocess.run(["git", "-C", root, *words], input=text, text=True, capture_output=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() == "false":  # neither a shallow clone nor an unpacked archive
        for line in git("cat-file", "--batch-check", text="".join(f"{commit}^{{commit}}\n" for commit in commits)).splitlines():
            commit, _, answer = line.partition("^")
            if answer.endswith((" missing", " ambiguous")):
                errors.append(f"{commits[commit]}: commit {commit} is not in the history: measure again at a commit that is")
    return errors, results
