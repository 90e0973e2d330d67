"""Commands in processes that are forked from one with all modules loaded, which saves most of their time.

`python tests/forks.py FD MODULES` is that process. It reads requests from a socket and forks; the child
becomes `python -m nysketch` with the arguments, the folder, the environment and the files of the request, or
runs the program of the request alone.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path


class Forks:
    """Runs commands by forking: `Forks(environment).run(["info", path], env={}, cwd=folder)`.

    `modules` are loaded besides those of nysketch.
    """

    def __init__(self, environment, modules=()):
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno()), *modules],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # neither a terminal nor the output of the tests
                stderr=subprocess.STDOUT,
                pass_fds=[other.fileno()],
            )

    def run(self, arguments, *, env, prepare="", cwd=None, input=None, text=True, timeout):
        """Do what `subprocess.run` does with `capture_output`; `prepare` is a program to run before."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            if input is not None:
                given.write(input.encode() if text else input)
                given.seek(0)
            request = {"arguments": arguments, "env": env, "cwd": os.fspath(cwd or Path.cwd())}
            pid = self._forked(request | {"prepare": prepare, "alone": False}, [given, out, err])
            self._socket.settimeout(timeout)
            try:
                status = self._number()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._socket.settimeout(None)
                self._number()
                raise
            results = []
            for file in (out, err):
                file.seek(0)
                content = file.read()
                results.append(content.decode() if text else content)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(["nysketch", *arguments], code, *results)

    def start(self, program, *, cwd, log):
        """Run a program, which need not end, in a process of its own, as `subprocess.Popen` does."""
        status, there = os.pipe()
        request = {"arguments": [], "env": {}, "cwd": os.fspath(cwd), "prepare": program, "alone": True}
        try:
            with Path(os.devnull).open("rb") as nothing:
                return Started(self._forked(request, [nothing, log, log, there]), status)
        finally:
            os.close(there)

    def _forked(self, request, files):
        data = json.dumps(request).encode()
        numbers = [file if isinstance(file, int) else file.fileno() for file in files]
        socket.send_fds(self._socket, [len(data).to_bytes(4, "little")], numbers)
        self._socket.sendall(data)
        self._socket.settimeout(None)
        return self._number()

    def _number(self):
        data = self._socket.recv(4, socket.MSG_WAITALL)
        if len(data) < 4:
            raise RuntimeError(f"the process that forks has ended: {self._process.stdout.read()}")
        return int.from_bytes(data, "little")

    def stop(self):
        self._socket.close()
        self._process.wait()
        self._process.stdout.close()


class Started:
    """A process that was forked, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid, status):
        self.pid, self.returncode, self._status = pid, None, status

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            status = os.read(self._status, 4)
            os.close(self._status)
            if len(status) < 4:
                raise RuntimeError("the process that forks has ended")
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(status, "little"))
        return self.returncode

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _load(modules=()):
    """Import what commands import when they run."""
    import numpy as np
    import pyarrow as pa

    import nysketch.cli

    for module in pkgutil.walk_packages(nysketch.__path__, "nysketch."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # what is optional
                importlib.import_module(module.name)
    # Machine code: in memory, without a thread that is left.
    table = pa.table({"x": np.random.default_rng(0).normal(size=100)})
    for precision in ("float32", "float64"):
        nysketch.sketch(table, landmarks=5, threads=1, precision=precision)
    for name in modules:
        importlib.import_module(name)


def _serve(requests):
    """Fork for every request; return the request in the child, None at the end in the parent.

    With three files, the parent waits for the child; a fourth one is told its status once it has ended.
    """
    started = {}
    ended, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    while True:
        readable, _, _ = select.select([requests, ended], [], [])
        if ended in readable:
            os.read(ended, 1 << 16)
            for pid in list(started):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    with suppress(BrokenPipeError):  # nobody has waited for it
                        os.write(started[pid], status.to_bytes(4, "little"))
                    os.close(started.pop(pid))
        if requests not in readable:
            continue
        header, files, _, _ = socket.recv_fds(requests, 4, 4)
        if not header:
            return None
        request = json.loads(requests.recv(int.from_bytes(header, "little"), socket.MSG_WAITALL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads of libraries that know about forks
            pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            for number, file in enumerate(files[:3]):
                os.dup2(file, number)
            for file in [*files, ended, told, *started.values()]:
                os.close(file)
            os.chdir(request["cwd"])
            os.environ.update(request["env"])
            return request
        for file in files[:3]:
            os.close(file)
        requests.sendall(pid.to_bytes(4, "little"))
        if len(files) == 4:
            started[pid] = files[3]
        else:
            requests.sendall(os.waitpid(pid, 0)[1].to_bytes(4, "little"))


if __name__ == "__main__":
    sys.path[0] = ""  # as `python -m` does
    _load(sys.argv[2:])
    gc.freeze()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        sys.argv[1:] = request["arguments"]
        try:
            exec(request["prepare"], {"__name__": "__main__"} if request["alone"] else {})
            if request["alone"]:
                sys.exit()
            runpy.run_module("nysketch", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            # Tidying up all those modules would take longer than most commands.
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(end.code or 0)
