"""Commands in processes that are forked from one with all modules loaded, which saves most of their time.

`python tests/forks.py FD` is that process. It reads requests from a socket and forks; the child becomes
`python -m nysketch` with the arguments, the folder, the environment and the files of the request.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
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
    """Runs commands by forking: `Forks(environment).run(["info", path], env={}, cwd=folder)`."""

    def __init__(self, environment):
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())],
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
            data = json.dumps(request | {"prepare": prepare}).encode()
            files = [given.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(self._socket, [len(data).to_bytes(4, "little")], files)
            self._socket.sendall(data)
            self._socket.settimeout(None)
            pid = self._number()
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

    def _number(self):
        data = self._socket.recv(4, socket.MSG_WAITALL)
        if len(data) < 4:
            raise RuntimeError(f"the process that forks has ended: {self._process.stdout.read()}")
        return int.from_bytes(data, "little")

    def stop(self):
        self._socket.close()
        self._process.wait()
        self._process.stdout.close()


def _load():
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


def _serve(requests):
    """Fork for every request; return the request in the child, None at the end in the parent."""
    while True:
        header, files, _, _ = socket.recv_fds(requests, 4, 3)
        if not header:
            return None
        request = json.loads(requests.recv(int.from_bytes(header, "little"), socket.MSG_WAITALL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads of libraries that know about forks
            pid = os.fork()
        if pid == 0:
            requests.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            os.chdir(request["cwd"])
            os.environ.update(request["env"])
            return request
        for file in files:
            os.close(file)
        requests.sendall(pid.to_bytes(4, "little"))
        requests.sendall(os.waitpid(pid, 0)[1].to_bytes(4, "little"))


if __name__ == "__main__":
    sys.path[0] = ""  # as `python -m` does
    _load()
    gc.freeze()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        sys.argv[1:] = request["arguments"]
        try:
            exec(request["prepare"], {})
            runpy.run_module("nysketch", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            # Tidying up all those modules would take longer than most commands.
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(end.code or 0)
