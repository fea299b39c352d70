"""Draws jobs and faults. A plan is plain JSON: it has all that a trial needs, and the same seed draws the same plan."""

import random

OPTIMIZERS = ["sgd", "momentum", "adagrad", "adam", "adamw", "ftrl"]


def widths(r, last):
    return [r.choice([4, 6, 8, 16]) for _ in range(r.randint(0, 2))] + [last]


def model(r, features, dense, dim):
    """Keys of [model] for a number of features and of dense features."""
    kind = r.choice(["dlrm", "dlrm", "dlrm", "wdl", "dcn", "deepfm"])
    keys = {"model.kind": kind, "model.embedding_dim": dim, "model.top_mlp": widths(r, 1)}
    if kind == "dlrm":
        keys["model.interaction"] = r.choice(["dot", "dot", "cat", "sum"])
        keys["model.bottom_mlp"] = widths(r, dim) if dense else []
        if keys["model.interaction"] == "dot" and not dense and features < 2:
            keys["model.interaction"] = "cat"
    elif kind == "wdl":
        keys["model.linear"] = r.random() < 0.5
        keys["model.bottom_mlp"] = widths(r, 5) if dense and r.random() < 0.7 else []
    elif kind == "dcn":
        keys["model.cross"] = r.choice(["low-rank", "vector", "full"])
        keys["model.structure"] = r.choice(["stacked", "parallel"])
        keys["model.cross_layers"] = r.randint(1, 3)
        if keys["model.cross"] == "low-rank":
            keys["model.cross_rank"] = r.randint(1, 4)
        keys["model.bottom_mlp"] = widths(r, 5) if dense and r.random() < 0.7 else []
        if keys["model.structure"] == "parallel":
            keys["model.top_mlp"] = [r.choice([4, 8]), 1]
    else:
        keys["model.dense_embedding"] = bool(dense) and r.random() < 0.5
        keys["model.top_mlp"] = [r.choice([4, 8]) for _ in range(r.randint(1, 2))] + [1]
        keys["model.batch_norm"] = r.random() < 0.5
    if kind != "deepfm" and r.random() < 0.2:
        keys["model.batch_norm"] = True
    if r.random() < 0.15:
        keys["model.dropout"] = r.choice([0.1, 0.3])
    return keys


def optimizers(r, steps):
    keys = {"optimizer.dense.kind": r.choice(OPTIMIZERS), "optimizer.sparse.kind": r.choice(OPTIMIZERS + ["rowwise_adagrad"] * 3)}
    for part in ("dense", "sparse"):
        kind = keys["optimizer.%s.kind" % part]
        keys["optimizer.%s.lr" % part] = {"sgd": 0.05, "momentum": 0.01, "ftrl": 0.05}.get(kind, 0.01)
        if r.random() < 0.3:
            keys["optimizer.%s.weight_decay" % part] = 0.001
        if r.random() < 0.2:
            keys["optimizer.%s.warmup_steps" % part] = r.randint(1, 30)
        if r.random() < 0.2:
            keys["optimizer.%s.decay_start" % part] = steps // 3
            keys["optimizer.%s.decay_steps" % part] = steps // 2
    return keys


def data(r, seed):
    """Returns ({"kind": ...} for the maker of files, keys of [data], tables, features, dense features)."""
    kind = r.choice(["synthetic", "synthetic", "csv", "csv", "criteo-tsv", "topic"])
    if kind == "synthetic":
        features = r.randint(1, 6)
        keys = {"data.format": "synthetic"}
        if r.random() < 0.25:
            keys["data.hots"] = [r.randint(1, 4) for _ in range(features)]
        tables = [r.choice([3, 10, 50, 200, 1000, 8000]) for _ in range(features)]
        return {"kind": kind}, keys, tables, features, 13
    if kind == "criteo-tsv":
        samples = r.randint(300, 900)
        keys = {"data.format": kind, "data.train": ["train.txt"], "data.eval": ["eval.txt"]}
        tables = [r.choice([2, 5, 20, 100]) for _ in range(26)]
        return {"kind": kind, "samples": samples, "seed": seed}, keys, tables, 26, 13
    features, dense = r.randint(2, 5), r.randint(0, 4)
    keys = {"data.csv.label": "label", "data.csv.dense": ["n%d" % i for i in range(dense)],
            "data.csv.categorical": ["c%d" % i for i in range(features)]}
    made = {"kind": kind, "samples": r.randint(300, 1500), "seed": seed, "features": features, "dense": dense}
    if kind == "topic":
        made["partitions"] = r.randint(1, 3)
        keys.update({"data.format": "kafka", "data.train": ["file:clicks"]})
        return made, keys, [r.choice([5, 30, 100]) for _ in range(features)], features, dense
    keys.update({"data.format": "csv", "data.train": ["train.csv"], "data.eval": r.choice([["eval.csv"], "10%", "last 10%"])})
    keys["data.shuffle"] = r.choice(["block", "none"])
    for i in range(dense):
        if r.random() < 0.4:
            keys.setdefault("data.transform", {})["n%d" % i] = r.choice(["none", "standard"])
    tables = "auto" if r.random() < 0.5 else [r.choice([5, 30, 100, 500]) for _ in range(features)]
    return made, keys, tables, features, dense


