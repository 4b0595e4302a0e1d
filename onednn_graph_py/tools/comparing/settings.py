"""The settings that a comparison varies, and all their combinations."""

import itertools
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace

from ..._core import cpu_isa, fpmath_mode
from ...base.errors import InvalidArgumentsError
from ...base.linked import version
from ...base.text.names import did_you_mean

DEFAULT_ISA = "default"  # oneDNN's name for no limit
# Some have two names.
ISAS = {name: m.name for name, m in cpu_isa.__members__.items() if name != "isa_default"}


def onednn() -> str:
    """Return the version and the runtime of the linked oneDNN."""
    return f"{version().release} {version().cpu_runtime}"


@dataclass(frozen=True)
class Setting:
    """One combination of settings, None for those that are not varied; the label has the others."""

    isa: str | None
    threads: int | None
    fpmath: str | None
    label: str = ""


def _unknown(what: str, name: str, known: Iterable[str]) -> InvalidArgumentsError:
    names = dict.fromkeys(known)
    hint = did_you_mean(name, names, str) or f"; there are: {', '.join(names)}"
    return InvalidArgumentsError(f"{what}: oneDNN knows no {name!r}{hint}")


def _isa(text: str) -> str:
    name = text.lower()
    if name not in (DEFAULT_ISA, *ISAS):
        raise _unknown("isa", name, (DEFAULT_ISA, *ISAS))
    return name


def _math_mode(text: str) -> str:
    mode, colon, integers = text.partition(":")
    if mode not in fpmath_mode.__members__:
        raise _unknown("fpmath", mode, fpmath_mode.__members__)
    if colon and integers not in ("true", "false"):
        raise InvalidArgumentsError(f"fpmath: expected MODE[:true|false], got {text!r}")
    return text


def _threads(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidArgumentsError(f"threads must be at least 1, got {count!r}")
    return count


def _listed(given: str | Sequence[str]) -> list[str]:
    return given.split(",") if isinstance(given, str) else list(given)


def settings_of(
    isa: str | Sequence[str] = (),
    threads: int | Sequence[int] = (),
    fpmath: str | Sequence[str] = (),
) -> list[Setting]:
    """Check the settings to vary; return all combinations, the last setting changing fastest."""
    counts = [threads] if isinstance(threads, int) else threads
    isas: Sequence[str | None] = [*dict.fromkeys(map(_isa, _listed(isa)))] or [None]
    numbers: Sequence[int | None] = [*dict.fromkeys(map(_threads, counts))] or [None]
    modes: Sequence[str | None] = [*dict.fromkeys(map(_math_mode, _listed(fpmath)))] or [None]
    made = [Setting(*each) for each in itertools.product(isas, numbers, modes)]
    return [replace(setting, label=_label(setting, (isas, numbers, modes))) for setting in made]


def _label(setting: Setting, varied: Sequence[Sized]) -> str:
    count = setting.threads
    told = (setting.isa, f"{count} thread{'s' if count != 1 else ''}", setting.fpmath)
    parts = [str(t) for t, values in zip(told, varied, strict=True) if len(values) > 1]
    return ", ".join(parts) or onednn()
