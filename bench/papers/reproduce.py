#!/usr/bin/env python3
"""Makes the papers' tables, row by row, and prints them next to the papers' own figures.

  reproduce.py tri_accel table1 --data-root DIR    FP32, AMP and Tri-Accel
  reproduce.py tri_accel table2 --data-root DIR    what each part of Tri-Accel saves
  reproduce.py elastic_zo --data-root DIR          ElasticZO in FP32 and in integers
  reproduce.py fdsr --data-root DIR                compressed activations against other codecs

A row is one process of `triaccel train` (or of `triaccel bench` and `inspect`), recorded in OUT/result.json as soon as it
is done. The same command goes on where it was stopped: finished rows are not made again, unfinished runs are resumed. A row
that fails is reported, with the program's message, and the others are made. Options that are not listed here are given to
every row: --data-root, --device, --threads, … as in `triaccel train --help-all`.
"""
import argparse
import json
import pathlib
import signal
import sys

import elastic_zo
import fdsr
import rows
import tri_accel
from tables import csv_text

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listed(kind):
    def parse(text):
        return [kind(part) for part in text.split(",") if part]
    parse.__name__ = "list"
    return parse


def seeds(text):
    """"3" is 1, 2 and 3; "1,4" and "4," are lists."""
    return listed(int)(text) if "," in text else list(range(1, int(text) + 1))


def parsed(arguments):
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    shared.add_argument("--seeds", type=seeds, help="how many, counted from 1; or a list: 1,4 ('4,' for one alone)")
    shared.add_argument("--out", help="folder for result.json, the tables, runs/ and grid/")
    shared.add_argument("--quick", action="store_true", help="small networks on few samples: a quick check that everything works")
    shared.add_argument("--shared", action="store_true", help="other processes use the machine: omit times")
    shared.add_argument("--jobs", type=int, default=1, help="rows at a time; more than one implies --shared")
    shared.add_argument("--triaccel", default=str(ROOT / "build/release/triaccel"), help="the program")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    papers = parser.add_subparsers(dest="paper", required=True)
    for name, module in (("tri_accel", tri_accel), ("elastic_zo", elastic_zo), ("fdsr", fdsr)):
        paper = papers.add_parser(name, parents=[shared], help=module.__doc__, allow_abbrev=False, conflict_handler="resolve")
        module.add_options(paper, listed)
    wanted, others = parser.parse_known_args(arguments)
    wanted.options = passed_on(others, wanted.set_by_table)
    if wanted.jobs < 1:
        raise rows.UsageError("--jobs: must be at least 1")
    wanted.shared = wanted.shared or wanted.jobs > 1
    if wanted.quick:
        given = {argument.partition("=")[0] for argument in arguments}
        wanted.sets = wanted.sets if "--sets" in given else ["synthetic"]
        if wanted.paper == "tri_accel" and "--models" not in given:
            wanted.models = ["resnet18"]
    wanted.seeds = wanted.seeds or ([1] if wanted.quick else [1, 2] if wanted.paper == "fdsr" else [1, 2, 3])
    wanted.out = pathlib.Path(wanted.out)
    return wanted


def passed_on(arguments, set_by_table):
    """Options for every row, as {"--device": "cpu"}."""
    options = {}
    while arguments:
        flag, equals, value = arguments.pop(0).partition("=")
        if not flag.startswith("--"):
            raise rows.UsageError(f"'{flag}' is not an option; pass settings of the rows as --name value")
        if flag in set_by_table:
            raise rows.UsageError(f"{flag}: set by the table; {set_by_table[flag]}")
        if not equals:
            value = arguments.pop(0) if arguments and not arguments[0].startswith("--") else "true"
        options[flag] = value
    return options


def write_tables(table, out, failures):
    name, page, own = table.page()
    page.notes += failures.notes()
    for ending, content in ((".csv", csv_text(own)), (".txt", page.text()), (".md", page.markdown()), (".html", page.html())):
        rows.write_file(out / (name + ending), content)
    failed = out / "failed.json"
    if failures.rows:
        rows.write_file(failed, json.dumps(failures.rows, indent=1) + "\n")
    else:
        failed.unlink(missing_ok=True)
    print(f"{page.text()}\nfiles: {out}")


def main(arguments):
    try:
        wanted = parsed(arguments)
        program = rows.Program(wanted.triaccel)
        table = wanted.command(wanted, program)
        stopped_by = []

        def stop(number, _):
            stopped_by.append(number)
            program.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        failures = rows.Failures()
        try:
            rows.run_stages(table.stages(), wanted.jobs, failures)
        except rows.Interrupted:
            rows.say("interrupted; the same command goes on where it stopped")
            return 128 + stopped_by[0]
        write_tables(table, wanted.out, failures)
        return failures.exit_code
    except rows.UsageError as error:
        rows.say(f"reproduce: {error}")
        return rows.USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
