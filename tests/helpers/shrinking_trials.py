"""Trials for tests: graphs that crash, hang and fail as the tests want it."""

import os
import signal
import time

from onednn_graph_py.tools.shrinking import Outcome


def crashes_on_softmax_of_wide_rows(document, seed):
    for op in document.graph:
        if op.kind == "SoftMax" and op.inputs[0].shape[-1] >= 5:
            os.kill(os.getpid(), signal.SIGSEGV)
        if op.kind == "Abs":
            os.kill(os.getpid(), signal.SIGABRT)
    return Outcome("passed")


def hangs_on_tanh(document, seed):
    while any(op.kind == "Tanh" for op in document.graph):
        time.sleep(60)
    return Outcome("passed")


def exits_on_relu(document, seed):
    if any(op.kind == "ReLU" for op in document.graph):
        os._exit(0)
    return Outcome("passed")


def raises(document, seed):
    raise RuntimeError("not ready")
