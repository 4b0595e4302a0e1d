"""Every graph of oneDNN 3.7.2's own tests runs and is verified, also as its lists rewrite it."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from benchdnn_lists import Listed, cases_of_list
from benchdnn_rewriting import Rewriting, parse_rewritings
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.safety.defect import WRONG
from onednn_graph_py.safety.table import DEFECTS, of_effect
from onednn_graph_py.serialization import GraphDocument, parse
from onednn_graph_py.tools.replay import Case, Options, Result, Verdict, replay
from onednn_graph_py.tools.replay.stages import Ended, partition
from onednn_recipe.settings import Settings

SOURCES = sorted((Settings.from_env().cache_dir / "src").glob("onednn-3.7.2/tests/benchdnn/inputs"))
FOLDER = SOURCES[-1] / "graph" if SOURCES else None
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="oneDNN 3.7.2's sources are not in the cache"
)

# Up to so much the reference takes about a second.
QUICK = 3_000_000
JOBS = min(2, len(os.sched_getaffinity(0)))


# -- what is known not to pass


@dataclass(frozen=True)
class Known:
    """Why a file does not pass; `met` asks whether that holds here."""

    verdict: Verdict
    reason: str
    met: Callable[[], bool] = lambda: True


def _split(name: str, fused_since: tuple[int, int] = (3, 7)) -> Known:
    """Where oneDNN has the defect of this name, and fuses the graph, models run it in parts."""
    row = DEFECTS[name]
    return Known(Verdict.SPLIT, f"[{name}]", lambda: fused_since <= LINKED and row.is_in(current()))


KNOWN: dict[str, Known] = {
    "op/f32/biasadd_bwd.json": Known(Verdict.REFUSED, "'BiasAddBackprop' is not an op kind"),
    "pattern/f32/avgpool_3d_chain_fusion.json": Known(
        Verdict.REFUSED, "attribute pads_end must have no negative entry, got [-1, 1, 0]"
    ),
    "op/f32/reciprocal.json": Known(
        Verdict.UNSUPPORTED, "(Reciprocal): oneDNN has no kernel for it in f32"
    ),
    "pattern/f32/maxpool_sum_relu_fusion.json": _split("wide_operand_behind_pooling"),
    "pattern/int8/int8_maxpool_add_mul_fusion.json": _split("wide_operand_behind_pooling"),
    # Its scales are of the weights' second dim, which has one element here.
    "pattern/int8/int8_depthwise_conv_fusion.json": Known(
        Verdict.SPLIT, "[scales_of_input_channels]", lambda: not current().has("amx")
    ),
    "complex_fusion/mha/MHA-distill_bert-inf-int8-bs1.json": _split("attention_select"),
    "complex_fusion/mha/MHA-starcoder-inf-fp32-bs1.json": _split(
        "attention_batches", fused_since=(3, 13)
    ),
    "complex_fusion/mha/MHA-starcoder-inf-int8-bs1.json": _split("int8_product_in_chunks"),
    **{
        f"pattern/int8/int8_{name}.json": _split("s8_transposed_convolution")
        for name in (
            "convtranspose_post_ops_add_fusion",
            "convtranspose_post_ops_chain_fusion",
            "convtranspose_post_ops_sum_fusion",
            "convtranspose_post_ops_sum_fusion_2",
        )
    },
}

# Which of the int8 attention files meet it depends on the version and the instruction set.
OTHER_INTEGERS = _split("attention_in_other_integers")

# Of newer versions than the one whose lists these are.
PARTITIONS_NOW = {} if LINKED < (3, 8) else {"pattern/int8/int8_softmax_add.json": 3}

# Run as they are, but verified with fewer elements: the reference would take minutes.
SMALLER = {
    "complex_fusion/mha/JAX-MHA-inf-fp32.json": (
        "--in-shapes=1:2x16x384x64+2:2x16x64x384+0:2x1x1x384+7:2x16x64x384"
    ),
    "complex_fusion/mha/JAX-MQA-inf-fp32.json": (
        "--in-shapes=1:2x384x64+2:2x64x6144+6:2x16x384x384+11:2x64x384"
    ),
    "complex_fusion/mha/MHA_forward-Bert_large-train-fp32-bs4.json": (
        "--in-shapes=2514:1x16x512x64+2518:1x16x512x64+2543:1x1x512x512+2547:1x16x512x512"
        "+2525:1x16x512x64 --op-attrs=4837:shape:512x1024"
    ),
    "complex_fusion/mha/MHA_backward-Bert_large-train-fp32-bs4.json": (
        "--in-shapes=5178:512x1024+2525:1x16x512x64+2547:1x16x512x512+2545:1x16x512x512"
        "+2591:1x16x512x512+2514:1x16x512x64+2518:1x16x512x64+2548:1x16x512x512 "
        "--op-attrs=7392:shape:1x512x16x64"
    ),
    "complex_fusion/mlp/gated-mlp-f32.json": ("--in-shapes=0:1x128+1:128x256+4:128x256+13:256x128"),
    "op/f32/concat.json": "--mb=2",
    "op/f32/concat_3.json": "--in-shapes=0:2x16x384x64+1:2x16x384x384+2:2x16x384x384",
    "op/f32/static_reshape.json": "--in-shapes=0:1024x1024 --op-attrs=0:shape:2x512x16x64",
    "op/f32/static_transpose.json": "--mb=4",
    "pattern/int8/int8_bf16_conv_add_fusion.json": "--mb=2",
    "pattern/int8/int8_bf16_conv_add_relu_mul.json": "--mb=2",
    "pattern/int8/int8_bf16_conv_binary_add_fusion.json": "--mb=2",
    "pattern/int8/int8_concat_fusion.json": "--mb=1",
    **{
        f"pattern/f32/unary_post_ops_{op}_fusion.json": "--mb=4"
        for op in ("elu", "gelu", "hardswish", "log", "round", "sqrt", "square", "tanh")
    },
}


# -- the cases


def _files() -> list[str]:
    assert FOLDER is not None
    return sorted(str(f.relative_to(FOLDER)) for f in FOLDER.glob("**/*.json"))


def _path(name: str) -> str:
    return str(FOLDER / name)


def _cost(document: GraphDocument) -> float:
    """About how many elements the reference computes; 30 products count as one."""
    tensors = document.tensors()
    counts = {i: math.prod(t.dims or ()) for i, t in tensors.items()}
    products = 0.0
    for op in document.graph:
        ids = [t.id for t in (*op.inputs[:2], *op.outputs[:1])]
        if op.kind == "MatMul" or op.kind.startswith("Conv"):
            # Of (n, k), (k, m) and (n, m) this is n k m; of a convolution about the same.
            products += math.sqrt(math.prod(counts[i] for i in ids))
    return sum(counts.values()) + products / 30


def _quick(name: str) -> bool:
    return _cost(parse(_path(name))) <= QUICK


def _expected() -> dict[str, int]:
    """How many partitions oneDNN's lists expect of files that they do not rewrite."""
    made = {}
    for case in (*cases_of_list(_path("test_graph_all")), *cases_of_list(_path("test_graph_ci"))):
        rewritten = any(not w.startswith("--expected-n") for w in case.rewriting.words)
        if not rewritten and case.rewriting.expected_partitions is not None:
            made[os.path.relpath(case.path, FOLDER)] = case.rewriting.expected_partitions
    return made | PARTITIONS_NOW


