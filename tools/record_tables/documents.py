"""A document: its generated tables, and whether its other figures are in the records that it links."""
import re

from record_tables.description import Description
from record_tables.records import Problem, entries

RECORD = re.compile(r"bench/records/([\w.-]+)")
NOT_MEASURED = "<!-- not measured -->"
QUOTED = re.compile(r"\b(paper|abstract)\b", re.IGNORECASE)  # in the head of a column: what others measured
NUMBER = r"[+−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
UNITS = {"ms": ("time", 1e-3), "us": ("time", 1e-6), "s": ("time", 1), "KB": ("bytes", 1e3), "MB": ("bytes", 1e6), "GB": ("bytes", 1e9),
         "TB/s": ("bytes", 1e12), "MiB": ("bytes", 2**20), "GiB": ("bytes", 2**30), "%": ("percent", 1), "points": ("points", 1),
         "times": ("ratio", 1), "x": ("ratio", 1)}
FIELDS = {"ms": ("time", 1e-3), "us": ("time", 1e-6), "seconds": ("time", 1), "bytes": ("bytes", 1), "kb": ("bytes", 1e3),
          "mb": ("bytes", 1e6), "mib": ("bytes", 2**20), "gb": ("bytes", 1e9), "percent": ("percent", 1), "accuracy": ("percent", 1), "drop": ("points", 1),
          "ratio": ("ratio", 1), "times": ("ratio", 1), "noise": ("ratio", 1)}  # by a word of the field's name
FIGURE = re.compile(rf"(?<![\w.−-])({NUMBER}(?:(?:,|,?\s(?:to|and|or|instead\sof|against))\s+{NUMBER})*)"
                    rf"(?:\s?(ms|us|s|KB|MB|GB|TB/s|MiB|GiB|%|points|times)(?![\w/])|(x)(?!\w))?(?:\s*<!--\s(= [^>]*|not measured)\s-->)?")


