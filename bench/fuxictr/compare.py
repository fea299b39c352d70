#!/usr/bin/env python3
"""Compares ecrec with models of FuxiCTR's layers: losses step by step, AUC over seeds, and speed. See README.md."""

import argparse
import itertools
import json
import math
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from scipy import stats
from sklearn.metrics import roc_auc_score

import data
import peers

PARTS = ("losses", "gates", "auc", "speed", "perturb", "control")
LOSS_BAR, AUC_BAR = 2e-4, 1e-3
GATE_BARS, GATE_TRIES = (1e-6, 1e-5), 20  # bars of the losses and of inputs that are taken for 0
L2 = 1e-5
RULES = {"dense": "Adam over every row, with L2", "touched": "Adam on the rows of the batch"}
# Of the data sets: dimension, batch and learning rate.
SHAPES = {"adult": (8, 256, 1e-3), "synthetic": (10, 4096, 1e-3)}


class Comparison:
    def __init__(self, args):
        self.args, self.out = args, pathlib.Path(args.out).resolve()
        self.report = {"machine": machine(), "versions": versions(args.ecrec), "command": " ".join(sys.argv[1:]), **{part: [] for part in PARTS}}
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
            report |= {part: before.get(part, []) for part in PARTS if part not in self.args.parts}
        file.write_text(json.dumps(report, indent=1) + "\n")

    def judge(self, text, within):
        self.missed |= not within
        print(f"{text}  {'within' if within else 'MISSED'}", flush=True)
        return "within" if within else "missed"

    def cases(self, name, dataset, recipe, samples, lr):
        """Of each kind and rule: its name, what a report says of it, the batches, a function that makes a peer, one that trains a peer, and
        one that trains ecrec from the same initial weights, with more settings, and returns its folder and losses."""
        size, steps = SHAPES[name][1], self.args.steps
        order = list(itertools.islice(itertools.cycle(batches(len(samples.label), size)), steps))
        for kind, rule in itertools.product(self.args.kinds, RULES):
            def start():
                return self.pair(kind, name, recipe, 1)[0]

            def train(peer, samples, order=order):
                return np.array(peers.train(peer, samples, order, rule, lr, L2 if rule == "dense" else 0.0))

            def ecrec(**more):
                _, model = self.pair(kind, name, recipe, 1)
                run, ours = self.ecrec(f"{name}-{kind}", {**dataset, **model, **self.optimizer(rule, lr), "data.eval": [],
                                                          "train.global_batch": size, "train.iterations": steps, **more})
                if len(ours["train_loss"]) != steps:
                    sys.exit(f"{run}: {len(ours['train_loss'])} steps, expected {steps}")
                return run, np.array(ours["train_loss"])

            entry = {"data": name, "kind": kind, "rule": RULES[rule], "steps": steps, "batch": size, "lr": lr}
            yield f"{name:9} {kind:6} {rule:7}", entry, order, start, train, ecrec

    def compare_losses(self, name, dataset, recipe, samples):
        for title, entry, _, start, train, ecrec in self.cases(name, dataset, recipe, samples, self.args.lr or 1e-4):
            (_, ours), theirs = ecrec(), train(start(), samples)
            differences = np.abs(ours - theirs)
            worst, steps = float(differences.max()), len(theirs)
            verdict = self.judge(f"loss  {title} {steps} steps from {theirs[0]:.5f} to {theirs[-1]:.5f}: greatest difference {worst:.1e}"
                                 f" (step {int(differences.argmax()) + 1})", worst <= LOSS_BAR)
            entry |= {"max_difference": worst, "steps_within": int(np.argmax(differences > LOSS_BAR)) if worst > LOSS_BAR else steps,
                      "first": float(theirs[0]), "last": float(theirs[-1]), "bar": LOSS_BAR, "verdict": verdict}
            self.report["losses"].append(entry)
            self.save()

    def compare_gates(self, name, dataset, recipe, samples):
        """Compares losses with those of FuxiCTR in float64 whose ReLUs open where ecrec's open. Where a ReLU would not do so by itself, its
        input has to be near 0."""
        doubled = samples.double()
        for title, entry, order, start, train, ecrec in self.cases(name, dataset, recipe, samples, self.args.lr or 1e-3):
            run, ours = ecrec(**{"checkpoint.every": 1})
            opened, near = self.opened(run, doubled, order, start)
            shutil.rmtree(run / "checkpoints")

            def follow():
                """How many steps pass before a loss is beyond the bar, then the results of steered."""
                losses, inputs = steered(start, train, doubled, order, opened)
                beyond = np.abs(ours - losses) > GATE_BARS[0]
                return int(beyond.argmax()) if beyond.any() else len(beyond), losses, inputs

            def flip(step, layer, place):
                opened[step][layer].view(-1)[place] ^= True

            within, losses, inputs = follow()
            tries = [where for _, *where in sorted(near)[:GATE_TRIES]]  # ecrec may round these to the other side
            while within < len(ours):
                for where in (w for w in tries if w[0] < within):
                    flip(*where)
                    tried = follow()
                    if tried[0] > within:
                        break
                    flip(*where)
                else:
                    break
                tries.remove(where)
                within, losses, inputs = tried
            worst, farthest, text = outcome(title, ours, losses, inputs)
            verdict = self.judge(f"gates {text}", worst <= GATE_BARS[0] and farthest <= GATE_BARS[1])
            self.report["gates"].append(entry | {"max_difference": worst, "set": inputs, "bars": GATE_BARS, "verdict": verdict})
            self.save()

    def opened(self, run, samples, order, start):
        """The ReLUs that ecrec opens for the samples of each step, computed in float64 from the weights that it saved before the step. Then
        those whose input is near 0: (input, step, layer, place)."""
        twin, opened, near = start().double(), [], []
        gates = peers.gates(twin)
        for step, batch in enumerate(order):
            if step:
                twin.load(self.weights(run / "checkpoints" / f"step-{step:012}"))
            with peers.float64(), torch.no_grad():
                twin(samples.dense[batch], samples.ids[batch])
            opened.append([gate.x > 0 for gate in gates])
            for layer, gate in enumerate(gates):
                inputs = gate.x.abs().flatten()
                near += [(float(inputs[place]), step, layer, place) for place in (inputs < GATE_BARS[1]).nonzero().flatten().tolist()]
        return opened, near

    def perturb(self, name, dataset, recipe, samples):
        """Compares ecrec's distance from FuxiCTR in float64 with the distances of FuxiCTR's own runs from initial weights that differ
        by a rounding to float32. What such roundings part, they part for both programs; a defect parts ecrec alone."""
        doubled = samples.double()
        for title, entry, _, start, train, ecrec in self.cases(name, dataset, recipe, samples, self.args.lr or 1e-3):
            def losses(seed, precision):
                if precision == "float32":
                    return train(peers.perturb(start(), seed, 2.0**-23), samples)
                with peers.float64():
                    return train(peers.perturb(start().double(), seed, 2.0**-24), doubled)

            exact = losses(0, "float64")
            ours, fuxictr, *spread = (float(np.abs(x - exact).max()) for x in (
                ecrec()[1], losses(0, "float32"), *(losses(seed, self.args.precision) for seed in range(1, self.args.perturbed + 1))))
            spread.sort()
            beyond, farther = sum(x > LOSS_BAR for x in spread), sum(x >= ours for x in spread)
            verdict = "within the bar" if ours <= LOSS_BAR else "within the spread" if farther else "BEYOND THE SPREAD"
            self.missed |= verdict == "BEYOND THE SPREAD"
            print(f"perturb {title} from FuxiCTR in float64: ecrec {ours:.1e}, FuxiCTR {fuxictr:.1e}, {len(spread)} perturbed runs"
                  f" {statistics.median(spread):.1e} in the median, {spread[-1]:.1e} at most, {beyond} over {LOSS_BAR:.0e}, {farther} as far as ecrec or farther  {verdict}", flush=True)
            self.report["perturb"].append(entry | {"ecrec": ours, "fuxictr": fuxictr, "precision": self.args.precision, "perturbed": spread,
                                                   "beyond_bar": beyond, "as_far_as_ecrec": farther, "bar": LOSS_BAR, "verdict": verdict})
            self.save()

    def control(self, name, dataset, recipe, samples):
        """Does as compare_gates with FuxiCTR in float32 in the place of ecrec: shows what that finds where no defect of ecrec can be."""
        doubled = samples.double()
        for title, entry, order, start, train, _ in self.cases(name, dataset, recipe, samples, self.args.lr or 1e-3):
            peer, opened = start(), []
            theirs = train(peer, samples, peers.record(peer, order, opened))
            losses, inputs = steered(start, train, doubled, order, opened)
            worst, farthest, text = outcome(title, theirs, losses, inputs)
            print(f"control {text}", flush=True)
            self.report["control"].append(entry | {"max_difference": worst, "set": len(inputs), "farthest": farthest})
            self.save()

    def weights(self, checkpoint):
        """The tensors of a checkpoint of ecrec."""
        file = self.out / "step.safetensors"
        subprocess.run([self.args.ecrec, "export", checkpoint, "--to", file], check=True, capture_output=True)
        return load_file(file)

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


