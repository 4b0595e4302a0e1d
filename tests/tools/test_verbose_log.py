"""oneDNN's verbose log as records, and what they add up to."""

import json
import os
import subprocess
import sys

import pytest
from graphs import LINKED, python
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_graph_py as og
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.inspect.verbose_log import read_verbose_log
from onednn_graph_py.tools.inspect.verbose_records import (
    InfoRecord,
    LoggedTensor,
    MalformedRecord,
    MemoryDescriptor,
)

PROGRAM = """
    import numpy as np
    import onednn_graph_py as og
    print("a line of the program, with, commas")
    b = og.GraphBuilder()
    x = b.input((4, 8), "f32", name="x")
    w = b.constant(np.ones((8, 16), np.float32))
    b.output(x.matmul(w).relu(name="relu,fpm:no").softmax(axis=1))
    model = b.compile(slow_fusions="run")
    for _ in range(3):
        model(np.ones((4, 8), np.float32))
"""
MATMUL = (
    "cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 wei:f32:ap:blocked:AB16a64b::"
    "f0 dst:f32:a:blocked:ab:128x1:f0,attr-scratchpad:user attr-post-ops:eltwise_relu,,4x8:8x16"
)
PARTITION = (
    "cpu,100016,matmul_post_ops,matmul;relu,fpm:no,data:NCX; filter:OIX;;,in0_f32:7:strided:"
    "variable:4x8:8s1 out0_f8_e5m2:9:opaque:undef:4x16:3,fpm:bf16:true"
)


def log_of(verbose: str, **environment: str) -> str:
    return python(PROGRAM, env={"ONEDNN_VERBOSE": verbose, **environment}).stdout


def only(text: str):
    (record,) = og.verbose_log(text)
    return record


@pytest.fixture(scope="module")
def everything() -> str:
    return log_of("all", ONEDNN_VERBOSE_TIMESTAMP="1")


# -- what the linked oneDNN writes


@pytest.mark.parametrize("verbose", ["1", "2", "dispatch", "profile_exec,filter=graph"])
def test_every_line_that_onednn_writes_is_understood(verbose):
    text = log_of(verbose)
    log = og.verbose_log(text)
    assert len(log) == sum(line.startswith("onednn_verbose") for line in text.split("\n")) > 5
    assert log.malformed == ()


def test_every_line_of_all_with_timestamps_is_understood(everything):
    log = og.verbose_log(everything)
    assert len(log) == sum(line.startswith("onednn_verbose") for line in everything.split("\n"))
    assert log.malformed == ()
    runs = [r for r in (*log.primitives, *log.partitions) if r.operation == "exec"]
    assert runs
    assert all(r.timestamp > 1e12 for r in runs)  # milliseconds since 1970
    assert any(m.kind == "create:dispatch" for m in log.messages)


def test_a_log_without_timestamps_has_none():
    assert {r.timestamp for r in og.verbose_log(log_of("1")).partitions} == {None}


def test_partitions_are_those_that_ran(everything):
    runs = [r for r in og.verbose_log(everything).partitions if r.operation == "exec"]
    assert len(runs) == 6  # two partitions, three calls
    first, second = runs[0].partition, runs[1].partition
    assert first.ops == ("matmul", "relu,fpm:no")
    assert first.kind == "matmul_post_ops"
    assert second.ops == ("softmax",)
    assert [t.port for t in first.tensors] == ["in0", "in1", "out0"]
    assert [t.shape for t in first.tensors] == [(4, 8), (8, 16), (4, 16)]
    assert first.tensors[0].layout == "8s1"
    assert {t.dtype for t in first.tensors} == {"f32"}
    assert first.fpmath == "strict"
    assert (first.implementation, first.backend) == ("matmul_t", "dnnl_backend")
    assert bool(first.scratchpad) == (LINKED >= (3, 13))
    assert all(r.milliseconds >= 0 for r in runs)


def test_compilations_and_creations_tell_what_the_cache_did(everything):
    log = og.verbose_log(everything)
    compiled = [r for r in log.partitions if r.operation == "compile"]
    assert [r.outcome for r in compiled] == ["cache_miss", "cache_miss"]
    created = [r for r in log.primitives if r.operation == "create"]
    assert "cache_miss" in {r.outcome for r in created}


def test_primitives_have_their_kernel_layouts_and_attributes(everything):
    log = og.verbose_log(everything)
    matmul = next(r for r in log.primitives if r.primitive.kind == "matmul")
    assert matmul.primitive.engine == "cpu"
    assert matmul.primitive.implementation
    assert [m.name for m in matmul.primitive.memory] == ["src", "wei", "dst"]
    assert {m.dtype for m in matmul.primitive.memory} == {"f32"}
    assert "attr-post-ops:eltwise_relu" in matmul.primitive.attributes
    assert matmul.primitive.problem == "4x8:8x16"


