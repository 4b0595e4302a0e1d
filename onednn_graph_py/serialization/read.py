"""Read JSON values from an untrusted file or text, in bounded time and memory."""

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

from ..base.errors import GraphFormatError, OneDNNError
from ..base.text.files import Unreadable, open_limited, read_limited

MAX_BYTES = 64 << 20
"""The size of the largest file that is read, in bytes: about 20,000 ops as oneDNN writes them."""

MAX_MARKS = 4_000_000
"""Limit of quotes, commas and opening brackets, which bounds the memory of the values."""

FIRST_LINE = b"onednn_graph_py model 1\n"
"""The line with which every file of a model begins; the number is that of the format."""

JSONSource = str | bytes | bytearray | memoryview | os.PathLike[str] | Mapping[str, Any]
"""A path, JSON text (a str that begins with ``{`` or ``[``, or bytes), or its values."""

_LONGEST_INT = 20  # digits and sign of any 64-bit integer


class JSONObject(dict[str, Any]):
    """A JSON object; `repeated` is the name of a field that it has twice, or None."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: str | None = None
        if len(self) != len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    self.repeated = name
                    break
                seen.add(name)


class LongNumber(str):
    """The digits of a number that neither a 64-bit integer nor a double can hold."""

    __slots__ = ()


def _integer(digits: str) -> int | LongNumber:
    # Python needs quadratic time for long integers.
    return int(digits) if len(digits) <= _LONGEST_INT else LongNumber(digits)


def _float(digits: str) -> float | LongNumber:
    number = float(digits)
    return number if math.isfinite(number) else LongNumber(digits)


def is_model(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as those of models do."""
    try:
        with open_limited(path, 1 << 62) as file:
            return file.read(22) == FIRST_LINE[:22]
    except (OSError, OneDNNError):
        return False


def file_of(source: JSONSource) -> str | None:
    """Return `source` as a string if it is a path, else None."""
    if isinstance(source, os.PathLike):
        return os.fspath(source)
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n")[:1] not in ("{", "["):
        return source
    return None


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise GraphFormatError(f"too large: {size} bytes, at most {MAX_BYTES} are read")


def _text(data: bytes) -> str:
    _check_size(len(data))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise GraphFormatError(f"not UTF-8: byte {e.start} is 0x{data[e.start]:02x}") from None


def _loads(text: str) -> Any:
    # Control characters in names are written as they are, hence strict=False.
    return json.loads(
        text, strict=False, object_pairs_hook=JSONObject, parse_int=_integer, parse_float=_float
    )


def _with_infinities(text: str) -> str:
    """Replace ``inf``, as C++ streams print it, by Python's JSON spelling, but not in strings."""
    inside = False

    def spelt(token: re.Match[str]) -> str:
        nonlocal inside
        if token[0] == '"':
            inside = not inside
        if inside or token[0][0] in '"\\':
            return token[0]
        return token[0].replace("inf", "Infinity").replace("nan", "NaN")

    return re.sub(r'\\.|"|-?\b(?:inf|nan)\b', spelt, text, flags=re.DOTALL)


def _no_json(error: json.JSONDecodeError, column: str) -> GraphFormatError:
    why = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return GraphFormatError(f"not JSON: line {error.lineno}{column}: {why}")


def _parsed(text: str) -> Any:
    marks = sum(text.count(mark) for mark in '[{",')
    if marks > MAX_MARKS:
        raise GraphFormatError(
            f"too large: {marks} quotes, commas and opening brackets, at most {MAX_MARKS} are read"
        )
    try:
        try:
            return _loads(text)
        except json.JSONDecodeError as e:
            if not re.match(r"-?(inf|nan)\b", text[e.pos : e.pos + 5]):
                raise _no_json(e, f", column {e.colno}") from None
        try:
            return _loads(_with_infinities(text))
        except json.JSONDecodeError as e:  # columns are not those of the file any more
            raise _no_json(e, "") from None
    except RecursionError:
        raise GraphFormatError("nested too deeply for a graph") from None


def values_of(source: JSONSource) -> Any:
    """Return the JSON values of a source.

    Objects become `JSONObject`; numbers that fit into no 64-bit type become `LongNumber`.
    """
    path = file_of(source)
    if path is not None:
        try:
            data = read_limited(path, MAX_BYTES)
        except Unreadable as e:
            raise GraphFormatError(str(e)) from None
        return _parsed(_text(data))
    if isinstance(source, str):
        _check_size(len(source))
        return _parsed(source.removeprefix("\ufeff"))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parsed(_text(bytes(source)))
    if isinstance(source, Mapping):
        return source
    raise TypeError(
        f"a graph is read from a path, JSON text, bytes or a dict, got {type(source).__name__}"
    )
