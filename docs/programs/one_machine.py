"""A model in two processes of one machine, without Ray: concurrent.futures, and joblib if there."""

import importlib.util
import multiprocessing
import pickle
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor

WORKERS, BATCH = 2, 32


def model() -> og.CompiledGraph:
    """Make a classifier of 64 numbers, for any batch size."""
    random = np.random.default_rng(0)
    b = og.GraphBuilder()
    x = b.input((-1, 64), "f32", name="pixels")
    hidden = (x @ random.uniform(-1, 1, (64, 128)).astype(np.float32)).relu()
    b.output(scores=hidden @ random.uniform(-1, 1, (128, 10)).astype(np.float32))
    return b.compile()


@cache
def predictor(file: str) -> Predictor:
    """Make the predictor of this worker: at the first batch, or before it by an initializer."""
    return Predictor(pickle.loads(Path(file).read_bytes()), threads=1, prepare=[(BATCH, 64)])


def classify(file: str, images: np.ndarray) -> np.ndarray:
    """Run a batch in a worker."""
    scores: np.ndarray = predictor(file)({"pixels": images})["scores"]
    return scores.argmax(axis=1)


def by_futures(file: str, batches: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Run with the standard library; a worker that dies ends the pool with BrokenProcessPool."""
    # Not fork: OpenMP's threads do not survive it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, predictor, (file,)) as pool:
        yield from pool.map(classify, [file] * len(batches), batches)


def by_joblib(file: str, batches: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Run with joblib, whose workers stay for the next call."""
    from joblib import Parallel, delayed
    from one_machine import classify  # imported: of __main__ each call would get a new predictor

    yield from Parallel(WORKERS)(delayed(classify)(file, images) for images in batches)


def main() -> None:
    """Run both, and check each row."""
    images = np.random.default_rng(1).uniform(0, 1, (1000, 64)).astype(np.float32)
    batches = [images[i : i + BATCH] for i in range(0, len(images), BATCH)]
    whole = model()
    wanted = whole(images).argmax(axis=1)
    ways = [by_futures, by_joblib] if importlib.util.find_spec("joblib") else [by_futures]
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump(whole, file)
        file.flush()
        for way in ways:
            digits = np.concatenate(list(way(file.name, batches)))
            assert (digits == wanted).all()
            print(f"{way.__name__}: {len(digits)} images in order")


if __name__ == "__main__":
    main()
