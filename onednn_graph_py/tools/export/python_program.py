"""A graph as a Python program, with `GraphBuilder` or the mirror."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from ...base.arguments import need_choice
from ...base.dtypes import numpy_dtype
from ...model.building.builder import GraphBuilder
from .program import ExportedOp, ExportedTensor, Program, program_of

Style = Literal["builder", "mirror"]

_FILLING = "from onednn_graph_py.model.checking.filling import Fill, filled"

_PRINT = '''

def show(name, values):
    """Print what another program can be compared by."""
    flat = np.asarray(values).astype(np.float64).ravel()
    weights = np.arange(flat.size) % 7 + 1
    in_order = [np.add.accumulate(x)[-1:].sum() for x in (flat, abs(flat), weights * flat)]
    first = " ".join(f"{x:.9g}" for x in flat[:4])
    print("{}: sum {:.10g}, magnitude {:.10g}, weighted {:.10g}, first {}".format(
        name, *in_order, first))

'''

_RUN = """
engine = og.engine({kind!r}, 0)
stream = og.stream(engine)
waiting = g.get_partitions()
print(f"partitions: {{len(waiting)}}")
while waiting:
    # Partitions come in any order: each runs when what it reads is there.
    part = next(p for p in waiting if all(t.get_id() in tensors for t in p.get_input_ports()))
    waiting.remove(part)
    if not part.get_output_ports():
        continue  # End
    if not part.is_supported():
        sys.exit(f"oneDNN does not support {{part}}")
    ids = dict.fromkeys(t.get_id() for t in part.get_input_ports())
    inputs = [lts[i] for i in ids]
    outputs = [lts[t.get_id()] for t in part.get_output_ports()]
    compiled = part.compile(inputs, outputs, engine)
    tensors.update((lt.get_id(), og.tensor(lt, engine)) for lt in outputs)
    compiled.execute(
        stream, [tensors[lt.get_id()] for lt in inputs], [tensors[lt.get_id()] for lt in outputs]
    )
    stream.wait()
