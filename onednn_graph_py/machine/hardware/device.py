"""Devices and missing ones, as text and dictionaries."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from ...base.linked import version_t
from ...base.text.numbers import gib_text


@dataclass(frozen=True)
class Device:
    """A device that a runtime of the linked oneDNN shows.

    Parameters
    ----------
    kind : str
        ``cpu`` or ``gpu``.
    index : int
        The index for ``engine(kind, index)``.
    runtime : str
        oneDNN's name of the runtime: ``OpenMP``, ``SYCL``, ``OpenCL``, ...
    name : str
    backend : str
        The backend of SYCL: ``opencl``, ``level_zero``; empty for other runtimes.
    vendor, driver : str
        The vendor, and the driver's version; empty if unknown.
    memory_bytes : int, optional
        The device's memory; for a CPU the machine's memory, or the part that its driver offers.
    data_types : tuple of str
        oneDNN's data types in which it computes, or that it reads as weights. For a GPU only those
        that its driver reports: only ``compile`` shows whether bf16 and 8-bit floats work.
    aspects : tuple of str
        Its abilities, as the runtime names them, such as ``fp64``.
    engine : bool
        Whether oneDNN makes an engine of it in this process.
    reason : str
        The reason why oneDNN makes no engine of it.
    """

    kind: str
    index: int
    runtime: str
    name: str
    backend: str = ""
    vendor: str = ""
    driver: str = ""
    memory_bytes: int | None = None
    data_types: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()
    engine: bool = True
    reason: str = ""

    @property
    def label(self) -> str:
        """Kind and index, as for ``engine``, such as ``gpu 0``."""
        return f"{self.kind} {self.index}"

    def __str__(self) -> str:
        through = f"{self.runtime} through {self.backend}" if self.backend else self.runtime
        driver = self.driver and f"driver {self.driver}"
        memory = "" if self.memory_bytes is None else gib_text(self.memory_bytes)
        facts = ", ".join(filter(None, (through, self.vendor, driver, memory)))
        lines = [f"{self.label}: {self.name or 'name unknown'}", f"  {facts}"]
        if self.data_types:
            lines.append(f"  data types: {' '.join(self.data_types)}")
        if self.aspects:
            lines.append(f"  aspects: {' '.join(self.aspects)}")
        if not self.engine:
            lines.append(f"  no engine: {self.reason}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Missing:
    """A device or package that is missing here.

    Parameters
    ----------
    what : str
        ``cpu``, ``gpu``, or a package.
    reason : str
    remedy : str
        What to do to get it.
    """

    what: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"no {self.what}: {self.reason}\n  to do: {self.remedy}"


class Devices(Sequence[Device]):
    """All devices; ``found["gpu"]`` has those of a kind.

    Parameters
    ----------
    found : sequence of Device
    missing : sequence of Missing
    onednn : mapping
        The result of `onednn_graph_py.version`.
    notes : sequence of str
        Remarks on the search, such as drivers that crashed.
    """

    def __init__(
        self,
        found: Sequence[Device],
        missing: Sequence[Missing],
        onednn: Mapping[str, Any],
        notes: Sequence[str] = (),
    ) -> None:
        self._found = tuple(found)
        self.missing = tuple(missing)
        self.onednn = dict(onednn)
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, which: int) -> Device: ...
    @overload
    def __getitem__(self, which: slice | str) -> tuple[Device, ...]: ...
    def __getitem__(self, which: int | slice | str) -> Device | tuple[Device, ...]:
        if isinstance(which, str):
            return tuple(d for d in self._found if d.kind == which)
        return self._found[which]

    def _title(self) -> str:
        v = version_t(self.onednn)
        return f"oneDNN {v.release}, runtimes: cpu {v.cpu_runtime}, gpu {v.gpu_runtime}"

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([self._title(), *map(str, self), *map(str, self.missing), *notes])

    def __repr__(self) -> str:
        labels = ", ".join(d.label for d in self if d.engine) or "none usable"
        return f"<Devices: {labels}; {len(self.missing)} missing>"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict for `json.dumps`."""
        return {
            "onednn": dict(self.onednn),
            "devices": [
                {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(d).items()}
                for d in self
            ],
            "missing": [asdict(m) for m in self.missing],
            "notes": list(self.notes),
        }
