"""Random sequences of what mirror and models can do, against a model of what must hold.

Results are NumPy's to the last bit, what is refused raises this package's errors, nothing that the
caller owns changes, and what lives stays usable, in several threads and in forked processes.

As a program it is the worker of test_stateful.py: ``stateful.py SEED STEPS`` says on stdout each
step before it is made, so that the last lines tell what a crash was about; with a third argument,
``shrink``, it searches for fewer steps that fail.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import stateful_calls as calls
import stateful_subjects as subjects
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)
from stateful_subjects import RECIPES

import onednn_graph_py as og

OPENMP = og.version()["cpu_runtime"] == "OpenMP"
SECONDS_FOR_A_STEP = 300  # a busy machine may give a process little of its time
STEPS: set[str] = set()  # all there are
made = 0  # steps, by all machines of this process

seeds = st.integers(0, 999)
rows = st.sampled_from([1, 2, 3, 5, 8, 33])
rows_or_any = st.sampled_from([-1, -1, 1, 4, 16])


def step(kind: Any = rule, **arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a rule that says what it does before it does it."""

    def wrap(body: Callable[..., Any]) -> Any:
        STEPS.add(body.__name__)

        def told(self: Machine, **given: Any) -> Any:
            global made
            made += 1
            texts = (f"{k}={self.names.get(id(v), v)!r}" for k, v in given.items())
            print(f"step {made} {body.__name__}({', '.join(texts)})", flush=True)
            faulthandler.dump_traceback_later(SECONDS_FOR_A_STEP, exit=True)
            try:
                result = body(self, **given)
            finally:
                faulthandler.cancel_dump_traceback_later()
            assert surroundings() == self.around
            assert og.num_threads() == self.threads
            self.names[id(result)] = f"that of step {made}"
            if isinstance(result, (subjects.Subject, subjects.Draft, subjects.Compiled)):
                self.living[id(result)] = result
            return result

        told.__name__ = body.__name__
        return kind(**arguments)(told)

    return wrap


def surroundings() -> tuple[Any, ...]:
    """What belongs to the caller's process and must not change."""
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    settings_ = (os.getcwd(), sys.getswitchinterval(), sys.stdout, sys.stderr, np.geterr())
    return (dict(os.environ), handlers, settings_, os.sched_getaffinity(0))


