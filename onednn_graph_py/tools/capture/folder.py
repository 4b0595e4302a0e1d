"""Move the files that oneDNN writes into the working directory to another folder.

oneDNN always writes there, over files of the same name. So `DumpFolder` puts aside those that are
there already, and puts them back afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...base.errors import GraphFormatError, OneDNNError
from ...model.building.value import FIRST_ID
from ...model.planning.partition_ids import FILLER
from ...serialization import OpRecord, parse

# A model partitions its graph as a whole, and parts of it again. Parts are known by their ops: no
# other graph of the process has their ids.
_Op = tuple[object, ...]


def _described(op: OpRecord) -> _Op:
    tensors = ((t.id, t.dtype, t.shape) for t in (*op.inputs, *op.outputs))
    return (op.id, op.kind, *tensors)


def _ops(file: Path) -> frozenset[_Op] | None:
    """Read the ops of a graph, but for End; None if it is not a graph of this package."""
    try:
        graph = [op for op in parse(file).graph if op.kind != "End"]
    except GraphFormatError:  # the program ended while oneDNN wrote the file
        return None
    if graph and all(op.name == FILLER for op in graph):
        return frozenset()
    if not graph or any(op.id < FIRST_ID for op in graph):
        return None
    return frozenset(_described(op) for op in graph)


def parts_among(files: Sequence[Path]) -> set[Path]:
    """Return the graphs whose ops are all in one graph that was written before.

    The files come in the order in which they were written, with or without partitions; the two
    kinds are not compared with each other.
    """
    parts: set[Path] = set()
    # The graphs that contain an op, without those that are parts of an earlier one.
    wholes: dict[tuple[bool, _Op], list[frozenset[_Op]]] = {}
    for file in files:
        ops = _ops(file)
        if ops is None:
            continue
        partitioned = "-partitioning" in file.name
        one = next(iter(ops), None)
        if one is None or any(ops <= whole for whole in wholes.get((partitioned, one), ())):
            parts.add(file)
            continue
        for op in ops:
            wholes.setdefault((partitioned, op), []).append(ops)
    return parts


_NAMES = re.compile(r"graph-\d+(-partitioning)?\.json")
_UNLOCKABLE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class DumpFolder:
    """Watches a folder while oneDNN writes into it, and moves what it wrote into another one.

    Files that are there already stay as they are, in both. Graphs that are only parts of others are
    left out, see `parts_among`. It raises OSError if one of the folders can't be written, and
    OneDNNError if another capture watches the folder.
    """

    def __init__(self, folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).resolve()
        self.into = Path(into).resolve()
        self.files: list[Path] = []
        """The moved files, sorted by name; empty until the watch is over."""
        self._taken: list[Path] = []

    def __enter__(self) -> DumpFolder:
        with contextlib.ExitStack() as stack:
            self.into.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(self.folder))
            # Temporary folders have names that nobody else uses.
            self._stage = Path(stack.enter_context(_temporary(dir=self.into)))
            self._aside = Path(stack.enter_context(_temporary(dir=self.folder)))
            stack.callback(self._place)
            stack.callback(self._put_back)  # runs before _place, as both folders may be one
            for file in self._found():
                file.rename(self._aside / file.name)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *of: object) -> None:
        with self._stack:
            self.take(unfinished=True)

    def take(self, *, unfinished: bool = False) -> None:
        """Take the files that are there, before oneDNN writes others of the same names.

        Those that oneDNN has not finished are taken only if asked.
        """
        for file in self._found():
            if unfinished or _is_finished(file):
                number = len(self._taken)
                kept = self._stage / f"{number}-{file.name}"
                shutil.move(file, kept)
                self._taken.append(kept)

    def _found(self) -> list[Path]:
        found = [
            Path(entry.path)
            for entry in os.scandir(self.folder)
            if _NAMES.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        return sorted(found, key=_in_order)

    def _put_back(self) -> None:
        for file in self._aside.iterdir():
            file.rename(self.folder / file.name)

    def _place(self) -> None:
        """Move the taken files to `into` under their names, with a number if a name is taken.

        oneDNN writes a graph again when it is partitioned again; keep equal files once.
        """
        placed: set[tuple[str, bytes]] = set()
        left_out = parts_among(self._taken)
        for file in self._taken:
            if file in left_out:
                continue
            name = file.name.split("-", 1)[1]
            contents = (name, hashlib.sha256(file.read_bytes()).digest())
            if contents in placed:
                continue
            placed.add(contents)
            target = self.into / name
            number = 2
            while os.path.lexists(target):
                target = self.into / f"{name.removesuffix('.json')}.{number}.json"
                number += 1
            file.rename(target)
            self.files.append(target)
        self.files.sort()


def _in_order(file: Path) -> tuple[int, str]:
    """Return the key that sorts files by the graph's number, which counts up."""
    return int(file.name.split("-")[1].removesuffix(".json")), file.name


def _temporary(dir: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=".graphs-", dir=dir)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other captures, if its file system can lock folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise OneDNNError(
            f"{folder}: another capture takes the graphs that are written here; only one at a time "
            "is possible"
        ) from None
    except OSError as e:
        if e.errno not in _UNLOCKABLE:
            os.close(handle)
            raise
    try:
        yield
    finally:
        os.close(handle)


def _is_finished(file: Path) -> bool:
    """Return whether a file ends with the last brace, the only one at the start of a line."""
    try:
        with open(file, "rb") as opened:
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - 8))
            return opened.read().rstrip().endswith(b"\n}")
    except FileNotFoundError:
        return False