def numbers(value, key=""):
    """(field, number) of everything in a result."""
    if isinstance(value, (dict, list)):
        for inner_key, inner in value.items() if isinstance(value, dict) else ((key, inner) for inner in value):
            yield from numbers(inner, inner_key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield key, value


def candidates(records, unit):
    """(value, field and record) of every number that can be printed with the unit."""
    kind, scale = UNITS[unit]
    for folder, result in records.items():
        for field, value in numbers(entries(result)):
            of, factor = next((FIELDS[word] for word in field.split("_") if word in FIELDS), (None, 0))
            if of == kind:
                yield value * factor / scale, f"{field} in {folder}"
            elif of == "ratio" and kind == "percent":  # a ratio of 1.018 is 1.8 % more
                yield from ((percent, f"{field} in {folder}") for percent in (100 * value, 100 * (value - 1)))


def parsed(number):
    return abs(float(number.replace(",", "").replace("−", "-")))


def is_rounded(number, value):
    """Whether the printed number is that value, rounded. A sign may be a word ("less") and is not compared."""
    return abs(parsed(number) - abs(value)) <= 0.5 * 10 ** -len(number.partition(".")[2]) * (1 + 1e-9)


class Document:
    def __init__(self, root, path):
        self.path, self.place, self.errors = path, path.relative_to(root), []
        self.lines = path.read_text(encoding="utf-8").splitlines()
        try:
            self.description = Description(root, path)
        except Problem as problem:
            self.errors.append(f"docs/tables/{path.stem}.toml:1: {problem}")
            self.description = Description(root, root / "none")

    def fail(self, index, what):
        self.errors.append(f"{self.place}:{index + 1}: {what}")

    def generated(self):
        """(index of the first line, index of <!-- end -->, lines, lines without figures) of every marked table."""
        index, used = 0, set()
        while index < len(self.lines):
            if marker := re.fullmatch(r"<!-- table: (\w+) -->", self.lines[index]):
                used.add(marker[1])
                end = self.lines.index("<!-- end -->", index) if "<!-- end -->" in self.lines[index:] else None
                if end is None:
                    self.fail(index, f"table {marker[1]}: no <!-- end --> after it: add it")
                    return
                try:
                    yield index + 1, end, *self.description.table(marker[1])
                except Problem as problem:
                    self.fail(index, f"table {marker[1]} ({self.description.file}): {problem}")
                index = end
            index += 1
        for name in sorted(self.description.tables.keys() - used) if not self.errors else ():
            self.fail(0, f"table {name} of {self.description.file} is not here: add <!-- table: {name} --> or remove it there")

    def write(self):
        if self.errors:
            return
        for first, end, lines, _ in reversed(list(self.generated())):
            self.lines[first:end] = lines
        self.path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")

    def blocks(self, tables):
        """(index, text, records it links) of every heading, paragraph, list item and table outside code."""
        marked = {first: (end, blank) for first, end, _, blank in tables}
        index, block, fenced = 0, [], False
        while index <= len(self.lines):
            line = self.lines[index] if index < len(self.lines) else ""
            fence = re.match(r"\s*(```|~~~)", line)
            begins = fence or index in marked or re.match(r"#|\s*(?:-|\d+\.) |<!--", line) or not line.strip()
            if block and (begins or block[0].startswith(("#", "<!--")) or line.lstrip().startswith("|") != block[0].lstrip().startswith("|")):
                text = "\n".join(block)
                yield index - len(block), text, RECORD.findall(text)
                block = []
            fenced ^= bool(fence)
            if index in marked:
                end, blank = marked[index]
                yield index, "\n".join(blank), RECORD.findall("\n".join(self.lines[index:end]))
                index = end
            elif line.strip() and not fence and not fenced:
                block.append(line)
            index += 1

    def check(self, records):
        if self.errors:
            return
        tables = list(self.generated())
        for first, end, lines, _ in tables:
            for offset in range(max(len(lines), end - first)):
                wanted = lines[offset] if offset < len(lines) else "(no such line)"
                if first + offset >= end or self.lines[first + offset] != wanted:
                    self.fail(first + min(offset, end - first - 1), f"the records give another line: {wanted}\n"
                              "  run tools/tables --write, then correct what the text says about it")
                    break
        linked, heading, section = {}, 0, 0  # section: level of the heading whose section is not measured
        skip_next = False
        for index, text, names in self.blocks(tables):
            if level := re.match(r"#+", text):
                linked, heading = {}, len(level[0])
                section = 0 if heading <= section else section
                continue
            if text == NOT_MEASURED:
                section, skip_next = (heading, False) if heading else (section, True)
                continue
            for name in set(names) - records.keys():
                self.fail(index, f"record {name} does not exist: correct the link or add the record")
            own = {name: records[name] for name in names if name in records}
            linked |= own
            if not skip_next and not text.endswith(NOT_MEASURED) and (own or not section):
                self.check_figures(index, text, own or linked)
            heading, skip_next = 0, False

    def check_figures(self, index, text, records):
        text = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda found: re.sub(r"[^\s|]", " ", found[0]), text)
        if not text.lstrip().startswith("|"):
            return self.check_piece(index, text, records)
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]
        for number, row in enumerate(rows[2:], 2):
            for head, cell in zip(rows[0], row):
                if not QUOTED.search(head):
                    unit = re.search(rf"(?:^|[\s,(])({'|'.join(UNITS)})(?:$|[\s,)])", head)
                    alone = unit and re.fullmatch(rf"\**({NUMBER})\**", cell)
                    self.check_piece(index + number, f"{alone[1]} {unit[1]}" if alone else cell, records)

    def check_piece(self, index, text, records):
        for found in FIGURE.finditer(text):
            unit, mark, printed = found[2] or found[3], found[4] or "", re.findall(NUMBER, found[1])
            if mark == "not measured" or not unit and not mark:
                continue
            line = index + text.count("\n", 0, found.start())
            known = [] if mark else [list(candidates(records, unit))] * len(printed)
            if mark:
                try:
                    known = [[(float(self.description.value(name, self.description.names)), name)] for name in mark[2:].split(", ")]
                except Problem as problem:
                    self.fail(line, str(problem))
                    continue
            for number, values in zip(printed, known):
                if not any(is_rounded(number, value) for value, _ in values):
                    nearest = min(values, key=lambda pair: abs(abs(pair[0]) - parsed(number)), default=None)
                    near = f"; nearest: {nearest[0]:.5g} ({nearest[1]})" if nearest else ""
                    self.fail(line, f"{number} {unit or ''} is in no record linked here{near}\n  correct it, link its record, name how it is computed "
                              f"(<!-- = NAME -->, with NAME in [figures] of {self.description.file}), or mark it {NOT_MEASURED}")
