"""Rewriting by benchdnn's command-line options: ``--in-shapes=0:8x3*ba --dt=bf16``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchdnn_rewrite import attribute_type, rewrite

from onednn_graph_py.base.errors import InvalidArgumentsError, OneDNNError
from onednn_graph_py.base.text.names import did_you_mean
from onednn_graph_py.ops.terms import AttributeType, AttributeValue
from onednn_graph_py.serialization.document import GraphDocument


@dataclass(frozen=True)
class Rewriting:
    """A way to rewrite a graph."""

    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # layouts of the inputs, by tensor id: the order of dims, or strides
    tags: Mapping[int, str | tuple[int, ...]] = field(default_factory=dict)
    # by op id, as text, since only the graph determines their types
    attrs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    dtypes: str | Mapping[int, str] | None = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    properties: Mapping[int, str] = field(default_factory=dict)
    mb: int | None = None
    fpmath_mode: str | None = None
    apply_to_int: bool | None = None
    engine_kind: str = "cpu"  # it replaces the file's, as in benchdnn
    expected_partitions: int | None = None  # the number of partitions that oneDNN should make
    words: tuple[str, ...] = ()  # the options as they were given

    def __str__(self) -> str:
        return " ".join(self.words)

    def apply(self, document: GraphDocument) -> GraphDocument:
        """Return the graph, rewritten as benchdnn does; see `rewrite`.

        Shapes of tensors that no op reads are ignored: oneDNN's lists of cases have some.

        - raises `OneDNNError`: as in `rewrite`, or an attribute's text does not fit its type
        """
        ops = {op.id: op for op in document.graph}
        read = {t.id for op in document.graph for t in op.inputs}
        attrs: dict[int, dict[str, Any]] = {}
        for id, given in self.attrs.items():
            op = ops.get(id)
            if op is not None and id in self.kinds:
                op = replace(op, kind=self.kinds[id])
            attrs[id] = {}
            for name, text in given.items():
                try:
                    value = text if op is None else _value(text, attribute_type(op, name))
                except OneDNNError as e:
                    raise InvalidArgumentsError(f"op {id}: attribute {name}: {e}") from None
                attrs[id][name] = value
        return rewrite(
            document,
            shapes={id: shape for id, shape in self.shapes.items() if id in read},
            strides={id: tag for id, tag in self.tags.items() if id in read},
            dtypes=self.dtypes,
            attrs=attrs,
            kinds=self.kinds,
            properties=self.properties,
            mb=self.mb,
            fpmath_mode=self.fpmath_mode,
            apply_to_int=self.apply_to_int,
            engine_kind=self.engine_kind,
            infer_all=True,
        )


def _value(text: str, type: AttributeType) -> AttributeValue:
    """Parse an attribute's value, such as ``3``, ``2x2`` or ``SAME_UPPER``."""
    if type == "string":
        return text
    if type == "bool":
        known = {"0": False, "false": False, "1": True, "true": True}
        if text.lower() not in known:
            raise InvalidArgumentsError(f"expected 0, 1, false or true, got {text!r}")
        return known[text.lower()]
    number = int if type.startswith("s64") else float
    words = text.split("x") if type.endswith("[]") else [text]
    if any(len(w) > 4 * _LONGEST for w in words):
        raise InvalidArgumentsError(f"expected numbers of at most {4 * _LONGEST} characters")
    try:
        made = tuple(number(w) for w in words)
    except ValueError:
        wanted = "integers" if number is int else "numbers"
        raise InvalidArgumentsError(f"expected {wanted} such as 2x2, got {text!r}") from None
    return made if type.endswith("[]") else made[0]


# -- from text

MAX_REWRITINGS = 10_000  # the largest number of combinations of options' values
_LONGEST = 19  # digits of a 64-bit integer


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgumentsError(f"{what}: expected an integer from 0 on, got {text!r}")
    if len(text) > _LONGEST:
        raise InvalidArgumentsError(f"{what}: expected a 64-bit integer, got {len(text)} digits")
    return int(text)


def _pairs(text: str, what: str) -> dict[int, str]:
    """Parse pairs such as ``0:a+3:b``."""
    made: dict[int, str] = {}
    for pair in filter(None, text.split("+")):
        id, colon, value = pair.partition(":")
        if not colon or not value:
            raise InvalidArgumentsError(f"{what}: expected ID:VALUE, got {pair!r}")
        # benchdnn reads only the digits that a number begins with, and one of oneDNN's own lists
        # of cases has ``2*abc:``.
        digits = re.match(r"\d+", id, re.ASCII)
        number = _whole(digits[0] if digits else id, what)
        if number in made:
            raise InvalidArgumentsError(f"{what}: {number} appears twice")
        made[number] = value
    return made


