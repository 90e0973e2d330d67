"""Commands that die, wait or never end, at a moment that is an event and no matter of seconds.

Each function returns a program that is run in the process of a command before the command itself
(`run_cli(..., prepare=program)`, `start_cli(..., prepare=program)`). How busy the machine is changes nothing.
"""

import time

PATIENCE = 600  # seconds; for whatever takes one, so that a hang ends at all


def wait_for(condition, process):
    """Return once a condition holds; the process must not end before."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, "ended too early"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def endless(fragments, task="FragmentAccumulator"):
    """Let the tasks of that name read so many fragments; with the next one, wait to be stopped."""
    return f"""
import time
from nysketch.passes.task import FragmentTask
chunks, left = FragmentTask.chunks, {fragments}
def endless(self, fragment, check, *options):
    global left
    left -= type(self).__name__ == {task!r}
    while left < 0:
        check()
        time.sleep(0.01)
    return chunks(self, fragment, check, *options)
FragmentTask.chunks = endless
"""


def slow(seconds):
    """Let every fragment of a sketch take so long; for processes that get more than one at a time."""
    return f"""
import time
from nysketch.passes.task import FragmentTask
chunks = FragmentTask.chunks
def slow(self, fragment, check, *options):
    if type(self).__name__ == "FragmentAccumulator":
        for _ in range(int({seconds} / 0.05)):
            check()
            time.sleep(0.05)
    return chunks(self, fragment, check, *options)
FragmentTask.chunks = slow
"""


def full_disk(limit):
    """Let no file grow beyond so many bytes."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"


def noting_waits(note):
    """Make a file `note` while waiting for the lock of an output, or for anything else that is slept for."""
    return f"""
import pathlib, time
sleep = time.sleep
def noted(seconds):
    pathlib.Path({str(note)!r}).touch()
    sleep(seconds)
time.sleep = noted
"""


def dying_at_checkpoint(number):
    """Die after the checkpoint of that number, counted from 1."""
    return f"""
import os, signal
from nysketch.files.checkpoint import Checkpoint
save, left = Checkpoint.save, {number}
def dying(*args):
    global left
    save(*args)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoint.save = dying
"""


def dying_at_change(number):
    """Die at the change of a file of that number: after it if odd, instead of it if even. At 0, never.

    At the end, if it comes to that, the number of changes is the last word on stderr.
    """
    return f"""
import os, pathlib, signal, sys, atexit
count, last = 0, {number}
def counted(function):
    def call(*args, **options):
        global count
        result = None if last % 2 == 0 and count + 1 == last else function(*args, **options)
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
for name in ("replace", "unlink"):
    setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))
os.fsync = counted(os.fsync)
atexit.register(lambda: print("changes:", count, file=sys.stderr))
"""


def dying_at_call(number):
    """Die at the call or return of a function of that number, in whatever thread. At 0, never.

    At the end, if it comes to that, the number of calls and returns is the last word on stderr.
    """
    return f"""
import os, signal, sys, threading, atexit
count, last = 0, {number}
def counted(frame, event, arg):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
threading.setprofile(counted)
sys.setprofile(counted)
atexit.register(lambda: sys.setprofile(None) or print("calls:", count, file=sys.stderr))
"""
