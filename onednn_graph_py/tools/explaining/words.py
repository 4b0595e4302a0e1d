"""The text of an explanation, before it is formatted as plain text or HTML."""

from ...base.text.names import printable
from ...base.text.numbers import bytes_text, seconds_text
from ..inspect.labels import kinds_text, visible
from .facts import Kernel, StepFacts, TensorFacts

HEADER = ("step", "ops", "by", "kernel", "time", "share", "GFLOP/s", "GB/s", "bound by")
"""The header of the table of steps; `cells` returns one row of it."""

NUMBERS = range(4, len(HEADER) - 1)  # the columns of numbers

_BY = {
    "oneDNN": "oneDNN",
    "host": "Python",
    "reference": "NumPy",
    "view": "not run (view)",
    "constant": "once (constant)",
    "unsupported": "NO KERNEL",
}
_LONGEST_OPS = 60


def rate_text(rate: float | None, peak: float | None) -> str:
    """Format a rate in units of 1e9 a second, with its share of the peak.

    Examples
    --------
    >>> rate_text(2.5e11, 5e11), rate_text(2.5e11, None)
    ('250 (50%)', '250')
    """
    if not rate:
        return ""
    shown = f"{rate / 1e9:.3g}" if rate >= 1e7 else "<0.01"
    if not peak:
        return shown
    return f"{shown} ({rate / peak:.0%})" if rate / peak >= 0.005 else f"{shown} (<1%)"


def heading(step: StepFacts) -> str:
    """Return a step's ops with their names."""
    return " + ".join(visible(str(op)) for op in step.ops)


def _main_kernel(step: StepFacts) -> str:
    """Return the kernel that computes most of each call, and the number of others.

    Reorders come last, however long they take: on a busy machine their logged time is mostly
    waiting. If no kernel is logged, return the implementation of the whole partition.
    """
    each = [k for k in step.kernels if k.when == "each call"]
    if not each:
        return step.partition.rpartition(" ")[2]
    most = max(each, key=lambda k: (k.kind != "reorder", k.seconds))
    others = sum(k.count for k in each) - most.count
    times = f" x{most.count}" if most.count > 1 else ""
    return f"{most.kind} {most.implementation}{times}" + (f" + {others} more" if others else "")


def cells(number: int, step: StepFacts) -> tuple[str, ...]:
    """Return a step's row of the table under `HEADER`."""
    ops = kinds_text([op.kind for op in step.ops])
    if len(step.ops) == 1 and step.ops[0].name:
        ops = str(step.ops[0])
    work = step.work
    return (
        str(number),
        visible(ops, _LONGEST_OPS),
        _BY[step.by],
        _main_kernel(step),
        seconds_text(step.seconds) if step.by not in ("view", "constant") else "",
        "" if step.share is None else f"{step.share:.1%}",
        "" if work is None else rate_text(work.operations_per_second, work.peak_operations),
        "" if work is None else rate_text(work.bytes_per_second, work.peak_bytes),
        "" if work is None or work.bound is None or step.by != "oneDNN" else work.bound,
    )


def tensor_line(given: TensorFacts) -> str:
    """Describe a tensor in one line: its role, layout and bytes."""
    name = f"{given.role} {visible(given.name)}" if given.name else given.role
    layout = "" if given.tensor.layout else " row-major"
    size = "" if given.bytes is None else f", {bytes_text(given.bytes)}"
    return f"{name}: {given.tensor}{layout}{size}"


def kernel_line(kernel: Kernel) -> str:
    """Describe a kernel in one line: its implementation, layouts, attributes, shapes and time."""
    times = f" x{kernel.count}" if kernel.count > 1 else ""
    told = [f"{kernel.kind} {kernel.implementation}{times}", " ".join(kernel.memory)]
    told += [" ".join(kernel.attributes)] if kernel.attributes else []
    told += [kernel.problem, f"{seconds_text(kernel.seconds)} {kernel.when}"]
    return ", ".join(t for t in told if t)


def step_lines(step: StepFacts) -> list[tuple[str, str]]:
    """Return all further facts about a step as pairs of a label and a line."""
    made = [("in", tensor_line(t)) for t in step.inputs]
    made += [("out", tensor_line(t)) for t in step.outputs]
    if step.partition:
        made.append(("partition", step.partition))
    made += [("kernel", kernel_line(k)) for k in step.kernels]
    if step.by == "oneDNN" and step.kernels_unknown:
        made.append(("kernels", f"not known: {step.kernels_unknown}"))
    if step.by == "oneDNN" and step.scratch_bytes is not None:
        made.append(("scratch", bytes_text(step.scratch_bytes)))
    work = step.work
    if work is not None and (work.operations or work.bytes):
        text = f"{work.operations / 1e9:.3g} GFLOP, {bytes_text(work.bytes)} moved"
        if work.operations_per_byte is not None:
            text += f", {work.operations_per_byte:.3g} FLOP a byte"
        if work.dtype:
            text += f", products in {work.dtype}"
        made.append(("work", text))
    if step.split:
        made.append(("split", step.split))
    if step.measured:
        made.append(("measured", step.measured))
    places = dict.fromkeys(printable(o.where) for o in step.ops if place_known(o.where))
    return made + ([("made at", ", ".join(places))] if places else [])


def place_known(where: str) -> bool:
    """Whether an op's place is known: neither empty nor a name in angle brackets."""
    return bool(where) and not where.startswith("<")
