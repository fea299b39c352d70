#!/usr/bin/env python3
"""Compares ecrec with models of FuxiCTR's layers: losses step by step, AUC over seeds, and speed. See README.md."""

import argparse
import itertools
import json
import math
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from safetensors.numpy import save_file
from scipy import stats
from sklearn.metrics import roc_auc_score

import data
import peers

LOSS_BAR, AUC_BAR = 2e-4, 1e-3
L2 = 1e-5
RULES = {"dense": "Adam over every row, with L2", "touched": "Adam on the rows of the batch"}
# Of the data sets: dimension, batch and learning rate.
SHAPES = {"adult": (8, 256, 1e-3), "synthetic": (10, 4096, 1e-3)}


class Comparison:
    def __init__(self, args):
        self.args, self.out = args, pathlib.Path(args.out).resolve()
        self.report = {"machine": machine(), "versions": versions(args.ecrec), "command": " ".join(sys.argv[1:]), "losses": [], "auc": [], "speed": []}
        self.missed = False

    def ecrec(self, name, settings):
        """Trains, and returns the run's folder and summary."""
        run = self.out / name
        file = self.out / f"{name}.toml"
        settings = {
            "job.name": name, "job.out": str(run), "job.ranks": 1, "job.threads": self.args.threads, "data.shuffle": "none",
            "data.cache": str(self.out / "cache"), "model.tables": "auto", "train.keep": "last", **settings,
        }
        file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in settings.items()))
        done = subprocess.run([self.args.ecrec, "train", file, "--overwrite"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{file}: {done.stderr}")
        return run, json.loads((run / "summary.json").read_text())

    def recipe(self, name, dataset):
        """The recipe of a data set, from a run of one step."""
        run, _ = self.ecrec(name, {**dataset, "data.eval": [], "model.kind": "deepfm", "train.global_batch": 64, "train.iterations": 1})
        return run / "recipe.json"

    def pair(self, kind, name, recipe, seed):
        """A peer with FuxiCTR's initial weights, and the settings of ecrec's model that starts with the same."""
        torch.manual_seed(seed)
        dim = SHAPES[name][0]
        known = json.loads(recipe.read_text())
        peer = peers.KINDS[kind](dense=len(known["dense"]), tables=data.tables(recipe), dim=dim).start()
        file = self.out / f"{name}-{kind}.safetensors"
        save_file(peer.tensors(), file)
        return peer, {"model.init_from": str(file), **{f"model.{key}": value for key, value in peer.keys.items()}}

    def optimizer(self, rule, lr):
        settings = {"optimizer.dense.kind": "adam", "optimizer.dense.lr": lr, "optimizer.sparse.kind": "adam", "optimizer.sparse.lr": lr}
        if rule == "dense":
            settings |= {"optimizer.sparse.dense": True, "optimizer.sparse.weight_decay": L2}
        return settings

    def save(self):
        """Writes what is measured so far. Parts that are not run stay as the file has them."""
        if not self.args.json:
            return
        file, report = pathlib.Path(self.args.json), dict(self.report)
        if file.exists():
            before = json.loads(file.read_text())
            report |= {part: before[part] for part in ("losses", "auc", "speed") if part not in self.args.parts}
        file.write_text(json.dumps(report, indent=1) + "\n")

    def judge(self, text, within):
        self.missed |= not within
        print(f"{text}  {'within' if within else 'MISSED'}", flush=True)
        return "within" if within else "missed"

    def compare_losses(self, name, dataset, recipe, samples):
        size, lr, steps = SHAPES[name][1], self.args.lr, self.args.steps
        order = list(itertools.islice(itertools.cycle(batches(len(samples.label), size)), steps))
        for kind, rule in itertools.product(self.args.kinds, RULES):
            peer, model = self.pair(kind, name, recipe, 1)
            _, ours = self.ecrec(f"{name}-{kind}", {**dataset, **model, **self.optimizer(rule, lr), "data.eval": [],
                                                    "train.global_batch": size, "train.iterations": steps})
            theirs = peers.train(peer, samples, order, rule, lr, L2 if rule == "dense" else 0.0)
            differences = np.abs(np.array(ours["train_loss"]) - np.array(theirs))
            worst = float(differences.max())
            verdict = self.judge(f"loss  {name:9} {kind:6} {rule:7} {steps} steps from {theirs[0]:.5f} to {theirs[-1]:.5f}: greatest difference {worst:.1e}"
                                 f" (step {int(differences.argmax()) + 1})", len(differences) == steps and worst <= LOSS_BAR)
            entry = {"data": name, "kind": kind, "rule": RULES[rule], "steps": steps, "batch": size, "lr": lr, "max_difference": worst,
                     "steps_within": int(np.argmax(differences > LOSS_BAR)) if worst > LOSS_BAR else steps,
                     "first": theirs[0], "last": theirs[-1], "bar": LOSS_BAR, "verdict": verdict}
            self.report["losses"].append(entry)
            if worst > LOSS_BAR:
                entry["noise"] = self.noise(kind, name, recipe, samples, order, rule, theirs, ours["train_loss"])
            self.save()

    def noise(self, kind, name, recipe, samples, order, rule, theirs, ours):
        """How far the peer is from itself if the samples of each batch are added up in another order, and if it computes in float64.
        A program that is not the peer cannot be expected to be nearer to it."""
        r = np.random.default_rng(1)
        permuted = [r.permutation(np.arange(b.start, b.stop)) for b in order]
        l2 = L2 if rule == "dense" else 0.0
        reordered = peers.train(self.pair(kind, name, recipe, 1)[0], samples, permuted, rule, self.args.lr, l2)
        with peers.float64():
            exact = peers.train(self.pair(kind, name, recipe, 1)[0].double(), samples.double(), order, rule, self.args.lr, l2)
        found = {}
        for key, text, a, b in (("reordered", "FuxiCTR with the samples of each batch in another order, from itself", reordered, theirs),
                                ("float64", "FuxiCTR from itself in float64", exact, theirs), ("ecrec_float64", "ecrec from FuxiCTR in float64", exact, ours)):
            differences = np.abs(np.array(a) - np.array(b))
            found[key] = float(differences.max())
            within = int(np.argmax(differences > LOSS_BAR)) if found[key] > LOSS_BAR else len(order)
            print(f"      {text}: {found[key]:.1e}, within the bar for {within} steps", flush=True)
        return found

    def compare_auc(self, name, kinds, seeds, prepare):
        """prepare(seed) gives the settings of the data of a seed, and the same samples for training and evaluation."""
        pairs = {kind: [] for kind in kinds}
        _, size, lr = SHAPES[name]
        for seed in range(1, seeds + 1):
            dataset, recipe, train, held = prepare(seed)
            for kind in kinds:
                peer, model = self.pair(kind, name, recipe, seed)
                _, ours = self.ecrec(f"{name}-{kind}", {**dataset, **model, **self.optimizer("dense", lr), "train.global_batch": size, "train.epochs": 1})
                peers.train(peer, train, batches(len(train.label), size), "dense", lr, L2)
                theirs = roc_auc_score(held.label[:, 0].numpy(), peers.score(peer, held))
                pairs[kind].append((ours["eval"][-1]["auc"], float(theirs)))
                print(f"auc   {name:9} {kind:6} seed {seed}: ecrec {pairs[kind][-1][0]:.6f}, FuxiCTR {theirs:.6f}", flush=True)
        for kind in kinds:
            ours, theirs = np.array(pairs[kind]).T
            mean, low, high = interval(ours - theirs)
            verdict = self.judge(f"auc   {name:9} {kind:6} {seeds} seeds: ecrec {ours.mean():.6f}, FuxiCTR {theirs.mean():.6f}, difference {mean:+.1e}"
                                 f" ({low:+.1e} to {high:+.1e})", -AUC_BAR <= low and high <= AUC_BAR)
            self.report["auc"].append({"data": name, "kind": kind, "seeds": seeds, "ecrec": ours.tolist(), "fuxictr": theirs.tolist(),
                                       "ecrec_mean": ours.mean(), "fuxictr_mean": theirs.mean(), "difference": mean, "interval_95": [low, high],
                                       "bar": AUC_BAR, "verdict": verdict})
        self.save()

    def compare_speed(self, dataset, recipe, samples):
        """Takes turns between ecrec and the peer, with both rules. A peer's time has no reading of data in it."""
        name, kind, steps = "synthetic", "deepfm", self.args.speed_steps
        _, size, lr = SHAPES[name]
        order = list(itertools.islice(itertools.cycle(batches(len(samples.label), size)), steps))
        rates = {(side, rule): [] for side in ("ecrec", "FuxiCTR") for rule in RULES}
        torch.set_num_threads(2)
        for turn in range(self.args.turns):
            for rule in RULES:
                peer, model = self.pair(kind, name, recipe, 1)
                _, ours = self.ecrec("speed", {**dataset, **model, **self.optimizer(rule, lr), "job.threads": 2, "data.eval": [],
                                               "train.global_batch": size, "train.iterations": steps})
                rates["ecrec", rule].append(ours["samples_per_s"])
                start = time.perf_counter()
                peers.train(peer, samples, order, rule, lr, L2 if rule == "dense" else 0.0)
                rates["FuxiCTR", rule].append(steps * size / (time.perf_counter() - start))
        torch.set_num_threads(self.args.threads)
        rows = sum(data.tables(recipe))
        for (side, rule), all in rates.items():
            print(f"speed {name:9} {kind:6} {side:7} {rule:7} {statistics.median(all):,.0f} samples/s ({min(all):,.0f} to {max(all):,.0f})", flush=True)
            self.report["speed"].append({"data": name, "kind": kind, "side": side, "rule": RULES[rule], "batch": size, "threads": 2, "steps": steps,
                                         "rows": rows, "samples_per_s": all})
        for text, a, b in (("ecrec, touched over dense", ("ecrec", "touched"), ("ecrec", "dense")), ("dense, ecrec over FuxiCTR", ("ecrec", "dense"), ("FuxiCTR", "dense")),
                           ("touched, ecrec over FuxiCTR", ("ecrec", "touched"), ("FuxiCTR", "touched"))):
            ratios = [x / y for x, y in zip(rates[a], rates[b])]
            print(f"speed {text}: {statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f}), {rows:,} rows", flush=True)


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(v)}" for key, v in value.items()) + " }"
    return json.dumps(value)


