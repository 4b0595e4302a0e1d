"""Threads call, bind, build and drop models for a time: right results, and no growth.

As a program, ``soak.py SECONDS THREADS``, it prints the numbers of calls, and of resident pages,
open files and tasks at twenty times, as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import stateful_calls as calls
import stateful_subjects as subjects

import onednn_graph_py as og

SAMPLES = 20


def resident() -> int:
    gc.collect()
    og.clear_caches()  # of what dropped models may leave there, up to 32 MB
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


def shared_objects() -> list[Any]:
    made: list[Any] = [
        subjects.make_subject(name, -1, 1, slow_fusions="run", max_shapes=4)
        for name in subjects.RECIPES
    ]
    engine = og.engine("cpu", 0)
    for kind in subjects.KINDS:
        draft = subjects.make_draft(kind, 8)
        draft.graph.finalize()
        made.append(subjects.compile_draft(draft, engine, 8))
    return made


def steps(rng: random.Random, shared: list[Any]) -> Iterator[None]:
    """One thread's work, a step each time."""
    while True:
        for _ in range(20):
            calls.use(rng.choice(shared), rng.randrange(1000))
            yield
        own = subjects.make_subject(
            rng.choice(sorted(subjects.RECIPES)), -1, rng.randrange(9), slow_fusions="run"
        )
        calls.use(own, rng.randrange(1000))
        bound = calls.bind_model(own, rng.randrange(1000), 1 + rng.randrange(8))
        yield bound(rng.randrange(1000), False)
        calls.use(calls.unpickled(own), rng.randrange(1000))
        if rng.random() < 0.1:
            og.clear_caches()
        yield


def main(seconds: float, count: int) -> None:
    # Small, so that they are full soon.
    og.set_compiled_partition_cache_capacity(16)
    og.set_primitive_cache_capacity(64)
    shared, failed = shared_objects(), list[BaseException]()
    end, made = time.monotonic() + seconds, [0] * count

    def work(i: int) -> None:
        try:
            for _ in steps(random.Random(i), shared):
                made[i] += 1
                if failed or time.monotonic() > end:
                    return
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    seen: dict[str, list[int]] = {"pages": [], "files": [], "tasks": []}
    for _ in range(SAMPLES):
        time.sleep(seconds / (SAMPLES + 1))
        seen["pages"].append(resident())
        seen["files"].append(len(os.listdir("/proc/self/fd")))
        seen["tasks"].append(len(os.listdir("/proc/self/task")))
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    print(json.dumps({"calls": sum(made), **seen}))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
