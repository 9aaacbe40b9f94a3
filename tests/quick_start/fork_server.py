"""One process of the tests that has imported TensorFlow and forks itself for processes to start.

Importing TensorFlow takes 3 to 5 seconds of CPU time, and tests start hundreds of processes. A
process that needs TensorFlow asks this server for a fork, passes its files, folder, environment
and arguments on, and waits for the fork's exit status (:mod:`sitecustomize` decides which ones do).
TensorFlow starts its threads at its first operation, so a fork behind the import is safe.

Started by :func:`running.start_fork_server`, one for all processes of a run of pytest. Its standard
input is a pipe: the server ends when pytest does.
"""

from __future__ import annotations

import array
import builtins
import gc
import json
import os
import selectors
import signal
import socket
import sys
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def request_fork(address: str, argv: list[str]) -> None:
    """Run this process as a fork of the server, and end as it ends; return if there is no server.

    Args:
        address: Path of the server's socket.
        argv: What follows the interpreter on the command line.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except OSError:
        return
    ignored = [number for number in _FORWARDED if signal.getsignal(number) == signal.SIG_IGN]
    umask = os.umask(0)
    os.umask(umask)
    request = {
        "argv": argv,
        "path": sys.path,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "ignored": ignored,
        "umask": umask,
    }
    files = array.array("i", (0, 1, 2)).tobytes()
    connection.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    connection.sendall(json.dumps(request).encode() + b"\n")
    with connection.makefile("r") as answers:
        pid = int(answers.readline())
        for number in _FORWARDED:
            if number not in ignored:
                signal.signal(number, lambda number, _frame: os.kill(pid, number))
        status = int(answers.readline() or signal.SIGKILL)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


class ForkServer:
    """Forks itself for each request; :meth:`serve` returns in the forks alone.

    Args:
        address: Path of the socket to listen at.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(address)
        self._socket.listen(16)
        self._children: dict[int, socket.socket] = {}
        self._woken, self._wakes = os.pipe()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> dict[str, Any] | None:
        """Answer requests until standard input ends; in a fork, return its request."""
        Path(f"{self._address}.ready").touch()
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (self._socket, self._woken, 0):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj is self._socket:
                    request = self._answer()
                    if request is not None:
                        return request
                elif key.fileobj == self._woken:
                    os.read(self._woken, 4096)
                    self._report_ended()
                else:
                    self._kill(key.data)

    def _answer(self) -> dict[str, Any] | None:
        connection, _ = self._socket.accept()
        _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * 4))
        files = array.array("i", ancillary[0][2])
        with connection.makefile("r") as lines:
            request: dict[str, Any] = json.loads(lines.readline())
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            for number, file in enumerate(files):
                os.dup2(file, number)
            self._selector.close()
            for held in (self._socket, connection, *self._children.values()):
                held.close()
            for file in (self._woken, self._wakes, *files):
                os.close(file)
            return request
        for file in files:
            os.close(file)
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        with suppress(OSError):
            connection.sendall(f"{pid}\n".encode())
        return None

    def _report_ended(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self._children.pop(pid)
                with suppress(OSError, KeyError):
                    self._selector.unregister(connection)
                with suppress(OSError):
                    connection.sendall(f"{status}\n".encode())
                connection.close()

    def _kill(self, pid: int) -> None:
        """The process that asked for this fork is gone."""
        self._selector.unregister(self._children[pid])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run(request: dict[str, Any]) -> None:
    """Run a fork's request as the interpreter would run this command line."""
    for number in _FORWARDED:
        ignored = number in request["ignored"]
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for name, file, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else None
        opened = open(file, mode, errors=errors, closefd=False)  # noqa: SIM115 - for good
        if name == "stderr":
            opened.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    sys.modules["numpy"].random.seed(None)
    argv = request["argv"]
    sys.orig_argv[1:] = argv
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    if argv[0] == "-c":
        sys.argv, sys.path[:] = ["-c", *argv[2:]], ["", *request["path"]]
        exec(compile(argv[1], "<string>", "exec"), vars(main))
    elif argv[0].endswith(".py"):
        script = Path(argv[0])
        sys.argv, sys.path[:] = argv, [str(script.resolve().parent), *request["path"]]
        vars(main).update(__file__=argv[0], __builtins__=builtins)
        exec(compile(script.read_bytes(), argv[0], "exec"), vars(main))
    else:
        import runpy  # noqa: PLC0415 - in forks of this kind alone

        sys.argv, sys.path[:] = ["-m", *argv[2:]], [request["folder"], *request["path"]]
        runpy._run_module_as_main(argv[1])  # type: ignore[attr-defined]


if __name__ == "__main__":
    import keras  # noqa: F401
    import sitecustomize
    import tensorflow  # noqa: F401

    import uncork.engine.apply.plan_listener
    import uncork.engine.worker.confirm_job
    import uncork.engine.worker.diagnose_job
    import uncork.engine.worker.tune_job  # noqa: F401

    Path(f"{sys.argv[1]}.settings").write_text(sitecustomize.server_settings())
    gc.collect()
    gc.freeze()
    asked = ForkServer(sys.argv[1]).serve()
    if asked is not None:
        run(asked)
