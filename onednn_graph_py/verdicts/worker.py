"""The process that judges partitions, and may crash: ``python -m ...verdicts.worker FD``."""

from __future__ import annotations

import contextlib
import faulthandler
import resource
import signal
import sys
from multiprocessing.connection import Connection

from .. import _core
from ..machine.constant_cache import DEFAULT_CAPACITY
from .examine import examine
from .verdict import Outcome, Verdict

__all__ = ["serve"]


def serve(descriptor: int) -> None:
    """Take partitions with limits from a connection, and answer with verdicts, until it ends.

    Before the first one comes None: a partition's time does not begin before that.
    """
    connection = Connection(descriptor)
    # Who asks ends this process; an interrupt is for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(BrokenPipeError):
        connection.send(None)
    while True:
        try:
            subject, limits, timeout = connection.recv()
        except EOFError:  # who asked is gone, or wants no more
            return
        # Should nobody be left to end it, it ends itself; Python need not have a say in that.
        faulthandler.dump_traceback_later(2 * timeout, exit=True)
        # Constants of the one before are not needed any more.
        _core.set_constant_tensor_cache_capacity("cpu", DEFAULT_CAPACITY)
        try:
            verdict = examine(subject, limits)
        except Exception as e:
            why = f"judging failed: {type(e).__name__}: {e}"
            verdict = Verdict(Outcome.UNVERIFIED, why, passing=True)
        faulthandler.cancel_dump_traceback_later()
        try:
            connection.send(verdict)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    serve(int(sys.argv[1]))
