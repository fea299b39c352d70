"""Processes of a job in network namespaces: each has an address and a host name of its own, and links that are cut or slow."""

import os
import subprocess
import threading
import time

from procs import Run

def sh(*args):
    return subprocess.call(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Network:
    """A bridge, and a namespace with a veth pair for each process."""

    def __init__(self, tag, hosts):
        self.tag, self.hosts, self.bridge = tag, hosts, "ck%sb" % tag

    def name(self, i):
        return "ck%s-%d" % (self.tag, i)

    def port(self, i):
        return "ck%sp%d" % (self.tag, i)

    def make(self):
        if os.geteuid() != 0:
            return "network namespaces need root"
        if sh("ip", "link", "add", self.bridge, "type", "bridge") or sh("ip", "link", "set", self.bridge, "up"):
            return "a bridge cannot be made"
        for i in range(self.hosts):
            inner = self.port(i) + "i"
            if sh("ip", "netns", "add", self.name(i)) or sh("ip", "link", "add", self.port(i), "type", "veth", "peer", "name", inner):
                return "a network namespace cannot be made"
            for args in (["ip", "link", "set", inner, "netns", self.name(i)], ["ip", "link", "set", self.port(i), "master", self.bridge, "up"],
                         ["ip", "-n", self.name(i), "link", "set", "lo", "up"], ["ip", "-n", self.name(i), "link", "set", inner, "name", "eth0"],
                         ["ip", "-n", self.name(i), "addr", "add", "10.203.7.%d/24" % (i + 1), "dev", "eth0"],
                         ["ip", "-n", self.name(i), "link", "set", "eth0", "up"]):
                if sh(*args):
                    return "%s failed" % " ".join(args)
        return None

    def cut(self, i, whole):
        sh("ip", "link", "set", self.port(i), "down" if whole else "up")

    def slow(self, i):
        return sh("tc", "qdisc", "add", "dev", self.port(i), "root", "tbf", "rate", "2mbit", "burst", "4kb", "latency", "400ms")

    def fast(self, i):
        sh("tc", "qdisc", "del", "dev", self.port(i), "root")

    def remove(self):
        for i in range(self.hosts):
            sh("ip", "link", "del", self.port(i))
            sh("ip", "netns", "del", self.name(i))
        sh("ip", "link", "del", self.bridge)


def run(trial):
    from trial import Skip
    ref = trial.reference()
    if not ref:
        return
    hosts = trial.plan["np"]
    network = Network("%x" % (os.getpid() % 0xfff), hosts)
    try:
        why = network.make()
        if why:
            raise Skip(why)
        train(trial, ref, network, hosts)
    finally:
        network.remove()


def train(trial, ref, network, hosts):
    from trial import Skip
    config, done = trial.subject(), threading.Event()
    runs = []
    for i in range(hosts):
        # A host name of its own makes it a node of its own.
        prefix = ["ip", "netns", "exec", network.name(i), "unshare", "-u", "sh", "-c", "hostname node%d && exec \"$@\"" % i, "sh"]
        runs.append(Run([trial.ecrec, "train", config, "--rdzv", trial.path("meet")], trial.folder, trial.note, prefix=prefix,
                        env={"RANK": str(i), "WORLD_SIZE": str(hosts)}))
    watch = trial.watch(trial.path("run"))
    harmed = threading.Thread(target=harm, args=(trial, network, hosts, watch, runs, done), daemon=True)
    harmed.start()
    end = time.monotonic() + 90
    codes = [r.wait(max(1, end - time.monotonic())) for r in runs]
    done.set()
    harmed.join(30)
    trial.runs += hosts
    left = [text for r in runs for text in r.left_behind(10)]
    trial.note({"ran": "train with --rdzv on %d hosts" % hosts, "codes": codes})
    trial.need(not left, "a job in %d network namespaces left processes behind: %s", hosts, left)
    texts = "\n".join("process %d, code %s: %s" % (i, c, r.text()[-250:]) for i, (c, r) in enumerate(zip(codes, runs)))
    if all(c == 2 for c in codes):
        raise Skip("refused: " + runs[0].text().strip().split("\n")[-1][:200])
    cut = {link["host"] % hosts for link in trial.plan["links"] if link["how"] != "slow"}
    for i, code in enumerate(codes):
        trial.need(code == 0 or (i in cut and code is not None), "process %d ended with code %s, and its link was not cut; all: %s", i, code, texts)
    if all(c == 0 for i, c in enumerate(codes) if i not in cut):
        trial.kills += 2
        trial.settle(trial.judge(ref))


def harm(trial, network, hosts, watch, runs, done):
    for link in trial.plan["links"]:
        host = link["host"] % hosts
        while not done.is_set() and not watch({"step": link["step"]}, runs[0]):
            time.sleep(0.002)
        if done.is_set():
            trial.note({"not struck": link})
            return
        trial.note({"link": link})
        if link["how"] == "slow":
            network.slow(host)
            done.wait(1.0)
            network.fast(host)
            continue
        network.cut(host, True)
        if link["how"] == "flap":
            done.wait(0.4)
            network.cut(host, False)
        # Else it stays cut: a majority continues, and the process that is alone ends by itself.
