"""Kernels that explanations name: found out by another process, whatever becomes of it."""

import dataclasses
import importlib
import json
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from explained import chain
from graphs import LINKED, packed_weights, since

import onednn_graph_py as og
from gallery import PATTERNS
from gallery.measure import _known_shapes
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.tools import kernels
from onednn_graph_py.tools.kernels import Job, partitions_of

pytestmark = pytest.mark.usefixtures("own_cache")


LOGGING = """
    import pickle, sys
    import onednn_graph_py as og
    model = pickle.load(open(sys.argv[1], "rb"))
    arrays = og.fill_inputs(model.builder)
    for call in range(2):
        print(f"call {call}", flush=True)
        model(*arrays)
"""


def test_kernels_are_those_of_the_verbose_log(tmp_path):
    model = chain().compile()
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(model))
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOGGING), str(file)],
        env={**os.environ, "ONEDNN_VERBOSE": "profile_exec"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first, later = said.split("call 0\n")[1].split("call 1\n")

    def ran(text):
        lines = [line.split(",") for line in text.splitlines() if ",primitive,exec," in line]
        return sorted((w[5], w[6], w[11]) for w in lines)

    found = model.explain(seconds=0, what_if=False)
    every = [k for s in found.steps for k in s.kernels]
    each = sorted((k.kind, k.implementation, k.problem) for k in every if k.when == "each call")
    assert each == ran(later)
    once = [(k.kind, k.implementation, k.problem) for k in every if k.when == "first call"]
    assert sorted(each + once) == ran(first)
    kinds = [[k.kind for k in s.kernels if k.when == "each call"] for s in found.steps]
    assert kinds == [["matmul"], ["softmax"], ["matmul"]]
    partitions = [line.split(",") for line in later.splitlines() if ",graph,exec," in line]
    assert [s.partition for s in found.steps] == [f"{w[6]} {w[-3]}" for w in partitions]


@packed_weights
def test_constants_are_packed_once_and_inputs_at_each_call():
    built = {}
    for role in ("constant", "input"):
        b = og.GraphBuilder()
        x = b.input((64, 256), name="x")
        w = b.input((256, 512), name="w")
        if role == "constant":
            w = b.constant(np.ones((256, 512), np.float32), name="w")
        b.output(x @ w)
        built[role] = og.explain(b, seconds=0, what_if=False)
    reorders = {
        role: [k.when for k in found.steps[0].kernels if k.kind == "reorder"]
        for role, found in built.items()
    }
    assert reorders["constant"] == ["first call"]
    # 3.13 computes with the weights as they are.
    assert reorders["input"] == (["each call"] if LINKED < (3, 13) else [])
    noted = [n for n in built["input"].notes if "packs the input 'w' at each call" in n]
    assert len(noted) == len(reorders["input"])
    assert not any("packs" in n for n in built["constant"].notes)


@since(3, 13)
@packed_weights
def test_scratch_memory_is_what_oneDNN_reports():
    b = og.GraphBuilder()
    b.output(b.input((64, 256), name="x") @ b.input((256, 512), name="w"))
    model = b.compile()
    (step,) = model.explain(seconds=0, what_if=False).steps
    (planned,) = model.specialization(((64, 256), (256, 512))).plan.steps
    lt = planned.compiled.get_scratchpad_logical_tensor()
    assert step.scratch_bytes == lt.get_mem_size() > 0


def test_what_runs_no_primitive_has_no_speed():
    b = og.GraphBuilder()
    x = b.input((64, 128), name="x").exp(name="e")
    moved = b.static_transpose(x, order=(1, 0), name="t")
    b.output(b.matmul(moved, np.ones((64, 8), "f"), name="product"))
    model = b.compile()
    by = {s.ops[0].name: s for s in model.explain(seconds=0.01, what_if=False).steps}
    assert by["t"].kernels == ()
    assert by["t"].kernels_unknown == "oneDNN logs no primitive of it"
    assert by["t"].work.bytes_per_second is None
    assert by["product"].work.bytes_per_second > 0


def test_reference_kernels_of_onednn_are_pointed_out():
    b = og.GraphBuilder()
    b.output(b.input((8, 4, 16), name="x").reduce_l1(axes=(1,), keep_dims=True))
    # Rules would write it in another way, which has a kernel.
    found = og.explain(b.compile(policy="debug"), seconds=0, what_if=False)
    names = [k.implementation for s in found.steps for k in s.kernels]
    assert ("ref:any" in names) == any("reference implementation" in n for n in found.notes)
    assert "ref:any" in names


def test_names_that_would_break_a_log_do_not():
    b = og.GraphBuilder()
    name = "a,b;c\nonednn_verbose,v1,graph,exec,cpu,1"
    b.output(b.relu(b.input((4, 4), name="in\nput"), name=name))
    (step,) = og.explain(b, seconds=0, what_if=False).steps
    assert step.ops[0].name == name
    assert [k.kind for k in step.kernels] == ["eltwise"]
    assert name not in str(og.explain(b, seconds=0, what_if=False))  # on one line there


MATMUL = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::"
    "f0 wei:f32:ap:blocked:AB16a64b::f0 bia:undef::undef::: dst:f32:a:blocked:ab:128x1:f0,"
    "attr-scratchpad:user attr-post-ops:eltwise_relu,,4x8:8x16,0.5"
)
PARTITION = (
    "onednn_verbose,v1,graph,exec,cpu,100016,matmul_post_ops,op0;op1,data:NCX; filter:OIX;;,"
    "in0_f32:7:strided:variable:4x8:8s1 out0_f32:9:opaque:undef:4x16:3,fpm:bf16:true"
)