def recipe(r, seed, steps=None):
    """Draws what defines a result: returns (data to make, keys)."""
    steps = steps or r.randint(60, 400)
    made, keys, tables, features, dense = data(r, seed)
    dim = r.choice([2, 4, 5, 8, 16])
    ranks = r.randint(1, 6)
    keys.update(model(r, features, dense, dim))
    keys.update(optimizers(r, steps))
    keys.update({"job.name": "job", "job.seed": r.randint(0, 2**31), "job.ranks": ranks, "job.digests": True, "job.device": "cpu",
                 "model.tables": tables, "train.global_batch": r.choice([8, 13, 16, 32, 64]), "train.iterations": steps})
    if made["kind"] == "topic":
        # Not all of the samples, so that each step is full.
        keys["train.iterations"] = max(10, min(steps, made["samples"] // keys["train.global_batch"] - made["partitions"]))
    if r.random() < 0.15:
        keys["train.clip_norm"] = r.choice([0.05, 1.0])
    elif r.random() < 0.15:
        keys["train.clip_dense"] = r.choice([0.05, 1.0])
    if r.random() < 0.15:
        keys["train.positive_weight"] = 2.0
    if made["kind"] in ("csv", "criteo-tsv"):
        if r.random() < 0.5:
            keys["train.eval_every"] = r.randint(20, 90)
            if r.random() < 0.3:
                keys["train.plateau_patience"] = 2
                keys["train.plateau_factor"] = 0.5
        keys["train.keep"] = r.choice(["best", "last"])
    return made, keys


def code(r, ranks):
    """Draws an erasure code that fits a number of ranks: a multiple of k + r, or a remainder of more than r."""
    fitting = []
    for name, k, parity in [("xor", 1, 1), ("xor", 2, 1), ("xor", 3, 1), ("xor", 4, 1), ("rs", 2, 2), ("rs", 3, 2), ("rs", 1, 2), ("rs", 4, 2)]:
        group = k + parity
        if ranks >= group and (ranks % group == 0 or ranks % group > parity):
            fitting.append((name, k, parity))
    if not fitting:
        return None
    name, k, parity = r.choice(fitting)
    return {"ec.code": name, "ec.k": k, "ec.r": parity}


def free(r, keys, protected=None, one_each=False):
    """Draws what changes no bit: returns (keys, number of processes). protected: with a code (True), without (False), or either."""
    ranks = keys["job.ranks"]
    drawn = {"cache.mode": r.choice(["auto", "none", "planned", "lrpp"]), "cache.delayed_sync": r.random() < 0.8,
             "ec.commit_every": r.randint(1, 15), "job.threads": r.randint(1, 2), "train.log_every": r.choice([1, 1, 1, 3, 7]),
             "collectives.transport": r.choice(["auto", "tcp"]), "job.secure": r.choice(["auto", "auto", "off", "on"]),
             "elastic.standby": r.random() < 0.7}
    if "train.clip_norm" in keys and drawn["cache.mode"] == "lrpp":
        drawn["cache.mode"] = "planned"
    if drawn["cache.mode"] == "lrpp":
        drawn["oracle.lookahead"] = r.choice([2, 3, 8, 40])
    chosen = code(r, ranks)
    if chosen and protected is not False and (protected or r.random() < 0.6):
        drawn.update(chosen)
        drawn["ec.rebuild_rate"] = r.choice(["auto", "max", "4KiB", "64KiB"])
    processes = ranks if one_each else r.randint(1, ranks)
    if processes == 1:
        drawn["collectives.transport"] = "auto"
    if r.random() < 0.35:
        drawn["store.tier"] = "file"
        drawn["store.dram_bytes"] = r.choice(["least", "least", "256KiB"])
    elif r.random() < 0.3:
        drawn["store.path"] = "store"
    return drawn, processes


def saving(r, steps):
    keys = {"checkpoint.every": max(5, steps // r.randint(2, 8))}
    if r.random() < 0.4:
        keys["checkpoint.kind"] = "incremental"
    if r.random() < 0.4:
        keys["checkpoint.keep"] = r.randint(1, 4)
    return keys


def moment(r, steps, log_every=1):
    """Draws a moment of a run: when a step is in metrics.jsonl or an event is written, and some milliseconds more."""
    if r.random() < 0.25:
        return {"event": r.choice(["checkpoint", "commit", "durable", "eval"]), "count": r.randint(1, 4), "then_ms": r.choice([0, 0, 1, 3, 8]), "limit": 20}
    return {"step": r.randint(1, max(1, steps - 2)), "then_ms": r.choice([0, 0, 1, 2, 5]), "limit": 20}


def fault(r, steps):
    kind = r.choice(["kill worker", "kill worker", "kill worker", "kill many", "stop worker", "short stop", "kill supervisor", "kill launcher",
                     "kill all", "term", "int", "kill standby"])
    when = moment(r, steps)
    pick = r.randint(0, 9)
    return {"kill worker": {"do": "kill", "of": "worker", "pick": pick, "when": when},
            "kill many": {"do": "kill", "of": "worker", "pick": pick, "n": r.randint(2, 4), "when": when},
            "stop worker": {"do": "stop", "of": "worker", "pick": pick, "ms": r.randint(1500, 2500), "when": when},
            "short stop": {"do": "stop", "of": "worker", "pick": pick, "ms": r.randint(5, 120), "when": when},
            "kill supervisor": {"do": "kill", "of": "supervisor", "pick": pick, "when": when},
            "kill launcher": {"do": "kill", "of": "launcher", "when": when},
            "kill all": {"do": "kill", "of": "all", "when": when},
            "term": {"do": "term", "of": "launcher", "when": when},
            "int": {"do": "int", "of": "launcher", "when": when},
            "kill standby": {"do": "kill", "of": "standby", "pick": pick, "when": when}}[kind]


def plan(seed, scenario):
    """Draws the plan of one trial. seed is a text: the same text draws the same plan."""
    r = random.Random("%s %s" % (seed, scenario))
    made, keys = recipe(r, r.randint(0, 2**31), r.randint(8, 25) if scenario == "recompute" else None)
    steps = keys["train.iterations"]
    drawn = {"scenario": scenario, "seed": seed, "data": made, "keys": keys}
    return globals()["plan_" + scenario](r, drawn, steps)


def again(r, drawn, test):
    """Draws recipes until one fits."""
    while not test(drawn["keys"], drawn["data"]):
        drawn["data"], drawn["keys"] = recipe(r, r.randint(0, 2**31))
    return drawn, drawn["keys"]["train.iterations"]


def plan_same(r, drawn, steps):
    """No fault: another cache, transport, code, tier, number of processes, CPU, or ranks that only hold rows."""
    drawn["free"], drawn["np"] = free(r, drawn["keys"])
    drawn["free"].update(saving(r, steps))
    if r.random() < 0.4:
        drawn["env"] = {"ECREC_CPU": r.choice(["plain", "avx2"])}
    if r.random() < 0.2 and "ec.code" not in drawn["free"]:
        servers = r.randint(1, 3)
        drawn["free"].update({"ranks.trainers": drawn["keys"]["job.ranks"], "ranks.servers": servers})
        drawn["roles"] = servers
    return drawn


def plan_losses(r, drawn, steps):
    """One process after the other is lost, each when the job is redundant again: the run must continue to its end."""
    drawn, steps = again(r, drawn, lambda keys, data: keys["job.ranks"] > 2 and code(random.Random(1), keys["job.ranks"]))
    drawn["free"], drawn["np"] = free(r, drawn["keys"], protected=True, one_each=True)
    drawn["free"]["train.log_every"] = 1
    if r.random() < 0.5:
        drawn["free"].update(saving(r, steps))
    faults, step = [], 0
    for i in range(r.randint(1, 4)):
        step = r.randint(step, steps - 1)
        kind = r.choice(["kill", "kill", "kill", "stop"])
        when = {"step": max(1, step), "recovered": i, "then_ms": r.choice([0, 0, 1, 3, 10]), "limit": 20}
        # A signal other than SIGKILL: a process that stands still for longer than 5 heartbeats is lost too.
        faults.append({"do": kind, "of": "worker", "pick": r.randint(0, 9), "when": when, **({"ms": 1800} if kind == "stop" else {})})
    if r.random() < 0.3:
        faults.append({"do": "kill", "of": "supervisor", "pick": r.randint(0, 9), "when": {"step": step, "recovered": len(faults), "limit": 20}})
    drawn["faults"] = faults
    return drawn


def plan_points(r, drawn, steps):
    """The program kills its own processes at named points of a step (--chaos), also while it recovers and saves."""
    drawn, steps = again(r, drawn, lambda keys, data: keys["job.ranks"] > 2 and code(random.Random(1), keys["job.ranks"]))
    drawn["free"], drawn["np"] = free(r, drawn["keys"], protected=True, one_each=True)
    drawn["free"].update(saving(r, steps))
    drawn["chaos"] = [r.random() for _ in range(r.randint(1, 3))]
    drawn["chaos_steps"] = [r.randint(2, steps) for _ in drawn["chaos"]]
    return drawn


def plan_storm(r, drawn, steps):
    """Any faults at any time. A run that ends is resumed, until it is done; the last attempt has no fault."""
    drawn["free"], drawn["np"] = free(r, drawn["keys"])
    drawn["free"]["train.log_every"] = r.choice([1, 1, 4])
    if r.random() < 0.85:
        drawn["free"].update(saving(r, steps))
    drawn["attempts"] = [[fault(r, steps) for _ in range(r.randint(1, 3))] for _ in range(r.randint(1, 3))]
    if r.random() < 0.25:
        drawn["attempts"] = [[{"do": r.choice(["term", "int"]), "of": "launcher", "when": moment(r, steps)}] for _ in range(r.randint(1, 3))]
    if drawn["data"]["kind"] != "topic" and r.random() < 0.3:
        drawn["nps"] = [r.randint(1, drawn["keys"]["job.ranks"]) for _ in range(4)]
    if r.random() < 0.3:
        drawn["torn"] = [{"how": r.choice(["cut", "flip", "empty", "gone"]), "what": r.choice(["checkpoint", "checkpoint", "store"]),
                          "pick": r.random(), "at": r.random()} for _ in range(r.randint(1, 2))]
    return drawn


def plan_full(r, drawn, steps):
    """The disk is full, or files may not grow past a limit; later there is room, and the run is resumed."""
    drawn["free"], drawn["np"] = free(r, drawn["keys"])
    drawn["free"].update(saving(r, steps))
    drawn["room"] = r.choice([8, 20, 40, 80, 160, 400]) * 1024
    drawn["how"] = r.choice(["tmpfs", "tmpfs", "limit"])
    return drawn


def plan_follow(r, drawn, steps):
    """A topic in a folder and followers, which are killed, as the run is."""
    drawn["free"], drawn["np"] = free(r, drawn["keys"])
    drawn["free"].update({"train.log_every": 1, "stream.to": "file:topic"})
    drawn["free"].update(saving(r, steps))
    if r.random() < 0.7:
        drawn["attempts"] = [[fault(r, steps)] for _ in range(r.randint(1, 2))]
    else:
        drawn["attempts"] = []
    drawn["followers"] = [{"flags": r.choice([[], ["--full"], ["--trim"], ["--keep=2"], ["--every=100ms"]]),
                           "kill_ms": [r.randint(30, 900) for _ in range(r.randint(0, 3))]} for _ in range(r.randint(1, 2))]
    # One follower of a topic may trim.
    for follower in drawn["followers"][1:]:
        if follower["flags"] == ["--trim"]:
            follower["flags"] = []
    drawn["damage"] = r.random() < 0.25
    drawn["resume_np"] = r.randint(1, drawn["keys"]["job.ranks"])
    drawn["at"] = r.random()
    return drawn


def plan_cluster(r, drawn, steps):
    """Processes in network namespaces of their own; one of them is cut off, or its link is slow."""
    drawn, steps = again(r, drawn, lambda keys, data: keys["job.ranks"] >= 4 and keys["job.ranks"] != 5 and code(random.Random(1), keys["job.ranks"]))
    drawn["free"], drawn["np"] = free(r, drawn["keys"], protected=True, one_each=True)
    drawn["free"].update({"train.log_every": 1, "collectives.transport": "auto", "job.secure": r.choice(["auto", "off"])})
    for key in ("store.tier", "store.dram_bytes", "store.path"):
        drawn["free"].pop(key, None)
    drawn["free"].update(saving(r, steps))
    drawn["keys"]["train.iterations"] = min(steps, 150) if drawn["data"]["kind"] != "topic" else steps
    steps = drawn["keys"]["train.iterations"]
    drawn["links"] = [{"how": r.choice(["cut", "cut", "cut", "slow", "flap"]), "host": r.randint(0, 9), "step": r.randint(1, max(1, steps * 2 // 3))}]
    return drawn


def plan_recompute(r, drawn, steps):
    """The same training in plain Python, from the same initial weights: losses and predictions agree to a tolerance."""
    features, dense = r.randint(2, 3), r.randint(0, 3)
    made = {"kind": "csv", "samples": r.randint(60, 200), "seed": r.randint(0, 2**31), "features": features, "dense": dense}
    keys = {k: v for k, v in drawn["keys"].items() if not k.startswith(("data.", "model.", "optimizer.", "train."))}
    keys.update({"data.format": "csv", "data.train": ["train.csv"], "data.eval": ["eval.csv"], "data.shuffle": "none", "data.csv.label": "label",
                 "data.csv.dense": ["n%d" % i for i in range(dense)], "data.csv.categorical": ["c%d" % i for i in range(features)]})
    for i in range(dense):
        if r.random() < 0.4:
            keys.setdefault("data.transform", {})["n%d" % i] = r.choice(["none", "standard"])
    dim = r.choice([2, 3, 4])
    keys.update(model(r, features, dense, dim))
    for key in ("model.batch_norm", "model.dropout"):
        keys.pop(key, None)
    if keys["model.kind"] == "deepfm":
        keys["model.batch_norm"] = False
    keys["model.tables"] = "auto"
    keys["model.init_from"] = "init.safetensors"
    for part in ("dense", "sparse"):
        keys["optimizer.%s.kind" % part] = r.choice(["sgd", "momentum", "adagrad", "adam", "adamw"] + (["rowwise_adagrad"] if part == "sparse" else []))
        keys["optimizer.%s.lr" % part] = r.choice([0.01, 0.05])
        keys["optimizer.%s.eps" % part] = 1e-4
        if r.random() < 0.3:
            keys["optimizer.%s.weight_decay" % part] = 0.01
    keys.update({"train.global_batch": r.choice([5, 8, 12]), "train.iterations": r.randint(8, 25), "train.keep": "last"})
    keys["job.ranks"] = min(keys["job.ranks"], keys["train.global_batch"])
    if r.random() < 0.3:
        keys["train.positive_weight"] = 2.5
    drawn.update({"data": made, "keys": keys, "weights_seed": r.randint(0, 2**31)})
    drawn["free"], drawn["np"] = free(r, keys)
    return drawn


def plan_refuse(r, drawn, steps):
    """Commands that must be refused, with the code and the reason that the documents have."""
    drawn["keys"]["train.iterations"] = 20 if drawn["data"]["kind"] != "topic" else 10
    drawn["free"], drawn["np"] = {"checkpoint.every": 10}, 1
    return drawn


def plan_audit(r, drawn, steps):
    """An audit of a run, and of one whose record was altered."""
    drawn["free"], drawn["np"] = free(r, drawn["keys"])
    drawn["free"].update(saving(r, steps))
    for key in ("store.tier", "store.dram_bytes"):
        drawn["free"].pop(key, None)
    drawn["audit"] = {"np": r.randint(1, drawn["keys"]["job.ranks"]), "alter": r.choice(["nothing", "nothing", "event", "summary"]), "pick": r.random()}
    return drawn


WEIGHTS = {"same": 4, "losses": 4, "points": 3, "storm": 6, "full": 2, "follow": 4, "cluster": 1, "recompute": 3, "refuse": 1, "audit": 1}
