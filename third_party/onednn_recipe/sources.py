"""Which oneDNN source is used: a tree the user names, upstream's git, Debian's package."""

import shutil
from pathlib import Path
from typing import Protocol

from . import trees, versions
from .cache import Cache, read_record, write_record
from .debian import DebianSource
from .pins import Pins
from .report import RecipeError, UnavailableError, say
from .settings import Settings
from .upstream import GitSource


class Source(Protocol):
    """A place that offers one verified version of oneDNN."""

    name: str
    version: str
    identity: str


class Fetched(Source, Protocol):
    """A source that is copied into the cache."""

    def fetch(self, into: Path) -> None:
        """Fill an empty directory; raise UnavailableError if it can't be had."""


class LocalTree:
    """The user's own source tree, built where it stands."""

    name = "ONEDNN_SOURCE_DIR"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = trees.version_of(path)
        # By place, not by content: a tree that is being edited keeps its build directory, so
        # that only what changed is compiled again.
        self.identity = f"tree:{path}"


def local(settings: Settings, pins: Pins) -> LocalTree | None:
    """The tree that ONEDNN_SOURCE_DIR names, checked."""
    if settings.source_dir is None:
        return None
    tree = LocalTree(settings.source_dir)
    if settings.version not in (None, tree.version):
        raise RecipeError(
            f"ONEDNN_VERSION asks for {settings.version}, but ONEDNN_SOURCE_DIR={tree.path} "
            f"is {tree.version}. Unset one of them."
        )
    if not versions.at_least(tree.version, pins.minimum_version):
        raise RecipeError(
            f"ONEDNN_SOURCE_DIR={tree.path} is oneDNN {tree.version}, but "
            f"{pins.minimum_version} or newer is needed. Name a newer tree."
        )
    return tree


def pinned(settings: Settings, pins: Pins, cache: Cache) -> list[Fetched]:
    """The fetched sources that may be used, in the order in which to try them."""
    offered: list[Fetched] = [
        GitSource(pins.git, settings.git_url),
        DebianSource(pins.debian, settings.debian_mirror),
    ]
    if settings.version is not None:
        matching = [source for source in offered if source.version == settings.version]
        if not matching:
            raise RecipeError(
                f"ONEDNN_VERSION asks for {settings.version}, which no source offers. Offered: "
                + ", ".join(f"{source.version} ({source.name})" for source in offered)
                + ". For another version, point ONEDNN_SOURCE_DIR at its source tree."
            )
        return matching
    choice = read_record(cache.choice) or {}
    # The earlier choice comes first; the sort is stable, so the others keep their order.
    return sorted(offered, key=lambda source: source.identity != choice.get("identity"))


def cached_tree(source: Source, cache: Cache) -> Path | None:
    """The kept tree of a source, if it is complete and is what is pinned today."""
    record = read_record(cache.source_record(source.version)) or {}
    tree = cache.source(source.version)
    return tree if record.get("identity") == source.identity and tree.is_dir() else None


def obtain(source: Fetched, cache: Cache) -> Path:
    """Return the kept tree of a source as it was verified, fetching it first if needed.

    What is built must come from here: `cached_tree` does not look at the files.
    """
    tree = cache.source(source.version)
    if cached_tree(source, cache) is not None:
        record = read_record(cache.source_record(source.version)) or {}
        if record.get("content") == trees.digest(tree):
            return tree
        say(f"{tree} is not as it was verified; fetching it again")
    partial = tree.with_name(f"{tree.name}.partial")
    _remove(partial)
    partial.mkdir(parents=True)
    try:
        source.fetch(partial)
        found = trees.version_of(partial)
        if found != source.version:
            raise UnavailableError(f"it holds oneDNN {found} instead of {source.version}")
        cache.source_record(source.version).unlink(missing_ok=True)
        _remove(tree)
        partial.rename(tree)
    finally:
        _remove(partial)
    record = {"identity": source.identity, "content": trees.digest(tree)}
    write_record(cache.source_record(source.version), record)
    return tree


def _remove(tree: Path) -> None:
    if tree.is_symlink():
        tree.unlink()
    shutil.rmtree(tree, ignore_errors=True)


def remember(source: Fetched, settings: Settings, cache: Cache) -> None:
    """Record what an unpinned build settled on."""
    choice = {"version": source.version, "identity": source.identity, "source": source.name}
    if settings.version is None and read_record(cache.choice) != choice:
        write_record(cache.choice, choice)


def none_left(reasons: dict[str, str], settings: Settings, pins: Pins) -> RecipeError:
    """The error for when every source failed."""
    lines = [f"no source of oneDNN {settings.version or ''}".rstrip() + " can be had:"]
    lines += [f"  {name}: {reason}" for name, reason in reasons.items()]
    lines += [
        "Supply one yourself:",
        f"  ONEDNN_SOURCE_DIR=/path/to/oneDNN   an unpacked source tree, {pins.minimum_version} "
        "or newer",
        "  ONEDNN_ROOT=/path/to/prefix         an installed oneDNN (headers and library)",
        "  ONEDNN_GIT_URL, ONEDNN_DEBIAN_MIRROR   other places for the pinned release",
    ]
    if settings.version is not None:
        known = f"{pins.git.version} (git), {pins.debian.version} (Debian)"
        lines.append(f"Or ask for another version with ONEDNN_VERSION: {known}")
    return RecipeError("\n".join(lines))


def unavailable(source: Fetched, error: UnavailableError) -> str:
    """Say in one line that a source can't be had, and return the reason."""
    reason = " ".join(str(error).split())
    say(f"{source.version} from {source.name} can't be had: {reason}")
    return reason