@pytest.mark.parametrize(
    ("tail", "implementation"),
    [
        ("matmul_t,dnnl_backend", "matmul_t"),
        ("scratchpad:user:1472,matmul_t,dnnl_backend", "matmul_t"),
        ("dnnl_backend", ""),
    ],
)
def test_a_partition_comes_behind_its_primitives_in_the_log(tail, implementation):
    external = "onednn_verbose,v1,primitive,exec:external,graph,x,0.25"
    lines = ["a line of the program", MATMUL, external, f"{PARTITION},{tail},0.5", MATMUL]
    (found,) = partitions_of(lines)
    assert (found.kind, found.implementation) == ("matmul_post_ops", implementation)
    (product, spent), (other, _) = found.primitives
    assert (product.kind, product.implementation) == ("matmul", "brg_matmul:avx512_core")
    assert product.memory == ("src:f32:ab", "wei:f32:AB16a64b", "dst:f32:ab:128x1")
    assert product.attributes == ("attr-post-ops:eltwise_relu",)
    assert (product.problem, spent) == ("4x8:8x16", 0.5)
    assert (other.kind, other.implementation) == ("external", "graph,x")


class _Death:
    """Kills who unpickles it."""

    def __reduce__(self):
        return os.abort, ()


def job(builder):
    model = builder.compile()
    return kernels.job_of(model, tuple(v.shape for v in model.inputs))


def test_a_process_that_dies_costs_one_model_its_kernels():
    good = job(chain())
    first, dead, last = kernels.kernels_of([good, Job(_Death(), {}, ()), good])
    how, _, last_words = dead.unknown.partition(": ")
    assert how == "the process that logs was ended by SIGABRT"
    assert "\n" not in last_words
    assert first.of.keys() == last.of.keys()
    assert len(first.of) == 3
    assert not first.unknown
    assert not last.unknown


def test_a_model_that_fails_in_the_other_process_says_why():
    good = job(chain())
    bad = dataclasses.replace(good, shapes=((3, 3),))
    found, other = kernels.kernels_of([bad, good])
    assert found.unknown.startswith("InvalidShapeError: model: input 'x' must have the shape")
    assert not other.unknown


def test_what_does_not_pickle_says_so():
    (found,) = kernels.kernels_of([Job(lambda: None, {}, ())])
    assert found.unknown.startswith("the model does not pickle: ")


def test_a_process_that_hangs_or_does_not_start_is_a_line(monkeypatch):
    b = chain()
    late = og.explain(b, seconds=0, what_if=False, timeout=0.01)
    assert {s.kernels_unknown for s in late.steps} == {
        "the process that logs took longer than 0.01 s"
    }
    assert "not known: the process that logs took longer" in str(late)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    absent = og.explain(b, seconds=0, what_if=False)
    assert all("no process could be started" in s.kernels_unknown for s in absent.steps)
    assert all(s.work is not None for s in absent.steps)