class Machine(RuleBasedStateMachine):
    """One process's use of the package."""

    models: Bundle[subjects.Subject] = Bundle("models")
    drafts: Bundle[subjects.Draft] = Bundle("drafts")
    partitions: Bundle[subjects.Compiled] = Bundle("partitions")
    bound: Bundle[calls.Bound] = Bundle("bound")
    views: Bundle[tuple[np.ndarray, np.ndarray]] = Bundle("views")

    def __init__(self) -> None:
        print("begin", flush=True)
        super().__init__()
        self.names: dict[int, str] = {}
        self.living: dict[int, Any] = {}
        self.around = surroundings()
        self.threads = og.num_threads()

    def teardown(self) -> None:
        og.set_default_fpmath_mode("strict")
        self.living.clear()
        gc.collect()

    # -- models

    @step(kind=initialize, target=models, recipe=st.sampled_from(sorted(RECIPES)))
    def first_model(self, recipe):
        return subjects.make_subject(recipe, -1, 0, slow_fusions="run")

    @step(
        target=models,
        recipe=st.sampled_from(sorted(RECIPES)),
        rows=rows_or_any,
        seed=seeds,
        threads=st.sampled_from([None, 1, 2]),
        options=st.sampled_from(
            [{}, {}, {"policy": "debug"}, {"max_shapes": 2}, {"fold_constants": False}]
        ),
    )
    def build(self, recipe, rows, seed, threads, options):
        if not OPENMP:
            threads = None
        options = {"slow_fusions": "run", **options}
        return subjects.make_subject(recipe, rows, seed, threads=threads, **options)

    @step(model=models, seed=seeds, rows=rows, out=st.booleans(), named=st.booleans())
    def call(self, model, seed, rows, out, named):
        calls.call_model(model, seed, rows, out=out, named=named)

    @step(model=models, seed=seeds, rows=rows, fault=st.sampled_from(sorted(calls.MODEL_FAULTS)))
    def call_wrongly(self, model, seed, rows, fault):
        calls.call_model_wrongly(model, seed, rows, fault)

    @step(model=models, sizes=st.lists(rows, min_size=1, max_size=3, unique=True))
    def resize(self, model, sizes):
        calls.resize(model, sizes)

    @step(target=bound, model=models, seed=seeds, rows=rows)
    def bind_a_model(self, model, seed, rows):
        return calls.bind_model(model, seed, rows)

    @step(target=models, model=models)
    def pickle_and_unpickle(self, model):
        return calls.unpickled(model)

    @step(target=models, model=models, threads=st.sampled_from([1, 2]))
    def with_other_threads(self, model, threads):
        return calls.with_threads(model, threads if OPENMP else 1)

    @step(model=models)
    def release_constants(self, model):
        calls.release(model)

    # -- the mirror

    @step(kind=initialize, target=partitions, op=st.sampled_from(subjects.KINDS))
    def first_partition(self, op):
        draft = subjects.make_draft(op, 4)
        draft.graph.finalize()
        return subjects.compile_draft(draft, og.engine("cpu", 0), 4)

    @step(target=drafts, op=st.sampled_from(subjects.KINDS), rows=rows_or_any)
    def draft(self, op, rows):
        draft = subjects.make_draft(op, rows)
        calls.misuse_unfinished(draft)
        draft.graph.finalize()
        return draft

    @step(draft=drafts)
    def misuse_a_graph(self, draft):
        calls.misuse_finished(draft)

    @step(target=partitions, draft=drafts, beside=partitions, own=st.booleans(), rows=rows)
    def compile(self, draft, beside, own, rows):
        engine = og.engine("cpu", 0) if own else beside.engine
        return subjects.compile_draft(draft, engine, rows)

    @step(partition=partitions, seed=seeds)
    def execute(self, partition, seed):
        calls.execute(partition, seed)

    @step(partition=partitions, seed=seeds, fault=st.sampled_from(sorted(calls.PARTITION_FAULTS)))
    def execute_wrongly(self, partition, seed, fault):
        calls.execute_wrongly(partition, seed, fault)

    @step(target=bound, partition=partitions, seed=seeds)
    def bind_a_partition(self, partition, seed):
        return calls.bind_partition(partition, seed)

    @step(target=views, partition=partitions, seed=seeds)
    def execute_into_own_memory(self, partition, seed):
        return calls.view_of_result(partition, seed)

    # -- what outlives the rest

    @step(what=st.one_of(consumes(models), consumes(drafts), consumes(partitions)))
    def drop(self, what):
        self.living.pop(id(what), None)

    @step(bound=bound, seed=seeds, moved=st.booleans())
    def call_what_is_bound(self, bound, seed, moved):
        bound(seed, moved)

    @step(view=consumes(views))
    def look_at_a_view(self, view):
        np.testing.assert_array_equal(*view)

    # -- the process

    @step(
        setting=st.one_of(
            st.tuples(st.just("compiled_partition"), st.sampled_from([0, 1, 4, 1024])),
            st.tuples(st.just("primitive"), st.sampled_from([0, 1, 4, 1024])),
            st.tuples(st.just("constants"), st.sampled_from([0, 1, 64, 4096, 4096])),
            st.tuples(st.just("threads"), st.integers(1, 3)),
            st.tuples(st.just("math"), st.sampled_from(["strict", "bf16", "tf32", "any"])),
            st.tuples(st.just("isa"), st.sampled_from(["avx2", "avx512_core", "default"])),
        )
    )
    def change(self, setting):
        what, value = setting
        if what == "constants":
            calls.set_constant_cache(value, [s for s in self.subjects() if s.released])
        elif what == "math":
            og.set_default_fpmath_mode(value)
        elif what == "isa":
            calls.isa_too_late(value)
        elif what != "threads":
            calls.set_capacity(what, value)
        elif OPENMP:
            og.set_num_threads(value)
            self.threads = value
        else:
            calls.refused(lambda: og.set_num_threads(value), og.UnimplementedError)

    @step(garbage=st.booleans())
    def clear_caches(self, garbage):
        og.clear_caches()
        if garbage:
            gc.collect()

    # -- all that lives at once

    def subjects(self) -> list[subjects.Subject]:
        return [s for s in self.living.values() if isinstance(s, subjects.Subject)]

    @step(seed=seeds)
    def fork(self, seed):
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            signal.alarm(SECONDS_FOR_A_STEP // 2)  # ends a child that hangs
            try:
                warnings.simplefilter("ignore")
                for what in list(self.living.values()):
                    calls.use_in_child(what, seed)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"the forked process ended with {status}"

    @step(count=st.integers(2, 6), seed=seeds, meanwhile=st.sampled_from(["", "caches", "forks"]))
    def call_in_threads(self, count, seed, meanwhile):
        living = list(self.living.values())
        failed: list[BaseException] = []

        def work(own: int) -> None:
            rng = random.Random(own)
            try:
                for _ in range(3):
                    if living and rng.random() < 0.8:
                        calls.use(rng.choice(living), rng.randrange(1000))
                    else:
                        built = subjects.make_subject(
                            rng.choice(sorted(RECIPES)), -1, own, slow_fusions="run"
                        )
                        calls.use(built, own)
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=work, args=(10 * seed + i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        while meanwhile and any(thread.is_alive() for thread in threads):
            if meanwhile == "caches":
                og.clear_caches()
            else:
                self.fork_idle()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    @staticmethod
    def fork_idle() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def main(first: int, steps: int, shrink: str = "") -> None:
    """Run machines of one seed after the other until that many steps are made."""
    faulthandler.enable()
    pickle.dumps(np.zeros(1))  # imports that would be unfinished in a child of another thread
    og.engine("cpu", 0)
    chosen = settings(
        max_examples=8,
        stateful_step_count=50,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )
    while made < steps:
        print(f"seed {first}", flush=True)
        run_state_machine_as_test(seed(first)(type("Seeded", (Machine,), {})), settings=chosen)
        first += 1
    print(f"made {made}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
