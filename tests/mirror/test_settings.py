"""Process-wide settings, and what is linked."""

import json
import pickle

import pytest
from graphs import LINKED, before, held_to, python, since

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


@pytest.mark.parametrize("level", [-1, 3, 99])
def test_another_verbose_level_is_refused(level):
    with pytest.raises(og.InvalidArgumentsError, match=rf"set_verbose\({level}\).*0, 1 and 2"):
        og.set_verbose(level)


@pytest.mark.parametrize("level", [None, "all", 1.5, 2**40])
def test_a_verbose_level_that_is_no_int_is_a_type_error(level):
    with pytest.raises(TypeError):
        og.set_verbose(level)


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


@before(3, 11)
@pytest.mark.parametrize("modes", ["graph", 1, None])
def test_the_dump_mode_needs_a_newer_onednn(modes):
    with pytest.raises(og.UnimplementedError, match=r"set_dump_mode needs oneDNN >= 3\.11"):
        og.set_dump_mode(modes)
    assert not hasattr(og, "graph_dump_mode")


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


@pytest.mark.parametrize("wrong", [None, 2, "yes"])
def test_the_jit_dump_takes_a_bool(wrong):
    with pytest.raises(TypeError):
        og.set_jit_dump(wrong)


def test_profiling_flags_are_set_or_refused():
    assert og.set_jit_profiling_flags(0) is og.status.success
    with pytest.raises(og.InvalidArgumentsError, match="32 bits"):
        og.set_jit_profiling_flags(2**32)
    with pytest.raises(og.InvalidArgumentsError):
        og.set_jit_profiling_flags(-1)
    with pytest.raises(TypeError):
        og.set_jit_profiling_flags("vtune")


def test_the_folder_for_jitdump_is_a_string(tmp_path):
    assert og.set_jit_profiling_jitdumpdir(str(tmp_path)) is og.status.success
    with pytest.raises(TypeError):
        og.set_jit_profiling_jitdumpdir(None)
