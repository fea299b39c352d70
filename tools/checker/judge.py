"""Compares a run with its reference, by the files of both. Every rule here is a sentence of docs/."""

import os
import re

import files

# Names that may be in the folder of a run that is done (docs/operate.md, "Files of a run").
OUT = re.compile(r"^(config\.toml|events\.jsonl|metrics\.jsonl|process-\d+\.log|summary\.json|model\.safetensors|recipe\.json|checkpoints|"
                 r"restored|store|tensorboard|run\.lock|report\.html|[^.].*\.rec(\.texts)?|[^.].*\.recipe\.json)$")
SAVED = re.compile(r"^(step-\d{12}|\.lock|model-best-\d+-[0-9a-f]+\.safetensors)$")


class Reference:
    """What a run without faults, in one process, says of every step."""

    def __init__(self, out):
        self.out = out
        self.summary = files.read_json(os.path.join(out, "summary.json"))
        self.losses = self.summary["train_loss"]
        self.evals = plain_evals(self.summary)
        self.digests = {}
        for event in files.json_lines(os.path.join(out, "events.jsonl")):
            if event["event"] == "commit":
                self.digests[event.get("step", 0)] = event["digest"]
        self.checkpoints = files.checkpoints(os.path.join(out, "checkpoints"))

    def incomplete(self):
        missing = [s for s in range(len(self.losses) + 1) if s not in self.digests]
        return "the reference has no digest of steps %s" % missing[:5] if missing else None


def plain_evals(summary):
    return [tuple(e.get(k) for k in ("step", "logloss", "auc")) for e in summary["eval"]]


