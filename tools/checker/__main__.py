"""Checks ecrec from outside, as its documents describe it: draws jobs and faults from a seed, and compares every result with a reference.

    python3 tools/checker --ecrec ./ecrec --minutes 5              new trials, from a seed that is printed
    python3 tools/checker --ecrec ./ecrec --seed 7 --minutes 5     those of a seed
    python3 tools/checker --ecrec ./ecrec --replay FILE            the trials of a log that failed, or with --trial NAME that one
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

import draw
import procs
from trial import Skip, Trial


class Log:
    """One JSON object a line: everything that a trial drew and did, in order."""

    def __init__(self, path):
        self.file = open(path, "w")
        self.path, self.begun = path, time.monotonic()

    def __call__(self, about):
        self.file.write(json.dumps({"t_ms": round((time.monotonic() - self.begun) * 1000), **about}) + "\n")
        self.file.flush()


def run_trial(plan, args, log):
    """Runs one trial; returns (outcome, reasons, commands, kills)."""
    folder = tempfile.mkdtemp(prefix="ecrec-check-", dir=args.scratch)
    log({"plan": plan})
    trial = Trial(plan, folder, args.ecrec, log)
    try:
        problems = trial.run()
        outcome = ("failed", problems) if problems else ("passed", [])
    except Skip as why:
        outcome = ("failed", trial.problems) if trial.problems else ("skipped", [str(why)])
    except Exception:
        outcome = ("failed", trial.problems + ["the checker itself failed: " + traceback.format_exc()])
    except BaseException:  # it is being ended: its jobs have sessions of their own, and do not get the signal
        procs.end_all()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    procs.reap()
    log({"trial": plan["seed"], "outcome": outcome[0], "why": outcome[1], "folder": folder if outcome[0] == "failed" and args.keep else None})
    if outcome[0] != "failed" or not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome[0], outcome[1], trial.runs, trial.kills


def plans(args):
    if args.replay:
        found, failed = [], set()
        with open(args.replay) as f:
            for line in map(json.loads, f):
                if "plan" in line:
                    found.append(line["plan"])
                if line.get("outcome") == "failed":
                    failed.add(line["trial"])
        for plan in found:
            if plan["seed"] == args.trial if args.trial else plan["seed"] in failed:
                for _ in range(args.times):
                    yield plan
        return
    n = 0
    order = [name for name, weight in draw.WEIGHTS.items() for _ in range(weight)]
    while True:
        seed = "%s/%d" % (args.seed, n)
        scenario = args.only or random.Random(seed).choice(order)
        yield draw.plan(seed, scenario)
        n += 1


def main():
    parser = argparse.ArgumentParser(prog="checker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ecrec", required=True, help="the program to check")
    parser.add_argument("--seed", default=None, help="default: by the clock")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only", choices=sorted(draw.WEIGHTS), help="only this scenario")
    parser.add_argument("--log", help="the log; default: in the folder for temporary files")
    parser.add_argument("--replay", metavar="FILE", help="run the failed trials of a log again")
    parser.add_argument("--trial", help="with --replay: this trial")
    parser.add_argument("--times", type=int, default=1, help="with --replay: how often; moments of faults vary with the machine")
    parser.add_argument("--first", action="store_true", help="end at the first failure")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed trials")
    parser.add_argument("--scratch", help="folder for files of the trials")
    args = parser.parse_args()
    args.ecrec = os.path.abspath(args.ecrec)
    args.seed = args.seed or str(int(time.time()))
    procs.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    log = Log(args.log or os.path.join(tempfile.gettempdir(), "ecrec-check-%s.jsonl" % args.seed))
    print("checker: seed %s, log %s" % (args.seed, log.path), flush=True)
    log({"seed": args.seed, "minutes": args.minutes, "argv": sys.argv})
    began = time.monotonic()
    counts, scenarios, reasons, runs, kills = collections.Counter(), collections.Counter(), collections.Counter(), 0, 0
    for plan in plans(args):
        if not args.replay and time.monotonic() - began > args.minutes * 60:
            break
        outcome, why, ran, killed = run_trial(plan, args, log)
        counts[outcome] += 1
        scenarios[plan["scenario"], outcome] += 1
        runs, kills = runs + ran, kills + killed
        if outcome == "skipped":
            reasons[why[0]] += 1
        if outcome == "failed":
            print("FAILED after %.0f s: trial %s (%s)" % (time.monotonic() - began, plan["seed"], plan["scenario"]))
            for text in why[:6]:
                print("    " + text.replace("\n", "\n    "))
            print("    again: python3 tools/checker --ecrec %s --replay %s --trial %s" % (args.ecrec, log.path, plan["seed"]), flush=True)
            if args.first:
                break
    print("checker: %d trials passed, %d failed, %d skipped; %d commands, %d processes killed, in %.0f s" % (
        counts["passed"], counts["failed"], counts["skipped"], runs, kills, time.monotonic() - began))
    for name in sorted(draw.WEIGHTS):
        print("    %-10s %s" % (name, ", ".join("%d %s" % (scenarios[name, o], o) for o in ("passed", "failed", "skipped") if scenarios[name, o]) or "not drawn"))
    for why, n in reasons.most_common(12):
        print("    skipped %d times: %s" % (n, why))
    log({"counts": counts, "commands": runs, "kills": kills})
    total = sum(counts.values())
    if not args.replay and total >= 30 and counts["skipped"] * 3 > total:
        print("checker: more than a third of the trials were skipped")
        return 1
    return 1 if counts["failed"] or not total else 0


sys.exit(main())