def test_the_header_tells_the_version(everything):
    header = og.verbose_log(everything).info
    v = og.version()
    assert header[0].text.startswith(f"oneDNN v{v['major']}.{v['minor']}.{v['patch']} ")
    assert any(r.api == "graph" and r.text.startswith("template:") for r in header)


# -- the format, line by line


def test_a_primitives_columns():
    r = only(f"onednn_verbose,v1,1693533460193.25,primitive,create:cache_hit,{MATMUL},0.25\n")
    assert (r.line, r.version, r.timestamp) == (1, "v1", 1693533460193.25)
    assert (r.api, r.operation, r.outcome) == ("primitive", "create", "cache_hit")
    assert r.milliseconds == 0.25
    assert r.primitive.memory[1:] == (
        MemoryDescriptor("wei", "f32", "ap", "blocked", "AB16a64b", "", "f0"),
        MemoryDescriptor("dst", "f32", "a", "blocked", "ab", "128x1", "f0"),
    )
    assert r.primitive.attributes == ("attr-scratchpad:user", "attr-post-ops:eltwise_relu")
    assert r.primitive.auxiliary == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src:u8:a:any:any::f0", ("src", "u8", "a", "any", "any", "", "f0")),
        ("src_u8:a:any:any::f0", ("src", "u8", "a", "any", "any", "", "f0")),  # v0
        ("wei_f8_e4m3::blocked:ab::f0", ("wei", "f8_e4m3", "", "blocked", "ab", "", "f0")),
        ("src_f32::blocked:ab:f0", ("src", "f32", "", "blocked", "ab", "", "f0")),  # gemm_api
        ("bia:undef::undef:::", ("bia", "undef", "", "undef", "", "", "")),
        ("src_layer:f32::blocked:abc::f0", ("src_layer", "f32", "", "blocked", "abc", "", "f0")),
        (
            "wei:s8:p:blocked:Ab4a::f65537:s8m1:zpm3",
            ("wei", "s8", "p", "blocked", "Ab4a", "", "f65537:s8m1:zpm3"),
        ),
        ("wei:f32::sparse:csr::f0", ("wei", "f32", "", "sparse", "csr", "", "f0")),
    ],
)
def test_memory_descriptors(text, expected):
    r = only(f"onednn_verbose,v1,primitive,exec,cpu,matmul,ref,undef,{text},,,1,1e-05\n")
    assert r.primitive.memory == (MemoryDescriptor(*expected),)
    assert r.milliseconds == 1e-05


@pytest.mark.parametrize(
    ("tail", "scratchpad", "implementation"),
    [
        ("matmul_t,dnnl_backend", "", "matmul_t"),
        ("scratchpad:user:1472,matmul_t,dnnl_backend", "user:1472", "matmul_t"),
        ("dnnl_backend", "", ""),
    ],
)
def test_a_partitions_columns(tail, scratchpad, implementation):
    r = only(f"onednn_verbose,v1,graph,exec,{PARTITION},{tail},0.5\n")
    assert r.partition.ops == ("matmul", "relu,fpm:no")
    assert (r.partition.id, r.partition.kind) == (100016, "matmul_post_ops")
    assert r.partition.formats == "data:NCX; filter:OIX;;"
    assert r.partition.fpmath == "bf16:true"
    assert r.partition.tensors[1] == LoggedTensor(
        "out0", "f8_e5m2", 9, "opaque", "undef", (4, 16), "3"
    )
    assert (r.partition.scratchpad, r.partition.implementation) == (scratchpad, implementation)
    assert r.partition.backend == "dnnl_backend"


def test_messages_with_and_without_a_primitive():
    where = "src/cpu/x64/matmul/brgemm_matmul.cpp:97"
    short, long, bare = og.verbose_log(
        f"onednn_verbose,v1,primitive,create:check,matmul,dim 0, of src, is wrong,{where}\n"
        f"onednn_verbose,v1,7.5,primitive,create:dispatch,matmul,{MATMUL},bad tag, or so,{where} \n"
        "onednn_verbose,v1,graph,create:dispatch,pattern_matcher,sdp_fusion,dnnl_backend\n"
    )
    assert (short.component, short.message) == ("matmul", "dim 0, of src, is wrong")
    assert short.source == where
    assert short.primitive is None
    assert long.primitive.implementation == "brg_matmul:avx512_core"
    assert (long.message, long.source, long.timestamp) == ("bad tag, or so", where, 7.5)
    assert (bare.message, bare.source) == ("sdp_fusion,dnnl_backend", "")


def test_what_other_libraries_and_ukernels_run():
    external, ukernel = og.verbose_log(
        "onednn_verbose,v1,primitive,exec:external,CpuGemm<a, b>,0.5\n"
        f"onednn_verbose,v1,ukernel,exec,{MATMUL},0.5\n"
    )
    assert (external.outcome, external.primitive.implementation) == ("external", "CpuGemm<a, b>")
    assert ukernel.api == "ukernel"


