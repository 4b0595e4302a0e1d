"""Process-wide settings, and what is linked."""

import json
import pickle

import pytest
from graphs import LINKED, held_to, python, since

import onednn_graph_py as og


def test_version_has_attributes_and_reads_like_a_mapping():
    told = og.version()
    assert {name: getattr(told, name) for name in told} == told == dict(**told)
    assert told.release == f"{told.major}.{told.minor}.{told.patch}"
    assert json.loads(json.dumps(told)) == told
    assert pickle.loads(pickle.dumps(told)) == told
    with pytest.raises(AttributeError):
        told.minor = 3


def test_version_tells_the_library_and_the_headers():
    told = og.version()
    assert set(told) == {
        *("major", "minor", "patch", "hash", "cpu_runtime", "gpu_runtime", "headers")
    }
    assert LINKED >= (3, 7)
    assert all(type(told[name]) is int for name in ("major", "minor", "patch"))
    assert told["headers"].split(".")[:2] == [str(n) for n in LINKED]
    assert told["cpu_runtime"] in {"OpenMP", "SYCL", "TBB", "sequential", "threadpool"}
    assert "unknown" not in told["gpu_runtime"]


@pytest.mark.parametrize("level", [0])
def test_set_verbose_answers_success(level):
    assert og.set_verbose(level) is og.status.success


@pytest.mark.parametrize("mode", list(og.fpmath_mode))
def test_the_default_math_mode_is_kept(mode):
    old = og.get_default_fpmath_mode()
    try:
        assert og.set_default_fpmath_mode(mode) is og.status.success
        assert og.get_default_fpmath_mode() is mode
        og.set_default_fpmath_mode(mode.name)
        assert og.get_default_fpmath_mode() is mode
    finally:
        og.set_default_fpmath_mode(old)


def test_the_effective_isa_is_an_enumerator():
    assert isinstance(og.get_effective_cpu_isa(), og.cpu_isa)


@pytest.mark.parametrize("isa", ["sse41", pytest.param("avx2", marks=held_to("avx2"))])
def test_the_highest_isa_is_set_before_anything_else(isa):
    done = python(f"""
        import onednn_graph_py as og
        assert og.set_max_cpu_isa("{isa}") is og.status.success
        print(og.get_effective_cpu_isa())
        try:
            og.set_max_cpu_isa("isa_default")
        except og.InvalidArgumentsError as error:
            print(error)
    """)
    effective, late = done.stdout.splitlines()
    assert effective == isa
    assert "first use of oneDNN" in late


def test_isa_hints_are_set_before_anything_else():
    done = python("""
        import onednn_graph_py as og
        og.set_cpu_isa_hints("prefer_ymm")
        print(og.get_cpu_isa_hints())
    """)
    assert done.stdout.strip() == "prefer_ymm"


@since(3, 11)
def test_the_dump_mode_is_set_or_refused_with_the_build_option(tmp_path):
    done = python(
        """
        import onednn_graph_py as og
        try:
            og.set_dump_mode(og.graph_dump_mode.graph | og.graph_dump_mode.subgraph)
        except og.InvalidArgumentsError as error:
            assert "ONEDNN_ENABLE_GRAPH_DUMP" in str(error)
            print("refused")
        else:
            og.set_dump_mode("none")
            print("set")
        """,
        cwd=tmp_path,
    )
    assert done.stdout.strip() in {"refused", "set"}


def test_generated_kernels_are_dumped_on_request(tmp_path):
    python(
        """
        import onednn_graph_py as og
        og.set_max_cpu_isa("avx2")
        og.set_jit_dump(True)
        src, dst = (og.logical_tensor(i, "f32", [4, 8], "strided") for i in range(2))
        graph = og.graph("cpu")
        graph.add_op(og.op(0, "Tanh", [src], [dst]))
        graph.finalize()
        engine = og.engine("cpu", 0)
        graph.get_partitions()[0].compile([src], [dst], engine)
        """,
        cwd=tmp_path,
    )
    assert list(tmp_path.glob("dnnl_dump_*.bin"))


def test_profiling_of_generated_code_is_set(tmp_path):
    assert og.set_jit_profiling_flags(0) is og.status.success
    assert og.set_jit_profiling_jitdumpdir(str(tmp_path)) is og.status.success
