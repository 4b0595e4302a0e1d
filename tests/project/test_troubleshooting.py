"""docs/troubleshooting.md quotes messages that are shown: by wrong uses, or provoked here."""

import gc
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import doc_pages
import numpy as np
import pytest
import wrong_uses
from graphs import LINKED, RUNTIME, python, relu_op
from wrong_cases import layer_norm_and_sum

import onednn_graph_py as og
from onednn_graph_py.base.loading import interpreter

PAGE = doc_pages.ROOT / "docs" / "troubleshooting.md"
RECIPE = doc_pages.ROOT / "third_party" / "onednn.py"

QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text(), re.M)
PROVOKE: dict[str, Callable[[], object]] = {}
# What can't be had from every oneDNN, and why.
NOT_HERE: dict[str, str] = {}


def provokes(quoted: str, unless: str | None = None):
    """List what shows a message: it raises, warns, or returns the text of a process."""

    def keep(function: Callable[[], object]) -> Callable[[], object]:
        PROVOKE[quoted] = function
        if unless is not None:
            NOT_HERE[quoted] = unless
        return function

    return keep


def said(function: Callable[[], object]) -> str:
    """What a message provoked by a function says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function()
        except Exception as error:
            return str(error)
    return "\n".join([str(w.message) for w in caught] + [result] * isinstance(result, str))


def pattern(quoted: str) -> str:
    """A quoted message as a regular expression: ``...`` stands for anything."""
    return ".*".join(re.escape(part) for part in quoted.split("..."))


# -- what the cases are made from ------------------------------------------------------------------


def lt(tid: int = 0, shape=(4, 8), dtype="f32", layout="strided") -> og.logical_tensor:
    return og.logical_tensor(tid, dtype, shape, layout)


def x_of(builder: og.GraphBuilder, shape=(2, 4)) -> og.Value:
    return builder.input(shape, "f32", name="x")


def model() -> og.CompiledGraph:
    b = og.GraphBuilder()
    b.output(x_of(b).relu())
    return b.compile()


def ones(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def graph_of(*ops: og.op) -> og.graph:
    g = og.graph("cpu")
    for one in ops:
        g.add_op(one)
    return g


def compile_relu(source: og.logical_tensor) -> None:
    og.partition(relu_op(), "cpu").compile([source], [lt(1)], og.engine("cpu", 0))


def recipe(**variables: str) -> str:
    """What the build of oneDNN says, with environment variables."""
    setting = (
        "for name in [n for n in os.environ if n.startswith('ONEDNN_')]: del os.environ[name]\n"
    )
    setting += "".join(f"os.environ[{k!r}] = {v!r}\n" for k, v in variables.items())
    program = f"import os, runpy, sys\n{setting}sys.argv = ['onednn.py', 'prefix']\n"
    program += f"sys.path.insert(0, {str(RECIPE.parent)!r})\n"
    program += f"runpy.run_path({str(RECIPE)!r}, run_name='__main__')\n"
    done = python(program, check=False)
    assert done.returncode != 0
    return done.stderr


def copied_package(tmp_path: Path, change: Callable[[Path], None]) -> str:
    """What importing a changed copy of the package says."""
    package = Path(og.__file__).parent
    made = tmp_path / package.name
    kept = shutil.ignore_patterns("libdnnl*", "__pycache__")
    shutil.copytree(package, made, ignore=kept)
    change(next(made.glob("_core*.so")))
    # An editable installation finds its own extension for every copy.
    program = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
import onednn_graph_py
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,  # comes first in the path
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    return done.stderr


def rename_library(extension: Path) -> None:
    """Have an extension look for a library that is nowhere."""
    extension.write_bytes(extension.read_bytes().replace(b"libdnnl", b"libgone"))


# -- importing


@pytest.mark.parametrize(
    ("quoted", "change"),
    [
        ("No module named 'onednn_graph_py._core'", Path.unlink),
        ("...: cannot open shared object file: No such file or directory", rename_library),
    ],
)
def test_an_incomplete_package_says_what_the_page_quotes(quoted, change, tmp_path):
    assert quoted in QUOTED
    assert re.search(pattern(quoted), copied_package(tmp_path, change))


IMPORTING = {
    "No module named 'onednn_graph_py._core'",
    "...: cannot open shared object file: No such file or directory",
}

# -- engines, SYCL, OpenCL

HAS_GPU = "there is a GPU" if og.engine.get_count("gpu") else None


@provokes("no device to compile for and run on", unless=HAS_GPU)
def no_gpu():
    b = og.GraphBuilder("gpu")
    b.output(x_of(b).relu())
    b.compile()


provokes("not in this build: the linked oneDNN was built without ...")(
    lambda: og.ocl_interop.make_engine(0, 0)
)


@provokes(
    "needs oneDNN >= ...; this package is linked against oneDNN ...",
    unless="nothing is newer than the linked oneDNN" if LINKED >= (3, 11) else None,
)
def newer_op():
    og.op(0, "RMSNorm")


# -- building graphs


@provokes("... has no attribute '...', did you mean '...'?")
def misspelled_attribute():
    b = og.GraphBuilder()
    x_of(b).elu(alfa=1.0)


@provokes("oneDNN Graph has no data type for NumPy's float64")
def float64():
    b = og.GraphBuilder()
    b.constant(np.ones(3))


@provokes("belongs to another GraphBuilder")
def two_builders():
    b, other = og.GraphBuilder(), og.GraphBuilder()
    return x_of(b) + x_of(other)


@provokes("its GraphBuilder is gone")
def no_builder():
    value = x_of(og.GraphBuilder())
    gc.collect()
    value.relu()


@provokes("has no truth value: it has no elements before the graph runs")
def truth():
    b = og.GraphBuilder()
    return bool(x_of(b))


@provokes("is not an array: it has no elements before the graph runs")
def no_array():
    b = og.GraphBuilder()
    np.asarray(x_of(b))


@provokes("can't be traced: it has no ops and is no host step")
def no_function():
    b = og.GraphBuilder()
    np.fft.fft(x_of(b))


@provokes("oneDNN has no float64; convert to 'float32' first")
def no_f64():
    b = og.GraphBuilder()
    x_of(b) + np.ones(4)


provokes("is not an op kind; did you mean '...'?")(lambda: og.op(0, "Matmul"))
provokes("the graph has no output; call output first")(lambda: og.GraphBuilder().compile())


# -- compiling


@provokes("compile failed: could not create a primitive")
def no_kernel_at_compile():
    b = og.GraphBuilder()
    x, scale = b.input((4, 4), "s4"), b.input((1,), "f32")
    b.output(b.dynamic_dequantize(x, scale))
    b.compile(fallback="error")


@provokes("oneDNN has no cpu kernel for this op alone")
def no_kernel():
    b = og.GraphBuilder()
    b.output(b.input((4, 4)).pow(beta=0.3))
    b.compile(fallback="error")


@provokes("runs in NumPy at each call")
def in_numpy():
    b = og.GraphBuilder()
    b.output(b.input((4, 4)).pow(beta=0.3))
    b.compile()


@provokes(
    "runs in parts:",
    unless="this oneDNN has no known defect of normalization" if LINKED >= (3, 13) else None,
)
def defect():
    b = og.GraphBuilder()
    layer_norm_and_sum(b)
    b.compile()


@provokes("should run in ... oneDNN partitions, but has")
def not_fused():
    b = og.GraphBuilder()
    b.output(x_of(b).softmax(axis=1).softmax(axis=1))
    og.assert_fused(b.compile(), 1)


# -- calling

provokes("must be ... (NumPy's ...), got ...; convert it with astype")(
    lambda: model()(ones(2, 4, dtype=np.float64))
)
provokes("there is no input '...'; there are:")(lambda: model()(y=ones(2, 4)))
provokes("must be a NumPy array or support DLPack, got ...")(lambda: model()([1.0, 2.0]))


@provokes("was released (release_constants of model ...), and ... needs its elements")
def released():
    made = reordered()
    made.release_constants()
    made.verify()


@provokes("the cache can't be emptied, which setting a capacity does")
def held_cache():
    made = reordered()
    made.release_constants()
    og.set_constant_tensor_cache_capacity("cpu", 64)


def reordered():
    """A model, called once, whose weights oneDNN reorders on every CPU."""
    b = og.GraphBuilder()
    x = b.input((1, 64, 14, 14))
    attributes = {name: [1, 1] for name in ("strides", "pads_begin", "pads_end", "dilations")}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    b.output(x.convolution(ones(64, 64, 3, 3), **attributes, **formats))
    made = b.compile()
    made(ones(1, 64, 14, 14))
    return made


@provokes("must be aligned and in row-major order, got strides ... bytes")
def strided_output():
    model()(ones(2, 4), out=ones(4, 2).T)


# -- files and tools


provokes("not JSON: line ..., column ...")(lambda: og.serialization.parse("{"))
provokes('the field "..." is missing')(lambda: og.serialization.parse('{"version": "3.7.0"}'))


@provokes("SVG needs")
def no_graphviz():
    return python(
        """
        import onednn_graph_py as og
        b = og.GraphBuilder()
        b.output(b.input((2,), "f32").relu())
        try:
            b.diagram().svg()
        except og.UnimplementedError as error:
            print(error)
        """,
        env={"PATH": ""},
    ).stdout


# -- forked processes

ON_OPENMP = (
    None if RUNTIME == "OpenMP" else f"it is about OpenMP, and this oneDNN runs on {RUNTIME}"
)


def in_a_fork(call: str) -> str:
    """What a call says in a fork of a process that ran a model with two threads."""
    program = f"""
        import os, signal, warnings
        import numpy as np
        import onednn_graph_py as og
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        x = np.ones((256, 512), np.float32)  # a smaller model runs on one thread
        b = og.GraphBuilder()
        b.output(b.input(x.shape).tanh())
        model = b.compile(threads=2)
        bound = model.bind([x])
        bound()
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        else:
            signal.alarm(120)
            try:
                {call}
            except og.OneDNNError as error:
                print(error, flush=True)
            os._exit(0)
        """
    done = python(program, env={"OMP_NUM_THREADS": "2"})
    return done.stdout + done.stderr


provokes("this process was forked from one in which models ran with several threads", ON_OPENMP)(
    lambda: in_a_fork("model(x)")
)
provokes("compiled for ... threads in the parent process, before the fork", ON_OPENMP)(
    lambda: in_a_fork("bound()")
)
provokes(
    "the runtime of this oneDNN does not survive a fork",
    "OpenMP survives it" if RUNTIME == "OpenMP" else None,
)(lambda: in_a_fork("model(x)"))


# -- other interpreters


@provokes("can't be imported in a subinterpreter")
def _() -> str:
    return python(
        """
        try:
            import _interpreters as interpreters
        except ImportError:  # before Python 3.13
            import _xxsubinterpreters as interpreters
        run = getattr(interpreters, "exec", None) or interpreters.run_string
        try:
            print(run(interpreters.create(), "import onednn_graph_py"))
        except interpreters.RunFailedError as error:
            print(error)
        """
    ).stdout


@provokes("onednn_graph_py needs the GIL")
def _() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        interpreter.require_gil()


# -- building the package

provokes("a C++ compiler is needed, and ...")(lambda: recipe(CXX="/none/c++"))
provokes("ONEDNN_ROOT should name an existing directory")(lambda: recipe(ONEDNN_ROOT="/none"))
provokes("should hold include/oneapi/dnnl/dnnl_version.h")(
    lambda: recipe(ONEDNN_ROOT=str(PAGE.parent))
)
provokes("ONEDNN_VERSION asks for ..., which no source offers")(
    lambda: recipe(ONEDNN_VERSION="1.2.3")
)
provokes("should be a oneDNN source tree, whose CMakeLists.txt sets PROJECT_VERSION")(
    lambda: recipe(ONEDNN_SOURCE_DIR=str(PAGE.parent))
)
provokes("CMAKE_BUILD_PARALLEL_LEVEL should be a whole number of jobs")(
    lambda: recipe(CMAKE_BUILD_PARALLEL_LEVEL="many")
)


# -- the page and the table agree


def test_every_quoted_message_is_provoked_or_that_of_a_wrong_use():
    assert set(PROVOKE) | IMPORTING <= set(QUOTED)
    assert len(QUOTED) == len(set(QUOTED)) >= 20
    texts = [said(case.run) for case in wrong_uses.CASES.values()]
    for quoted in set(QUOTED) - set(PROVOKE) - IMPORTING:
        assert any(re.search(pattern(quoted), text, re.S) for text in texts), quoted


@pytest.mark.parametrize("quoted", PROVOKE)
def test_a_quoted_message_is_shown(quoted):
    if quoted in NOT_HERE:
        pytest.skip(NOT_HERE[quoted])
    text = said(PROVOKE[quoted])
    assert re.search(pattern(quoted), text, re.S), text


def test_every_message_has_a_text_below():
    parts = re.split(r"^### .*$", PAGE.read_text(), flags=re.M)[1:]
    assert all(len(part.split("\n## ")[0].split()) >= 4 for part in parts)
