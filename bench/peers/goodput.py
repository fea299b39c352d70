"""Trains a recommendation model in PyTorch on several processes that are killed, as `ecrec bench goodput` does.

This program is the supervisor and, with --worker, a worker. It trains once without failures, then the same steps with the given
ones, and writes a JSON object. Systems:

  restart  data-parallel over gloo; one process saves a checkpoint at the interval that is best by Young and Daly, all wait for it.
           A loss ends all processes; they start again from the newest checkpoint.
  torchft  torchft's manager over gloo, a replica group for each process. The others train on; the lost group's samples of the steps
           meanwhile are left out. A new process gets the state from a peer.

Embeddings are replicated in each process, because neither shards them; tables are small for that reason."""

import argparse
import ctypes
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time

TABLES, ROWS, DIM, DENSE = 26, 2000, 16, 13
POLL = 0.005  # seconds between two looks of the supervisor


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--system", required=True, choices=["restart", "torchft"])
    p.add_argument("--processes", type=int, default=4)
    p.add_argument("--batch", type=int, default=2048, help="samples of a step, over all processes")
    p.add_argument("--seconds", type=float, default=60, help="of the run without failures, if there are no --steps")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--mtbf", type=float, default=60, help="seconds, for the interval of checkpoints")
    p.add_argument("--limit", type=float, default=600, help="seconds after which a run with failures is stopped")
    p.add_argument("--kills", default="", help="SECONDS:PROCESS,... since the end of the first step")
    p.add_argument("--dir", required=True)
    p.add_argument("--result", required=True)
    p.add_argument("--worker", type=int, default=-1)
    p.add_argument("--every", type=int, default=0, help="steps between checkpoints; 0: none")
    p.add_argument("--meet", default="", help="where the processes meet")
    return p.parse_args()


# --- workers