def test_what_is_in_front_of_a_line_and_lines_that_are_not_onednns_are_passed_over():
    log = og.verbose_log(
        "hello\n"
        f"[0] onednn_verbose,v1,primitive,exec,{MATMUL},1\r\n"
        "export onednn_verbose, then run\n"
        "ONEDNN_VERBOSE=1\n\n"
        f"50%onednn_verbose,v1,primitive,exec,{MATMUL},2"
    )
    assert [(r.line, r.milliseconds) for r in log] == [(2, 1.0), (6, 2.0)]


def test_lines_that_run_into_each_other_are_told_apart():
    whole = f"onednn_verbose,v1,primitive,exec,{MATMUL},1"
    cut, complete = og.verbose_log(f"{whole[:60]}{whole}\n")
    assert isinstance(cut, MalformedRecord)
    assert cut.text == whole[:60]
    assert (complete.line, complete.milliseconds) == (1, 1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("onednn_verbose,exec,cpu,matmul", "expected the format's version"),
        ("onednn_verbose,v1,primitive", "ends early"),
        ("onednn_verbose,v1,primitive,exec,cpu", "expected columns and a time"),
        ("onednn_verbose,v1,primitive,exec,cpu,matmul,1", "expected 8 columns"),
        (f"onednn_verbose,v1,primitive,exec,{MATMUL},", "time in milliseconds, got ''"),
        (f"onednn_verbose,v1,primitive,exec,{MATMUL},nan", "time in milliseconds, got 'nan'"),
        (f"onednn_verbose,v1,primitive,exec,x{MATMUL},1", "expected an engine"),
        (
            "onednn_verbose,v1,primitive,exec,cpu,matmul,ref,undef,src,,,1,1",
            "expected name:dtype:properties:kind:..., got 'src'",
        ),
        ("onednn_verbose,v1,graph,exec,cpu,1,sdp,1", "too few columns"),
        (f"onednn_verbose,v1,graph,exec,{PARTITION},1", "expected implementation and backend"),
        (f"onednn_verbose,v1,graph,exec,{PARTITION},a,b,c,1", "expected implementation and"),
        (
            f"onednn_verbose,v1,graph,exec,{PARTITION.replace('in0_', 'in_')},b,1",
            "expected port_dtype:id:",
        ),
        (
            f"onednn_verbose,v1,graph,exec,{PARTITION.replace('100016', '1' * 5000)},b,1",
            "expected the partition's id",
        ),
        ("onednn_verbose,v1,primitive,compile,x,1", "unknown kind of line: 'primitive' with"),
        ("onednn_verbose,v1,ndims_ker_max = 3,x,y", "unknown kind of line"),
    ],
)
def test_what_is_malformed_is_reported_with_the_reason(text, reason):
    r = only(text + "\n")
    assert isinstance(r, MalformedRecord)
    assert reason in r.reason
    assert r.text == text


COLUMNS = ["onednn_verbose", "v1", "v0", "12.5", "primitive", "graph", "exec", "create:dispatch"]
COLUMNS += ["compile:cache_miss", "info", "cpu", "fpm:strict", "scratchpad:1", "", ":", " ", "1"]
COLUMNS += [MATMUL, PARTITION, "matmul_t,dnnl_backend", "in0_f32:1:any:undef:-1:any "]
PIECES = st.sampled_from([f"{c}," for c in COLUMNS])


@settings(max_examples=200)
@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=12).map("".join))
def test_no_text_is_too_strange(text):
    for r in read_verbose_log([text, "onednn_verbose,v1," + text]):
        assert r.line in (1, 2)


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_line_is_read_or_reported(data):
    line = f"onednn_verbose,v1,5,graph,exec,{PARTITION},scratchpad:user:1,matmul_t,dnnl_backend,0.5"
    i = data.draw(st.integers(17, len(line)))
    j = data.draw(st.integers(i, len(line)))
    assert len(og.verbose_log(line[:i] + data.draw(st.text(max_size=3)) + line[j:])) == 1


# -- where it is read from


def test_text_a_path_and_lines_give_the_same(tmp_path, everything):
    path = tmp_path / "run.log"
    path.write_text(everything)
    expected = list(og.verbose_log(everything))
    assert list(og.verbose_log(path)) == list(og.verbose_log(str(path))) == expected
    with path.open() as lines:
        assert list(og.verbose_log(lines)) == expected
    assert len(og.verbose_log("")) == 0


