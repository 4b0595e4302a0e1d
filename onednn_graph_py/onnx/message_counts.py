"""Limits on the messages and fields of an ONNX file, which are counted before any is made.

protobuf makes objects of all that a file has, however little of it there is in bytes.
"""

import re
from collections import Counter
from functools import cache
from typing import Any

import onnx

from ..base.errors import GraphFormatError

MOST_MESSAGES = {
    "NodeProto": 200_000,
    "GraphProto": 20_000,
    "FunctionProto": 20_000,
    "TensorProto": 200_000,
    "AttributeProto": 1_000_000,
    "ValueInfoProto": 500_000,
}
"""The most messages of a kind in a file; objects of Python are made of each."""

MOST_OTHERS = 2_000_000  # how many it may have of any other kind

MOST_FIELDS = 8_000_000
"""The most fields of all messages of a file; a list of numbers counts as one."""

MOST_NUMBERS = 1 << 26
"""Bytes of all lists of numbers that are attributes; those of tensors are data."""

_MOST_NESTED = 100  # messages inside each other, as in protobuf

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GROUP = (3, 4)  # begin and end
_NUMBERS = {_VARINT: rb"[\x80-\xff]{0,9}[\x00-\x7f]", _FIXED64: rb".{8}", _FIXED32: rb".{4}"}
_SPAN = 4096  # of a list of numbers; regular expressions take memory for each


class _Kind:
    """A kind of message: what lies inside it, and its lists of numbers, by their fields' keys."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inside: dict[int, _Kind] = {}
        self.lists: set[int] = set()


@cache
def _kinds() -> _Kind:
    made: dict[str, _Kind] = {}

    def visit(descriptor: Any) -> _Kind:
        kind = made.get(descriptor.full_name)
        if kind is None:
            kind = made[descriptor.full_name] = _Kind(descriptor.name)
            for field in descriptor.fields:
                key = field.number << 3 | _BYTES
                if field.message_type is not None:
                    kind.inside[key] = visit(field.message_type)
                elif descriptor.name == "AttributeProto":
                    kind.lists |= {key} if field.name in ("ints", "floats") else set()
        return kind

    return visit(onnx.ModelProto.DESCRIPTOR)


@cache
def _run_of(key: int, most: int) -> re.Pattern[bytes]:
    """Return a pattern of numbers with the same key before each; behind it, if `most` is 0."""
    number = _NUMBERS[key & 7]
    again = rb"(?:%s%s){1,%d}" % (re.escape(bytes([key])), number, most)
    return re.compile(again if most else number, re.DOTALL)


def check_counts(content: bytes) -> None:
    """Raise GraphFormatError if a model has too many messages or fields, or is none of protobuf's.

    Only keys and lengths are read; what they lead to is passed over.
    """
    try:
        _count(content)
    except IndexError:
        raise GraphFormatError("it is not an ONNX model, or only a part: it is cut") from None


def _count(content: bytes) -> None:
    counts: Counter[_Kind] = Counter()
    at, end, kind = 0, len(content), _kinds()
    around: list[tuple[int, _Kind]] = []
    left, numbers = MOST_FIELDS, MOST_NUMBERS
    while True:
        while at == end:
            if not around:
                return
            end, kind = around.pop()
        left -= 1
        if left < 0:
            raise GraphFormatError(f"it has more than {MOST_FIELDS:,} fields")
        begin, key = at, content[at]
        at += 1
        if key >= 0x80:
            at, key = _varint(content, begin)
        if key & 7 == _BYTES:
            length = content[at]
            at += 1
            if length >= 0x80:
                at, length = _varint(content, at - 1)
            inner = kind.inside.get(key)
            if inner is None:
                at += length
                numbers -= length if key in kind.lists else 0
            else:
                counts[inner] += 1
                most = MOST_MESSAGES.get(inner.name, MOST_OTHERS)
                if counts[inner] > most:
                    raise GraphFormatError(f"it has more than {most:,} of {inner.name}")
                around.append((end, kind))
                if len(around) > _MOST_NESTED:
                    raise GraphFormatError("it is nested too deep")
                end, kind = at + length, inner
                if end > around[-1][0]:
                    raise IndexError
        elif key & 7 not in _GROUP:  # whose fields count as those of the message around it
            if key & 7 not in _NUMBERS:
                raise GraphFormatError("it is not an ONNX model, or only a part: an unknown field")
            if at == begin + 1:
                found = _run_of(key, _SPAN).match(content, begin, end)
            else:  # of longer keys there are too many for a pattern each
                found = _run_of(key & 7, 0).match(content, at, end)
            if found is None:
                raise IndexError
            at = found.end()
            numbers -= at - begin
        if numbers < 0:
            limit = f"{MOST_NUMBERS >> 20} MiB; if you trust it, load(onnx.load(path))"
            raise GraphFormatError(f"its lists of numbers take more than {limit}")
        if at > end:
            raise IndexError


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return where a number ends, and the number."""
    made = shift = 0
    while content[at] >= 0x80:
        made |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise IndexError
    return at + 1, made | content[at] << shift
