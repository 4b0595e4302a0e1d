"""Threads follow the CPU quota of control groups, of version 1 and 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onednn_graph_py as og
from onednn_graph_py.base.loading.cpu_quota import cpus

V2 = "0::{}\n"
V1 = "9:name=systemd:/\n4:cpuset:/\n3:cpu,cpuacct:{}\n0::/\n"


@pytest.fixture
def system(tmp_path):
    """Write the system's files that a container shows; return their root."""

    def write(groups, files):
        for path, text in {"proc/self/cgroup": groups, **files}.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return str(tmp_path)

    return write


def v1(folder, quota, period="100000"):
    base = f"sys/fs/cgroup/cpu/{folder}"
    return {f"{base}/cpu.cfs_quota_us": f"{quota}\n", f"{base}/cpu.cfs_period_us": f"{period}\n"}


def v2(folder, text, tree="sys/fs/cgroup"):
    return {f"{tree}/{folder}/cpu.max": f"{text}\n"}


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (V2.format("/"), v2("", "200000 100000"), 2),
        (V2.format("/"), v2("", "150000 100000"), 2),
        (V2.format("/"), v2("", "5000 100000"), 1),
        (V2.format("/"), v2("", "max 100000"), None),
        (V2.format("/a/b"), {**v2("a/b", "max 100000"), **v2("a", "300000 100000")}, 3),
        (V2.format("/a/b"), {**v2("a/b", "400000 50000"), **v2("a", "500000 100000")}, 5),
        (V2.format("/a/b"), {**v2("a/b", "90000 50000"), **v2("a", "500000 100000")}, 2),
        (V2.format("/outside/of/it"), v2("", "700000 100000"), 7),
        (V2.format("/../outside"), v2("", "700000 100000"), 7),
        (V1.format("/"), v1("", "250000"), 3),
        (V1.format("/"), v1("", "-1"), None),
        (V1.format("/docker/3f"), v1("docker/3f", "100000", "25000"), 4),
        (V1.format("/docker/3f"), {**v1("docker", "100000"), **v1("docker/3f", "-1")}, 1),
        (V1.format("/docker/3f"), v1("", "600000"), 6),
        (V1.format("/a") + V2.format("/a"), v2("a", "200000 100000", "sys/fs/cgroup/unified"), 2),
        (V2.format("/"), v2("", "garbage"), None),
        (V2.format("/"), v2("", "100000 0"), None),
        (V2.format("/"), {}, None),
        ("not a line of this file\n", v2("", "200000 100000"), None),
        ("", v2("", "200000 100000"), None),
    ],
)
def test_a_quota_is_read(system, groups, files, expected):
    assert cpus(system(groups, files)) == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path):
    assert cpus(str(tmp_path)) is None


COUNT = """
import sys
from onednn_graph_py import _core, num_threads, set_num_threads
from onednn_graph_py.base.loading.cpu_quota import follow
set_num_threads(5)
follow(_core, sys.argv[1])
print(num_threads())
"""


def counted(code, *arguments, **variables):
    names = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    made = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**names, **variables},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return int(made.stdout)


openmp = pytest.mark.skipif(
    og.version().cpu_runtime != "OpenMP", reason="the linked oneDNN does not run on OpenMP"
)


@openmp
@pytest.mark.parametrize(
    ("quota", "variables", "expected"),
    [
        ("300000 100000", {}, 3),
        ("800000 100000", {}, 5),
        ("max 100000", {}, 5),
        ("300000 100000", {"OMP_NUM_THREADS": "4"}, 5),
    ],
)
def test_models_use_as_many_threads_unless_the_user_said_how_many(
    system, quota, variables, expected
):
    assert counted(COUNT, system(V2.format("/"), v2("", quota)), **variables) == expected


@openmp
def test_the_import_follows_a_real_control_group():
    group = Path(f"/sys/fs/cgroup/cpu/onednn_graph_py_{os.getpid()}")
    enter = f"import os; open('{group}/cgroup.procs', 'w').write(str(os.getpid()))\n"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("100000")
        counted(enter + "print(0)")
    except (OSError, subprocess.CalledProcessError) as e:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no process can be in a control group of its own: {e}")
    try:
        assert counted(enter + "import onednn_graph_py as og; print(og.num_threads())") == 1
    finally:
        group.rmdir()
