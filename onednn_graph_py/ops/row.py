"""Rows of the table of ops: `Row` and its parts.

A row describes the op of the oldest supported oneDNN (3.7); its `Change` entries describe
changes in newer versions, and `Row.at` returns the op of one version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeVar, cast

from .terms import OLDEST, AttributeType, AttributeValue, Shape, Version

R = TypeVar("R", bound="Row")

FLOATS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class Port:
    """One input or output of an op.

    Parameters
    ----------
    name : str
        Its name in oneDNN's documentation, such as ``src``.
    type : str
        The type variable; ports that share one have the same data type. ``any`` allows every type.
    optional : bool
        Whether it may be left out, together with all ports that follow it.
    variadic : bool
        Whether it stands for any number of ports from here on.
    """

    name: str
    type: str = "T"
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Attribute:
    """One attribute of an op."""

    name: str
    type: AttributeType
    # In a few words; for lists, what each entry stands for.
    meaning: str
    required: bool = False
    # The value that oneDNN uses if the attribute is not set; None if there is no such value.
    default: AttributeValue | None = None
    # The allowed strings, in the library's spelling; empty if there is no such list.
    allowed: tuple[str, ...] = ()
    # Whether oneDNN silently accepts others.
    unchecked: bool = False
    # The first oneDNN that has it, and what to write with those before.
    since: Version = OLDEST
    before: str = ""
    # A required attribute's value in the op's sample.
    example: AttributeValue | None = None


@dataclass(frozen=True)
class Change:
    """A change that a newer oneDNN made to an op; fields that are None stay as they were."""

    since: Version
    what: str
    inputs: tuple[Port, ...] | None = None
    outputs: tuple[Port, ...] | None = None
    types: Mapping[str, tuple[str, ...]] | None = None
    output_counts: tuple[int, ...] | None = None
    rules: tuple[Callable[..., None], ...] | None = None


# Compared by identity: `at` caches by row, and mappings have no hash.
@dataclass(frozen=True, repr=False, eq=False)
class Row:
    """The data of one op: ports, attributes, data types, and functions that infer and count."""

    kind: str  # oneDNN's name, such as `Convolution`
    summary: str  # its computation, in a sentence
    # A `Call` has a row and so stands above it; `OpSchema` types these functions.
    # takes a `Call`; raises `InvalidShapeError` if the inputs don't fit together, and returns the
    # outputs' shapes as far as they follow
    infer: Callable[..., list[Shape]]
    work: Callable[..., int]  # takes a `Call`; counts its operations (`onednn_graph_py.ops.work`)
    # inputs, outputs: its ports, in order
    inputs: tuple[Port, ...] = (Port("src"),)
    outputs: tuple[Port, ...] = (Port("dst"),)
    # the data types that each type variable may stand for; by default one floating-point type
    types: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"T": FLOATS})
    attributes: tuple[Attribute, ...] = ()
    # oneDNN's checks beyond types and attributes; each takes a `Call`, and raises if it fails
    rules: tuple[Callable[..., None], ...] = ()
    # input_counts, output_counts: the possible numbers of ports, unless all from the required to
    # the full number are
    input_counts: tuple[int, ...] = ()
    output_counts: tuple[int, ...] = ()
    # documented data types, one port after the other, if they are fewer than `types` allows
    combinations: tuple[str, ...] = ()
    # the traits that it shares with other ops (`onednn_graph_py.ops.traits`)
    traits: tuple[str, ...] = ()
    since: Version = OLDEST  # the first oneDNN that has it
    changes: tuple[Change, ...] = field(default=())  # changes in newer versions, oldest first
    # differences of documents and library, and other facts that a user should know
    notes: tuple[str, ...] = ()
    # shapes of a small use of the op, to probe it; (4, 16) for each required input by default
    sample_inputs: tuple[tuple[int, ...], ...] = ()
    # attributes of that use beyond the required ones
    sample_attrs: Mapping[str, AttributeValue] = field(default_factory=dict)

    @cache  # noqa: B019 (rows live as long as the process)
    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of a name, or None."""
        return next((a for a in self.attributes if a.name == name), None)

    def value_of(self, name: str, attrs: Mapping[str, Any]) -> Any:
        """Return an attribute's value: the one that is set, or the default, or None."""
        if name in attrs:
            return attrs[name]
        known = self.attribute(name)
        return None if known is None else known.default

    @property
    def sample(self) -> tuple[tuple[tuple[int, ...], ...], dict[str, AttributeValue]]:
        """Input shapes and attributes of a small use of the op."""
        shapes = self.sample_inputs or ((4, 16),) * sum(not p.optional for p in self.inputs)
        attrs = {a.name: a.example for a in self.attributes if a.example is not None}
        return shapes, {**attrs, **self.sample_attrs}

    def at(self: R, version: Version) -> R:
        """Return the op of a version of oneDNN, the same each time; LookupError if it has none."""
        return cast(R, _at(self, version))

    def counts(self, ports: Literal["inputs", "outputs"]) -> range | tuple[int, ...]:
        """Return the numbers of inputs or outputs that the op may have."""
        listed = self.input_counts if ports == "inputs" else self.output_counts
        if listed:
            return listed
        declared: tuple[Port, ...] = getattr(self, ports)
        return range(sum(not p.optional for p in declared), len(declared) + 1)

    def port(self, ports: Literal["inputs", "outputs"], i: int) -> Port | None:
        """Return the port of the i-th input or output, or None if there are fewer."""
        declared: tuple[Port, ...] = getattr(self, ports)
        if i < len(declared):
            return declared[i]
        return declared[-1] if declared and declared[-1].variadic else None

    @cache  # noqa: B019 (rows live as long as the process)
    def operand_name(self, ports: Literal["inputs", "outputs"], i: int) -> str:
        """Return an operand's name in messages, such as ``input 0 (src)``."""
        port = self.port(ports, i)
        return f"{ports[:-1]} {i}" + (f" ({port.name})" if port else "")


@cache
def _at(row: Row, version: Version) -> Row:
    if version < row.since:
        raise LookupError(
            f"{row.kind} needs oneDNN >= {row.since[0]}.{row.since[1]}, "
            f"this is {version[0]}.{version[1]}"
        )
    made = replace(
        row, attributes=tuple(a for a in row.attributes if a.since <= version), changes=()
    )
    for change in row.changes:
        if change.since > version:
            break
        given = {
            name: value
            for name in ("inputs", "outputs", "types", "output_counts", "rules")
            if (value := getattr(change, name)) is not None
        }
        made = replace(made, **given)
    return made
