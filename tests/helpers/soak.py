"""Threads call, bind, build and drop models for a time: right results, and no growth.

As a program, ``soak.py SECONDS THREADS``, it prints the numbers of calls, and of resident pages,
open files and tasks at twenty times, as JSON.
"""

import gc
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import stateful_calls as calls
import stateful_subjects as subjects

import onednn_graph_py as og

SAMPLES = 20
# How often a thread compiles in a run, however long it is: oneDNN keeps up to 1 kB for each address
# of a kernel, 400 B of it for each thread that ran it (`thread_local_cache_t`, 3.7.2 and 3.13.1).
COMPILING = 1000


def resident() -> int:
    gc.collect()
    og.clear_caches()  # of what dropped models may leave there, up to 32 MB
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


def make_subjects(max_shapes: int) -> list[Any]:
    return [
        subjects.make_subject(name, -1, 1, slow_fusions="run", max_shapes=max_shapes)
        for name in subjects.RECIPES
    ]


def make_compiled() -> Iterator[Any]:
    engine = og.engine("cpu", 0)
    for kind in subjects.KINDS:
        draft = subjects.make_draft(kind, 8)
        draft.graph.finalize()
        yield subjects.compile_draft(draft, engine, 8)


class Work:
    """What threads do, a step each time.

    Parameters
    ----------
    may_compile : callable
        Asked before what compiles: models of one thread, and shared ones with few places for sizes.
    """

    def __init__(self, may_compile: Callable[[], bool]) -> None:
        self.may_compile = may_compile
        self.compiled = [*make_subjects(max_shapes=16), *make_compiled()]
        self.few_shapes = make_subjects(max_shapes=4)

    def steps(self, rng: random.Random) -> Iterator[None]:
        while True:
            for _ in range(20):
                calls.use(rng.choice(self.compiled), rng.randrange(1000))
                yield
            if not self.may_compile():
                continue
            for _ in range(4):
                calls.use(rng.choice(self.few_shapes), rng.randrange(1000))
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
    made, compiled, failed = [0] * count, list[float](), list[BaseException]()

    def passed() -> float:
        return (time.monotonic() - start) / seconds

    def may_compile() -> bool:
        now = passed()
        if len(compiled) >= COMPILING * now:
            return False
        compiled.append(now)
        return True

    shared = Work(may_compile)
    start = time.monotonic()

    def work(i: int) -> None:
        try:
            for _ in shared.steps(random.Random(i)):
                made[i] += 1
                if failed or passed() > 1:
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
    print(json.dumps({"calls": sum(made), "compiled": len(compiled), **seen}))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