def _refusal(one: Listed, error: og.OneDNNError) -> Result:
    unknown = isinstance(error, og.UnimplementedError)
    return Result(str(one), Verdict.UNSUPPORTED if unknown else Verdict.REFUSED, str(error))


def _replayed(
    listed: list[Listed], options: Options, timeout: float
) -> Iterator[tuple[Listed, Result]]:
    """Run what can be rewritten; the others come first, with the reason why they can't."""
    cases = []
    for one in listed:
        try:
            cases.append((one, Case(str(one), one.document())))
        except og.OneDNNError as e:
            yield one, _refusal(one, e)
    for i, result in replay([c for _, c in cases], options, jobs=JOBS, timeout=timeout):
        yield cases[i][0], result


def _run(names: list[str], options: Options, timeout: float) -> dict[str, Result]:
    listed = [Listed(_path(name), Rewriting()) for name in names]
    found = {one.path: result for one, result in _replayed(listed, options, timeout)}
    return {name: found[_path(name)] for name in names}


def _hardware(document: GraphDocument, result: Result) -> bool:
    """Whether it is not run for want of instructions for one of its data types."""
    dtypes = {t.dtype for t in document.tensors().values()}
    missing = [f"hardware: {why}" for d in dtypes if (why := lacks(d))]
    return result.verdict is Verdict.UNSUPPORTED and any(why in result.reason for why in missing)


