"""Tables of text cells, as plain text, Markdown and HTML; mean and standard deviation over seeds."""
import csv
import dataclasses
import html
import io
import math

NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Spread:
    """A quantity over seeds; the deviation is that of the sample, NaN for one seed."""
    count: int = 0
    mean: float = NAN
    deviation: float = NAN

    @staticmethod
    def of(values):
        """What is None or not finite does not count."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return Spread()
        mean = math.fsum(known) / len(known)
        if len(known) == 1:
            return Spread(1, mean)
        return Spread(len(known), mean, math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)))

    def decimals(self):
        """Enough for three significant digits."""
        size = abs(self.mean)
        return 1 if size >= 100 else 2 if size >= 1 else 4

    def text(self, decimals=None):
        """81.20 ± 0.35; the mean alone for one seed."""
        places = self.decimals() if decimals is None else decimals
        mean = number(self.mean, places)
        return f"{mean} ± {number(self.deviation, places)}" if math.isfinite(self.deviation) else mean


def number(value, decimals):
    return f"{value:.{decimals}f}" if value is not None and math.isfinite(value) else "-"


def signed(value, decimals, unit=""):
    return f"{value:+.{decimals}f}{unit}" if math.isfinite(value) else "-"


def ratio(value, reference):
    return value / reference if reference not in (None, 0) and value is not None else NAN


@dataclasses.dataclass
class Table:
    header: list
    rows: list = dataclasses.field(default_factory=list)

    def without_empty_columns(self):
        kept = [i for i in range(len(self.header)) if any(row[i] != "-" for row in self.rows)]
        return Table([self.header[i] for i in kept], [[row[i] for i in kept] for row in self.rows])

    def text(self):
        """Names to the left, numbers to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        shown = ["  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])
                 for line in lines]
        return "\n".join([shown[0], "-" * len(shown[0]), *shown[1:]]) + "\n"

    def markdown(self):
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)

    def html(self):
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(f"<tr><th>{html.escape(row[0])}</th>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
                       + "</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclasses.dataclass
class Section:
    """A title, tables under it, sentences on what they show, and files to look at."""
    title: str
    tables: list = dataclasses.field(default_factory=list)
    findings: list = dataclasses.field(default_factory=list)
    links: list = dataclasses.field(default_factory=list)  # (text, relative path)


STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:.6rem 0}th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child{text-align:left}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}}"""


@dataclasses.dataclass
class Page:
    title: str
    sections: list
    notes: list

    def text(self):
        out = ""
        for section in self.sections:
            out += section.title + "\n" + "\n".join(table.text() for table in section.tables)
            out += "".join(finding + "\n" for finding in section.findings) + "\n"
        return out + "".join(note + "\n" for note in self.notes)

    def markdown(self):
        out = f"# {self.title}\n\n"
        for section in self.sections:
            out += f"## {section.title}\n\n" + "\n".join(table.markdown() for table in section.tables) + "\n"
            out += "".join(f"- {finding}\n" for finding in section.findings) + "\n"
        return out + "".join(f"{note}\n\n" for note in self.notes).rstrip() + "\n"

    def html(self):
        listed = lambda lines: "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
        body = f"<h1>{html.escape(self.title)}</h1>\n"
        for section in self.sections:
            links = " · ".join(f'<a href="{html.escape(path)}">{html.escape(text)}</a>' for text, path in section.links)
            body += (f"<section><h2>{html.escape(section.title)}</h2>" + "".join(table.html() for table in section.tables)
                     + listed(section.findings) + (f"<p>{links}</p>" if links else "") + "</section>\n")
        return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>' + html.escape(self.title)
                + f"</title><style>{STYLE}</style></head>\n<body>\n{body}{listed(self.notes)}\n</body></html>\n")


def csv_text(rows):
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
