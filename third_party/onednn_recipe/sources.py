"""Which oneDNN source is used: a tree the user names, upstream's git, Debian's packages."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import trees
from .cache import Cache, read_record, write_record
from .pins import Pins
from .report import RecipeError, UnavailableError, say
from .settings import Settings
from .trees import LocalTree, Source


def usable(settings: Settings, pins: Pins, cache: Cache) -> Sequence[Source]:
    """The sources that may be used, in the order in which to try them."""
    if settings.source_dir is not None:
        return [_local(settings.source_dir, settings, pins)]
    offered = _offered(settings, pins)
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


def _offered(settings: Settings, pins: Pins) -> list[Source]:
    return [
        replace(pins.git, url=settings.git_url or pins.git.url),
        *(replace(pin, mirror=settings.debian_mirror) for pin in pins.debian),
    ]


def _local(path: Path, settings: Settings, pins: Pins) -> LocalTree:
    """The tree that ONEDNN_SOURCE_DIR names, checked."""
    tree = LocalTree(path, trees.version_of(path))
    if settings.version not in (None, tree.version):
        raise RecipeError(
            f"ONEDNN_VERSION asks for {settings.version}, but ONEDNN_SOURCE_DIR={tree.path} "
            f"is {tree.version}. Unset one of them."
        )
    if not trees.at_least(tree.version, pins.minimum_version):
        raise RecipeError(
            f"ONEDNN_SOURCE_DIR={tree.path} is oneDNN {tree.version}, but "
            f"{pins.minimum_version} or newer is needed. Name a newer tree."
        )
    return tree


def kept_tree(source: Source, cache: Cache) -> Path | None:
    """The tree of a source, if it is there, complete, and what is pinned today."""
    if isinstance(source, LocalTree):
        return source.path
    record = read_record(cache.source_record(source.version)) or {}
    tree = cache.source(source.version)
    return tree if record.get("identity") == source.identity and tree.is_dir() else None


def obtain(source: Source, cache: Cache) -> Path:
    """Return the kept tree of a source as it was verified, fetching it first if needed.

    What is built must come from here: `kept_tree` does not look at the files.
    """
    if isinstance(source, LocalTree):
        return source.path
    tree = cache.source(source.version)
    if kept_tree(source, cache) is not None:
        record = read_record(cache.source_record(source.version)) or {}
        if record.get("content") == trees.digest(tree):
            return tree
        say(f"{tree} is not as it was verified; fetching it again")
    partial = tree.with_name(f"{tree.name}.partial")
    _remove(partial)
    partial.mkdir(parents=True)
    try:
        source.fetch(partial)
        version = trees.version_of(partial)
        if version != source.version:
            raise UnavailableError(f"it holds oneDNN {version} instead of {source.version}")
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


def remember(source: Source, settings: Settings, cache: Cache) -> None:
    """Record what an unpinned build settled on."""
    choice = {"version": source.version, "identity": source.identity, "source": source.name}
    settled = settings.version is None and not isinstance(source, LocalTree)
    if settled and read_record(cache.choice) != choice:
        write_record(cache.choice, choice)


def unavailable(source: Source, error: UnavailableError) -> str:
    """Say in one line that a source can't be had, and return it with the reason."""
    what, reason = f"{source.version} from {source.name}", " ".join(str(error).split())
    say(f"{what} can't be had: {reason}")
    return f"{what}: {reason}"


def none_left(lines: list[str], settings: Settings, pins: Pins) -> RecipeError:
    """The error for when every source failed."""
    known = ", ".join(f"{s.version} ({s.name})" for s in _offered(settings, pins))
    text = [
        f"no source of oneDNN {settings.version or ''}".rstrip() + " can be had:",
        *(f"  {line}" for line in lines),
        "Supply one yourself:",
        f"  ONEDNN_SOURCE_DIR=/path/to/oneDNN   an unpacked source tree, {pins.minimum_version} "
        "or newer",
        "  ONEDNN_ROOT=/path/to/prefix         an installed oneDNN (headers and library)",
        "  ONEDNN_GIT_URL, ONEDNN_DEBIAN_MIRROR   other places for the pinned release",
    ]
    if settings.version is not None:
        text.append(f"Or ask for another version with ONEDNN_VERSION: {known}")
    return RecipeError("\n".join(text))
