"""Devices: what is listed, why something is missing, graphs for a GPU where there is none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py import sycl_interop
from onednn_graph_py.base.loading import opencl_drivers as drivers
from onednn_graph_py.machine.hardware import device, facts, find, look, reasons
from onednn_graph_py.machine.store import processor
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.replay.stages import why_unsupported

LINKED = og.version()
SYCL = LINKED["cpu_runtime"] == "SYCL"
on_sycl = pytest.mark.skipif(
    not SYCL, reason=f"the linked oneDNN's CPU runtime is {LINKED['cpu_runtime']}, not SYCL"
)
without_gpu = pytest.mark.skipif(og.engine.get_count("gpu") > 0, reason="there is a GPU")
WITH_GPU_RUNTIME = {"major": 3, "minor": 13, "patch": 2, "gpu_runtime": "SYCL"}


def program(text: str, **settings: str | None) -> list[str]:
    """Run a program with these variables set, or unset; return the lines that it prints."""
    names = (drivers.VARIABLE, drivers.VENDORS_VARIABLE, reasons.SELECTOR)
    environment = {k: v for k, v in os.environ.items() if k not in names}
    environment |= {k: v for k, v in settings.items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SHOW = """
import os
import onednn_graph_py as og
print(os.environ.get("OCL_ICD_FILENAMES"))
print(og.engine.get_count("cpu"))
"""


def cpu_driver() -> str:
    found = drivers.installed()
    assert found is not None, f"{drivers.CPU_PACKAGE} comes with the wheel of oneDNN"
    return found


# -- the driver for CPUs


@on_sycl
def test_the_driver_for_cpus_is_found_in_the_environment():
    assert program(SHOW) == [cpu_driver(), "1"]


@on_sycl
@pytest.mark.parametrize("value", ["", "/nowhere/libintelocl.so"])
def test_a_variable_that_is_set_is_left_alone(value):
    assert program(SHOW, OCL_ICD_FILENAMES=value) == [value, "0"]


@on_sycl
def test_a_registered_driver_for_cpus_is_enough(tmp_path):
    (tmp_path / "cpu.icd").write_text(cpu_driver() + "\n")
    assert program(SHOW, OCL_ICD_VENDORS=str(tmp_path)) == ["None", "1"]


@on_sycl
@pytest.mark.parametrize("name", ["libigdrcl.so", "/nowhere/libintelocl.so", "libintelocl_emu.so"])
def test_other_registered_drivers_are_not(name, tmp_path):
    # Such as the GPU's; and Intel's packages hold paths of the machine that made them.
    (tmp_path / "other.icd").write_text(name + "\n")
    assert program(SHOW, OCL_ICD_VENDORS=str(tmp_path)) == [cpu_driver(), "1"]


@on_sycl
def test_dpctl_may_be_imported_before():
    pytest.importorskip("dpctl")
    assert program("import dpctl" + SHOW) == [cpu_driver(), "1"]


@on_sycl
def test_a_runtime_that_looked_before_is_told_apart():
    pytest.importorskip("dpctl")
    lines = program(
        """
        import dpctl
        assert dpctl.get_devices() == []
        import onednn_graph_py as og
        (cpu,) = og.devices()["cpu"]
        print(cpu.index, cpu.engine, cpu.reason)
        b = og.GraphBuilder()
        b.output(b.input((2, 2)).relu())
        try:
            b.compile()
        except og.NoDeviceError as e:
            print(e)
        """.replace("\n        ", "\n")
    )
    assert lines[0].startswith("0 False new processes show it and this one does not")
    assert "engine kind cpu" in lines[1]
    assert "import onednn_graph_py before dpctl is used" in lines[1]


@pytest.mark.skipif(SYCL, reason="the linked oneDNN needs the driver")
def test_a_build_that_needs_no_driver_sets_nothing():
    assert program(SHOW) == ["None", "1"]
    assert drivers.provided() is None


def test_drivers_are_read_from_the_variable_and_from_files(tmp_path, monkeypatch):
    (tmp_path / "b.icd").write_text("libb.so\n")
    (tmp_path / "a.icd").write_text(f"{tmp_path}/liba.so")
    (tmp_path / "empty.icd").write_text("\n")
    (tmp_path / "unread.txt").write_text("libc.so\n")
    monkeypatch.setenv(drivers.VENDORS_VARIABLE, str(tmp_path))
    monkeypatch.setenv(drivers.VARIABLE, f"/x/libintelocl.so{os.pathsep}")
    found = drivers.registered()
    assert [(d.file, Path(d.told_by).name) for d in found] == [
        ("/x/libintelocl.so", drivers.VARIABLE),
        (f"{tmp_path}/liba.so", "a.icd"),
        ("libb.so", "b.icd"),
    ]
    assert [d.exists for d in found] == [False, False, True]
    assert [d.is_intels_for_cpus for d in found] == [True, False, False]
    # The variable may also name one file.
    monkeypatch.setenv(drivers.VENDORS_VARIABLE, str(tmp_path / "b.icd"))
    assert [d.file for d in drivers.registered()] == ["/x/libintelocl.so", "libb.so"]
    monkeypatch.setenv(drivers.VENDORS_VARIABLE, str(tmp_path / "nothing"))
    assert [d.file for d in drivers.registered()] == ["/x/libintelocl.so"]


# -- what is listed


def test_every_listed_engine_can_be_made():
    found = og.devices()
    counts = {kind: og.engine.get_count(kind) for kind in ("cpu", "gpu")}
    for kind, count in counts.items():
        assert sorted(d.index for d in found[kind] if d.index is not None) == list(range(count))
    for d in found:
        assert d.runtime in (LINKED["cpu_runtime"], LINKED["gpu_runtime"])
        if d.index is not None:
            assert d.engine
            assert og.engine(d.kind, d.index).get_kind().name == d.kind
    assert {m.what for m in found.missing} & {"cpu", "gpu"} == {
        k for k, n in counts.items() if not n
    }


def test_the_cpu_is_described():
    cpu = og.devices()["cpu"][0]
    assert cpu.label == "cpu 0"
    assert cpu.name
    if sycl_interop.missing() is None or not SYCL:
        assert cpu.memory_bytes > 2**28
    assert {"f32", "s8", "u8"} <= set(cpu.data_types)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_the_cpus_data_types_are_those_that_onednn_has_kernels_for(dtype):
    b = og.GraphBuilder()
    b.output(b.input((8, 8), dtype).matmul(b.input((8, 8), dtype)))
    (partition,) = b.graph.get_partitions()
    assert partition.is_supported() == (dtype in og.devices()["cpu"][0].data_types)


@on_sycl
def test_indices_are_oneDNNs():
    dpctl = pytest.importorskip("dpctl")
    listed = [d for d in og.devices() if d.index is not None]
    assert listed
    for d in listed:
        theirs = sycl_interop.get_device(og.engine(d.kind, d.index))
        assert theirs in dpctl.get_devices()
        assert (d.name, d.driver) == (theirs.name.strip(), theirs.driver_version)
        assert ("fp64" in d.aspects) == theirs.has_aspect_fp64


@pytest.mark.parametrize("half", [True, False])
def test_a_gpus_data_types_are_those_its_driver_tells(half):
    # What dpctl and pyopencl have in their devices; no GPU was ever at hand.
    sycl = SimpleNamespace(
        device_type=SimpleNamespace(name="gpu"),
        backend=SimpleNamespace(name="level_zero"),
        name="A GPU ",
        vendor="Intel(R) Corporation",
        driver_version="1.6",
        global_mem_size=2**34,
        has_aspect_fp16=half,
        has_aspect_fp64=False,
    )
    opencl = SimpleNamespace(
        name="A GPU ",
        vendor="Intel(R) Corporation",
        driver_version="1.6",
        global_mem_size=2**34,
        extensions="cl_khr_fp16 cl_khr_fp16x " if half else "cl_khr_fp16x ",
    )
    for made in (facts.from_dpctl(sycl, 1), facts.from_pyopencl(opencl, 1)):
        assert (made.label, made.name, made.memory_bytes) == ("gpu 1", "A GPU", 2**34)
        assert ("f16" in made.data_types) == half
        assert "bf16" not in made.data_types
        assert made.aspects == (("fp16",) if half else ())


def test_everything_listed_is_printed_and_written():
    found = device.Devices(
        [
            device.Device(
                "gpu", 0, "SYCL", "A <GPU>", "level_zero", "Intel", "1.2", 2**34, ("f32",)
            ),
            device.Device("gpu", 1, "SYCL", "B", engine=False, reason="too old"),
        ],
        [device.Missing("cpu", "no driver", "install & try")],
        {**WITH_GPU_RUNTIME, "cpu_runtime": "SYCL"},
        ["a note"],
    )
    assert str(found).splitlines() == [
        "oneDNN 3.13.2, runtimes: cpu SYCL, gpu SYCL",
        "gpu 0: A <GPU>",
        "  SYCL through level_zero, Intel, driver 1.2, 16.0 GiB",
        "  data types: f32",
        "gpu 1: B",
        "  SYCL",
        "  no engine: too old",
        "no cpu: no driver",
        "  to do: install & try",
        "note: a note",
    ]
    data = found.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["devices"][0]["memory_bytes"] == 2**34
    assert data["missing"] == [{"what": "cpu", "reason": "no driver", "remedy": "install & try"}]
    assert repr(found) == "<Devices: gpu 0; 1 missing>"
    assert (found[0], found["gpu"], found["cpu"]) == (found["gpu"][0], tuple(found), ())


def test_the_command_lists_devices(capsys):
    assert cli.main(["devices"]) == 0
    assert capsys.readouterr().out == f"{og.devices()}\n"
    assert cli.main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == og.devices().to_dict()


# -- a look that fails


@on_sycl
def test_a_driver_that_ends_the_process_ends_another_one(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert compiler, "a C compiler is needed, as it was to build the extension"
    source, library = tmp_path / "crash.c", tmp_path / "libcrash.so"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    show = "import onednn_graph_py as og\nfor m in og.devices().missing: print(m)"
    lines = program(show, OCL_ICD_FILENAMES=str(library))
    assert "counting cpu engines of SYCL: the process was ended by SIGABRT" in lines[0]
    assert lines[1] == f"  to do: try without these settings: OCL_ICD_FILENAMES={library}"


@on_sycl
def test_a_selector_that_nobody_understands_is_told():
    show = """
