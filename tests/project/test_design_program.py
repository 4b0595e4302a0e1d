"""The program from oneDNN's proposal for a Python binding runs with only its import changed."""

from graphs import python

PROGRAM = """\
from onednn_graph_py import *
matmul0 = op(0, op.MatMul, "matmul0")
matmul0.set_attr(op.transpose_a, False)
matmul0.set_attr(op.transpose_b, True)
lt0 = logical_tensor(0, logical_tensor.f32, [64, 1280], logical_tensor.strided, logical_tensor.variable)
lt1 = logical_tensor(1, logical_tensor.f32, [1280, 1280], logical_tensor.strided, logical_tensor.constant)
lt2 = logical_tensor(2, logical_tensor.f32, [64, 1280], logical_tensor.strided, logical_tensor.variable)
matmul0.add_inputs([lt0, lt1])
matmul0.add_output(lt2)
g = graph(engine.cpu)
g.add_op(matmul0, True)
g.finalize()
p = g.get_partitions(partition.fusion)
"""  # noqa: E501 (it is quoted)

RUNS = """
import numpy as np
e = engine(engine.cpu, 0)
s = stream(e)
a, b, c = (np.ones(lt.get_dims(), np.float32) for lt in (lt0, lt1, lt2))
tensors = [tensor(lt, e, x) for lt, x in ((lt0, a), (lt1, b), (lt2, c))]
p[0].compile([lt0, lt1], [lt2], e).execute(s, tensors[:2], tensors[2:])
s.wait()
assert (c == 1280).all()
"""


def test_it_yields_one_supported_partition():
    done = python(PROGRAM + "print(len(p), p[0].is_supported(), p[0].get_ops())")
    assert done.stdout == "1 True [0]\n"
    assert done.stderr == ""


def test_the_partition_computes_what_it_says():
    python(PROGRAM + RUNS)