def batches(samples, size):
    """The batches of an epoch. The last one may be smaller."""
    return [slice(i, min(i + size, samples)) for i in range(0, samples, size)]


def interval(differences):
    """The mean of paired differences and its 95 % interval, by the t distribution."""
    mean, n = float(differences.mean()), len(differences)
    if n < 2:
        return mean, -math.inf, math.inf
    half = float(stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n))
    return mean, mean - half, mean + half


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"cpu": model[0] if model else platform.processor(), "cores": len(model), "system": platform.system(), "python": platform.python_version()}


def versions(ecrec):
    from importlib.metadata import version

    known = json.loads(subprocess.run([ecrec, "version", "--json"], capture_output=True, text=True, check=True).stdout)
    kernels = next(s["value"] for s in known["software"] if s["name"] == "kernels")
    return {"ecrec": known["version"], "commit": known["commit"], "kernels": kernels, **{name: version(name) for name in ("fuxictr", "torch", "numpy", "pandas", "scikit-learn")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["losses", "auc", "speed"], help="losses, auc, speed")
    parser.add_argument("--ecrec", default="./ecrec")
    parser.add_argument("--out", default="build/fuxictr-runs", help="folder for data and runs")
    parser.add_argument("--json", help="file of the report")
    parser.add_argument("--kinds", nargs="+", default=list(peers.KINDS), choices=list(peers.KINDS))
    parser.add_argument("--data", nargs="+", default=["adult", "synthetic"], choices=list(SHAPES), help="data sets of losses and auc")
    parser.add_argument("--steps", type=int, default=200, help="of losses")
    parser.add_argument("--lr", type=float, default=1e-4, help="of losses; see README.md")
    parser.add_argument("--samples", type=int, default=2_000_000, help="of the synthetic data")
    parser.add_argument("--seeds", type=int, default=10, help="of Adult")
    parser.add_argument("--synthetic-seeds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5, help="of speed")
    parser.add_argument("--speed-steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    c = Comparison(args)
    c.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps(c.report["machine"]), json.dumps(c.report["versions"]))

    made, adult = data.synthetic(c.out / "data", args.samples), data.adult(c.out / "data")
    adult_recipe, made_recipe = c.recipe("adult", adult), c.recipe("synthetic", made)
    samples = data.read(made_recipe, made["data.train"])
    if "losses" in args.parts:
        for name, *of in (("adult", adult, adult_recipe, data.read(adult_recipe, adult["data.train"])), ("synthetic", made, made_recipe, samples)):
            if name in args.data:
                c.compare_losses(name, *of)
    if "auc" in args.parts:
        train, held = data.read(adult_recipe, adult["data.train"]), data.read(adult_recipe, adult["data.eval"])

        def orders(seed):
            file = c.out / "data" / f"adult-{seed}.csv"
            order = data.shuffled(pathlib.Path(adult["data.train"][0]), file, 3, seed)
            return {**adult, "data.train": [str(file)]}, adult_recipe, train.pick(order), held

        if "adult" in args.data:
            c.compare_auc("adult", args.kinds, args.seeds, orders)
        held_made, size = data.read(made_recipe, made["data.eval"]), len(samples.label) // data.PARTS

        def parts(seed):
            order = np.random.default_rng(seed).permutation(data.PARTS)
            index = np.concatenate([np.arange(p * size, (p + 1) * size) for p in order])
            return {**made, "data.train": [made["data.train"][p] for p in order]}, made_recipe, samples.pick(index), held_made

        if "synthetic" in args.data:
            c.compare_auc("synthetic", [k for k in ("deepfm", "dcnv2") if k in args.kinds], args.synthetic_seeds, parts)
    if "speed" in args.parts:
        c.compare_speed(made, made_recipe, samples)
    c.save()
    return 1 if c.missed else 0


if __name__ == "__main__":
    sys.exit(main())
