"""Turn JSON values into a `GraphDocument`; each error names its place in the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .._core import MAX_NDIMS, UNKNOWN_DIM
from ..base.errors import GraphFormatError
from ..base.text.names import did_you_mean, printable
from ..ops.terms import AttributeType, AttributeValue
from .document import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from .links import check_links
from .read import JSONObject, JSONSource, LongNumber, file_of, values_of

_LARGEST_ID = 2**64 - 1
_LARGEST_F32 = float.fromhex("0x1.fffffep127")

_T = TypeVar("_T")


def parse(source: JSONSource) -> GraphDocument:
    """Read a graph from JSON, as oneDNN dumps it.

    Parameters
    ----------
    source : path, str, bytes or dict
        A file; JSON text (a str that begins with ``{``, or bytes); or a dict of the JSON values.
        It need not be trusted: anything but a graph raises, sizes that it states allocate
        nothing, and files larger than ``read.MAX_BYTES`` are rejected.

    Raises
    ------
    GraphFormatError
        The JSON is not a graph; the message names the place, such as
        ``graph[3].inputs[0].shape[1]``.
    OSError
        The file can't be opened.
    TypeError
        `source` is of another type.

    Examples
    --------
    >>> parse('{"version": "3.7.2", "engine_kind": "cpu", "graph": 7}')
    Traceback (most recent call last):
    onednn_graph_py.GraphFormatError: graph: expected a list, got 7
    """
    try:
        return _document(values_of(source))
    except GraphFormatError as e:
        path = file_of(source)
        if path is None:
            raise
        raise GraphFormatError(f"{path}: {e}") from None


def _shown(value: Any) -> str:
    """Return a short text for any value, for messages."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, LongNumber):
        return value if len(value) <= 24 else f"{value[:20]}... ({len(value)} characters)"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "..."
        return printable(json.dumps(shown, ensure_ascii=False))
    if value is None or isinstance(value, (bool, float)):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) < 1 << 80:
        return str(value)
    return "a long int" if isinstance(value, int) else f"{type(value).__name__} (not a JSON value)"


def _refuse(place: str, expected: str, value: Any) -> GraphFormatError:
    return GraphFormatError(f"{place}: expected {expected}, got {_shown(value)}")


