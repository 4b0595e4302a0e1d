"""A program that starts each kind of helper process in a folder that becomes hostile before.

It runs in that folder. The files appear only once the caller has imported what it needs itself:
what that would import from there is Python's affair.
"""

import os
import sys

sys.path.append(os.environ["PACKAGE_IN"])
if "FROZEN" in os.environ:
    sys.path[:] = [os.getcwd(), *filter(None, sys.path)]

import onednn_graph_py as og
from onednn_graph_py.base import processes
from onednn_graph_py.machine.hardware import look
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.comparing.compare import WorkerProcess
from onednn_graph_py.tools.explaining import explain

NAMES = (
    "signal", "struct", "selectors", "importlib", "linecache", "numpy", "random", "pyopencl",
    "dpctl", "bz2", "sitecustomize",
)  # fmt: skip

b = og.GraphBuilder()
x = b.input((4, 4), "f32")
b.output((x @ x).relu())
with open("graph.json", "w") as graph:
    graph.write(b.to_json())
explain(b, seconds=0, what_if=False)  # imports what it needs
for name in NAMES:
    with open(f"{name}.py", "w") as file:
        file.write(
            "import os, sys\n"
            f"with open({os.path.abspath('ran')!r}, 'a') as ran:\n"
            f"    ran.write(f'{name} {{sys.argv}} {{os.getppid()}}\\n')\n"
        )

# Replay, verdicts, kernels, refusals, devices, forks, comparing.
assert cli.main(["replay", "graph.json"]) == 0
assert b.compile(check="verify")
print(explain(b, seconds=0, what_if=False))
try:
    og.graph("cpu").add_op(
        og.op(1, "ReLU", [og.logical_tensor(0, "f32", (2,), "strided")], [], "x")
    )
except og.OneDNNError as e:
    reason = e.reason()
    assert reason
    assert "not known" not in reason, reason
assert not look.seen().failures
with processes.Isolated() as forks:
    assert forks.call(os.getcwd, timeout=120) == ("returned", os.getcwd())
worker = WorkerProcess()
worker.answer()
worker.stop()
print("all have run")
