"""The progress line of attach(): in a terminal, in a notebook and elsewhere."""
import io
import os
import sys
import types

import triaccel
from test_attach import closure_of, images, make

REPORT = {"step": 1240, "samples": 9920, "loss": 0.48213, "seconds": 2.0, "samples_in_interval": 640, "memory_retries": 0,
          "memory": {"used": 1, "peak": 3 << 30, "reserved": 1, "budget": 6 << 30}, "pass_size": 8,
          "layers": {"bf16": 20, "fp32": 1}}
LINE = "step 1,240  loss 0.4821  320 samples/s  3 GiB of 6 GiB  bf16 20 fp32 1"


def test_a_line_says_how_it_goes():
    assert triaccel.Progress.line(REPORT) == LINE
    short = {**REPORT, "memory": {**REPORT["memory"], "budget": 0}, "memory_retries": 1}
    assert triaccel.Progress.line(short).endswith("3 GiB  bf16 20 fp32 1  passes of 8")


def test_a_file_gets_lines_now_and_then():
    file = io.StringIO()
    progress = triaccel.Progress(file, seconds=1000)
    for _ in range(3):
        progress(REPORT)
    progress.close()
    assert file.getvalue() == LINE + "\n"


def test_a_terminal_gets_one_line_that_is_rewritten():
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal:
        progress = triaccel.Progress(terminal, seconds=0)
        progress(REPORT)
        progress({**REPORT, "step": 1250})
        progress.close()
    shown = os.read(reader, 4096).decode()
    os.close(reader)
    assert shown.count("\r\x1b[K") == 2 and shown.count("\n") == 1
    assert "step 1,250" in shown.split("\r\x1b[K")[2]


def test_a_notebook_updates_one_display(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(("update", data["text/plain"])))

    def display(data, raw, display_id):
        shown.append(("display", data["text/plain"]))
        return handle

    kernel = type("ZMQInteractiveShell", (), {})()
    python = types.ModuleType("IPython")
    python.get_ipython = lambda: kernel
    python.display = types.ModuleType("IPython.display")
    python.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", python.display)
    progress = triaccel.Progress(seconds=0)
    progress(REPORT)
    progress({**REPORT, "step": 1250})
    assert [kind for kind, _ in shown] == ["display", "update"] and "step 1,250" in shown[1][1]


def test_shows_every_interval_also_where_nothing_is_decided():
    file = io.StringIO()
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision="off", control_interval=2, callbacks=[triaccel.Progress(file, seconds=0)])
    for i in range(6):
        ta.step(images(seed=i), closure_of(model))
    assert [line.split("  ")[0] for line in file.getvalue().splitlines()] == ["step 2", "step 4", "step 6"]
