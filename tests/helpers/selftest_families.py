"""Families for tests of the selftest: of graphs that are right, wrong, slow to draw, or crash."""

import os
import signal
import time

import onednn_graph_py as og
from onednn_graph_py.model.checking import expected
from onednn_graph_py.model.checking.filling import fill_inputs
from onednn_graph_py.tools.selftest import Drawn
from onednn_graph_py.tools.selftest.run import model_trial

DRAWS = {"ops": 1380, "chains": 600, "int8": 370, "attention": 400, "blocks": 250}
"""Draws of each family of the package in the tests: in all 3,000."""


def drawn(seed, *kinds):
    b = og.GraphBuilder()
    y = b.input((3, 4 + seed % 5), "f32", name="x")
    for kind in kinds:
        y = b.op(kind, y)
    b.output(y)
    return Drawn(b, [fill_inputs(b, seed)])


def right(seed):
    return drawn(seed, "Abs", "ReLU")


def crashes_on_odd_seeds(seed):
    if seed % 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(seed)


def hangs_on_seed_1(seed):
    while seed == 1:
        time.sleep(60)
    return right(seed)


def raises(seed):
    raise RuntimeError("a family with a mistake")


def has_no_kernel(seed):
    b = og.GraphBuilder()
    b.output(b.op("Wildcard", b.input((3, 4), "f32"), outputs=[((3, 4), "f32")]))
    return Drawn(b, [fill_inputs(b, seed)])


def injure():
    """Let this process, a worker's fork, take oneDNN's Tanh for wrong."""
    evaluate = expected.evaluate
    expected.evaluate = lambda call, given: [
        r + 1 if call.kind == "Tanh" else r for r in evaluate(call, given)
    ]


def wrong_tanh(seed):
    injure()
    return drawn(seed, "Abs", "Tanh", "ReLU")


_drawn: list[int] = []


def wrong_behind_another(seed):
    """In the same process."""
    _drawn.append(seed)
    return wrong_tanh(seed) if len(_drawn) > 1 else right(seed)


def ends_behind_another(seed):
    """In the same process."""
    _drawn.append(seed)
    return crashes_on_odd_seeds(len(_drawn) - 1)


def wrong_tanh_trial(document, seed):
    injure()
    return model_trial(document, seed)
