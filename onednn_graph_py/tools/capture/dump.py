"""Write the graphs that this process partitions as JSON."""

import contextlib
import mmap
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ... import _core
from ...base.errors import InvalidArgumentsError, OneDNNError, UnimplementedError
from ...base.linked import linked_version
from ...base.loading.loaded import loaded_here
from .folder import DumpFolder

# oneDNN uses the first name if both are set.
_VARIABLES = ("ONEDNN_GRAPH_DUMP", "DNNL_GRAPH_DUMP")
_HAS_FUNCTION = (3, 11)

_one = threading.Lock()


@contextlib.contextmanager
def dump(folder: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Write all graphs that this process partitions inside the ``with`` block, in any thread.

    oneDNN writes ``graph-ID.json``, the graph as it was given, and ``graph-ID-partitioning.json``,
    with the partition of every op; where `folder` has that name already, ``.2`` and so on comes
    before ``.json``. A model is partitioned when it is compiled. Read the files with `load`. The
    parts of its graph that a model partitions again are left out.

    Parameters
    ----------
    folder : path
        Output folder; it is made if it does not exist.

    Yields
    ------
    list of pathlib.Path
        A list that holds the files when the block has ended, and is empty before.

    Raises
    ------
    UnimplementedError
        The linked oneDNN was built without ``ONEDNN_ENABLE_GRAPH_DUMP``.
    OneDNNError
        Another dump goes on in this process or into this working directory.
    OSError
        `folder` or the working directory can't be written.

    Notes
    -----
    oneDNN can only write into the working directory, so its files appear there; `dump` moves them
    when the block ends, and keeps files of such names that were there before. Don't change the
    working directory in the block. oneDNN prints a line for each file.

    Examples
    --------
    >>> import tempfile
    >>> import onednn_graph_py as og
    >>> b = og.GraphBuilder()
    >>> b.output(b.input((2, 4), "f32").relu())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with og.dump(folder) as files:
    ...         model = b.compile()
    ...     len(files), [op.kind for op in og.serialization.parse(files[0]).graph]
    (2, ['ReLU'])
    """
    if not _one.acquire(blocking=False):
        raise OneDNNError("dump: another dump goes on in this process")
    files: list[Path] = []
    try:
        here = Path.cwd()
        if not os.access(here, os.W_OK | os.X_OK):
            raise PermissionError(
                f"{here}: oneDNN writes graphs into the working directory, which can't be written"
            )
        dumping = _by_function() if linked_version() >= _HAS_FUNCTION else _by_variable()
        with DumpFolder(here, folder) as watched, dumping:
            yield files
        files += watched.files
    finally:
        _one.release()


def _cannot() -> UnimplementedError:
    return UnimplementedError(
        "dump: the linked oneDNN can't write graphs, it was built without ONEDNN_ENABLE_GRAPH_DUMP"
    )


@cache
def can_write() -> bool:
    """Whether the loaded oneDNN can write graphs: it then contains how their files are named."""
    libraries = [p for p in loaded_here() if "dnnl" in Path(p).name]
    found = False
    for path in libraries:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents,
        ):
            found = found or contents.find(b"-partitioning.json") >= 0
    return found or not libraries


@contextlib.contextmanager
def _by_function() -> Iterator[None]:
    """Set the mode by oneDNN's function; from 3.11 on oneDNN reads the variable only once."""
    try:
        _set_modes("graph")
    except InvalidArgumentsError:
        raise _cannot() from None
    try:
        yield
    finally:
        _set_modes(next((os.environ[v] for v in _VARIABLES if v in os.environ), ""))


def _set_modes(names: str) -> None:
    """Set the modes of a list of names as oneDNN reads it from the variable."""
    flags = vars(_core)["graph_dump_mode"]
    total = flags.none
    for name in names.lower().split(","):
        total = total | getattr(flags, name if name in ("graph", "subgraph") else "none")
    _core.set_dump_mode(total)


@contextlib.contextmanager
def _by_variable() -> Iterator[None]:
    """Set the variable, which a oneDNN before 3.11 reads for each graph."""
    if not can_write():
        raise _cannot()
    name = _VARIABLES[0]
    before = os.environ.get(name)
    os.environ[name] = "graph"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
