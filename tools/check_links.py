#!/usr/bin/env python3
"""Follows every relative link and #anchor in our Markdown files. Usage: check_links.py [ROOT], default ."""
import pathlib
import re
import sys
from urllib.parse import unquote

SKIPPED = {".git", ".venv", "build", "runs", "node_modules"}
INLINE = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)")
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)[\"']")
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def prose(path):
    """(line number, text without code) of a Markdown file; fenced blocks are left out."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := re.match(r"\s*(`{3,}|~{3,})", line):
            if fence is None:
                fence = found[1]
                continue
            if found[1].startswith(fence):
                fence = None
                continue
        if fence is None:
            yield number, line


def anchors(path):
    """The anchors GitHub gives a file's headings, and those set by hand."""
    found, seen = set(), {}
    for _, line in prose(path):
        found.update(re.findall(r"<[^>]*\b(?:id|name)=[\"']([^\"']+)[\"']", line))
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*\s*$", line):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            text = re.sub(r"[^\w\- ]", "", text.replace("*", "").lower()).replace(" ", "-")
            count = seen.get(text, 0)
            seen[text] = count + 1
            found.add(f"{text}-{count}" if count else text)
    return found


def broken(root, path, link):
    """Why a link leads nowhere, or None."""
    if EXTERNAL.match(link) or link.startswith("//"):
        return None
    target, _, anchor = link.partition("#")
    target = unquote(target)
    base = root if target.startswith("/") else path.parent
    file = (base / target.lstrip("/")).resolve() if target else path
    if not file.exists():
        return "no such file"
    if root.resolve() not in [file, *file.parents]:
        return "leads out of the repository"
    if re.fullmatch(r"L\d+(-L\d+)?", anchor):
        last = int(anchor.rsplit("L", 1)[1])
        return None if last <= len(file.read_text().splitlines()) else "the file has fewer lines"
    if anchor and file.suffix == ".md" and unquote(anchor) not in anchors(file):
        return "no such heading"
    return None


root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
errors, links, files = [], 0, 0
for path in sorted(root.rglob("*.md")):
    if SKIPPED & set(path.relative_to(root).parts):
        continue
    files += 1
    for number, line in prose(path):
        line = re.sub(r"`[^`]*`", "``", line)
        for link in INLINE.findall(line) + REFERENCE.findall(line) + HTML.findall(line):
            links += 1
            if why := broken(root, path, link):
                errors.append(f"{path.relative_to(root)}:{number}: {link}: {why}")
print("\n".join(errors) or f"links ok: {links} in {files} files")
sys.exit(bool(errors))
