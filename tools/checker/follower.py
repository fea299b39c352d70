"""A follower of a topic that is killed and started again while the run continues."""

import os
import signal
import threading
import time

from procs import Run, hit


class Follower:
    def __init__(self, trial, number, about):
        self.trial, self.about = trial, about
        self.args = [trial.ecrec, "follow", "file:topic", "--to", "follow-%d" % number] + about["flags"]
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()

    def live(self):
        # The topic is there once the run has begun.
        while not os.path.exists(self.trial.path("topic", "topic.json")) and not self.ending.wait(0.01):
            pass
        for ms in self.about["kill_ms"] + [None]:
            if self.ending.is_set():
                return
            run = Run(self.args, self.trial.folder, self.trial.note)
            if ms is not None and not self.ending.wait(ms / 1000):
                hit(run.child.pid, signal.SIGKILL)
                run.wait(10)
                self.trial.note({"killed": "follower", "after_ms": ms})
                continue
            self.end(run)

    def end(self, run):
        """Waits for the end of the run, then stops the follower by a signal: it saves its last model."""
        while not self.ending.wait(0.01):
            if run.child.poll() is not None:
                break
        if run.child.poll() is None:
            time.sleep(0.3)
            hit(run.child.pid, signal.SIGTERM)
        code = run.wait(30)
        self.trial.need(code in (0, 143), "a follower ended with code %s: %s", code, run.text()[-400:])
        left = run.left_behind(5)
        self.trial.need(not left, "a follower left processes behind: %s", left)
        self.trial.note({"ran": "follow", "code": code})

    def stop(self):
        self.ending.set()
        self.thread.join(60)
        self.trial.need(not self.thread.is_alive(), "a follower did not end")