"""


def _values(t: ExportedTensor, seed: int) -> str:
    """Return an expression for the array of a tensor that no op makes."""
    if t.data is not None:
        if t.dtype in ("s4", "u4"):
            return f"np.array({t.data.ravel().tolist()}, np.uint8)"
        flat = t.data.ravel()
        if flat.dtype.kind == "V" or flat.dtype not in (np.float32, np.int64, np.int32):
            words = flat.view(np.uint8).tolist()
            return f"np.array({words}, np.uint8).view({_numpy(t)}).reshape({t.shape})"
        listed = ", ".join(_literal(x) for x in flat.tolist())
        return f"np.array([{listed}], {_numpy(t)}).reshape({t.shape})"
    assert t.fill is not None
    f = t.fill
    return (
        f'filled(Fill("{f.kind}", {f.low!r}, {f.high!r}), {t.shape}, "{t.dtype}", '
        f"seed={seed}, number={t.number})"
    )


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _numpy(t: ExportedTensor) -> str:
    dtype = np.dtype(numpy_dtype(t.dtype))
    module = "np" if dtype.kind != "V" and hasattr(np, dtype.name) else "ml_dtypes"
    return f"{module}.{dtype.name}"


def _attributes(o: ExportedOp) -> list[tuple[str, str]]:
    lines = []
    for name, type, value in o.attrs:
        if type == "f32[]":
            value = tuple(map(float, value))  # type: ignore[arg-type]
        elif type == "f32":
            value = float(value)  # type: ignore[arg-type]
        lines.append((name, _literal(value)))
    return lines


def _finished(program: Program, lines: list[str]) -> str:
    """Put what lines need before them."""
    text = "\n".join(lines)
    imports = ["import sys", ""] if "sys." in text else []
    imports += ["import ml_dtypes"] if "ml_dtypes." in text else []
    imports += ["import numpy as np", "", "import onednn_graph_py as og"]
    imports += [_FILLING] if "filled(" in text else []
    about = f'"""A oneDNN graph, exported by onednn_graph_py: {len(program.ops)} ops."""'
    return "\n".join([about, "", *imports, _PRINT, text]) + "\n"


def _comment(t: ExportedTensor) -> str:
    return f"  # {t.comment}" if t.comment else ""


def _mirror(program: Program) -> str:
    lines = []
    for t in program.tensors:
        layout = repr(list(t.strides)) if t.strides is not None else '"strided"'
        constant = ', "constant"' if t.constant else ""
        lines.append(
            f'{t.name} = og.logical_tensor({t.number}, "{t.dtype}", {list(t.shape)}, {layout}'
            f"{constant})"
        )
    lines += ["", f'g = og.graph("{program.engine_kind}")']
    if program.fpmath_mode != "strict" or program.apply_to_int:
        lines.append(f'g.set_fpmath_mode("{program.fpmath_mode}", {program.apply_to_int})')
    by_number = {t.number: t.name for t in program.tensors}
    for o in program.ops:
        inputs, outputs = (
            f"[{', '.join(by_number[i] for i in ids)}]" for ids in (o.inputs, o.outputs)
        )
        lines.append(
            f"op{o.number} = og.op({o.number}, {o.kind!r}, {inputs}, {outputs}, {o.name!r})"
        )
        lines += [f"op{o.number}.set_attr({n!r}, {v})" for n, v in _attributes(o)]
        lines.append(f"g.add_op(op{o.number})")
    lines += ["g.finalize()", ""]
    lines.append(f"lts = {{t.get_id(): t for t in ({', '.join(by_number.values())},)}}")
    lines.append("arrays = {")
    for t in program.given:
        values = _values(t, program.seed)
        if t.dtype in ("s4", "u4") and t.data is None:
            values = f'og.dtypes.pack_int4({values}, "{t.dtype}")'
        elif t.strides is not None:
            values = f"in_layout({values}, {t.name})"
        lines.append(f"    {t.number}: {values},{_comment(t)}")
    lines.append("}")
    run = _RUN.format(kind=program.engine_kind)
    tensors = "tensors = {i: og.tensor(lts[i], engine, a) for i, a in arrays.items()}\n"
    lines.append(run.replace("waiting = g", f"{tensors}waiting = g", 1))
    lines += [f"show({name!r}, tensors[{number}].numpy())" for name, number in program.outputs]
    if any("in_layout(" in line for line in lines):
        lines = [_IN_LAYOUT, *lines]
    return _finished(program, lines)


_IN_LAYOUT = '''
def in_layout(values, lt):
    """A copy with the strides of a logical tensor."""
    strides = lt.get_strides()
    extent = 1 + sum((n - 1) * s for n, s in zip(values.shape, strides))
    steps = [s * values.itemsize for s in strides]
    made = np.ndarray(values.shape, values.dtype, np.zeros(extent, values.dtype), strides=steps)
    made[...] = values
    return made

'''


def _builder(program: Program) -> str:
    options = []
    if program.engine_kind != "cpu":
        options.append(repr(program.engine_kind))
    if program.fpmath_mode != "strict":
        options.append(f"fpmath_mode={program.fpmath_mode!r}")
    if program.apply_to_int:
        options.append("apply_to_int=True")
    lines = [f"b = og.GraphBuilder({', '.join(options)})"]
    by_number = {t.number: t for t in program.tensors}
    inputs = []
    for t in program.given:
        if t.constant:
            values = _values(t, program.seed)
            if t.dtype in ("s4", "u4") and t.data is not None:
                values = f'og.dtypes.unpack_int4({values}, {t.shape}, "{t.dtype}")'
            lines.append(f'{t.name} = b.constant({values}, "{t.dtype}"){_comment(t)}')
            continue
        strides = f", strides={t.strides}" if t.strides is not None else ""
        lines.append(f'{t.name} = b.input({t.shape}, "{t.dtype}", name="{t.name}"{strides})')
        inputs.append(t)
    for o in program.ops:
        if o.kind == "End":
            continue
        results = [by_number[i] for i in o.outputs]
        arguments = [by_number[i].name for i in o.inputs]
        arguments += [f"{n}={v}" for n, v in _attributes(o)]
        specs = ", ".join(f'({t.shape}, "{t.dtype}")' for t in results)
        arguments.append(f"outputs=[{specs}]")
        target = ", ".join(t.name for t in results)
        lines.append(f"{target} = b.op({o.kind!r}, {', '.join(arguments)})")
    named = ", ".join(f"{name!r}: {by_number[i].name}" for name, i in program.outputs)
    lines += [f"b.output(**{{{named}}})", "", "model = b.compile()"]
    lines.append('print(f"partitions: {len(b.graph.get_partitions())}")')
    lines.append("made = model(")
    lines += [f"    {_values(t, program.seed)}," for t in inputs]
    lines.append(")")
    several = len(program.outputs) > 1
    lines.append(f"for name, values in zip(b.outputs, {'made' if several else '[made]'}):")
    lines.append("    show(name, values)")
    return _finished(program, lines)


def to_python(
    builder: GraphBuilder,
    style: Style = "builder",
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> str:
    """Write a graph as a complete Python program.

    It fills inputs and prints lines as the program of `to_cpp` does. Constants of up to 64 KiB are
    written out; larger ones are filled like inputs.

    Parameters
    ----------
    builder : GraphBuilder
    style : str
        ``builder`` uses `GraphBuilder`, ``mirror`` the classes of ``dnnl::graph``, as C++ does.
    seed : int
        Seed for generated inputs.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs with unknown dims, by name.

    Raises
    ------
    InvalidArgumentsError
        There is no such style.
    InvalidGraphError
        The graph has no output that an op makes.
    InvalidShapeError
        Dims of an input are unknown.
    """
    need_choice("style", style, get_args(Style))
    program = program_of(builder, seed=seed, shapes=shapes)
    return _mirror(program) if style == "mirror" else _builder(program)