import onednn_graph_py as og
print(og.devices().missing[0])
b = og.GraphBuilder()
b.output(b.input((2, 2)).relu())
try:
    b.compile()
except og.NoDeviceError as e:
    print(e)
"""
    lines = program(show, ONEAPI_DEVICE_SELECTOR="nonsense")
    assert "no cpu: counting cpu engines of SYCL: Incomplete selector!" in lines[0]
    assert lines[1] == "  to do: try without these settings: ONEAPI_DEVICE_SELECTOR=nonsense"
    assert "Incomplete selector" in lines[2]


@on_sycl
@pytest.mark.parametrize(
    ("settings", "reason", "remedy"),
    [
        ({"OCL_ICD_FILENAMES": ""}, "OCL_ICD_FILENAMES was set to ''", "unset OCL_ICD_FILENAMES"),
        (
            {"OCL_ICD_FILENAMES": "/nowhere/libintelocl.so"},
            "OCL_ICD_FILENAMES names /nowhere/libintelocl.so, which does not exist",
            "unset OCL_ICD_FILENAMES",
        ),
        (
            {"ONEAPI_DEVICE_SELECTOR": "level_zero:*"},
            "ONEAPI_DEVICE_SELECTOR is 'level_zero:*'",
            "unset ONEAPI_DEVICE_SELECTOR",
        ),
    ],
)
def test_why_there_is_no_cpu(settings, reason, remedy):
    show = "import onednn_graph_py as og\nprint(og.devices().missing[0])"
    first, second = program(show, **settings)
    assert first.startswith("no cpu: ")
    assert reason in first
    assert second.startswith(f"  to do: {remedy}")


def test_a_driver_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(drivers, "installed", lambda: None)
    monkeypatch.setattr(drivers, "registered", lambda: [])
    monkeypatch.delenv(reasons.SELECTOR, raising=False)
    why = reasons.no_cpu("SYCL", [])
    assert "OpenCL, which knows no driver" in why.reason
    assert why.remedy == "pip install intel-opencl-rt, in this environment"


def looked(monkeypatch, last):
    """A look that finds a CPU, and then gets an answer from the process that counts GPUs."""
    cpu = device.Device("cpu", 0, "SYCL", "", data_types=("f32",))
    answers = iter([("returned", (1, "")), ("returned", cpu), last])
    with monkeypatch.context() as patch:
        patch.setattr(look.Isolated, "call", lambda *given, **options: next(answers))
        return look.looked({"cpu": "SYCL", "gpu": "SYCL"})


DIED = ("ended", -11)


def test_what_came_before_a_crash_is_kept(monkeypatch):
    seen = looked(monkeypatch, DIED)
    assert [(d.kind, d.data_types) for d in seen.devices] == [("cpu", ("f32",))]
    (failure,) = seen.failures
    assert failure.kind == ""
    assert failure.text == "counting gpu engines of SYCL: the process was ended by SIGSEGV"


@on_sycl
def test_what_ended_the_look_is_not_done_here(monkeypatch):
    seen = looked(monkeypatch, DIED)
    monkeypatch.setattr(find, "seen", lambda: seen)
    monkeypatch.setattr(find, "_count", lambda _: pytest.fail("looked in this process"))
    (cpu,) = og.devices()["cpu"]
    assert not cpu.engine
    assert "ended by SIGSEGV" in cpu.reason


def test_a_driver_that_hangs_is_given_up(monkeypatch):
    seen = looked(monkeypatch, ("hang", None))
    assert [d.kind for d in seen.devices] == ["cpu"]
    assert (
        seen.failures[0].text == "counting gpu engines of SYCL: the process took longer than 60 s"
    )


@on_sycl
def test_without_dpctl_the_cpu_is_named_all_the_same(tmp_path):
    (tmp_path / "dpctl.py").write_text("raise ModuleNotFoundError('hidden', name='dpctl')\n")
    show = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import onednn_graph_py as og\nfound = og.devices()\n"
        "print(found['cpu'][0].name, found['cpu'][0].memory_bytes)\n"
        "print([m.remedy for m in found.missing if m.what == 'dpctl'])"
    )
    name, remedies = program(show)
    assert name.startswith(processor())
    assert int(name.rpartition(" ")[2]) > 2**28
    assert remedies == "[\"pip install '.[sycl]' in a clone of onednn_graph_py\"]"


# -- why there is no GPU


def test_a_build_without_a_gpu_runtime_says_so_first():
    why = reasons.no_gpu({**WITH_GPU_RUNTIME, "gpu_runtime": "none"}, [])
    assert why.reason == "oneDNN 3.13.2 was built without a GPU runtime"
    assert "ONEDNN_ROOT" in why.remedy


@pytest.mark.parametrize("runtime", ["SYCL", "OpenCL"])
def test_what_a_gpu_needs_is_told_where_there_is_none(runtime, monkeypatch):
    monkeypatch.delenv(reasons.SELECTOR, raising=False)
    linked = {**WITH_GPU_RUNTIME, "gpu_runtime": runtime}
    why = reasons.no_gpu(linked, [look.Failure("cpu", "it broke")])
    assert why.reason == f"{runtime} shows no GPU"
    assert "libze-intel-gpu1" in why.remedy and "/dev/dri/renderD*" in why.remedy
    assert reasons.no_gpu(linked, [look.Failure("gpu", "it broke")]).reason == "it broke"
    monkeypatch.setenv(reasons.SELECTOR, "opencl:cpu")
    assert reasons.no_gpu(linked, []).remedy == f"unset {reasons.SELECTOR}"


# -- graphs for a GPU, where there is none


def for_gpu(rows: int = 8) -> og.GraphBuilder:
    b = og.GraphBuilder("gpu")
    x = b.input((rows, 16), name="x")
    b.output(x.matmul(np.ones((16, 4), np.float32)).relu())
    return b


def test_a_graph_for_a_gpu_is_built_checked_partitioned_and_drawn(tmp_path):
    b = for_gpu()
    with pytest.raises(og.InvalidShapeError):
        b.inputs[0].matmul(np.ones((5, 5), np.float32))
    (partition,) = b.graph.get_partitions()
    assert partition.is_supported()
    assert partition.get_engine_kind().name == "gpu"
    assert "partition 1" in b.diagram().mermaid()
    b.save(tmp_path / "g.json")
    again = og.load(tmp_path / "g.json")
    assert again.engine_kind.name == "gpu"
    assert len(again.graph.get_partitions()) == 1


@without_gpu
@pytest.mark.parametrize("rows", [8, -1])
@pytest.mark.parametrize("options", [{}, {"fallback": "reference"}, {"policy": "debug"}])
def test_compiling_for_a_gpu_says_what_there_is_before_anything_else(rows, options, monkeypatch):
    monkeypatch.setattr(
        "onednn_graph_py.model.running.model.make_plan", lambda *_, **__: pytest.fail("planned")
    )
    with pytest.raises(og.NoDeviceError) as error:
        for_gpu(rows).compile(**options)
    text = str(error.value)
    why = next(m for m in og.devices().missing if m.what == "gpu")
    cpu = og.devices()["cpu"][0]
    assert text.startswith("engine kind gpu: no device to compile for and run on: ")
    assert why.reason in text
    assert why.remedy in text
    assert f"cpu 0: {cpu.name} ({LINKED['cpu_runtime']})" in text
    # The mirror's type for the same fault.
    assert isinstance(error.value, og.InvalidArgumentsError)
    with pytest.raises(og.InvalidArgumentsError, match="no engines of this kind"):
        og.engine("gpu", 0)


@without_gpu
def test_a_file_for_a_gpu_is_partitioned_and_then_unsupported(tmp_path, capsys):
    for_gpu().save(tmp_path / "g.json")
    assert cli.main(["replay", str(tmp_path / "g.json"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "unsupported"
    assert (result["partitions"], result["supported"]) == (1, 1)
    assert "engine kind gpu: no device" in result["reason"]
    assert cli.main(["replay", str(tmp_path / "g.json"), "--partition-only"]) == 0
    assert "partitioned" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_what_this_cpu_lacks_is_no_reason_on_a_gpu(kind):
    b = og.GraphBuilder(kind)
    b.output(b.input((8, 8), "f16").relu())
    (op,) = og.serialization.from_builder(b).graph
    on_this_cpu = "f16" not in og.devices()["cpu"][0].data_types
    assert ("hardware" in why_unsupported(op, kind)) == (kind == "cpu" and on_this_cpu)
