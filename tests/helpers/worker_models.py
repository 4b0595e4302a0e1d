"""Models and worker functions that the tests of `onednn_graph_py.tools.parallel` share."""

import os
import time
from pathlib import Path

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor


def mlp(width: int = 64, threads: int | None = None) -> og.CompiledGraph:
    """A model of two products for any batch."""
    random = np.random.default_rng(0)
    b = og.GraphBuilder()
    x = b.input((-1, width), "f32", name="x")
    for _ in range(2):
        w = random.uniform(-1, 1, (width, width)).astype(np.float32) / width**0.5
        x = (x @ b.constant(w)).relu()
    b.output(y=x)
    # Nothing is measured, so all workers compile the same.
    return b.compile(threads=threads, slow_fusions="run")


def batches(count: int, rows: int = 4, width: int = 64) -> list[dict[str, np.ndarray]]:
    """Batches by name, with a column that the model does not read."""
    random = np.random.default_rng(1)
    return [
        {"x": random.uniform(-1, 1, (rows, width)).astype(np.float32), "id": np.full(rows, i)}
        for i in range(count)
    ]


class SlowToCompile:
    """A model that takes seconds to compile, and leaves a file when it has."""

    name, input_names, output_names, threads = "slow", ("pixels",), ("scores",), 1

    def __init__(self, seconds: float, file: str) -> None:
        self.model, self.seconds, self.file = mlp(threads=1), seconds, file

    def prepare(self, *shapes):
        """Compile."""
        self.model.prepare(*shapes)
        time.sleep(self.seconds)
        Path(self.file).touch()

    def __call__(self, x):
        """Run."""
        return self.model(x)


local: Predictor | None = None


def start(packed: bytes) -> None:
    """Make the predictor of a worker of concurrent.futures."""
    import pickle

    global local
    local = Predictor(pickle.loads(packed), threads=1, prepare=[(4, 64)])


def work(batch):
    """Run a batch in a worker; return also where."""
    assert local is not None
    return local(batch), os.getpid()
