"""The settings that a comparison varies, and all their combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace

from ..._core import fpmath_mode
from ...base.errors import InvalidArgumentsError
from ...base.text.names import did_you_mean
from .installs import HERE, Install, find_install

DEFAULT_ISA = "default"  # oneDNN's name for no limit


@dataclass(frozen=True)
class Setting:
    """One combination of settings; None for settings that are not varied.

    The label has those that differ.
    """

    install: Install
    isa: str | None
    threads: int | None
    fpmath: str | None
    label: str = ""


def _unknown(what: str, name: str, known: Iterable[str]) -> InvalidArgumentsError:
    names = dict.fromkeys(known)
    hint = did_you_mean(name, names, str) or f"; there are: {', '.join(names)}"
    return InvalidArgumentsError(f"{what}: oneDNN knows no {name!r}{hint}")


def _isas(given: Sequence[str], installs: Sequence[Install]) -> list[str]:
    known = [DEFAULT_ISA, *(n for i in installs for n in i.facts["isas"])]
    names = [name.lower() for name in given]
    for name in names:
        if name not in known:
            raise _unknown("isa", name, known)
    return names


def _math_mode(text: str) -> str:
    mode, colon, integers = text.partition(":")
    if mode not in fpmath_mode.__members__:
        raise _unknown("fpmath", mode, fpmath_mode.__members__)
    if colon and integers not in ("true", "false"):
        raise InvalidArgumentsError(f"fpmath: expected MODE[:true|false], got {text!r}")
    return text


def _threads(given: Sequence[int]) -> list[int]:
    for count in given:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidArgumentsError(f"threads must be at least 1, got {count!r}")
    return list(given)


def _listed(given: str | Sequence[str]) -> list[str]:
    return given.split(",") if isinstance(given, str) else list(given)


def settings_of(
    isa: str | Sequence[str] = (),
    threads: int | Sequence[int] = (),
    fpmath: str | Sequence[str] = (),
    onednn: str | Sequence[str] = (),
) -> list[Setting]:
    """Check the settings to vary, as `compare` takes them, and return all combinations in order.

    The last setting changes fastest.
    """
    counts = _threads([threads] if isinstance(threads, int) else threads)
    modes = [_math_mode(text) for text in _listed(fpmath)]
    places = [onednn] if isinstance(onednn, str) else list(onednn)
    installs = [find_install(where) for where in dict.fromkeys(places or [HERE])]
    isas = _isas(_listed(isa), installs)
    varied = [dict.fromkeys(values or (None,)) for values in (isas, counts, modes)]
    made = [Setting(*each) for each in itertools.product(installs, *varied)]
    return [replace(setting, label=_label(setting, installs, varied)) for setting in made]


def _label(setting: Setting, installs: Sequence[Install], varied: Sequence[Sized]) -> str:
    install, parts = setting.install, []
    if len(installs) > 1:
        same = [i for i in installs if i.onednn == install.onednn]
        parts.append(install.onednn if len(same) == 1 else f"{install.onednn} ({install.where})")
    count = setting.threads
    told = (setting.isa, f"{count} thread{'s' if count != 1 else ''}", setting.fpmath)
    parts += [str(t) for t, values in zip(told, varied, strict=True) if len(values) > 1]
    return ", ".join(parts) or install.onednn