def _in_parts_without_vnni(result: Result) -> bool:
    """Where int8 products saturate, models run them in parts, and are right."""
    split = result.verdict is Verdict.SPLIT and "this CPU has no VNNI" in result.reason
    return split and not current().has("vnni")


def _surprises(results: dict[str, Result], right: Verdict) -> list[str]:
    """What did not come out as the table says, which also tells where it is stale."""
    expected = _expected()
    found = []
    for name, result in results.items():
        document, known = parse(_path(name)), KNOWN.get(name)
        if _hardware(document, result) or _in_parts_without_vnni(result):
            good = True
        elif OTHER_INTEGERS.met() and OTHER_INTEGERS.reason in result.reason:
            good = result.verdict is OTHER_INTEGERS.verdict
        elif known is None or not known.met():
            good = result.verdict is right
        elif known.verdict in (Verdict.WRONG, Verdict.SPLIT) and right is not Verdict.PASSED:
            good = result.verdict in (right, known.verdict)
        else:
            good = result.verdict is known.verdict and known.reason in result.reason
        if name in expected and result.verdict is not Verdict.UNSUPPORTED:
            good = good and result.partitions in (expected[name], None)
        if not good:
            found.append(f"{name}: {result}")
    return found


# -- the tests


def test_the_table_is_of_files_that_are_there():
    files = _files()
    assert len(files) == 265
    assert not {*KNOWN, *SMALLER} - set(files)


def test_quick_graphs_run_and_are_right():
    names = [n for n in _files() if _quick(n)]
    assert len(names) > 140
    results = _run(names, Options(verify=True), 900)
    assert sorted(results) == names
    assert _surprises(results, Verdict.PASSED) == []


@pytest.mark.slow
def test_all_other_graphs_run_and_are_right():
    names = [n for n in _files() if not _quick(n)]
    large = [n for n in names if n in SMALLER]
    results = _run([n for n in names if n not in SMALLER], Options(verify=True), 1800)
    assert _surprises(results, Verdict.PASSED) == []
    whole = _run(large, Options(), 1800)
    assert _surprises(whole, Verdict.RAN) == []
    smaller = [Listed(_path(n), parse_rewritings(SMALLER[n].split())[0]) for n in large]
    verified = [r for _, r in _replayed(smaller, Options(verify=True), 1800)]
    assert [str(r) for r in verified if r.verdict is not Verdict.PASSED] == []


def _check_partitions(cases: list[Listed], refused: int) -> None:
    """All make the partitions that the lists expect, but for what is known of them."""
    found = Counter(_partitioned(case) for case in cases)
    known = ("agrees", "hardware", "not expected", "excused")
    assert [f for f in found if f not in known] == []
    # Of these the lists give no number; where the CPU lacks a data type, they are among "hardware".
    unnumbered = sum(c.rewriting.expected_partitions is None for c in cases)
    assert found["not expected"] <= unnumbered
    assert found["excused"] <= refused
    assert found["agrees"] >= len(cases) - found["hardware"] - unnumbered - refused


def test_oneDNNs_short_list_of_rewritten_graphs_makes_the_partitions_it_expects():
    cases = list(cases_of_list(_path("test_graph_ci")))
    assert len(cases) == 185
    _check_partitions(cases, 0)


def _lacks_hardware(case: Listed, result: Result) -> bool:
    """Whether this CPU has no instructions for one of the data types that a case has."""
    return result.verdict is Verdict.UNSUPPORTED and _hardware(case.document(), result)


def _agrees(case: Listed, partitions: int) -> bool:
    now = PARTITIONS_NOW.get(os.path.relpath(case.path, FOLDER))
    return partitions in (case.rewriting.expected_partitions, now)


def _partitioned(case: Listed) -> str:
    result = Result(str(case), Verdict.PARTITIONED)
    try:
        result.partitions, _, missing = partition(case.document())
        if missing:
            result.verdict, result.reason = Verdict.UNSUPPORTED, missing
    except og.OneDNNError as e:
        result = _refusal(case, e)
    except Ended as e:
        result.verdict, result.reason = e.verdict, e.reason
    if _lacks_hardware(case, result):
        return "hardware"
    if result.verdict is not Verdict.PARTITIONED:
        return f"other: {result}" if not _excused(result) else "excused"
    if case.rewriting.expected_partitions is None:
        return "not expected"
    return "agrees" if _agrees(case, result.partitions) else f"other: {result}"