def test_bytes_that_are_no_text_are_passed_over(tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(b"\xff\xfe\x00\n" + f"onednn_verbose,v1,primitive,exec,{MATMUL},1\n".encode())
    assert [r.line for r in og.verbose_log(path)] == [2]


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        og.verbose_log(tmp_path / "none.log")


def test_lines_are_read_one_at_a_time():
    read = []

    def lines():
        for i in range(3):
            read.append(i)
            yield f"onednn_verbose,v1,primitive,exec,{MATMUL},{i}\n"

    records = read_verbose_log(lines())
    assert next(records).milliseconds == 0
    assert read == [0]


def test_records_of_equal_columns_share_them():
    first, second = og.verbose_log(f"onednn_verbose,v1,primitive,exec,{MATMUL},1\n" * 2)
    assert first.primitive is second.primitive


# -- what it adds up to

EXAMPLE = (
    f"onednn_verbose,v1,info,oneDNN v3.7.2 (commit N/A)\n"
    f"onednn_verbose,v1,primitive,create:cache_miss,{MATMUL},4\n"
    + f"onednn_verbose,v1,primitive,exec,{MATMUL},1\n"
    * 2
    + f"onednn_verbose,v1,primitive,exec,{MATMUL.replace('4x8', '2x8')},4\n"
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,,,,4x8,2\n"
    f"onednn_verbose,v1,graph,exec,{PARTITION},matmul_t,dnnl_backend,9\n"
    f"onednn_verbose,v1,graph,compile:cache_miss,{PARTITION},matmul_t,dnnl_backend,30\n"
    "onednn_verbose,v1,graph,create:check,utils,no,src/a.hpp:1\n"
    "onednn_verbose,v1,graph,exec,cpu\n"
)


def test_times_add_up_by_primitive_and_kernel():
    rows = og.verbose_log(EXAMPLE).summary().primitives
    assert [(r.what, r.calls, r.total_ms, r.mean_ms, r.max_ms) for r in rows] == [
        ("matmul", 3, 6.0, 2.0, 4.0),
        ("reorder", 1, 2.0, 2.0, 2.0),
    ]
    assert [r.share for r in rows] == [0.75, 0.25]


def test_shapes_can_be_told_apart():
    rows = og.verbose_log(EXAMPLE).summary(problems=True).primitives
    assert {r.problem: r.calls for r in rows} == {"2x8:8x16": 1, "4x8:8x16": 2, "4x8": 1}


def test_partitions_creations_messages_and_malformed_lines_are_told():
    s = og.verbose_log(EXAMPLE).summary()
    (partition,) = s.partitions
    assert (partition.id, partition.implementation, partition.share) == (100016, "matmul_t", 1.0)
    assert partition.what == "matmul_post_ops (matmul, relu,fpm:no)"
    assert [(r.implementation, r.total_ms) for r in s.compiled] == [("cache_miss matmul_t", 30.0)]
    assert [r.total_ms for r in s.created] == [4.0]
    assert s.messages == {"create:check": 1}
    assert s.malformed == 1
    assert s.malformed_first[0].line == 10
    assert s.oneDNN == "3.7.2 (commit N/A)"
    text = str(s)
    assert "Primitives run: 4 in 8 ms" in text
    assert "75.0%" in text
    assert "line 10: " in text


def test_a_log_without_lines_of_onednn_says_so():
    assert str(og.verbose_log("")) == "No line of oneDNN's."


def test_only_the_first_malformed_lines_are_kept():
    s = og.verbose_log("onednn_verbose,v1,graph,exec,cpu\n" * 100).summary()
    assert (s.malformed, len(s.malformed_first)) == (100, 5)


# -- the command


def test_the_command_prints_the_summary(tmp_path, capsys):
    path = tmp_path / "run.log"
    path.write_text(EXAMPLE)
    assert cli.main(["log", str(path)]) == 0
    assert capsys.readouterr().out == f"{og.verbose_log(EXAMPLE).summary()}\n"
    assert cli.main(["log", str(path), "--problems", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(og.verbose_log(EXAMPLE).summary(problems=True).to_dict()))
    assert found["primitives"][0]["problem"] == "2x8:8x16"


def test_the_command_reads_standard_input():
    done = subprocess.run(
        [sys.executable, "-m", "onednn_graph_py", "log", "-"],
        input=b"\xff\n" + EXAMPLE.encode(),
        capture_output=True,
        check=True,
        env={**os.environ, "ONEDNN_VERBOSE": "0"},
    )
    assert b"Primitives run: 4 in 8 ms" in done.stdout


def test_the_command_tells_of_a_file_that_is_not_there(tmp_path, capsys):
    assert cli.main(["log", str(tmp_path / "none.log")]) == 2
    assert "log: " in capsys.readouterr().err


def test_info_lines_of_other_apis():
    r = only("onednn_verbose,v1,graph,info,serialize graph to a json file a.json\n")
    assert r == InfoRecord(1, "v1", "graph", "serialize graph to a json file a.json")