def test_steps_that_only_one_process_has_have_no_kernels(monkeypatch):
    module = importlib.import_module("onednn_graph_py.tools.explaining.explain")
    keys = module.step_keys

    def others(builder, plan):
        made = keys(builder, plan)
        return [["oneDNN", "0"], *made[1:]]  # without the ReLU

    monkeypatch.setattr(module, "step_keys", others)
    first, *rest = chain().compile().explain(seconds=0, what_if=False).steps
    assert first.kernels_unknown == "the process that logs made other steps of the graph"
    assert all(s.kernels for s in rest)


def test_the_callers_settings_do_not_reach_the_log(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # other processes dump there
    monkeypatch.setenv("ONEDNN_VERBOSE", "none")
    monkeypatch.setenv("ONEDNN_VERBOSE_TIMESTAMP", "1")
    found = chain().compile().explain(seconds=0, what_if=False)
    assert all(s.kernels for s in found.steps)
    monkeypatch.setenv("ONEDNN_GRAPH_DUMP", "graph")
    used, isolated = [], kernels.Isolated

    def noted(*modules, environment):
        used.append(environment)
        return isolated(*modules, environment=environment)

    monkeypatch.setattr(kernels, "Isolated", noted)
    chain().compile().explain(seconds=0, what_if=False)
    assert used and all("ONEDNN_GRAPH_DUMP" not in environment for environment in used)


def test_an_instruction_set_chosen_here_is_used_there():
    program = """
        import numpy as np, onednn_graph_py as og
        og.set_max_cpu_isa("sse41")
        b = og.GraphBuilder()
        b.output(b.input((64, 64)) @ np.ones((64, 64), np.float32))
        (step,) = og.explain(b, seconds=0, what_if=False).steps
        print(step.kernels[0].implementation)
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip()
    assert "avx" not in said


def test_every_pattern_is_explained(monkeypatch):
    module = importlib.import_module("onednn_graph_py.tools.explaining.explain")
    asked, subjects, names = [], [], []
    for pattern in PATTERNS.values():
        for case in pattern.cases:
            if case.needs <= LINKED and not any(map(lacks, case.kernels)):
                break
        else:
            continue
        try:
            builder = pattern.graph(case)
        except og.OneDNNError:  # documented as refused
            continue
        known = _known_shapes(builder)
        subjects.append((builder, [known.get(v.name, v.shape) for v in builder.inputs]))
        names.append(pattern.id)
    assert len(subjects) > 60

    def explained(builder, shapes):
        return og.explain(builder, *shapes, seconds=0, what_if=False)

    # One process finds the kernels of all.
    with monkeypatch.context() as patch:
        patch.setattr(module, "kernels_of", lambda jobs, **_: asked.append(*jobs) or [None])
        for subject in subjects:
            explained(*subject)
    known = iter(kernels.kernels_of(asked))
    monkeypatch.setattr(module, "kernels_of", lambda jobs, **_: [next(known)])
    for name, (builder, shapes) in zip(names, subjects, strict=True):
        found = explained(builder, shapes)
        assert found.steps, name
        for step in found.steps:
            told = step.kernels or step.kernels_unknown or step.by != "oneDNN"
            assert told, (name, step.label)
            assert step.work is not None, (name, step.label)
        kinds = sorted(n.kind for n in builder.nodes if n.kind != "End")
        if found.compiled:
            ran = {o.kind for s in found.steps for o in s.ops}
            if "BiasAddBackward" in kinds:  # oneDNN has no kernel for it
                ran ^= {"BiasAddBackward", "ReduceSum"}
            moves = {"StaticReshape", "StaticTranspose"}  # for reductions over other than the last
            ran -= moves - {*kinds}
            if "Abs" in ran - {*kinds}:
                ran ^= {"ReduceL1", "Abs", "ReduceSum"}
            assert set(kinds) == ran, name
            # Where no element moves, the result is the source with other strides.
            steps = [s for s in found.steps if not {o.kind for o in s.ops} <= moves - {*kinds}]
            unknown = [s.kernels_unknown for s in steps if s.by == "oneDNN" and not s.kernels]
            assert not unknown, name
        else:
            assert found.notes, name
        json.dumps(found.to_dict())
        assert str(found)
