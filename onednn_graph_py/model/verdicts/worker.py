"""The process that judges partitions, and may crash."""

import faulthandler
import resource

from ... import _core
from ...base.processes import serve
from ...machine.constant_cache import DEFAULT_CAPACITY
from .examine import examine
from .subject import Subject
from .verdict import Limits, Outcome, Verdict


def main(descriptor: int) -> None:
    """Read partitions and limits from a connection, and answer with verdicts, until it ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(descriptor, lambda request: _judged(*request))


def _judged(subject: Subject, limits: Limits, timeout: float) -> Verdict:
    # Without the caller, the process ends even if it can't run Python code.
    faulthandler.dump_traceback_later(2 * timeout, exit=True)
    # This drops the constants of the previous partition.
    _core.set_constant_tensor_cache_capacity("cpu", DEFAULT_CAPACITY)
    try:
        return examine(subject, limits)
    except Exception as e:
        why = f"judging failed: {type(e).__name__}: {e}"
        return Verdict(Outcome.UNVERIFIED, why, passing=True)
    finally:
        faulthandler.cancel_dump_traceback_later()
