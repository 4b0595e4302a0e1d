"""A helper of `onednn_graph_py.model.verdicts` with faults, each shown by partitions of one op.

What a partition's first op decides: Abs crashes, Elu hangs, Exp changes one element of the result,
Square changes another one in each call, Tanh writes behind its output, Round fails in Python.
"""

import itertools
import os
import signal
import time

from onednn_graph_py.model.verdicts import running
from onednn_graph_py.model.verdicts.judge import _examined

_calls = itertools.count(1)
_run = running.Run.__call__


def _faulty_run(run, pattern):
    made = _run(run, pattern)
    kind = run.subject.ops[0].kind
    if kind == "Exp":
        made[0].reshape(-1)[-1] *= 1.5
    if kind == "Square":
        made[0].reshape(-1)[next(_calls) % made[0].size] *= 1 + 2.0**-23
    if kind == "Tanh":
        run.outputs[0]._all[run.outputs[0]._begin + run.outputs[0].bytes] += 1
        run.check_outputs()
    return made


def examined(subject, limits):
    running.Run.__call__ = _faulty_run
    kind = subject.ops[0].kind
    if kind == "Abs":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "Elu":
        time.sleep(600)
    if kind == "Round":
        raise ZeroDivisionError("on purpose")
    return _examined(subject, limits)
