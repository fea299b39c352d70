"""Runs commands by turns and compares the first one with each other one, pair by pair.

turns.py --pairs 3 "ecrec=COMMAND" "torchrec=COMMAND" ...

A shell runs each command. Its rate is that of the last line of JSON, or the line "training" of `ecrec bench train`.
With --by cpu it is samples per second of CPU time: the figure to compare while other programs load the machine,
on one thread, because idle threads that spin count too.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time

LINES = {"wall": ("rate", r"\s*training\s+([0-9.]+)"), "cpu": ("per_cpu_second", r"\s*training per CPU second\s+([0-9.]+)")}


def rate_of(text, by):
    key, line = LINES[by]
    rate = None
    for row in text.splitlines():
        if row.startswith("{"):
            rate = json.loads(row).get(key, rate)
        elif m := re.match(line, row):
            rate = float(m[1])
    return rate


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--by", choices=LINES, default="wall")
    p.add_argument("--title", default="")
    p.add_argument("--limit", type=float, default=900, help="seconds that a command may take")
    p.add_argument("--at-least", type=float, default=0, help="exit with 1 if a median ratio is below this")
    p.add_argument("commands", nargs="+", metavar="NAME=COMMAND")
    a = p.parse_args()
    commands = [c.split("=", 1) for c in a.commands]
    rates = {name: [] for name, _ in commands}
    for turn in range(a.pairs):
        for name, command in commands:
            began = time.time()
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=a.limit)
            rate = rate_of(done.stdout, a.by)
            if rate is None:
                sys.exit(f"turns: {name} printed no rate: {command}\n{done.stdout}{done.stderr}")
            rates[name].append(rate)
            print(f"{a.title} turn {turn + 1} {name}: {rate:,.0f} ({time.time() - began:.0f} s)", flush=True)
            if turn == 0:
                print(done.stdout, flush=True)
    first, missed = commands[0][0], False
    for name, _ in commands:
        of = [x / y for x, y in zip(rates[first], rates[name])]
        line = f"{a.title} | {name} | {statistics.median(rates[name]):,.0f} ({min(rates[name]):,.0f}-{max(rates[name]):,.0f})"
        if name != first:
            line += f" | {first}/{name} {statistics.median(of):.2f} ({min(of):.2f}-{max(of):.2f})"
            missed = missed or statistics.median(of) < a.at_least
        print(line, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
