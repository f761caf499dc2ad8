"""How training goes on, as one line.

>>> ta = triaccel.attach(model, optimizer, callbacks=[triaccel.Progress()])
"""
from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


class Progress:
    """A callback of :func:`triaccel.attach`: a line that is rewritten in a terminal and updated in a notebook; elsewhere, as
    in a file, a new line now and then.

    seconds: least time between two lines, by default 0.2 in terminals and notebooks and 30 elsewhere.
    """

    def __init__(self, file: TextIO | None = None, seconds: float | None = None) -> None:
        self._file = file or sys.stderr
        self._notebook = file is None and _in_notebook()
        self._terminal = not self._notebook and self._file.isatty()
        self._seconds = seconds if seconds is not None else 0.2 if self._terminal or self._notebook else 30.0
        self._last = float("-inf")
        self._display: Any = None

    def __call__(self, report: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last >= self._seconds:
            self._last = now
            self._show(self.line(report))

    @staticmethod
    def line(report: dict[str, Any]) -> str:
        """The line for a report."""
        memory = report["memory"]
        parts = [f"step {report['step']:,}", f"loss {report['loss']:.4g}"]
        if report["seconds"] > 0:
            parts.append(f"{report['samples_in_interval'] / report['seconds']:,.0f} samples/s")
        budget = f" of {_size(memory['budget'])}" if memory["budget"] else ""
        parts.append(f"{_size(memory['peak'])}{budget}")
        parts.append(" ".join(f"{name} {count}" for name, count in sorted(report["layers"].items())))
        if report["memory_retries"]:
            parts.append(f"passes of {report['pass_size']}")
        return "  ".join(parts)

    def _show(self, line: str) -> None:
        if self._notebook:
            from IPython.display import display

            data = {"text/plain": line}
            if self._display is None:
                self._display = display(data, raw=True, display_id=True)
            else:
                self._display.update(data, raw=True)
        elif self._terminal:
            self._file.write("\r\x1b[K" + line[:shutil.get_terminal_size().columns - 1])
            self._file.flush()
        else:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Leaves the line as it is and goes on below it."""
        if self._terminal and self._last > float("-inf"):
            self._file.write("\n")
            self._file.flush()
