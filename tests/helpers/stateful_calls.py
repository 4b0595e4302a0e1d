"""The steps of the stateful fuzz: each does one thing, and asserts what must hold then."""

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from stateful_subjects import MAGIC, Arrays, Compiled, Draft, RefusedError, Sharing, Subject

import onednn_graph_py as og

SYNCHRONOUS = og.version()["cpu_runtime"] == "OpenMP"


def refused(call: Callable[[], Any], *kinds: type[BaseException]) -> None:
    """Assert that a call raises one of these."""
    try:
        call()
    except kinds as error:
        assert str(error) or isinstance(error, RefusedError), "an error without a message"
        return
    raise AssertionError(f"not refused by {kinds}")


@contextmanager
def as_far_as_allowed(subject: Subject | None = None) -> Iterator[None]:
    """Let pass what an earlier step asked for: the refusals after a cache was turned off, or after
    `release_constants`, which also refuses shapes that were dropped for others since.
    """
    try:
        yield
    except og.OneDNNError as error:
        off = og.get_constant_tensor_cache_capacity("cpu") == 0
        if off and "constant tensor cache was turned off" in str(error):
            return
        if subject is None or not subject.sharing.released or "release_constants" not in str(error):
            raise


# -- models ----------------------------------------------------------------------------------------


def _outputs(result: Any) -> Arrays:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _assert_equal(results: Arrays, expected: Arrays) -> None:
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def call_model(
    subject: Subject, seed: int, rows: int = 4, *, out: bool = False, named: bool = False
) -> None:
    """Call rightly: the results are NumPy's, and the caller's arrays are as they were."""
    given = subject.inputs(seed, rows)
    if subject.recipe.updates:
        given[0] = np.concatenate([given[0], given[0]])[: max(2, len(given[0]))]
    if subject.recipe.updates and 0 < subject.rows < 2:
        refused(lambda: subject.model(*given), og.InvalidShapeError)
        return
    expected = subject.expected(given)
    before = [x.copy() for x in given]
    counts = [sys.getrefcount(x) for x in given]
    arrays = [np.full_like(y, 9) for y in expected] if out else None
    target = arrays[0] if arrays is not None and len(arrays) == 1 else arrays
    with as_far_as_allowed(subject):
        if named:
            result = subject.model(
                **dict(zip(subject.model.input_names, given, strict=True)), out=target
            )
        else:
            result = subject.model(*given, out=target)
        results = _outputs(result)
        _assert_equal(results, expected)
        if arrays is not None:
            assert all(r is a for r, a in zip(results, arrays, strict=True))
        del result, results
    for i, (x, was) in enumerate(zip(given, before, strict=True)):
        if not (subject.recipe.updates and i == 0):
            np.testing.assert_array_equal(x, was)
    del x, was
    if SYNCHRONOUS:
        assert [sys.getrefcount(x) for x in given] == counts


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _out_like(subject: Subject, given: Arrays) -> Arrays:
    return [np.full_like(y, 5) for y in subject.expected(given)]


MODEL_FAULTS: dict[str, Callable[[Subject, Arrays], Any]] = {
    "no inputs": lambda s, x: s.model(),
    "too many": lambda s, x: s.model(*x, x[0]),
    "unknown name": lambda s, x: s.model(*x[:-1], nothing=x[-1]),
    "data type": lambda s, x: s.model(x[0].astype(np.float64), *x[1:]),
    "rank": lambda s, x: s.model(x[0][None], *x[1:]),
    "columns": lambda s, x: s.model(np.ascontiguousarray(x[0][:, 1:]), *x[1:]),
    "no array": lambda s, x: s.model(object(), *x[1:]),
    "read-only out": lambda s, x: s.model(*x, out=[_read_only(y) for y in _out_like(s, x)]),
    "out is short": lambda s, x: s.model(*x, out=[]),
    "out is shared": lambda s, x: s.model(*x, out=[y[..., :0] for y in _out_like(s, x)]),
    "bind nothing": lambda s, x: s.model.bind([]),
    "prepare nothing": lambda s, x: s.model.prepare({"nothing": (1,)}),
    "no threads": lambda s, x: s.model.with_threads(0),
}


def call_model_wrongly(subject: Subject, seed: int, rows: int, fault: str) -> None:
    """Call wrongly: that raises, changes no array, and the model stays usable."""
    given = subject.inputs(seed, rows)
    if subject.recipe.updates and len(given[0]) < 2:
        return
    before = [x.copy() for x in given]
    refused(lambda: MODEL_FAULTS[fault](subject, given), og.OneDNNError, TypeError)
    _assert_equal(given, before)
    if subject.recipe.host and not subject.recipe.updates:
        given[0].flat[0] = MAGIC
        with as_far_as_allowed(subject):
            refused(lambda: subject.model(*given), RefusedError)
    call_model(subject, seed, rows)


