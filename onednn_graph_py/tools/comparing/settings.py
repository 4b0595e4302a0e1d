"""The settings that a comparison varies, and all their combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..._core import fpmath_mode
from ...base.errors import InvalidArgumentsError
from ...base.text.names import did_you_mean
from .installs import HERE, Install, find_install

DEFAULT_ISA = "default"  # oneDNN's name for no limit


@dataclass(frozen=True)
class Setting:
    """One combination of settings; None for settings that are not varied."""

    install: Install
    isa: str | None
    threads: int | None
    fpmath: str | None


@dataclass(frozen=True)
class Settings:
    """The values of each setting, for all combinations; None for one that is not varied."""

    installs: tuple[Install, ...]
    isa: tuple[str | None, ...]
    threads: tuple[int | None, ...]
    fpmath: tuple[str | None, ...]

    def all(self) -> list[Setting]:
        """Return all combinations, in order; the last setting changes fastest."""
        product = itertools.product(self.installs, self.isa, self.threads, self.fpmath)
        return [Setting(*each) for each in product]

    def label(self, setting: Setting) -> str:
        """Return a name for the combination, made of the settings that differ."""
        parts = []
        if len(self.installs) > 1:
            same = [i for i in self.installs if i.onednn == setting.install.onednn]
            told = setting.install.onednn
            parts.append(told if len(same) == 1 else f"{told} ({setting.install.where})")
        if len(self.isa) > 1:
            parts.append(str(setting.isa))
        if len(self.threads) > 1:
            parts.append(f"{setting.threads} thread{'s' if setting.threads != 1 else ''}")
        if len(self.fpmath) > 1:
            parts.append(str(setting.fpmath))
        return ", ".join(parts) or setting.install.onednn


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
) -> Settings:
    """Check the settings to vary, as `compare` takes them, and return them."""
    counts = _threads([threads] if isinstance(threads, int) else threads)
    modes = [_math_mode(text) for text in _listed(fpmath)]
    places = [onednn] if isinstance(onednn, str) else list(onednn)
    installs = [find_install(where) for where in dict.fromkeys(places or [HERE])]
    return Settings(
        tuple(installs),
        tuple(dict.fromkeys(_isas(_listed(isa), installs))) or (None,),
        tuple(dict.fromkeys(counts)) or (None,),
        tuple(dict.fromkeys(modes)) or (None,),
    )