class Judge:
    """Collects the ways in which a run breaks its promises."""

    def __init__(self, ref, plan, out, shared=True):
        self.ref, self.plan, self.out = ref, plan, out
        # shared: the number of ranks that hold rows is that of the reference, so the files of checkpoints are alike.
        self.shared = shared
        self.problems = []

    def need(self, right, text, *values):
        if not right:
            self.problems.append(text % values if values else text)
        return right

    def path(self, *names):
        return os.path.join(self.out, *names)

    def finished(self, model=True):
        """The result: digest, losses, evaluations and model are those of the reference, and nothing else is left over."""
        if not self.need(os.path.exists(self.path("summary.json")), "a run that exited with 0 wrote no summary.json"):
            return
        summary = files.read_json(self.path("summary.json"))
        ref = self.ref.summary
        self.need(not summary.get("error"), "the summary of a run that exited with 0 has the error %r", summary.get("error"))
        self.need(summary["digest"] == ref["digest"], "digest %s, the reference has %s", summary["digest"], ref["digest"])
        self.need(summary["steps"] == ref["steps"], "%s steps, the reference has %s", summary["steps"], ref["steps"])
        self.need(summary["lineage"] == ref["lineage"], "lineage %s, the reference has %s", summary["lineage"], ref["lineage"])
        self.same_losses(summary["train_loss"])
        # A signal ends a run with an evaluation: it stays in the history of the run that continues.
        stops = self.stops()
        mine = [e for e in plain_evals(summary) if e in self.ref.evals or e[0] not in stops]
        self.need(mine == self.ref.evals, "evaluations %s, the reference has %s", plain_evals(summary), self.ref.evals)
        for key in ("model_step", "model_digest") if model else ():
            self.need(summary.get(key) == ref.get(key), "%s %s, the reference has %s", key, summary.get(key), ref.get(key))
        if model:
            self.same_models(self.path("model.safetensors"), os.path.join(self.ref.out, "model.safetensors"))
        self.recoveries(summary)
        self.left_over()

    def same_losses(self, losses):
        want = self.ref.losses
        if losses != want:
            parts = next((i for i, (a, b) in enumerate(zip(losses, want)) if a != b), min(len(losses), len(want)))
            self.need(False, "losses part at step %d: %d losses, the reference has %d", parts + 1, len(losses), len(want))

    def same_models(self, one, other):
        try:
            (a, about), (b, _) = files.safetensors(one), files.safetensors(other)
        except (OSError, ValueError) as err:
            self.need(False, "a model file cannot be read: %s", err)
            return
        self.need(a.keys() == b.keys(), "tensors %s", sorted(a.keys() ^ b.keys()))
        for name in a.keys() & b.keys():
            self.need(a[name] == b[name], "tensor %s of %s differs from the reference", name, one)
        self.need("ecrec.digest" in about, "%s has no ecrec.digest", one)

    def recoveries(self, summary):
        """A loss costs at most two epochs of commit_every steps, and a step that only the lost process had ended."""
        most = 2 * self.plan["free"].get("ec.commit_every", 10) + 1
        for r in summary.get("recoveries") or []:
            if "committed_step" in r and "step" in r and not r.get("restored"):
                self.need(r["step"] - r["committed_step"] <= most or self.restored(r), "a loss at step %s went back to step %s, more than %d steps",
                          r["step"], r["committed_step"], most)

    def restored(self, recovery):
        """More was lost than the code rebuilds: back to a checkpoint or a durable commit, of which there is one of this step."""
        for event in self.events():
            if event["event"] in ("checkpoint", "durable", "start", "resume") and event.get("step", 0) == recovery["committed_step"]:
                return True
        return recovery["committed_step"] == 0

    def left_over(self):
        saved = self.path("checkpoints")
        for folder, allowed in ((self.out, OUT), (saved, SAVED)):
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                # A process that is killed between the last two operations of a job leaves a second name of its model, which takes no space.
                if name.startswith("model-best-") and os.path.samefile(os.path.join(folder, name), self.path("model.safetensors")):
                    continue
                self.need(allowed.match(name), "%s is left over in %s", name, os.path.basename(folder))

    def stops(self):
        """The steps at which a signal ended the run."""
        found, asked = set(), False
        for event in self.events():
            asked = asked or event["event"] == "stop_requested"
            if event["event"] == "end" and (asked or "stopped by" in event.get("cause", "")):
                found.add(event.get("step", 0))
            if event["event"] in ("start", "resume"):
                # A run that was killed after its evaluation wrote no end.
                if asked:
                    found.add(event.get("step", 0))
                asked = False
        return found

    def events(self):
        self.broken = []
        return files.json_lines(self.path("events.jsonl"), self.broken)

    def history(self, kills, done=True):
        """Events and metrics: each commit has the reference's digest, steps go back only at a loss or a resume, no step is missing."""
        at, durable, floor, job_ends, failed, stops = 0, 0, None, 0, False, self.stops()
        for event in self.events():
            kind, step = event["event"], event.get("step", 0)
            if kind == "commit":
                want = self.ref.digests.get(step)
                self.need(want == event["digest"], "commit of step %d has digest %s, the reference %s", step, event["digest"], want)
                self.need(step >= at or floor is not None, "step %d was committed after step %d, without a loss or a resume", step, at)
                if floor is not None:
                    self.need(step >= floor, "after a loss or a resume step %d was committed, but step %d was safe", step, floor)
                at, floor = step, None
            elif kind in ("start", "resume"):
                self.need(kind == "resume" or step == 0, "a start at step %d", step)
                if kind == "resume":
                    self.need(step in self.ref.digests, "resumed at step %d", step)
                floor, durable = step, min(durable, step)
                at, failed = step, False
            elif kind == "loss":
                floor = 0
            elif kind == "durable":
                self.need(step >= durable, "durable step %d after %d", step, durable)
                self.need(step <= at, "step %d is durable, and the last commit is %d", step, at)
                durable = step
            elif kind == "eval":
                mine = (event.get("step"), event.get("logloss"), event.get("auc"))
                self.need(mine in self.ref.evals or mine[0] in stops, "evaluation %s, the reference has %s", mine, self.ref.evals)
            elif kind == "end":
                job_ends = step
            elif kind == "failed":
                failed = True
        self.need(len(self.broken) <= kills, "%d lines of events.jsonl are broken, and %d processes were killed: %s", len(self.broken), kills, self.broken)
        if done:
            self.need(job_ends == len(self.ref.losses), "the last end is of step %d", job_ends)
            self.need(not failed, "the events of a job that succeeded have failed")
            self.metrics(kills)

    def metrics(self, kills):
        broken, seen, every = [], set(), self.plan["free"].get("train.log_every", 10)
        for line in files.json_lines(self.path("metrics.jsonl"), broken):
            if "loss" not in line:
                continue
            step = line["step"]
            seen.add(step)
            if not self.need(1 <= step <= len(self.ref.losses), "metrics of step %s", step):
                continue
            means = [mean(self.ref.losses[first:step]) for first in range(max(0, step - every), step)]
            self.need(any(abs(m - line["loss"]) <= 1e-12 for m in means), "metrics.jsonl has loss %r at step %d, the mean of the reference is %r",
                      line["loss"], step, means[0])
        missing = [s for s in range(every, len(self.ref.losses) + 1, every) if s not in seen]
        # A line is written by the process that hosts rank 0: one that it held back is lost with it.
        self.need(len(missing) <= kills, "metrics.jsonl has no line of steps %s", missing[:10])
        self.need(len(broken) <= kills, "%d lines of metrics.jsonl are broken", len(broken))

    def saved(self, folder=None, damaged=()):
        """Each published checkpoint is complete, and equals that of the reference at its step, byte for byte."""
        folder = folder or self.path("checkpoints")
        for step, path in sorted(files.checkpoints(folder).items()):
            if step in damaged:
                continue
            try:
                about = files.check_complete(path)
            except (OSError, ValueError, KeyError) as err:
                self.need(False, "the published checkpoint of step %d is not complete: %s", step, err)
                continue
            self.need(about["digest"] == self.ref.digests.get(step), "the checkpoint of step %d has digest %s, the reference %s",
                      step, about["digest"], self.ref.digests.get(step))
            if step in self.ref.checkpoints and self.shared and not about.get("parent"):
                self.same_checkpoint(path, self.ref.checkpoints[step])

    def same_checkpoint(self, path, want):
        differs = files.difference(path, want, lambda name: name.endswith(".safetensors"))
        self.need(differs is None, "%s differs from the reference's in %s", path, differs)
        mine, theirs = (files.read_json(os.path.join(p, "history.bin")) for p in (path, want))
        for key in mine.keys() | theirs.keys():
            # A run without faults has no losses, and no evaluation where a signal stopped it. Which older files of best models
            # are still there is no part of a result.
            if key in ("train_loss",):
                self.need(mine.get(key) == theirs.get(key), "%s: %s in history.bin differs from the reference's", path, key)


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)
