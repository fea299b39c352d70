"""Commands that must be refused: each with exit code 2, one line of the reason, and nothing changed (docs/recovery.md, docs/config.md)."""

import os
import re

import files

# What a run makes of its data, before it is known whether it can train: the next one uses it.
CONVERTED = re.compile(r"\.(rec|rec\.texts|recipe\.json)$")


def run(trial):
    config = trial.subject()
    code, text = trial.train(config, 1)
    trial.finite(code, text)
    if code == 2:
        raise trial.skip("refused: " + text.strip().split("\n")[-1][:200])
    if not trial.need(code == 0, "a run without faults ended with code %s: %s", code, text[-400:]):
        return
    before = state(trial)
    keys = trial.plan["keys"]
    spoiled = dict(keys, **trial.plan["free"])
    trial.config("run", dict(spoiled, **{"job.sead": 3}))
    os.rename(trial.path("run.toml"), trial.path("misspelt.toml"))
    trial.subject()
    cases = [
        (["train", config], "run", "over the result of an earlier run"),
        (["train", "misspelt.toml"], "seed", "a misspelt key"),
        (["train", config, "--resume", "auto", "--set", "train.global_batch=%d" % (keys["train.global_batch"] + 1)], "global_batch",
         "--resume auto with another batch"),
        (["train", config, "--resume", "run/checkpoints", "--set", "job.out=\"fork\"", "--set", "job.seed=%d" % (keys["job.seed"] + 1), "--allow", "job.seed"],
         "seed", "--resume DIR with another seed"),
        (["train", config, "--resume", "run/checkpoints", "--set", "job.out=\"fork\"", "--set", "optimizer.dense.lr=0.077"], "optimizer.dense.lr",
         "--resume DIR with another rate, without --allow"),
        (["train", config, "--set", "job.out=\"other\"", "--set", "ec.code=\"xor\"", "--set", "ec.k=2", "--set", "job.ranks=4"], "rank", "a code that does not fit"),
        (["train", config, "--set", "job.out=\"other\"", "--set", "model.kind=\"dlmr\""], "dlrm", "a kind that does not exist"),
        (["train", config, "--set", "job.out=\"other\"", "--set", "ec.commit_every=-1"], "commit_every", "a negative number of steps"),
        (["train", "none.toml"], "none.toml", "a config that is not there"),
        (["train", config, "--resume", "missing"], "missing", "a checkpoint that is not there"),
        (["train", config, "--chaos", "kill:99@3"], "99", "a rank that is not there"),
        (["follow", "file:none", "--to", "f", "--at", "end"], "none", "a topic that is not there"),
        (["predict", "run", "--data", "absent.csv"], "data.format" if keys["data.format"] == "synthetic" else "absent.csv", "rows that are not there"),
    ]
    for args, word, what in cases:
        code, text = trial.command(args)
        lines = [line for line in text.strip().split("\n") if line.startswith("ecrec: ")]
        trial.need(code in (1, 2) if args[0] == "follow" else code == 2, "%s: exit code %s, and not 2: %s", what, code, text[-300:])
        trial.need(lines and word in text, "%s: no line names it: %s", what, text[-300:])
        trial.need(state(trial) == before, "%s: files of the run have changed", what)
        made = [os.path.join(out, name) for out in ("other", "fork") if os.path.isdir(trial.path(out)) for name in os.listdir(trial.path(out))
                if not CONVERTED.search(name)]
        trial.need(not made, "%s: a refused run wrote %s", what, made)
    fork(trial, config)


def state(trial):
    """The names and bytes of a finished run, without the logs, to which an attempt may add lines."""
    found = {}
    for folder, _, names in os.walk(trial.path("run")):
        for name in names:
            path = os.path.join(folder, name)
            if not name.startswith("process-") and name != "run.lock":
                found[os.path.relpath(path, trial.folder)] = files.read(path)
    return found


def fork(trial, config):
    """With --allow the same difference is a fork with a lineage of its own."""
    code, text = trial.command(["train", config, "--resume", "run/checkpoints/step-%012d" % 10, "--set", "job.out=\"fork\"", "--set", "optimizer.dense.lr=0.077",
                                "--allow", "optimizer.dense.lr"])
    if trial.plan["keys"]["train.iterations"] <= 10:
        return
    if trial.need(code == 0, "a fork that --allow names ended with code %s: %s", code, text[-300:]):
        one, other = (files.read_json(trial.path(name, "summary.json")) for name in ("run", "fork"))
        trial.need(one["lineage"] != other["lineage"], "a fork has the lineage of the run that it came from")
        trial.need(one["train_loss"][:10] == other["train_loss"][:10], "a fork has other losses before it begins")
        trial.need(other.get("resumed_from"), "the summary of a fork does not name where it resumed")
