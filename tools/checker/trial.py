"""Runs one trial: a reference without faults, then the run of the plan, and compares."""

import os
import random
import re
import shutil
import subprocess

import files
import recompute
import samples
from judge import Judge, Reference
from procs import Run

DEADLINE = 60  # seconds for one command of a few hundred small steps, on a loaded machine


class Skip(Exception):
    """This machine, or this version of ecrec, cannot run the trial: the text is the reason."""


class Trial:
    skip = Skip

    def __init__(self, plan, folder, ecrec, log):
        self.plan, self.folder, self.ecrec, self.log = plan, folder, ecrec, log
        self.problems, self.runs, self.kills, self.known = [], 0, 0, {}

    def note(self, about):
        self.log({"trial": self.plan["seed"], **about})

    def need(self, right, text, *values):
        if not right:
            self.problems.append(text % values if values else text)
        return right

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def command(self, args, seconds=DEADLINE, env=None, faults=(), watch=None, limit=None, quiet=False):
        """Runs one ecrec command to its end; returns (exit code, its output)."""
        run = Run([self.ecrec] + args, self.folder, self.note, env=env, faults=faults, watch=watch, limit_bytes=limit)
        code = run.wait(seconds)
        self.runs += 1
        left = run.left_behind(12)
        self.kills += sum(len(text.split("[")[1].split(",")) for text in run.struck if "kill" in text and "[]" not in text and "[" in text)
        self.note({"ran": " ".join(args), "code": code, "took_s": round(run.took, 2), "struck": run.struck})
        self.need(not left, "`ecrec %s` left processes behind: %s", args[0], left)
        self.need(code is not None, "`ecrec %s` did not end within %d s%s", " ".join(args), seconds, "" if quiet else ": " + run.text()[-300:])
        for text in run.struck:
            self.need("fault failed" not in text, text)
        text = run.text()
        for word in ("panic: ", "runtime error", "goroutine ", "DATA RACE", "fatal error: "):
            self.need(word not in text, "`ecrec %s` printed a trace: %s", args[0], text[max(0, text.find(word) - 100):][:600])
        return code, text

    def quiet(self, args):
        code, text = self.command(args)
        if code != 0:
            self.note({"output": text[-500:]})
        return code

    def config(self, name, keys):
        files.write(self.path(name + ".toml"), files.toml(dict(keys, **{"job.out": name})))
        return name + ".toml"

    def reference(self, extra=None):
        """Trains in one process without a cache, code or tier, with a digest of each step."""
        keys = dict(self.plan["keys"])
        keys.update({"cache.mode": "none", "ec.commit_every": 1, "job.threads": 1, "train.log_every": 1, "job.digests": True})
        if "checkpoint.every" in self.plan["free"]:
            keys["checkpoint.every"] = self.plan["free"]["checkpoint.every"]
        keys.update(extra or {})
        code, text = self.command(["train", self.config("ref", keys)])
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        self.finite(code, text)
        if not self.need(code == 0, "the reference run ended with code %s: %s", code, text[-400:]):
            return None
        ref = Reference(self.path("ref"))
        why = ref.incomplete()
        self.need(why is None, why)
        return ref

    @staticmethod
    def finite(code, text):
        if code == 1 and re.search(r"the loss is (NaN|[+-]?Inf)", text):
            raise Skip("the loss of the drawn job is not finite")

    def subject(self, extra=None):
        keys = dict(self.plan["keys"], **self.plan["free"])
        keys.update(extra or {})
        if keys.get("store.dram_bytes") == "least":
            keys["store.dram_bytes"] = self.least_memory(keys)
        return self.config("run", keys)

    def least_memory(self, keys):
        """The least store.dram_bytes that a job accepts: a refusal of less names it."""
        if "least" not in self.known:
            config = self.config("small", dict(keys, **{"store.dram_bytes": "1KiB"}))
            code, text = self.train(config)
            found = re.search(r"use at least (\d+)", text)
            self.need(code == 2 and found, "too little store.dram_bytes: code %s, without the least that is needed: %s", code, text[-300:])
            self.known["least"] = int(found.group(1)) if found else 1 << 20
        return self.known["least"]

    def train(self, config, np=None, resume=False, **more):
        np = np or self.plan["np"]
        args = ["train", config] + (["--np", str(np)] if np > 1 else [])
        if resume:
            args += ["--resume", resume]
        return self.command(args + more.pop("args", []), **more)

    def watch(self, out):
        """Returns a function that tells whether a moment has come, from the files of a run."""
        seen = {"events": 0, "metrics": 0, "steps": 0, "counts": {}}

        def advance(name):
            path = os.path.join(out, name + ".jsonl")
            try:
                size = os.path.getsize(path)
            except OSError:
                return
            if size > seen[name]:
                with open(path, "rb") as f:
                    f.seek(seen[name])
                    text = f.read()
                end = text.rfind(b"\n") + 1
                seen[name] += end
                for line in text[:end].split(b"\n"):
                    self.digest_line(line, name, seen)
            elif size < seen[name]:
                seen[name] = 0

        # What an earlier attempt wrote does not count.
        for name in ("events", "metrics"):
            path = os.path.join(out, name + ".jsonl")
            seen[name] = os.path.getsize(path) if os.path.exists(path) else 0

        def come(when, run):
            advance("events")
            if "event" in when:
                return seen["counts"].get(when["event"], 0) >= when["count"]
            if seen["counts"].get("recovered", 0) < when.get("recovered", 0):
                return False
            advance("metrics")
            return seen["steps"] >= when["step"]
        return come

    @staticmethod
    def digest_line(line, name, seen):
        import json
        try:
            about = json.loads(line)
        except ValueError:
            return
        if name == "events":
            seen["counts"][about.get("event")] = seen["counts"].get(about.get("event"), 0) + 1
            if about.get("event") == "commit":
                seen["steps"] = max(seen["steps"], about.get("step", 0))
        elif "loss" in about:
            seen["steps"] = max(seen["steps"], about["step"])

    # The scenarios.

    def run(self):
        samples.make(self.plan["data"], self.folder, self.quiet)
        getattr(self, "run_" + self.plan["scenario"])()
        return self.problems

    def judge(self, ref, name="run", shared=True):
        return Judge(ref, self.plan, self.path(name), shared)

    def settle(self, judge, damaged=()):
        """All checks of a run that is done."""
        judge.finished()
        judge.history(self.kills)
        judge.saved(damaged=damaged)
        self.problems += judge.problems

    def run_same(self):
        ref = self.reference()
        if not ref:
            return
        roles = self.plan.get("roles", 0)
        extra = {"job.ranks": self.plan["keys"]["job.ranks"] + roles} if roles else None
        code, text = self.train(self.subject(extra), env=self.plan.get("env"))
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        if not self.need(code == 0, "a run without faults ended with code %s: %s", code, text[-400:]):
            return
        judge = self.judge(ref, shared=not roles)
        if roles:
            # Another number of ranks is another lineage.
            ref.summary["lineage"] = files.read_json(self.path("run", "summary.json"))["lineage"]
        self.settle(judge)
        self.same_increments(ref, roles)
        self.same_predictions(ref)

    def same_increments(self, ref, roles):
        """An increment, written as a full checkpoint, has the bytes of a full one."""
        saved = files.checkpoints(self.path("run", "checkpoints"))
        parts = [s for s in saved if s in ref.checkpoints and files.manifest(saved[s]).get("parent")]
        if parts and not roles:
            step = parts[-1]
            code, text = self.command(["export", saved[step], "--to", "checkpoint:full"])
            if self.need(code == 0, "export of an increment ended with code %s: %s", code, text[-300:]):
                found = files.checkpoints(self.path("full"))
                judge = self.judge(ref)
                judge.same_checkpoint(found.get(step, self.path("full")), ref.checkpoints[step])
                self.problems += judge.problems

    def same_predictions(self, ref):
        """predict gives the same bytes with both models, and the logloss and AUC of the evaluation."""
        rows = {"csv": "eval.csv", "topic": "eval.csv", "criteo-tsv": "eval.txt"}.get(self.plan["data"]["kind"])
        if not rows:
            return
        extra = ["--set", "data.format=csv"] if self.plan["data"]["kind"] == "topic" else []
        for name in ("ref", "run"):
            code, text = self.command(["predict", name, "--data", rows, "--to", name + ".scores.csv", "--overwrite"] + extra)
            if not self.need(code == 0, "predict ended with code %s: %s", code, text[-300:]):
                return
        self.need(files.read(self.path("ref.scores.csv")) == files.read(self.path("run.scores.csv")), "predict gives other scores with the model of the run")
        if self.plan["keys"].get("data.eval") in (["eval.csv"], ["eval.txt"]):
            self.right_evaluation(ref, rows)

    def right_evaluation(self, ref, rows):
        if rows.endswith(".csv"):
            labels = [int(row["label"]) for row in samples.rows(self.path(rows))]
        else:
            labels = [int(line.split("\t")[0]) for line in files.read(self.path(rows)).decode().splitlines()]
        values = [float(line) for line in files.read(self.path("ref.scores.csv")).decode().split("\n")[1:] if line]
        if not self.need(len(values) == len(labels), "predict gave %d scores of %d rows", len(values), len(labels)):
            return
        want = next((e for e in ref.evals if e[0] == ref.summary["model_step"]), None)
        if self.need(want is not None, "there is no evaluation of the kept model's step") and all(0 < v < 1 for v in values):
            self.need(abs(recompute.logloss(labels, values) - want[1]) < 1e-4 * max(1, want[1]), "logloss %r, of the scores it is %r",
                      want[1], recompute.logloss(labels, values))
            self.need(abs(recompute.auc(labels, values) - want[2]) < 1e-4, "AUC %r, of the scores it is %r", want[2], recompute.auc(labels, values))

    def run_losses(self):
        ref = self.reference()
        if not ref:
            return
        code, text = self.train(self.subject(), faults=self.plan["faults"], watch=self.watch(self.path("run")))
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        if self.need(code == 0, "each loss was within the code, and the run ended with code %s: %s", code, text[-500:]):
            self.settle(self.judge(ref))

    def run_points(self):
        ref = self.reference()
        if not ref:
            return
        code, text = self.command(["train", self.subject(), "--chaos", "list"])
        points = [line.split()[0] for line in text.splitlines() if line.strip()]
        if not self.need(code == 0 and len(points) > 20, "--chaos list lists no points: %s", text[:200]):
            return
        args = []
        for share, step in zip(self.plan["chaos"], self.plan["chaos_steps"]):
            rank = int(share * 1000) % self.plan["keys"]["job.ranks"]
            args += ["--chaos", "kill:%d@%d:%s" % (rank, step, points[int(share * len(points))])]
        self.note({"chaos": args})
        config = self.subject()
        code, text = self.train(config, args=args)
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        self.kills += len(args) // 2
        # Two losses may meet. Without room in the code the run returns to a checkpoint, or ends with an error, and can be resumed.
        if self.need(code in (0, 1), "a run that lost processes ended with code %s: %s", code, text[-400:]) and code == 1:
            self.need(len(args) > 2, "one process was killed, which the code rebuilds, and the run ended with code 1: %s", text[-400:])
            code, text = self.train(config, resume="auto")
        if self.need(code == 0, "the run could not be finished: code %s: %s", code, text[-400:]):
            self.settle(self.judge(ref))

    def safe_step(self, damaged):
        """The step that a resume must reach: the newest checkpoint, or durable commit, that is in events.jsonl."""
        safe = 0
        for event in files.json_lines(self.path("run", "events.jsonl")):
            if event["event"] in ("checkpoint", "durable") and not damaged:
                safe = max(safe, event["step"])
        return safe

    def run_storm(self):
        ref = self.reference()
        if not ref:
            return
        config, code, damaged, text = self.subject(), None, set(), ""
        for i, faults in enumerate(self.plan["attempts"]):
            np = self.plan.get("nps", [self.plan["np"]] * 4)[i]
            safe = self.safe_step(damaged)
            code, text = self.train(config, np, resume="auto" if i else False, faults=faults, watch=self.watch(self.path("run")), seconds=90)
            if code == 2 and i == 0:
                raise Skip("refused: " + text.strip().split("\n")[-1][:200])
            if not (damaged and code == 2) and not self.names_damage(code, damaged, text):
                self.right_code(code, faults, text)
            self.resumed_from(safe, i, code)
            if code == 0:
                break
            for torn in self.plan.get("torn", []) if i == 0 else []:
                self.tear(torn, damaged)
        if code != 0:
            safe = self.safe_step(damaged)
            code, text = self.train(config, resume="auto", seconds=90)
            self.resumed_from(safe, 1, code)
        if damaged and code != 0:
            # A log that cannot be used may be refused by name. Without it the run must continue from a checkpoint.
            self.need(code in (1, 2) and "ecrec" in text, "a run over damaged files ended with code %s: %s", code, text[-300:])
            if "store" in damaged:
                self.need(re.search(r"store\.path: .*remove", text), "a damaged log is refused, and no remedy is named: %s", text[-300:])
            self.note({"refused": text[-300:]})
            self.remove_logs()
            code, text = self.train(config, resume="auto", seconds=90)
            saved = files.checkpoints(self.path("run", "checkpoints"))
            if code == 2 and saved and not set(saved) - damaged:
                # Nothing is left to continue from. A job does not begin again over checkpoints unless it is told to.
                self.need("no checkpoint there can be used" in text, "all checkpoints are damaged, and the run ended with code 2: %s", text[-300:])
                return
        if self.need(code == 0, "the last attempt had no fault, and ended with code %s: %s", code, text[-500:]):
            self.settle(self.judge(ref), damaged={d for d in damaged if isinstance(d, int)})

    def remove_logs(self):
        for base in (self.path("store"), self.path("run", "store"), self.path("small", "store")):
            shutil.rmtree(base, ignore_errors=True)
        self.note({"removed": "the logs, as the message says"})

    @staticmethod
    def names_damage(code, damaged, text):
        """A row of a log that was damaged is found when it is read: then the run ends with code 1, and names the file."""
        return code == 1 and "store" in damaged and re.search(r"store\.path: .*damaged.*; remove the folder", text)

    def right_code(self, code, faults, text):
        """143 and 130 after a signal to the launcher, -9 if it was killed, 1 if the job lost too much, 0 at its end."""
        kinds = {(f["do"], f["of"]) for f in faults}
        # A signal is no failure: the run saves, and says by its code which signal it was.
        allowed = {0} if kinds and kinds <= {("term", "launcher"), ("int", "launcher")} else {0, 1}
        if ("term", "launcher") in kinds:
            allowed |= {143}
        if ("int", "launcher") in kinds:
            allowed |= {130}
        if ("kill", "launcher") in kinds or ("kill", "all") in kinds or (self.plan["np"] == 1) or "nps" in self.plan:
            allowed |= {-9, 137}
        self.need(code in allowed, "exit code %s after the faults %s: %s", code, sorted(kinds), text[-300:])
        if code == 1:
            self.need("ecrec: " in text, "a run ended with code 1 and no line of its cause: %s", text[-300:])

    def resumed_from(self, safe, attempt, code):
        """A resume begins at the newest checkpoint or later; at a start of another job it is looked for in the events."""
        if not attempt:
            return
        begins = [e for e in files.json_lines(self.path("run", "events.jsonl")) if e["event"] in ("start", "resume")]
        if begins and code == 0:
            self.need(begins[-1].get("step", 0) >= safe, "resumed at step %s, and the checkpoint of step %d was there", begins[-1].get("step", 0), safe)

    def tear(self, torn, damaged):
        """Damages a file as a loss of power or a bad disk does."""
        if torn["what"] == "checkpoint":
            saved = files.checkpoints(self.path("run", "checkpoints"))
            if not saved:
                return
            step = max(saved)
            folder = saved[step]
            names = [n for n in sorted(os.listdir(folder)) if os.path.getsize(os.path.join(folder, n)) > 0 and n != "recipe.json"]
            damaged.add(step)
        else:
            base = self.path("run", "store") if os.path.isdir(self.path("run", "store")) else self.path("store")
            if not os.path.isdir(base):
                return
            folders = [os.path.join(base, n) for n in sorted(os.listdir(base)) if os.path.isdir(os.path.join(base, n)) and os.listdir(os.path.join(base, n))]
            if not folders:
                return
            folder = folders[int(torn["pick"] * len(folders))]
            names = sorted(n for n in os.listdir(folder) if os.path.isfile(os.path.join(folder, n)) and os.path.getsize(os.path.join(folder, n)) > 0)
            damaged.add("store")
        if not names:
            return
        path = os.path.join(folder, names[int(torn["pick"] * len(names))])
        data = bytearray(files.read(path))
        at = int(torn["at"] * len(data))
        if torn["how"] == "gone":
            os.remove(path)
        else:
            if torn["how"] == "flip":
                data[at] ^= 1 << (at % 8)
            else:
                del data[0 if torn["how"] == "empty" else at:]
            with open(path, "wb") as f:
                f.write(data)
        self.note({"torn": os.path.relpath(path, self.folder), "how": torn["how"], "at": at})

    def run_full(self):
        ref = self.reference()
        if not ref:
            return
        if self.plan["how"] == "tmpfs" and os.geteuid() != 0:
            raise Skip("a small file system needs root")
        small, limit = self.path("small"), None
        os.mkdir(small)
        extra = {"checkpoint.dir": "small/checkpoints"}
        if self.plan["free"].get("store.path") or self.plan["free"].get("store.tier"):
            extra["store.path"] = "small/store"
        mounted = False
        if self.plan["how"] == "tmpfs":
            if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=%d" % self.plan["room"], "checker", small]) != 0:
                raise Skip("tmpfs cannot be mounted")
            mounted = True
        else:
            limit = self.plan["room"] * 4
        try:
            config = self.subject(extra)
            code, text = self.train(config, limit=limit, seconds=90)
            if code == 2:
                raise Skip("refused: " + text.strip().split("\n")[-1][:200])
            self.need(code in (0, 1), "a run on a full disk ended with code %s: %s", code, text[-300:])
            if code == 1:
                self.need("space" in text or "too large" in text or "no room" in text or "full" in text, "a run on a full disk does not name it: %s", text[-400:])
            judge = self.judge(ref)
            judge.history(0, done=False)
            judge.saved(os.path.join(small, "checkpoints"))
            self.problems += judge.problems
            if mounted:
                subprocess.call(["mount", "-o", "remount,size=256m", small])
            code, text = self.train(config, resume="auto", seconds=90)
            if self.need(code == 0, "with room again, the run ended with code %s: %s", code, text[-400:]):
                judge = self.judge(ref)
                judge.finished()
                judge.history(len(ref.losses))
                judge.saved(os.path.join(small, "checkpoints"))
                self.problems += judge.problems
        finally:
            if mounted:
                subprocess.call(["umount", "-l", small])

    def run_follow(self):
        ref = self.reference()
        if not ref:
            return
        config = self.subject()
        followers = [self.start_follower(i, f) for i, f in enumerate(self.plan["followers"])]
        code, text = None, ""
        try:
            for i, faults in enumerate(self.plan["attempts"] + [[]]):
                code, text = self.train(config, resume="auto" if i else False, faults=faults, watch=self.watch(self.path("run")), seconds=90)
                if code == 2 and i == 0:
                    raise Skip("refused: " + text.strip().split("\n")[-1][:200])
                self.right_code(code, faults, text)
                if code == 0:
                    break
        finally:
            for follower in followers:
                follower.stop()
        self.need(code == 0, "the last attempt had no fault, and ended with code %s: %s", code, text[-500:])
        if code != 0:
            return
        self.settle(self.judge(ref))
        self.followed(ref)

    def start_follower(self, i, about):
        from follower import Follower
        return Follower(self, i, about)

    def followed(self, ref):
        """Every follower's folder, and a new one's, has models of the run: digest, bytes and predictions."""
        end = len(ref.losses)
        for i, about in enumerate(self.plan["followers"]):
            folder = "follow-%d" % i
            self.right_models(ref, folder, killed=True)
            code, text = self.command(["follow", "file:topic", "--to", folder, "--at", "end"])
            if not self.need(code == 0, "follow --at end ended with code %s: %s", code, text[-400:]):
                continue
            self.right_models(ref, folder)
            saved = files.checkpoints(self.path(folder))
            self.need(end in saved, "follow --at end saved steps %s, the run ended at %d", sorted(saved), end)
            mine = files.checkpoints(self.path("run", "checkpoints")).get(end)
            if end in saved and mine and not files.manifest(saved[end]).get("parent") and not files.manifest(mine).get("parent"):
                differs = files.difference(saved[end], mine, lambda n: n != "follow.json")
                self.need(differs is None, "the checkpoint of follow --at end differs from the run's in %s", differs)
            if end in saved:
                self.same_scores(saved[end], "run")
        self.resume_from_topic(ref)
        if self.plan["damage"]:
            self.damaged_topic(ref)

    def right_models(self, ref, folder, killed=False):
        judge = self.judge(ref)
        judge.saved(self.path(folder))
        self.problems += judge.problems
        for name in os.listdir(self.path(folder)) if os.path.isdir(self.path(folder)) else []:
            if killed and name.startswith("step-") and ".tmp-" in name:
                continue  # the next follower removes it
            self.need(files.STEP.match(name) or name in (".lock", "follow.json"), "%s is left over in the folder of a follower", name)

    def same_scores(self, one, other):
        rows = {"csv": "eval.csv", "topic": "eval.csv", "criteo-tsv": "eval.txt"}.get(self.plan["data"]["kind"])
        if not rows or self.plan["keys"].get("train.keep") != "last":
            return
        extra = ["--set", "data.format=csv"] if self.plan["data"]["kind"] == "topic" else []
        found = []
        for n, model in enumerate((one, other)):
            code, text = self.command(["predict", model, "--data", rows, "--to", "scores-%d.csv" % n, "--overwrite"] + extra)
            if not self.need(code == 0, "predict %s ended with code %s: %s", os.path.basename(model), code, text[-300:]):
                return
            found.append(files.read(self.path("scores-%d.csv" % n)))
        self.need(found[0] == found[1], "predict gives other scores with the follower's checkpoint")

    def resume_from_topic(self, ref):
        """A run that resumes from the topic ends with the digest of the run."""
        if any(f["flags"] == ["--trim"] for f in self.plan["followers"]):
            source = "file:topic"
        else:
            steps = sorted({e["step"] for e in files.json_lines(self.path("run", "events.jsonl")) if e["event"] == "commit" and e.get("step")})
            source = "file:topic@%d" % steps[int(self.plan["at"] * (len(steps) - 1))]
        keys = dict(self.plan["keys"], **self.plan["free"])
        keys.pop("stream.to")
        if keys.get("store.dram_bytes") == "least":
            keys["store.dram_bytes"] = self.least_memory(keys)
        config = self.config("again", keys)
        code, text = self.train(config, self.plan["resume_np"], resume=source)
        if "@" in source and code != 0 and "has no model of step" in text:
            return  # commits are merged while the topic takes them too slowly
        if self.need(code == 0, "--resume %s ended with code %s: %s", source, code, text[-400:]):
            judge = self.judge(ref, "again")
            # A topic has the newest model, and no earlier one that was the best: then the run warns.
            judge.finished(model="the best model so far" not in text)
            self.problems += judge.problems

    def damaged_topic(self, ref):
        """A byte of the topic is altered: a follower that starts anew has right models, or names the damage."""
        parts = sorted(n for n in os.listdir(self.path("topic")) if n.startswith("partition-"))
        r = random.Random(self.plan["seed"])
        folder = self.path("topic", r.choice(parts))
        names = [n for n in sorted(os.listdir(folder)) if os.path.getsize(os.path.join(folder, n)) > 0]
        if not names:
            return
        path = os.path.join(folder, r.choice(names))
        data = bytearray(files.read(path))
        at = r.randrange(len(data))
        data[at] ^= 1 << r.randrange(8)
        with open(path, "wb") as f:
            f.write(data)
        self.note({"torn": os.path.relpath(path, self.folder), "how": "flip", "at": at})
        code, text = self.command(["follow", "file:topic", "--to", "late", "--at", "end"])
        self.need(code in (0, 1, 2), "follow of a damaged topic ended with code %s: %s", code, text[-300:])
        self.right_models(ref, "late")
        if code == 0:
            self.need(len(ref.losses) in files.checkpoints(self.path("late")) or "digest" in text, "follow ended with 0 on a damaged topic, without a model")

    def run_cluster(self):
        import cluster
        cluster.run(self)

    def run_recompute(self):
        keys = self.plan["keys"]
        train, test = samples.rows(self.path("train.csv")), samples.rows(self.path("eval.csv"))
        for name in keys["data.csv.dense"]:
            if keys.get("data.transform", {}).get(name) == "standard" and len({row[name] for row in train if row[name]}) < 2:
                raise Skip("a column with one value")
        features = recompute.Features(keys, train)
        weights = recompute.initial(keys, features.tables(), self.plan["weights_seed"])
        files.write_safetensors(self.path("init.safetensors"), weights)
        ref = self.reference()
        if not ref:
            return
        self.near_losses(keys, weights, train, features, ref)
        code, text = self.train(self.subject())
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        if not self.need(code == 0, "a run without faults ended with code %s: %s", code, text[-400:]):
            return
        self.settle(self.judge(ref))
        self.same_predictions(ref)
        mine = recompute.scores(recompute.load(keys, self.path("run", "model.safetensors")), test, features)
        if os.path.exists(self.path("run.scores.csv")):
            theirs = [float(line) for line in files.read(self.path("run.scores.csv")).decode().split("\n")[1:] if line]
            worst = max((abs(a - b), i) for i, (a, b) in enumerate(zip(mine, theirs)))
            self.need(len(mine) == len(theirs) and worst[0] < 2e-5, "score of row %d is %r, computed by hand %r", worst[1] + 1, theirs[worst[1]], mine[worst[1]])

    def near_losses(self, keys, weights, train, features, ref):
        """Losses of training by hand. float32 and float64 part slowly: the tolerance grows with the steps."""
        order = train
        losses, _ = recompute.train(keys, weights, order, features)
        self.need(len(losses) == len(ref.losses), "%d steps, computed by hand %d", len(ref.losses), len(losses))
        for step, (mine, theirs) in enumerate(zip(losses, ref.losses), 1):
            near = 1e-5 * (1 + step) * max(1.0, mine)
            if not self.need(abs(mine - theirs) <= near, "loss of step %d is %r, computed by hand %r", step, theirs, mine):
                return

    def run_refuse(self):
        import refusals
        refusals.run(self)

    def run_audit(self):
        ref = self.reference()
        if not ref:
            return
        code, text = self.train(self.subject())
        if code == 2:
            raise Skip("refused: " + text.strip().split("\n")[-1][:200])
        if not self.need(code == 0, "a run without faults ended with code %s: %s", code, text[-400:]):
            return
        self.settle(self.judge(ref))
        alter = self.plan["audit"]["alter"]
        if alter == "event":
            path = self.path("run", "events.jsonl")
            lines = files.read(path).decode().split("\n")
            commits = [i for i, line in enumerate(lines) if '"event":"commit"' in line and '"step"' in line]
            i = commits[int(self.plan["audit"]["pick"] * len(commits))]
            head, digest = lines[i].split('"digest":"')
            lines[i] = head + '"digest":"' + ("0" if digest[0] != "0" else "1") + digest[1:]
            files.write(path, "\n".join(lines))
        elif alter == "summary":
            path = self.path("run", "summary.json")
            text = files.read(path).decode()
            digest = ref.summary["digest"]
            files.write(path, text.replace('"digest": "' + digest, '"digest": "' + ("0" if digest[0] != "0" else "1") + digest[1:], 1))
        code, text = self.command(["audit", "run"] + (["--np", str(self.plan["audit"]["np"])] if self.plan["audit"]["np"] > 1 else []), seconds=120)
        if alter == "nothing":
            self.need(code == 0 and "equal" in text, "an audit of an honest run ended with code %s: %s", code, text[-400:])
        else:
            self.need(code == 1, "an audit of a run whose %s was altered ended with code %s: %s", alter, code, text[-400:])