def _shapes(text: str, what: str) -> dict[str, Any]:
    shapes: dict[int, tuple[int, ...]] = {}
    tags: dict[int, str | tuple[int, ...]] = {}
    for id, value in _pairs(text, what).items():
        dims, star, layout = value.partition("*")
        if not star and value.isalpha():
            dims, layout = "", value
        elif star and not layout:
            raise InvalidArgumentsError(
                f"{what}: expected SHAPE, *STRIDES or SHAPE*STRIDES, such as 2x3*ba or *1x2, got "
                f"{value!r}"
            )

        def numbers(text: str, id: int = id) -> tuple[int, ...]:
            return tuple(_whole(d, f"{what}: tensor {id}") for d in text.split("x"))

        if dims == "-":
            shapes[id] = ()
        elif dims:
            shapes[id] = numbers(dims)
        if layout:
            tags[id] = layout if layout.isalpha() else numbers(layout)
    return {"shapes": shapes, "tags": tags}


def _attrs(text: str, what: str) -> dict[str, Any]:
    made: dict[int, dict[str, str]] = {}
    for id, values in _pairs(text, what).items():
        made[id] = {}
        for pair in values.split("*"):
            name, colon, value = pair.partition(":")
            if not colon or not name or not value:
                raise InvalidArgumentsError(
                    f"{what}: op {id}: expected NAME:VALUE, such as strides:2x2, got {pair!r}"
                )
            made[id][name] = value
    return {"attrs": made}


def _dtypes(text: str, what: str) -> dict[str, Any]:
    if ":" in text:
        return {"dtypes": _pairs(text, what)}
    return {"dtypes": None if text == "undef" else text}


def _named(field: str) -> Callable[[str, str], dict[str, Any]]:
    return lambda text, what: {field: _pairs(text, what)}


def _mb(text: str, what: str) -> dict[str, Any]:
    return {"mb": _whole(text, what) or None}


def _fpmath(text: str, what: str) -> dict[str, Any]:
    mode, colon, integers = text.partition(":")
    if colon and integers not in ("true", "false"):
        raise InvalidArgumentsError(f"{what}: expected MODE[:true|false], got {text!r}")
    return {"fpmath_mode": mode, "apply_to_int": integers == "true"}


def _engine(text: str, what: str) -> dict[str, Any]:
    if text not in ("cpu", "gpu"):
        raise InvalidArgumentsError(f"{what}: expected cpu or gpu, got {text!r}")
    return {"engine_kind": text}


def _expected(text: str, what: str) -> dict[str, Any]:
    return {"expected_partitions": _whole(text, what) or None}


_OPTIONS: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "in-shapes": _shapes,
    "op-attrs": _attrs,
    "op-kind": _named("kinds"),
    "property": _named("properties"),
    "tensor-property": _named("properties"),
    "dt": _dtypes,
    "mb": _mb,
    "attr-fpmath": _fpmath,
    "engine": _engine,
    "expected-n-partitions": _expected,
}
# benchdnn's own order, which goes through many before the next one changes.
_ORDER = tuple(_OPTIONS)


def parse_rewritings(words: Iterable[str]) -> list[Rewriting]:
    """Return all combinations of the options' values; an option may list several, with commas.

    - `words`: benchdnn's options, ``--in-shapes``, ``--op-attrs``, ``--op-kind``, ``--dt``,
      ``--mb``, ``--attr-fpmath``, ``--engine``, ``--expected-n-partitions``, and
      ``--tensor-property=ID:PROPERTY+...`` (or ``--property``). The last one counts if an option is
      repeated. An empty value between commas leaves the file unchanged.
    - returns: a single one that changes nothing if there are no options
    - raises `InvalidArgumentsError`: an option is unknown, or its value is invalid; or they make
      too many combinations

    Examples
    --------
    >>> [str(r) for r in parse_rewritings(["--dt=f32,bf16", "--mb=4"])]
    ['--dt=f32 --mb=4', '--dt=bf16 --mb=4']
    """
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        option = name.removeprefix("--")
        if not name.startswith("--") or option not in _OPTIONS:
            hint = did_you_mean(option, _OPTIONS, "--{}".format)
            raise InvalidArgumentsError(f"there is no option {name!r}{hint}")
        if not equals:
            raise InvalidArgumentsError(f"{name}: expected {name}=VALUE")
        given[option] = value
    choices: list[Sequence[tuple[str, dict[str, Any]]]] = []
    for option in sorted(given, key=_ORDER.index):
        what = f"--{option}"
        choices.append(
            [
                (f"{what}={text}", _OPTIONS[option](text, what)) if text else ("", {})
                for text in given[option].split(",")
            ]
        )
    count = math.prod(map(len, choices))
    if count > MAX_REWRITINGS:
        raise InvalidArgumentsError(
            f"these options make {count} combinations, at most {MAX_REWRITINGS} are possible"
        )
    made = []
    for combination in itertools.product(*choices):
        fields = {name: value for _, part in combination for name, value in part.items()}
        words = tuple(word for word, _ in combination if word)
        made.append(Rewriting(**fields, words=words))
    return made
