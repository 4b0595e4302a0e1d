"""The process that makes calls for `Isolated`.

It makes each call in a fork, which starts fast and leaves nothing behind: oneDNN's caches are
cold, and a crash or a hang ends only the fork. The process itself never calls oneDNN, as forks
would lack oneDNN's threads.
"""

import contextlib
import os
import pickle
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from .isolation import Answer
from .messages import die_with_parent, serve


def main(descriptor: int) -> None:
    """Take calls from a connection and answer them, until it ends."""
    # CPython warns of any fork while there are threads; here these are NumPy's, which are idle.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
    serve(descriptor, lambda request: _called(descriptor, *request))


def _called(
    descriptor: int, path: list[str], modules: Sequence[str], packed: bytes, timeout: float | None
) -> Answer:
    """Make a call in a fork, and end this process if the connection ends first."""
    sys.path[:] = path
    try:
        for name in modules:
            import_module(name)
        reading, writing = Pipe(duplex=False)
        parent = os.getpid()
        pid = os.fork()
    except Exception:
        return "raised", traceback.format_exc()
    if pid == 0:
        die_with_parent()
        if os.getppid() != parent:  # it has ended already
            os._exit(1)
        _child(writing, packed)
    writing.close()
    # The caller sends nothing before it has the answer, so the connection is ready only if closed.
    ready = wait([reading, descriptor], timeout)
    answer: Answer | None = None
    if ready == [reading]:
        with contextlib.suppress(EOFError, OSError):  # it has ended
            answer = reading.recv()
    else:
        os.kill(pid, signal.SIGKILL)
    reading.close()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if descriptor in ready:
        sys.exit()
    if not ready:
        return "hang", None
    return answer if answer is not None and status == 0 else ("ended", status)


def _child(writing: Connection, packed: bytes) -> None:
    """Make the call, send its result or error, and exit without any clean-up.

    Arguments are unpickled here, as that may import, call oneDNN, crash or hang.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    answer: Answer
    try:
        function, arguments = pickle.loads(packed)
        answer = "returned", function(*arguments)
    except BaseException:
        answer = "raised", traceback.format_exc()
    writing.send(answer)
    os._exit(0)
