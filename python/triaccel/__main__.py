"""The command line, in this process: ``python -m triaccel train --model lenet5`` and the script ``triaccel``.

Output, exit codes and signals are the program's: an interrupted run saves a checkpoint and exits with 130 or 143.
"""
from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import triaccel


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; ``arguments`` default to those of the process."""
    # Python's handler only takes a note, which nobody would read until the program is done. An ignored signal
    # (nohup, background jobs) stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    return triaccel._C.run_program(["triaccel", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
