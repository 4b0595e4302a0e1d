"""The extension uses its own oneDNN, whatever else the process has loaded."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from graphs import RUNTIME

import onednn_graph_py as og
from onednn_graph_py import _core

# A stand-in for another package's oneDNN: the same symbols, and none of them works.
FOREIGN = """
#include <stdio.h>
#include <stdlib.h>
static void used(const char *name) { printf("foreign %s\\n", name); fflush(stdout); _Exit(42); }
#define FAKE(name) void name(void) { used(#name); }
FAKE(dnnl_version) FAKE(dnnl_engine_create) FAKE(dnnl_engine_get_count)
FAKE(dnnl_graph_op_create) FAKE(dnnl_graph_graph_create) FAKE(dnnl_graph_add_op)
FAKE(dnnl_graph_partition_compile) FAKE(dnnl_primitive_create) FAKE(dnnl_memory_create)
"""

PROGRAM = """
import ctypes, os, sys
{load}
import numpy as np
import onednn_graph_py as og
engine = og.engine("cpu", 0)
src, dst = (og.logical_tensor(i, "f32", [8], "strided") for i in range(2))
graph = og.graph("cpu")
graph.add_op(og.op(0, "ReLU", [src], [dst]))
graph.finalize()
(partition,) = graph.get_partitions()
x, y = np.linspace(-1, 1, 8, dtype=np.float32), np.empty(8, np.float32)
partition.compile([src], [dst], engine).execute(
    og.stream(engine), [og.tensor(src, engine, x)], [og.tensor(dst, engine, y)]
)
assert (y == np.maximum(x, 0)).all()
print("own", sys.getdlopenflags() == flags)
"""


@pytest.fixture(scope="module")
def foreign_library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert compiler, "a C compiler is needed, as it was to build the extension"
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "foreign.c").write_text(FOREIGN)
    library = folder / "libforeign.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "foreign.c"], check=True)
    return library


def run(load: str, cwd) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(load=textwrap.dedent(load) + "\nflags = sys.getdlopenflags()")
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_a_foreign_onednn_with_global_symbols_is_not_used(foreign_library, tmp_path):
    done = run(f"ctypes.CDLL({str(foreign_library)!r}, mode=os.RTLD_GLOBAL)", tmp_path)
    assert (done.returncode, done.stdout) == (0, "own True\n"), done.stderr


def test_without_the_loader_the_stand_in_would_be_used(foreign_library, tmp_path):
    # Otherwise the test above could not fail.
    done = run(
        f"""
        import types
        ctypes.CDLL({str(foreign_library)!r}, mode=os.RTLD_GLOBAL)
        sys.modules["onednn_graph_py.base.loading.extension"] = types.ModuleType("no loader")
        """,
        tmp_path,
    )
    assert done.returncode == 42, done.stderr
    assert done.stdout.startswith("foreign dnnl_")


def test_a_foreign_onednn_with_local_symbols_is_not_used(foreign_library, tmp_path):
    done = run(f"ctypes.CDLL({str(foreign_library)!r})", tmp_path)
    assert (done.returncode, done.stdout) == (0, "own True\n"), done.stderr


def test_torch_and_this_package_work_in_one_process(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    for first, second in (("torch", "onednn_graph_py"), ("onednn_graph_py", "torch")):
        done = run(
            f"""
            import {first}, {second}, torch
            conv = torch.nn.Conv2d(3, 8, 3)
            assert conv(torch.rand(1, 3, 8, 8)).shape == (1, 8, 6, 6)
            """,
            tmp_path,
        )
        assert (done.returncode, done.stdout) == (0, "own True\n"), done.stderr


PACKAGE = Path(og.__file__).parent
OWN = Path(re.search(r" (/.*/libdnnl\S*)", Path("/proc/self/maps").read_text())[1])
# PyPI's oneDNN, of this environment or of one beside it. Of two libraries with one file name a
# process has only the first, so a package that was built against PyPI's stands for that one.
FOLDERS = [Path(sys.prefix, "lib"), *sorted(Path(__file__).parents[2].glob(".venv-pypi*/lib"))]
FOUND = [folder / "libdnnl.so.3" for folder in FOLDERS if (folder / "libdnnl.so.3").exists()]
OTHER = FOUND[0] if FOUND and OWN.name.startswith("libdnnl_ogp") else None

FRAMEWORKS = {
    "libdnnl": f"""
        from ctypes import POINTER, byref, c_int64, c_void_p
        dnnl = ctypes.CDLL({str(OTHER)!r})
        def call(name, *arguments):
            status = getattr(dnnl, "dnnl_" + name)(*arguments)
            assert status == 0, (name, status)
        def made(name, *arguments):
            call(name + "_create", byref(result := c_void_p()), *arguments)
            return result
        cpu, size, f32 = made("engine", 1, ctypes.c_size_t(0)), c_int64 * 12, 3
        stream = made("stream", cpu, 1)
        descs, memories = [], []
        for values in (given, np.ones((16, 4), np.float32), np.zeros((8, 4), np.float32)):
            rows, columns = values.shape
            desc = c_void_p()
            call("memory_desc_create_with_strides", byref(desc), 2, size(rows, columns), f32,
                 size(columns, 1))
            descs.append(desc)
            memories.append(made("memory", desc, cpu, c_void_p(-1)))  # it allocates
            call("memory_map_data", memories[-1], byref(at := c_void_p()))
            ctypes.memmove(at, values.ctypes.data, values.nbytes)
            call("memory_unmap_data", memories[-1], at)
        product = made("primitive", made("matmul_primitive_desc", cpu, *descs[:2], None, descs[2],
                                         None))
        class Argument(ctypes.Structure):
            _fields_ = [("index", ctypes.c_int), ("memory", c_void_p)]
        given_to = (Argument * 3)(*zip((1, 33, 17), memories))  # source, weights, destination
        call("primitive_execute", product, stream, 3, given_to)
        call("stream_wait", stream)
        call("memory_map_data", memories[2], byref(at := c_void_p()))
        found = np.ctypeslib.as_array(ctypes.cast(at, POINTER(ctypes.c_float)), (8, 4)).copy()
        call("memory_unmap_data", memories[2], at)
        assert (found == expected).all(), "libdnnl"
        """,
    "torch": """
        import torch
        weights = torch.ones(4, 16, 1, 1).to(memory_format=torch.channels_last)
        made = torch.conv2d(torch.from_numpy(given.reshape(8, 16, 1, 1)), weights)
        assert (made.numpy().reshape(8, 4) == expected).all(), "torch"
        """,
    "openvino": """
        import openvino
        from openvino import opset13
        x = opset13.parameter([8, 16], np.float32)
        y = opset13.matmul(x, opset13.constant(np.ones((16, 4), np.float32)), False, False)
        made = openvino.Core().compile_model(openvino.Model([y], [x]), "CPU")(given)[0]
        assert (made == expected).all(), "openvino"
        """,
    "onnxruntime": """
        import onnxruntime
        from onnx import helper, numpy_helper
        x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in
                (("x", [8, 16]), ("y", [8, 4])))
        weights = numpy_helper.from_array(np.ones((16, 4), np.float32), "w")
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        assert (session.run(None, {"x": given})[0] == expected).all(), "onnxruntime"
        """,
    "onednn_graph_py": """
        import onednn_graph_py as og
        b = og.GraphBuilder()
        b.output(b.matmul(b.input((8, 16), "f32"), np.ones((16, 4), np.float32)))
        assert (b.compile()(given) == expected).all(), "onednn_graph_py"
        """,
}
INSTALLED = [
    name
    for name in FRAMEWORKS
    if (OTHER if name == "libdnnl" else importlib.util.find_spec(name))
    and (name != "onnxruntime" or importlib.util.find_spec("onnx"))
]


@pytest.mark.skipif(len(INSTALLED) < 2, reason="no other framework is installed")
@pytest.mark.parametrize("order", [INSTALLED, INSTALLED[::-1]], ids="-".join)
def test_frameworks_in_one_process_each_use_their_own_onednn(tmp_path, order):
    program = """
