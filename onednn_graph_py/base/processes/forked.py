"""Objects that have to start anew in a forked process.

A forked process has only the thread that forked. Locks that another thread held stay locked there,
and connections still belong to the parent.
"""

import itertools
import os
import warnings
from typing import Protocol
from weakref import WeakValueDictionary

from ... import _core


class Renewed(Protocol):
    """An object that starts anew in a forked process."""

    def _after_fork(self) -> None:
        """Replace what only the parent can use."""


_numbers = itertools.count()
_living: WeakValueDictionary[int, Renewed] = WeakValueDictionary()
_warned = False


def renew_in_forks(one: Renewed) -> None:
    """Call the object's method ``_after_fork`` in forked processes, as long as it lives.

    Those that others use have to come first.
    """
    _living[next(_numbers)] = one


def warn_of_one_thread() -> None:
    """Warn, once in a process, if models have one thread here because of a fork."""
    global _warned
    if _warned or not _core._has_one_thread():
        return
    _warned = True
    warnings.warn(
        "this process was forked from one in which models ran with several threads; models run "
        "with one thread here, as OpenMP's threads do not survive a fork; the start methods spawn "
        "and forkserver keep all threads",
        RuntimeWarning,
        stacklevel=2,
    )


def _after_fork() -> None:
    for one in list(_living.values()):
        one._after_fork()


os.register_at_fork(after_in_child=_after_fork)