def _integer(value: Any, place: str, low: int, high: int) -> int:
    if isinstance(value, LongNumber) and not set(value) & set(".eE"):
        raise _refuse(place, f"an integer from {low} to {high}", value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse(place, "an integer", value)
    if not low <= value <= high:
        raise _refuse(place, f"an integer from {low} to {high}", value)
    return int(value)


def _id(value: Any, place: str) -> int:
    return _integer(value, place, 0, _LARGEST_ID)


def _s64(value: Any, place: str) -> int:
    return _integer(value, place, -(2**63), 2**63 - 1)


def _f32(value: Any, place: str) -> float:
    if not isinstance(value, (int, float, LongNumber)) or isinstance(value, bool) or value != value:
        raise _refuse(place, "a number", value)
    if isinstance(value, float) and math.isinf(value):
        return value
    long = isinstance(value, int) and abs(value) >= 1 << 128
    if long or abs(float(value)) > _LARGEST_F32:
        raise _refuse(place, "a number that fits into f32", value)
    return float(value)


def _bool(value: Any, place: str) -> bool:
    # oneDNN writes 0 and 1.
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise _refuse(place, "0, 1, false or true", value)


def _string(value: Any, place: str) -> str:
    if not isinstance(value, str) or isinstance(value, LongNumber):
        raise _refuse(place, "a string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise GraphFormatError(f"{place}: half of a surrogate pair in the string") from None
    return str(value)


def _choice(choices: Sequence[str], value: Any, place: str) -> str:
    text = _string(value, place)
    if text not in choices:
        raise _refuse(place, f"one of {', '.join(choices)}", value)
    return text


def _flag(value: Any, place: str) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if isinstance(value, bool):
        return value
    raise _refuse(place, '"true" or "false"', value)


def _tuple(value: Any, place: str, entry: Callable[[Any, str], _T]) -> tuple[_T, ...]:
    if not isinstance(value, (list, tuple)):
        raise _refuse(place, "a list", value)
    return tuple(entry(v, f"{place}[{i}]") for i, v in enumerate(value))


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(place, "an object", value)
    if isinstance(value, JSONObject) and value.repeated is not None:
        raise GraphFormatError(f"{place}: the field {_shown(value.repeated)} appears twice")
    return value


def _fields(
    value: Any, place: str, required: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Check that an object has these fields and no others, and return it.

    benchdnn stops reading at a field that it does not know, so writers add none.
    """
    fields = _object(value, place)
    for name in fields:
        if name in required or name in optional:
            continue
        hint = did_you_mean(str(name)[:40], [*required, *optional], _shown)
        raise GraphFormatError(f"{place}: unknown field {_shown(name)}{hint}")
    for name in required:
        if name not in fields:
            raise GraphFormatError(f"{place}: the field {_shown(name)} is missing")
    return fields


def _dim(value: Any, place: str) -> int:
    number = _s64(value, place)
    if number < -1 and number != UNKNOWN_DIM:
        raise _refuse(place, f"an integer from 0 on, or {UNKNOWN_DIM} (unknown)", value)
    return number


def _dims(value: Any, place: str) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)) and len(value) > MAX_NDIMS:
        raise GraphFormatError(f"{place}: expected at most {MAX_NDIMS} dims, got {len(value)}")
    return _tuple(value, place, _dim)


# The names that oneDNN 3.7 to 3.13 writes; the linked oneDNN may not know all of them.
_DTYPES = "undef f16 bf16 f32 s32 s8 u8 boolean f8_e5m2 f8_e4m3 s4 u4 s64"
_dtype = partial(_choice, _DTYPES.split())
_layout = partial(_choice, ("undef", "any", "strided", "opaque"))
_property = partial(_choice, ("undef", "variable", "constant", "host_scalar"))
_engine = partial(_choice, ("any", "cpu", "gpu"))


def _tensor(value: Any, place: str) -> TensorRecord:
    fields = _fields(
        value, place, ("id", "dtype", "shape", "stride", "layout_type", "property_type")
    )
    shape = _dims(fields["shape"], f"{place}.shape")
    stride = _dims(fields["stride"], f"{place}.stride")
    unsaid = (UNKNOWN_DIM,)
    if len(shape) != len(stride) and stride != unsaid and (shape != unsaid or not stride):
        raise GraphFormatError(
            f"{place}.stride: expected {len(shape)} integers as shape has, got {len(stride)}"
        )
    return TensorRecord(
        _id(fields["id"], f"{place}.id"),
        _dtype(fields["dtype"], f"{place}.dtype"),
        shape,
        stride,
        _layout(fields["layout_type"], f"{place}.layout_type"),
        _property(fields["property_type"], f"{place}.property_type"),
    )


_VALUES: dict[AttributeType, Callable[[Any, str], AttributeValue]] = {
    "s64": _s64,
    "f32": _f32,
    "bool": _bool,
    "string": _string,
    "s64[]": lambda value, place: _tuple(value, place, _s64),
    "f32[]": lambda value, place: _tuple(value, place, _f32),
}


def _attribute(value: Any, place: str) -> AttributeRecord:
    fields = _fields(value, place, ("type", "value"))
    for known, read in _VALUES.items():
        if fields["type"] == known:
            return AttributeRecord(known, read(fields["value"], f"{place}.value"))
    raise _refuse(f"{place}.type", f"one of {', '.join(_VALUES)}", fields["type"])


def _op(value: Any, place: str) -> OpRecord:
    fields = _fields(value, place, ("id", "kind", "inputs", "outputs"), ("name", "attrs"))
    attrs = {}
    for name, attribute in _object(fields.get("attrs", {}), f"{place}.attrs").items():
        at = f"{place}.attrs.{_string(name, f'{place}.attrs')[:40]}"
        attrs[str(name)] = _attribute(attribute, at)
    kind = _string(fields["kind"], f"{place}.kind")
    if not kind:
        raise _refuse(f"{place}.kind", "an op kind", kind)
    return OpRecord(
        _id(fields["id"], f"{place}.id"),
        _string(fields.get("name", ""), f"{place}.name"),
        kind,
        attrs,
        _tuple(fields["inputs"], f"{place}.inputs", _tensor),
        _tuple(fields["outputs"], f"{place}.outputs", _tensor),
    )


_OPTIONAL: dict[str, Callable[[Any, str], Any]] = {
    "fpmath_mode": partial(_choice, ("strict", "bf16", "f16", "any", "tf32")),
    "fpmath_mode_apply_to_int": _flag,
    "input_ports": lambda value, place: _tuple(value, place, _id),
    "output_ports": lambda value, place: _tuple(value, place, _id),
}


def _document(value: Any) -> GraphDocument:
    fields = _fields(value, "graph file", ("version", "engine_kind", "graph"), tuple(_OPTIONAL))
    if isinstance(fields["graph"], (list, tuple)) and not fields["graph"]:
        raise GraphFormatError("graph: expected at least one op, got an empty list")
    document = GraphDocument(
        _string(fields["version"], "version"),
        _engine(fields["engine_kind"], "engine_kind"),
        _tuple(fields["graph"], "graph", _op),
        **{name: read(fields[name], name) for name, read in _OPTIONAL.items() if name in fields},
    )
    check_links(document)
    return document