import ctypes
import numpy as np
given = np.arange(128, dtype=np.float32).reshape(8, 16)
expected = given.sum(1, keepdims=True).repeat(4, 1)
"""
    # Intel's OpenCL driver for CPUs shows none if OpenVINO's older TBB is loaded before its own.
    settings = {}
    if RUNTIME == "SYCL":
        program += "import onednn_graph_py\n"
    elif OTHER:
        program += f"ctypes.CDLL({str(OTHER.with_name('libtbb.so.12'))!r})\n"
        driver = str(OTHER.with_name("libintelocl.so"))
        settings = {"LD_LIBRARY_PATH": str(OTHER.parent), "OCL_ICD_FILENAMES": driver}
    program += "".join(textwrap.dedent(FRAMEWORKS[name]) for name in 2 * order)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        # The dynamic linker tells which library gives a symbol to which. An instruction set that
        # the environment names holds OpenVINO's oneDNN back, too, and it has no kernel then.
        env={
            **{k: v for k, v in os.environ.items() if k != "ONEDNN_MAX_CPU_ISA"},
            **settings,
            "LD_DEBUG": "bindings",
            "LD_DEBUG_OUTPUT": str(tmp_path / "linker"),
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    bound = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `dnnl_")
    pairs = set()
    for said in tmp_path.glob("linker.*"):
        with said.open() as lines:
            pairs |= {found.groups() for found in map(bound.search, lines) if found}
    # The C API of oneDNN: of the extension from its library, of any other file from itself.
    ours = {Path(giver).resolve() for user, giver in pairs if user == _core.__file__}
    assert ours - {Path(_core.__file__).resolve()} == {OWN.resolve()}
    assert {(a, b) for a, b in pairs if a != b and a != _core.__file__} == set()


# The linker would give a second copy with a oneDNN of its own the first one's without a word. One
# without is a copy that was built against an installed oneDNN, which every copy of .venv-pypi is.
@pytest.mark.parametrize("ignored", ["__pycache__", "libdnnl_ogp.so*"])
def test_a_second_copy_of_the_package_is_refused_in_one_process(tmp_path, ignored):
    second = tmp_path / "second"
    ignored = shutil.ignore_patterns("__pycache__", ignored)
    shutil.copytree(PACKAGE, second / "onednn_graph_py", ignore=ignored)
    done = run(
        f"""
        import onednn_graph_py
        kept = dict(sys.modules)
        for name in list(sys.modules):
            if name.partition(".")[0] == "onednn_graph_py":
                del sys.modules[name]
        sys.path.insert(0, {str(second)!r})
        try:
            import onednn_graph_py
        except ImportError as error:
            assert "another copy of onednn_graph_py" in str(error), error
            assert {str(PACKAGE)!r} in str(error), error
            assert {str(second)!r} in str(error), error
        else:
            raise AssertionError("the second copy was imported")
        sys.modules.update(kept)  # the first goes on
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "own True\n"), done.stderr


def test_the_extension_reports_the_library_it_was_built_with():
    linked = og.version()
    assert linked["headers"] == f"{linked['major']}.{linked['minor']}.{linked['patch']}"
