"""The helper process that judges partitions, and may crash: ``python -m ...verdicts.worker FD``."""

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

    First send None, so that the time for a partition does not include the start of the process.
    """
    connection = Connection(descriptor)
    # The parent process ends this one; an interrupt is meant for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(BrokenPipeError):
        connection.send(None)
    while True:
        try:
            subject, limits, timeout = connection.recv()
        except EOFError:  # the parent is gone, or needs no more verdicts
            return
        # A thread of faulthandler ends this process if the parent does not, even if Python hangs.
        faulthandler.dump_traceback_later(2 * timeout, exit=True)
        # Empty the cache: constants of the partition before are not needed any more.
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
