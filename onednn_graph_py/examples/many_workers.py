"""Handwritten digits by two workers of Ray: throughput, and latency under load.

Each worker is a `parallel.Predictor` with one thread on a core of its own. The example compares how
many images one and two workers classify in a second, and then sends batches at 50, 80 and 95 % of
the highest rate and tells how long the answers take. Needs Ray and scikit-learn.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import CompiledGraph, GraphBuilder
from ..model.checking.expected import Expected
from ..tools.parallel import Predictor
from ._run import Case, Skipped, median_milliseconds

ROWS = 16384  # images of a batch: so many that Ray's own time does not count

SECONDS = 2.0
LOADS = (0.5, 0.8, 0.95)
IN_FLIGHT = 2  # batches that a worker has at a time: one runs, and one waits


class _Worker:
    """An actor of Ray."""

    def __init__(self, model: CompiledGraph) -> None:
        self.predictor = Predictor(model, prepare=[(ROWS, 64)])

    def cores(self) -> tuple[int, ...]:
        """Return its cores. An answer means that it is ready."""
        return self.predictor.cores

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the digit of each image."""
        scores = self.predictor({"images": images})["scores"]
        digits: npt.NDArray[Any] = scores.argmax(axis=1).astype(np.uint8)
        return digits


def _network() -> tuple[GraphBuilder, npt.NDArray[Any]]:
    """Train on one half of the digits that scikit-learn ships; return the other half, too."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    digits = load_digits()
    # Pixels are whole numbers from 0 to 16.
    training, images, labels, _ = train_test_split(
        digits.data / 16, digits.target, test_size=0.5, random_state=0, stratify=digits.target
    )
    model = MLPClassifier((128, 64), max_iter=500, random_state=0)
    model.fit(training, labels)
    weights, biases = (
        [a.astype(np.float32) for a in of] for of in (model.coefs_, model.intercepts_)
    )
    b = GraphBuilder()
    x = b.input((-1, 64), "f32", name="images")
    for w, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = (x @ w + bias).relu()
    b.output(scores=x @ weights[-1] + biases[-1])
    return b, images.astype(np.float32)


def _throughput(workers: Sequence[Any], images: Any) -> float:
    """Return the batches that workers do in a second if they always have the next one."""
    import ray

    doing = {w.classify.remote(images): w for w in workers for _ in range(IN_FLIGHT)}
    begin, done = time.monotonic(), 0
    while (now := time.monotonic()) < begin + SECONDS:
        (ended,), _ = ray.wait(list(doing))
        worker = doing.pop(ended)
        doing[worker.classify.remote(images)] = worker
        done += 1
    ray.get(list(doing))
    return done / (now - begin)


def _latencies(workers: Sequence[Any], images: Any, rate: float) -> list[float]:
    """Send batches at a rate, whether answers come or not; return the seconds of each answer."""
    import ray

    count = max(20, int(rate * SECONDS))
    sent: dict[Any, tuple[Any, float]] = {}
    busy = dict.fromkeys(workers, 0)
    taken: list[float] = []
    begin, number = time.monotonic(), 0
    while len(taken) < count:
        due = begin + number / rate
        if number < count and time.monotonic() >= due:
            worker = min(busy, key=lambda w: busy[w])
            busy[worker] += 1
            sent[worker.classify.remote(images)] = worker, due
            number += 1
            continue
        left = max(0.0, due - time.monotonic()) if number < count else None
        if not sent:
            time.sleep(left or 0)
            continue
        for ended in ray.wait(list(sent), timeout=left)[0]:
            worker, due = sent.pop(ended)
            busy[worker] -= 1
            taken.append(time.monotonic() - due)
    return taken


def _run() -> Case:
    import ray

    builder, held_out = _network()
    model: Any = builder.compile(threads=1)
    images = np.resize(held_out, (ROWS, 64))
    (output,) = builder.outputs.values()
    compared = Expected(builder, [held_out]).compare({output.id: model(held_out)})
    steps = model.steps((ROWS, 64))

    for name in ("ray", "ray._private.worker"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Otherwise Ray warns of what a later version of it will do with GPUs.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=256 << 20,
    )
    try:
        shared, batch = ray.put(model), ray.put(images)
        actor = ray.remote(num_cpus=1)(_Worker)
        workers = [actor.remote(shared) for _ in range(2)]
        cores = ray.get([w.cores.remote() for w in workers])
        digits = [ray.get(w.classify.remote(batch)) for w in workers]
        one = _throughput(workers[:1], batch)
        two = _throughput(workers, batch)
        facts = [
            f"cores of the workers: {', '.join(str(list(c)) for c in cores)}",
            f"1 worker: {one * ROWS:,.0f} images a second",
            f"2 workers: {two * ROWS:,.0f} images a second, {two / one:.2f} times as many",
        ]
        for load in LOADS:
            taken = np.array(_latencies(workers, batch, load * two)) * 1e3
            p50, p95, p99 = np.percentile(taken, [50, 95, 99])
            facts.append(
                f"at {load:.0%} of that, a batch takes {p50:.1f} ms (median), "
                f"{p95:.1f} ms (95 %), {p99:.1f} ms (99 %)"
            )
    finally:
        ray.shutdown()
    wanted = model(images).argmax(axis=1)
    faults = [] if all((d == wanted).all() for d in digits) else ["workers give other digits"]
    return Case(
        name=f"f32, batches of {ROWS}",
        expected_partitions=None,
        partitions=[s.ops for s in steps],
        comparisons={"logits, all elements with NumPy in float64": compared},
        milliseconds=median_milliseconds(lambda: model(images)),
        facts=facts,
        faults=faults,
    )


def run() -> Iterator[Case | Skipped]:
    """Run with two workers."""
    missing = [name for name in ("ray", "sklearn") if importlib.util.find_spec(name) is None]
    if missing:
        yield Skipped("f32", f"{', '.join(missing)} not installed")
    elif len(os.sched_getaffinity(0)) < 2:
        yield Skipped("f32", "this process may use one CPU only, and there are two workers")
    else:
        yield _run()