def resize(subject: Subject, sizes: list[int]) -> None:
    """Prepare for other sizes, or be refused where the size is fixed."""
    for rows in sizes:
        call_model(subject, rows, rows)
    shapes = [[x.shape for x in subject.inputs(0, rows)] for rows in sizes]
    if subject.rows >= 0:
        wrong = [(subject.rows + 1, *shapes[0][0][1:]), *shapes[0][1:]]
        refused(lambda: subject.model.prepare(wrong), og.InvalidShapeError)
        return
    if len(shapes) > subject.model.options["max_shapes"]:
        refused(lambda: subject.model.prepare(*shapes), og.InvalidArgumentsError)
        return
    with as_far_as_allowed(subject):
        subject.model.prepare(*shapes)
        assert subject.model.stats().shapes >= len(sizes)


def unpickled(subject: Subject) -> Subject:
    """A model of its own with the same constants; or the same one, where it has none any more."""
    if subject.sharing.released:
        refused(lambda: pickle.dumps(subject.model), og.InvalidArgumentsError)
        return replace(subject)
    model = pickle.loads(pickle.dumps(subject.model))
    return replace(subject, model=model, sharing=Sharing())


def with_threads(subject: Subject, threads: int) -> Subject:
    # A model for any shape is not compiled before its first call, which may be refused then.
    try:
        return replace(subject, model=subject.model.with_threads(threads), released=False)
    except og.InvalidArgumentsError:
        assert subject.sharing.released
        return replace(subject)


def release(subject: Subject) -> None:
    if subject.model.stats().shapes == 0:
        refused(subject.model.release_constants, og.InvalidArgumentsError)
        return
    with as_far_as_allowed(subject):
        released = subject.model.release_constants()
        assert released >= 0
        subject.released = subject.released or released > 0
        subject.sharing.released = subject.sharing.released or released > 0


def set_constant_cache(size: int, released: list[Subject]) -> None:
    """Set the capacity, which a model that has its constants there only does not allow."""
    try:
        og.set_constant_tensor_cache_capacity("cpu", size)
    except og.InvalidArgumentsError as error:
        assert "release_constants" in str(error)
        return
    assert not any(s.released for s in released), "a model's only constants were dropped"
    assert og.get_constant_tensor_cache_capacity("cpu") == size


# -- what belongs to the process -------------------------------------------------------------------


def isa_too_late(isa: str) -> None:
    before = og.get_effective_cpu_isa(), og.get_cpu_isa_hints()
    refused(lambda: og.set_cpu_isa_hints("prefer_ymm"), og.ExecutionError)
    refused(lambda: og.set_max_cpu_isa(isa), og.InvalidArgumentsError)
    assert (og.get_effective_cpu_isa(), og.get_cpu_isa_hints()) == before


def set_capacity(cache: str, size: int) -> None:
    getattr(og, f"set_{cache}_cache_capacity")(size)
    assert getattr(og, f"get_{cache}_cache_capacity")() == size


# -- the mirror ------------------------------------------------------------------------------------


def misuse_unfinished(draft: Draft) -> None:
    refused(draft.graph.get_partitions, og.InvalidGraphError)
    refused(lambda: draft.graph.add_op(draft.ops[0]), og.InvalidGraphOpError)
    refused(lambda: draft.ops[0].set_attr("transpose_a", True), og.OneDNNError)


def misuse_finished(draft: Draft) -> None:
    (partition,) = draft.graph.get_partitions()
    other = og.op(99, "ReLU", "late")
    refused(lambda: draft.graph.add_op(other), og.OneDNNError)
    refused(lambda: draft.graph.set_fpmath_mode("bf16"), og.InvalidGraphError)
    refused(lambda: partition.compile([], [], og.engine("cpu", 0)), og.OneDNNError)
    assert draft.graph.is_finalized()


def execute(one: Compiled, seed: int) -> None:
    arrays, out = one.inputs(seed), np.full(one.out_shape, 9, np.float32)
    before = [x.copy() for x in arrays]
    with as_far_as_allowed():
        one.compiled.execute(one.stream, *one.tensors(arrays, out))
        one.stream.wait()
        np.testing.assert_array_equal(out, one.draft.compute(before))
    _assert_equal(arrays, before)


