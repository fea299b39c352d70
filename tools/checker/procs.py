"""Starts ecrec, finds its processes in /proc, and harms them."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
MARK = "ECREC_CHECK_RUN"


def adopt_orphans():
    """Makes this process the parent of processes whose parent dies, so that they can be counted and reaped."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap():
    """Collects ended processes that nobody else waits for."""
    for pid in children(os.getpid()):
        if state(pid) == "Z" and pid not in Run.waited:
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass


def stat(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            text = f.read()
    except OSError:
        return None
    name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return name, rest[0], int(rest[1])


def state(pid):
    about = stat(pid)
    return about[1] if about else None


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(parent):
    found = []
    for pid in all_pids():
        about = stat(pid)
        if about and about[2] == parent:
            found.append(pid)
    return sorted(found)


def marked(mark):
    """Returns the processes, without those that have ended, whose environment has the mark."""
    want = ("%s=%s" % (MARK, mark)).encode()
    found = []
    for pid in all_pids():
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                if want in f.read().split(b"\0") and state(pid) not in ("Z", "X", None):
                    found.append(pid)
        except OSError:
            pass
    return sorted(found)


def end_all():
    """Kills all processes of this checker that are left: it is being ended itself."""
    want = ("%s=%d-" % (MARK, os.getpid())).encode()
    for pid in all_pids():
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                if any(text.startswith(want) for text in f.read().split(b"\0")):
                    hit(pid, signal.SIGKILL)
        except OSError:
            pass


def hit(pid, number):
    try:
        os.kill(pid, number)
        return True
    except OSError:
        return False


class Run:
    """One command, with the faults that befall it."""

    waited = set()
    count = 0

    def __init__(self, args, cwd, note, env=None, limit_bytes=None, faults=(), watch=None, stdin=None, prefix=()):
        Run.count += 1
        self.mark = "%d-%d-%d" % (os.getpid(), Run.count, time.monotonic_ns())
        self.args, self.note, self.watch = args, note, watch
        self.output = os.path.join(cwd, "output-%d.txt" % Run.count)
        full = dict(os.environ, **(env or {}))
        full[MARK] = self.mark

        def prepare():
            os.setsid()
            if limit_bytes:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        self.started = time.monotonic()
        with open(self.output, "wb") as out:
            self.child = subprocess.Popen(list(prefix) + args, cwd=cwd, env=full, stdin=stdin or subprocess.DEVNULL, stdout=out,
                                          stderr=subprocess.STDOUT, preexec_fn=prepare)
        Run.waited.add(self.child.pid)
        self.done = threading.Event()
        self.struck = []
        self.thread = None
        if faults:
            self.thread = threading.Thread(target=self.strike_all, args=(faults,), daemon=True)
            self.thread.start()

    def elapsed(self):
        return time.monotonic() - self.started

    def wait(self, seconds):
        """Returns the exit code, or None if the command did not end in time; then it is killed."""
        try:
            code = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            self.kill_tree()
            self.child.wait()
        self.took = self.elapsed()
        self.done.set()
        Run.waited.discard(self.child.pid)
        if self.thread:
            self.thread.join(20)
        return code

    def kill_tree(self):
        for pid in marked(self.mark):
            hit(pid, signal.SIGCONT)
            hit(pid, signal.SIGKILL)

    def left_behind(self, seconds):
        """Waits for the processes of the command to end; returns those that have not, and kills them."""
        end = time.monotonic() + seconds
        while True:
            reap()
            left = marked(self.mark)
            if not left or time.monotonic() > end:
                break
            time.sleep(0.02)
        about = ["%d (%s)" % (pid, (stat(pid) or ("gone",))[0]) for pid in left]
        self.kill_tree()
        return about

    def text(self):
        with open(self.output, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def roles(self):
        """Returns the supervisors, workers and standbys of a job of --np. A job in one process has none."""
        supervisors = [p for p in children(self.child.pid) if state(p) != "Z"]
        workers, standbys = [], []
        for s in supervisors:
            for pid in children(s):
                about = stat(pid)
                if about and about[1] != "Z":
                    (standbys if about[0].startswith("ecrec-standby") else workers).append(pid)
        return supervisors, workers, standbys

    # A fault is {"when": {...}, "do": ..., "pick": N, ...}: see draw.py.
    def strike_all(self, faults):
        try:
            for fault in faults:
                if not self.await_moment(fault["when"]):
                    self.struck.append("not struck: " + fault["do"])
                    return
                self.strike(fault)
        except Exception as err:  # a fault that fails is no result; it must be visible
            self.struck.append("fault failed: %r" % err)

    def await_moment(self, when):
        end = time.monotonic() + when.get("limit", 60)
        while not self.done.is_set() and self.child.poll() is None:
            if time.monotonic() > end:
                return False
            if "ms" in when and self.elapsed() * 1000 >= when["ms"]:
                break
            if "ms" not in when and self.watch and self.watch(when, self):
                break
            time.sleep(0.001)
        if self.done.is_set() or self.child.poll() is not None:
            return False
        delay = when.get("then_ms", 0)
        return not self.done.wait(delay / 1000) if delay else True

    def strike(self, fault):
        do, pick = fault["do"], fault.get("pick", 0)
        supervisors, workers, standbys = self.roles()
        targets = {"worker": workers, "supervisor": supervisors, "standby": standbys, "launcher": [self.child.pid],
                   "all": marked(self.mark)}[fault.get("of", "launcher")]
        if fault.get("of") not in ("all",) and targets:
            targets = [targets[(pick + i) % len(targets)] for i in range(min(fault.get("n", 1), len(targets)))]
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM, "int": signal.SIGINT}[do]
        hits = [pid for pid in targets if hit(pid, number)]
        self.struck.append("%d ms: %s %s %s" % (self.elapsed() * 1000, do, fault.get("of", "launcher"), hits))
        self.note({"at_ms": round(self.elapsed() * 1000), "fault": fault, "pids": hits})
        if do == "stop":
            self.done.wait(fault["ms"] / 1000)
            for pid in hits:
                hit(pid, signal.SIGCONT)