def steered(start, train, doubled, order, opened):
    """The losses of a peer in float64 whose ReLUs open as opened has it, and the inputs of those that would not open, or close, by themselves."""
    peer, inputs = start().double(), []
    with peers.float64():
        return train(peer, doubled, peers.steer(peer, order, opened, inputs)), inputs


def outcome(title, ours, losses, inputs):
    """Of losses and the results of steered: the greatest difference, the greatest input, and a line that says them."""
    worst, farthest = float(np.abs(ours - losses).max()), max(inputs, default=0.0)
    return worst, farthest, (f"{title} {len(losses)} steps from {losses[0]:.5f} to {losses[-1]:.5f}: greatest difference {worst:.1e}, with {len(inputs)} ReLUs"
                             f" set, whose inputs are up to {farthest:.1e}")


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
    parser.add_argument("parts", nargs="*", default=["losses", "gates", "auc", "speed"], help=f"of {', '.join(PARTS)}; default: all but perturb and control")
    parser.add_argument("--ecrec", default="./ecrec")
    parser.add_argument("--out", default="build/fuxictr-runs", help="folder for data and runs")
    parser.add_argument("--json", help="file of the report")
    parser.add_argument("--kinds", nargs="+", default=list(peers.KINDS), choices=list(peers.KINDS))
    parser.add_argument("--data", nargs="+", default=["adult", "synthetic"], choices=list(SHAPES), help="data sets of all parts but speed")
    parser.add_argument("--steps", type=int, default=200, help="of losses, gates, perturb and control")
    parser.add_argument("--lr", type=float, help="of losses (1e-4), gates, perturb and control (1e-3); see README.md")
    parser.add_argument("--perturbed", type=int, default=32, help="runs of perturb")
    parser.add_argument("--precision", default="float32", choices=["float32", "float64"], help="of these runs")
    parser.add_argument("--samples", type=int, default=2_000_000, help="of the synthetic data")
    parser.add_argument("--seeds", type=int, default=10, help="of Adult")
    parser.add_argument("--synthetic-seeds", type=int, default=10)
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
    train = data.read(adult_recipe, adult["data.train"])
    samples = data.read(made_recipe, made["data.train"]) if "synthetic" in args.data or "speed" in args.parts else None
    for name, *of in (("adult", adult, adult_recipe, train), ("synthetic", made, made_recipe, samples)):
        for part, compare in (("losses", c.compare_losses), ("gates", c.compare_gates), ("perturb", c.perturb), ("control", c.control)):
            if part == "gates" and name != "adult" and len(args.data) > 1:
                continue  # it saves the rows at each step: gigabytes
            if name in args.data and part in args.parts:
                compare(name, *of)
    if "auc" in args.parts:
        held = data.read(adult_recipe, adult["data.eval"])

        def orders(seed):
            file = c.out / "data" / f"adult-{seed}.csv"
            order = data.shuffled(pathlib.Path(adult["data.train"][0]), file, 3, seed)
            return {**adult, "data.train": [str(file)]}, adult_recipe, train.pick(order), held

        if "adult" in args.data:
            c.compare_auc("adult", args.kinds, args.seeds, orders)

        def parts(seed):
            order = np.random.default_rng(seed).permutation(data.PARTS)
            index = np.concatenate([np.arange(p * size, (p + 1) * size) for p in order])
            return {**made, "data.train": [made["data.train"][p] for p in order]}, made_recipe, samples.pick(index), held_made

        if "synthetic" in args.data:
            held_made, size = data.read(made_recipe, made["data.eval"]), len(samples.label) // data.PARTS
            c.compare_auc("synthetic", args.kinds, args.synthetic_seeds, parts)
    if "speed" in args.parts:
        c.compare_speed(made, made_recipe, samples)
    c.save()
    return 1 if c.missed else 0


if __name__ == "__main__":
    sys.exit(main())
