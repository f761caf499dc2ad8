"""docs/tables/NAME.toml: the tables of NAME.md, as templates that are filled with expressions over the records."""
import json
import re
import statistics
import tomllib

from record_tables.records import Problem, Runs, entries, show

EXPRESSION = re.compile(r"\{([^{}]+?)(?::([^{}:'\"]*))?\}")  # {expression:format}
FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "sum": sum, "len": len, "float": float, "getattr": getattr, "mean": statistics.fmean}


class Description:
    """[records] names records, [runs] and [figures] expressions over them, [table.NAME] has head, lines and, if they repeat, rows."""

    def __init__(self, root, document):
        self.file = f"docs/tables/{document.stem}.toml"
        self.tables, self.names = {}, dict(FUNCTIONS)
        if not (root / self.file).exists():
            return
        try:
            described = tomllib.loads((root / self.file).read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise Problem(f"not valid TOML ({error}): correct it") from None
        for name, folder in described.get("records", {}).items():
            path = root / "bench" / "records" / folder / "result.json"
            try:
                found = entries(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                raise Problem(f"record {folder} has no valid result.json: correct the name or add the record") from None
            link = "../" * (len(document.relative_to(root).parts) - 1) + f"bench/records/{folder}"
            self.names[name] = Runs(found, name, link)
        for name, expression in (described.get("runs", {}) | described.get("figures", {})).items():
            self.names[name] = self.value(expression, self.names)
        self.tables = described.get("table", {})

    def value(self, expression, names):
        try:
            return eval(expression, names)  # our own file, as trusted as this one
        except Problem:
            raise
        except Exception as error:
            raise Problem(f"{expression}: {error}: correct the expression") from None

    def filled(self, template, names):
        def fill(found):
            value, spec = self.value(found[1], names), found[2] or ""
            return show(value, spec) if isinstance(value, (int, float)) else format(value, spec)
        return EXPRESSION.sub(fill, template)

    def table(self, name):
        """Its lines, and the same lines with everything that comes from a record blank."""
        if name not in self.tables:
            raise Problem(f"not described: add [table.{name}] to {self.file}")
        table = self.tables[name]
        filled, blank = [self.filled(table["head"], self.names)], [EXPRESSION.sub("", table["head"])]
        for lines in (filled, blank):
            lines.append(" | ".join(["---"] * (f" {table['head']}".count(" | ") + 1)))
        for row in table.get("rows", [{}]):
            where = {key: value for key, value in row.items() if key != "row"}
            names = self.names | {key: runs(**where) for key, runs in self.names.items() if where and isinstance(runs, Runs)}
            names["row"] = row.get("row", "")
            filled += [self.filled(template, names) for template in table["lines"]]
            blank += [EXPRESSION.sub("", template) for template in table["lines"]]
        return [f"| {line} |" for line in filled], [f"| {line} |" for line in blank]