def make_model(torch):
    """The dim16 model of bench/shape.go with small tables."""

    class DLRM(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Embedding(TABLES * ROWS, DIM)
            linear, relu = torch.nn.Linear, torch.nn.ReLU
            self.bottom = torch.nn.Sequential(linear(DENSE, 512), relu(), linear(512, 256), relu(), linear(256, 64), relu(),
                                              linear(64, DIM), relu())
            self.top = torch.nn.Sequential(linear(DIM + (TABLES + 1) * TABLES // 2, 512), relu(), linear(512, 256), relu(), linear(256, 1))
            self.register_buffer("first", torch.arange(TABLES) * ROWS, persistent=False)
            i, j = torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1)
            self.register_buffer("pairs", i * (TABLES + 1) + j, persistent=False)

        def forward(self, dense, ids):
            x = self.bottom(dense)
            v = torch.cat([x.unsqueeze(1), self.rows(ids + self.first)], dim=1)
            products = torch.bmm(v, v.transpose(1, 2)).flatten(1)[:, self.pairs]
            return self.top(torch.cat([x, products], dim=1)).squeeze(1)

    torch.manual_seed(1)
    return DLRM()


def make_batch(torch, samples, step, process):
    """The samples of a process at a step, a function of both."""
    g = torch.Generator().manual_seed(step * 1024 + process)
    dense = torch.rand(samples, DENSE, generator=g)
    ids = (torch.rand(samples, TABLES, generator=g) ** 4 * ROWS).long()
    return dense, ids, ((ids.sum(1) + dense.sum(1) * 100) % 2 > 1).float()


def wait_for_all(a):
    """Waits until all processes are here, at the first start only: a process that replaces another does not wait."""
    here = [os.path.join(a.dir, f"here-{p}") for p in range(a.processes)]
    open(here[a.worker], "w").close()
    while not all(os.path.exists(h) for h in here):
        time.sleep(0.01)


class Steps:
    """The file of a process with a line for each step: STEP SECONDS BATCHES."""

    def __init__(self, a, process):
        self.file = open(os.path.join(a.dir, f"steps-{process}"), "a", buffering=1)

    def add(self, step, batches):
        self.file.write(f"{step} {time.time():.6f} {batches}\n")


def finish(torch, a, process, model, loss):
    """Writes the digest of the model."""
    h = hashlib.sha256()
    for _, value in sorted(model.state_dict().items()):
        h.update(value.contiguous().numpy().tobytes())
    path = os.path.join(a.dir, f"end-{process}")
    with open(path + ".tmp", "w") as f:
        json.dump({"digest": h.hexdigest()[:32], "loss": float(loss.detach())}, f)
    os.rename(path + ".tmp", path)


def train_restart(torch, a):
    import torch.distributed as dist
    from datetime import timedelta

    process, world = a.worker, a.processes
    dist.init_process_group("gloo", init_method="file://" + a.meet, rank=process, world_size=world, timeout=timedelta(seconds=60))
    model = make_model(torch)
    net = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    newest, done, loss, steps = os.path.join(a.dir, "checkpoint.pt"), 0, 0.0, Steps(a, process)
    if os.path.exists(newest):
        saved = torch.load(newest)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    began = time.time()
    while a.steps == 0 or done < a.steps:
        dense, ids, labels = make_batch(torch, a.batch // world, done + 1, process)
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(dense, ids), labels)
        loss.backward()
        optimizer.step()
        done += 1
        if a.steps == 0:  # all processes decide alike
            over = torch.tensor(float(time.time() - began > a.seconds))
            dist.all_reduce(over)
            if over.item() > 0:
                a.steps = done
        if a.every > 0 and done % a.every == 0 and done < a.steps:
            if process == 0:
                save(torch, a, model, optimizer, done)
            dist.barrier()  # training waits for it
        steps.add(done, world)
    if process == 0 and a.every == 0:
        save(torch, a, model, optimizer, done)  # only to measure it, after the last step
    finish(torch, a, process, model, loss)
    dist.barrier()


def save(torch, a, model, optimizer, step):
    began = time.time()
    path = os.path.join(a.dir, "checkpoint.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".tmp")
    os.rename(path + ".tmp", path)
    with open(os.path.join(a.dir, "save"), "w") as f:
        f.write(str(time.time() - began))


def train_torchft(torch, a):
    from datetime import timedelta

    import torchft

    process, world = a.worker, a.processes
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model = make_model(torch)
    inner = torch.optim.Adagrad(model.parameters(), lr=0.01)

    def load_state(saved):
        model.load_state_dict(saved["model"])
        inner.load_state_dict(saved["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=10)), min_replica_size=1, use_async_quorum=True,
        load_state_dict=load_state, state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
        replica_id=f"group{process}", store_addr="localhost", store_port=store.port, rank=0, world_size=1, lighthouse_addr=a.meet,
        hostname="localhost", init_sync=False, timeout=timedelta(seconds=10), quorum_timeout=timedelta(seconds=30))
    net, optimizer = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, inner)
    wait_for_all(a)
    steps, began, loss = Steps(a, process), time.time(), 0.0
    while a.steps == 0 or manager.current_step() < a.steps:
        dense, ids, labels = make_batch(torch, a.batch // world, manager.current_step() + 1, process)
        optimizer.zero_grad()  # begins a quorum
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(dense, ids), labels)
        loss.backward()
        before = manager.current_step()
        optimizer.step()
        if manager.current_step() > before:
            steps.add(manager.current_step(), manager.batches_committed())
        if a.steps == 0 and time.time() - began > a.seconds:
            break  # the supervisor ends the others
    finish(torch, a, process, model, loss)
    time.sleep(0.5)  # for peers at their last step
    os._exit(0)  # its threads may wait for a quorum


def run_worker(a):
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    {"restart": train_restart, "torchft": train_torchft}[a.system](torch, a)


# --- the supervisor


def with_parent():
    """Ends this process with its parent, on Linux."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


class Run:
    """A run of the workers, with failures."""

    def __init__(self, a, name, kills, steps, every, limit):
        self.a, self.kills, self.steps, self.every, self.limit = a, list(kills), steps, every, limit
        self.dir = os.path.join(a.dir, name)
        os.mkdir(self.dir)
        self.workers, self.starts, self.lighthouse = [None] * a.processes, 0, None
        self.losses, self.hits, self.missed, self.restarts = [], 0, 0, 0

    def start(self, process):
        a = self.a
        log = open(os.path.join(self.dir, f"log-{process}"), "a")
        self.workers[process] = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--system", a.system, "--worker", str(process), "--processes", str(a.processes),
             "--batch", str(a.batch), "--seconds", str(a.seconds), "--steps", str(self.steps), "--every", str(self.every),
             "--meet", self.meet(), "--dir", self.dir, "--result", "none"],
            preexec_fn=with_parent, stdout=log, stderr=log, cwd=self.dir)
        log.close()

    def meet(self):
        if self.lighthouse is not None:
            return self.lighthouse.address()
        return os.path.join(self.dir, f"meet-{self.starts}")

    def start_all(self):
        self.starts += 1
        for process in range(self.a.processes):
            self.start(process)

    def end_all(self):
        for w in self.workers:
            if w is not None:
                w.kill()
                w.wait()
        if self.lighthouse is not None:
            self.lighthouse.shutdown()

    def lines(self):
        """The steps of all processes: (seconds, step, batches), by time."""
        found = []
        for process in range(self.a.processes if self.a.system == "torchft" else 1):
            try:
                with open(os.path.join(self.dir, f"steps-{process}")) as f:
                    for line in f:
                        fields = line.split()
                        if len(fields) == 3 and line.endswith("\n"):
                            found.append((float(fields[1]), int(fields[0]), int(fields[2])))
            except FileNotFoundError:
                pass
        return sorted(found)

    def is_ended(self):
        """Reports whether a process has the model of the last step."""
        ends = [os.path.exists(os.path.join(self.dir, f"end-{p}")) for p in range(self.a.processes)]
        return any(ends) if self.a.system == "torchft" else ends[0]

    def tail(self):
        texts = []
        for process in range(self.a.processes):
            with open(os.path.join(self.dir, f"log-{process}"), errors="replace") as f:
                texts.append(f"process {process}: " + f.read()[-400:])
        return "\n".join(texts)

    def train(self):
        try:
            if self.a.system == "torchft":
                from torchft.coordination import LighthouseServer

                self.lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=1000)
            self.start_all()
            self.watch()
        finally:
            self.end_all()

    def watch(self):
        began, first = time.time(), None
        while not self.is_ended():
            time.sleep(POLL)
            now = time.time()
            if now - began > self.limit + 120 or first is not None and now - first > self.limit:
                return
            if first is None:
                lines = self.lines() if self.kills or now - began > 60 else []
                first = lines[0][0] if lines else None
            while first is not None and self.kills and now - first >= self.kills[0][0]:
                self.kill(self.kills.pop(0)[1])
            self.restart_lost()

    def kill(self, process):
        w = self.workers[process]
        if w.poll() is not None:
            self.missed += 1
            return
        w.kill()
        self.hits += 1
        self.losses.append([time.time(), None])

    def restart_lost(self):
        lost = [p for p, w in enumerate(self.workers) if w.poll() not in (None, 0)]
        if not lost or self.is_ended():
            return
        if not self.losses:
            raise RuntimeError("a process failed by itself: " + self.tail())
        if self.a.system == "torchft":
            for p in lost:
                self.start(p)
        else:
            for w in self.workers:
                w.kill()
                w.wait()
            self.restarts += 1
            self.start_all()
        for loss in self.losses:
            loss[1] = loss[1] or time.time()

    def result(self):
        lines = self.lines()
        if not lines:
            raise RuntimeError("no step ended: " + self.tail())
        last = max(step for _, step, _ in lines)
        end = next(at for at, step, _ in lines if step == last)
        batches = max(b for _, step, b in lines if step == last) if self.a.system == "torchft" else last * self.a.processes
        seen = set()
        redone = 0
        if self.a.system == "restart":
            for _, step, _ in lines:
                redone += step in seen
                seen.add(step)
        digest, loss = "none", None
        for p in range(self.a.processes):
            path = os.path.join(self.dir, f"end-{p}")
            if os.path.exists(path):
                with open(path) as f:
                    x = json.load(f)
                digest, loss = x["digest"], x["loss"]
                break
        return {"last": last, "seconds": end - lines[0][0], "lost": (last * self.a.processes - batches) * (self.a.batch // self.a.processes),
                "redone": redone, "digest": digest, "loss": loss, "splits": self.splits(lines)}

    def splits(self, lines):
        """Times of each recovery: until the loss is seen, until the first step after it, until the last one before it is done again."""
        parts = []
        for lost, seen in self.losses:
            before = max((step for at, step, _ in lines if at <= lost), default=0)
            # torchft: survivors train on before the new process is there
            after = [(at, step) for at, step, _ in lines if at > (seen or lost) and (self.a.system == "restart" or step > before)]
            regained = [at for at, step in after if step >= before]
            if seen is None or not after or not regained:
                continue
            parts.append({"detect": seen - lost, "restart": after[0][0] - seen, "redo": regained[0] - after[0][0]})
        return parts


def measure(a):
    clean = Run(a, "clean", [], a.steps, 0, 20 * a.seconds + 60)
    clean.train()
    without = clean.result()
    steps = a.steps or without["last"]
    step = without["seconds"] / max(1, without["last"] - 1)
    every = 0
    if a.system == "restart":
        with open(os.path.join(clean.dir, "save")) as f:
            every = max(1, round(math.sqrt(2 * float(f.read()) * a.mtbf) / step))
    kills = [(float(at), int(p)) for at, p in (k.split(":") for k in a.kills.split(",") if k)]
    hit = Run(a, "hit", kills, steps, every, a.limit)
    hit.train()
    r = hit.result()
    if r["last"] < steps:  # it was stopped
        r["seconds"] = max(r["seconds"], a.limit)
    return {"steps": steps, "clean_s": without["seconds"] * steps / without["last"], "seconds": r["seconds"], "done": r["last"] / steps,
            "hits": hit.hits, "missed": hit.missed, "restarts": hit.restarts, "redone": r["redone"], "lost": r["lost"],
            "equal": r["digest"] == without["digest"], "digest": r["digest"], "loss": r["loss"], "splits": r["splits"], "every": every}


def main():
    a = parse()
    if a.worker >= 0:
        run_worker(a)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds: Run.train ends the workers
    if a.system == "torchft":  # its lighthouse writes some lines for each step
        os.dup2(os.open(os.path.join(a.dir, "lighthouse.log"), os.O_WRONLY | os.O_CREAT, 0o600), 2)
    try:
        result = measure(a)
    except Exception as e:
        result = {"error": f"{type(e).__name__}: {e}"}
    with open(a.result, "w") as f:
        json.dump(result, f)


if __name__ == "__main__":
    main()