# Why cases of oneDNN's lists are refused before oneDNN sees them.
EXCUSES = (
    "attribute output_padding must be below the strides or dilations, it is [2, 2]",
    "(PReLU): input 0 (src) must have at least 2 dims, got 3",
    "(PReLUBackward): input 0 (src) must have at least 2 dims, got 3",
    "attribute sizes: expected integers such as 2x2, got ",
    "(InterpolateBackward): input 1 (diff_dst) must have the shape ",
)
REFUSED = 37


def _excused(result: Result) -> bool:
    return result.verdict is Verdict.REFUSED and any(e in result.reason for e in EXCUSES)


@pytest.mark.slow
def test_oneDNNs_long_list_of_rewritten_graphs_makes_the_partitions_it_expects():
    cases = list(cases_of_list(_path("test_graph_all")))
    assert len(cases) == 2712
    _check_partitions(cases, REFUSED)


def _case_cost(case: Listed, refused: float) -> float:
    try:
        return _cost(case.document())
    except og.OneDNNError:
        return refused


def _small_cases(batch: str, limit: float) -> list[Listed]:
    """Up to so costly, the cheapest first; last what costs nothing, as it is refused."""
    cases = list(cases_of_list(_path(batch)))
    costs = {i: _case_cost(case, limit) for i, case in enumerate(cases)}
    return [cases[i] for i in sorted(costs, key=costs.__getitem__) if costs[i] <= limit]


def _defects_here() -> list[str]:
    """What this oneDNN is known to compute wrongly on this CPU."""
    here = current()
    return [r.what for r in of_effect(WRONG) if r.is_in(here)]


def _explanation(case: Listed, result: Result) -> str:
    """Why a case that did not pass is as it should be; empty if that is not known."""
    if _lacks_hardware(case, result):
        return "hardware"
    if _in_parts_without_vnni(result):
        return "without VNNI"
    if _excused(result):
        return "excused"
    if result.verdict is Verdict.UNSUPPORTED and "for the prelu backward" in result.reason:
        return "prelu"
    if result.verdict is Verdict.SPLIT and "oneDNN computes PReLU with" in result.reason:
        return "prelu"
    known = KNOWN.get(os.path.relpath(case.path, FOLDER))
    if known is not None and known.met() and known.verdict is result.verdict:
        return "known" if known.reason in result.reason else ""
    if result.verdict is Verdict.SPLIT:
        return "defect" if any(what in result.reason for what in _defects_here()) else ""
    # Numbers too small to be normal ones, such as a product of many.
    tiny = result.error is not None and result.error < np.finfo(np.float32).tiny
    return "tiny" if result.verdict is Verdict.WRONG and tiny else ""


def _verified(cases: list[Listed], seconds: float | None = None) -> tuple[Counter[str], list[str]]:
    """How many came out how, and what is not explained; stops when the time is over."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    counts: Counter[str] = Counter()
    unexplained = []
    for case, result in _replayed(cases, Options(verify=True), 900):
        passed = result.verdict is Verdict.PASSED
        why = "passed" if passed else _explanation(case, result)
        expected = case.rewriting.expected_partitions
        compared = why != "hardware" and None not in (expected, result.partitions)
        if compared and not _agrees(case, result.partitions):
            why = ""
        counts[why] += 1
        if not why:
            unexplained.append(str(result))
        if time.monotonic() > end:
            break
    return counts, unexplained


# 730 of 733 with AVX2; the others run in parts for other defects than saturating products, or are
# off by less than the smallest normal number. CPUs with AVX-512 have more such defects.
MOST = 0.95


def _tried(counts: Counter[str]) -> int:
    """How many are to pass, but for defects: not what is refused, nor what lacks a kernel here."""
    apart = ("hardware", "without VNNI", "excused", "prelu")
    return counts.total() - sum(counts[why] for why in apart)


def test_a_sample_of_rewritten_graphs_is_right():
    cases = _small_cases("test_graph_all", 100_000)[::25]
    counts, unexplained = _verified(cases)
    assert unexplained == []
    assert counts["passed"] > MOST * _tried(counts)


@pytest.mark.slow
def test_rewritten_graphs_are_right():
    cases = _small_cases("test_graph_all", 6_000_000)
    assert len(cases) > 1500
    counts, unexplained = _verified(cases, 420)
    assert unexplained == []
    assert counts["passed"] > MOST * _tried(counts)
    assert counts["excused"] <= REFUSED
    # The cheapest come first, so that a busy machine leaves out only the few that are costly.
    assert counts.total() > 1000