PARTITION_FAULTS: dict[str, Callable[[Compiled, list[og.tensor], list[og.tensor]], Any]] = {
    "no inputs": lambda p, ins, outs: p.compiled.execute(p.stream, [], outs),
    "no outputs": lambda p, ins, outs: p.compiled.execute(p.stream, ins, []),
    "twice": lambda p, ins, outs: p.compiled.execute(p.stream, ins + ins, outs),
    "exchanged": lambda p, ins, outs: p.compiled.execute(p.stream, outs, ins[:1]),
    "no tensor": lambda p, ins, outs: p.compiled.execute(p.stream, [None] * len(ins), outs),
    "other stream": lambda p, ins, outs: p.compiled.execute(
        og.stream(og.engine("cpu", 0)), ins, outs
    ),
    "empty tensor": lambda p, ins, outs: p.compiled.execute(p.stream, ins, [og.tensor()]),
    "empty stream": lambda p, ins, outs: p.compiled.bind(og.stream(), ins, outs),
    "short memory": lambda p, ins, outs: ins[0].set_data_handle(bytearray(3)),
}


def execute_wrongly(one: Compiled, seed: int, fault: str) -> None:
    arrays, out = one.inputs(seed), np.full(one.out_shape, 9, np.float32)
    before = [x.copy() for x in arrays]
    ins, outs = one.tensors(arrays, out)
    refused(lambda: PARTITION_FAULTS[fault](one, ins, outs), og.OneDNNError, TypeError)
    assert (out == 9).all()
    _assert_equal(arrays, before)
    execute(one, seed)


def view_of_result(one: Compiled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A view of memory that oneDNN allocated, and what it must hold for ever."""
    arrays = one.inputs(seed)
    ins, _ = one.tensors(arrays, np.empty(one.out_shape, np.float32))
    out = og.tensor(one.compiled.get_outputs()[0], one.engine)
    with as_far_as_allowed():
        one.compiled.execute(one.stream, ins, [out])
        return out.numpy(), one.draft.compute(arrays)
    return arrays[0], arrays[0].copy()


# -- bound calls -----------------------------------------------------------------------------------


@dataclass
class Bound:
    """A call without arguments; `fill` writes new inputs, and gives what the outputs must be."""

    run: Callable[[], Any]
    fill: Callable[[int, bool], Callable[[], None]]
    subject: Subject | None = None

    def __call__(self, seed: int, moved: bool) -> None:
        check = self.fill(seed, moved)
        with as_far_as_allowed(self.subject):
            self.run()
            check()


NOTHING = Bound(lambda: None, lambda seed, moved: lambda: None)


def bind_model(subject: Subject, seed: int, rows: int) -> Bound:
    rows = max(rows, 2) if subject.rows < 0 else subject.rows
    given = subject.inputs(seed, rows)
    out = _out_like(subject, given) if rows > 1 or not subject.recipe.updates else []
    if not out:
        refused(lambda: subject.model.bind([]), og.InvalidArgumentsError)
        return NOTHING
    run: Callable[[], Any] | None = None
    with as_far_as_allowed(subject):
        run = subject.model.bind(given, out)
    if run is None:
        return NOTHING

    def fill(seed: int, moved: bool) -> Callable[[], None]:
        for x, new in zip(given, subject.inputs(seed, rows), strict=True):
            x[...] = new
        expected = subject.expected(given)
        return lambda: _assert_equal(out, expected)

    return Bound(run, fill, subject)


def bind_partition(one: Compiled, seed: int) -> Bound:
    arrays, out = one.inputs(seed), np.full(one.out_shape, 9, np.float32)
    ins, outs = one.tensors(arrays, out)
    run = one.compiled.bind(one.stream, ins, outs)

    def fill(seed: int, moved: bool) -> Callable[[], None]:
        for i, new in enumerate(one.inputs(seed)):
            if moved:
                arrays[i] = new
                ins[i].set_data_handle(new)
            arrays[i][...] = new
        expected = one.draft.compute(arrays)

        def check() -> None:
            one.stream.wait()
            np.testing.assert_array_equal(out, expected)

        return check

    return Bound(run, fill)


# -- whatever it is --------------------------------------------------------------------------------


def use(what: Any, seed: int) -> None:
    """Use a living object in one way; several threads do."""
    if isinstance(what, Subject):
        call_model(what, seed, 1 + seed % 9, out=bool(seed & 1))
    elif isinstance(what, Compiled):
        shared = replace(what, stream=og.stream(what.engine))
        execute(shared, seed)
    elif isinstance(what, Draft):
        assert len(what.graph.get_partitions()) == 1


def use_in_child(what: Any, seed: int) -> None:
    """Use a living object in a forked process, where it works, or raises if that can't be."""
    try:
        use(what, seed)
    except og.ExecutionError as error:
        assert "parent process" in str(error), error
    except og.InvalidArgumentsError as error:
        # It is compiled anew for one thread, for which it lacks the constants.
        if not (isinstance(what, Subject) and what.sharing.released):
            raise AssertionError(str(error)) from error
