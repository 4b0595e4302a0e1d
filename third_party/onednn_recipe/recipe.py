"""The recipe: from the user's settings to an installed oneDNN."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import compile as compilation
from . import pins as pins_module
from . import prefix, sources, toolchain, trees
from .cache import Cache, read_record
from .report import RecipeError, UnavailableError
from .settings import Settings

_BUILD_FILE = Path(__file__).parents[1] / "onednn_build.cmake"


@dataclass(frozen=True)
class OneDNN:
    """An installed oneDNN."""

    prefix: Path
    include_dir: Path
    library: Path
    version: str
    # The source tree it was built from, where that is known and still there.
    source_dir: Path | None
    # Whether the recipe built it; otherwise ONEDNN_ROOT named it.
    built: bool


class Recipe:
    """One set of settings and pins, ready to be carried out."""

    def __init__(
        self, settings: Settings | None = None, pins: pins_module.Pins | None = None
    ) -> None:
        self.settings = settings or Settings.from_env()
        self.pins = pins or pins_module.load()
        self.cache = Cache(self.settings.cache_dir)

    # -- what users ask for --------------------------------------------------------------------

    def ensure(self) -> OneDNN:
        """Return an installed oneDNN; build it first if there is none yet."""
        if self.settings.root is not None:
            return self._installed(self.settings.root)
        self.cache.check_owner()
        ready = self.finished(self.preferred)
        if ready is not None:
            return ready
        with self.cache.lock() as lock:
            return self._locked_ensure(lock)

    def source(self) -> Path:
        """Return a source tree; fetch it first if there is none yet."""
        if self._local is not None:
            return self._local.path
        self.cache.check_owner()
        kept = sources.cached_tree(self._fetched[0], self.cache)
        if kept is not None:
            return kept
        with self.cache.lock():
            reasons = {}
            for source in self._fetched:
                try:
                    tree = sources.obtain(source, self.cache)
                except UnavailableError as error:
                    reasons[source.name] = sources.unavailable(source, error)
                    continue
                sources.remember(source, self.settings, self.cache)
                return tree
        raise sources.none_left(reasons, self.settings, self.pins)

    def verified_source(self) -> Path:
        """Return the source tree of the preferred source to build from, with the lock held."""
        if self._local is not None:
            return self._local.path
        try:
            return sources.obtain(self._fetched[0], self.cache)
        except UnavailableError as error:
            raise RecipeError(f"oneDNN's source can't be had: {error}") from None

    # -- what it works with --------------------------------------------------------------------

    @property
    def preferred(self) -> sources.Source:
        """The source that is tried first."""
        return self._local or self._fetched[0]

    @cached_property
    def compiler(self) -> toolchain.Compiler:
        """The C++ compiler."""
        return toolchain.find_compiler(self.settings)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The CMake arguments: the data file's options, then the user's, which win."""
        return self._arguments(str(_BUILD_FILE))

    def _arguments(self, build_file: str) -> tuple[str, ...]:
        options = {**self.pins.cmake_options, "CMAKE_PROJECT_oneDNN_INCLUDE": build_file}
        return (
            *(f"-D{name}={value}" for name, value in options.items()),
            *self.settings.cmake_args,
        )

    def key(self, source: sources.Source) -> str:
        """The cache key of a build: equal exactly when the result would be."""
        # What the build file says, wherever it lies.
        arguments = self._arguments(hashlib.sha256(_BUILD_FILE.read_bytes()).hexdigest())
        facts = [source.identity, arguments, self.compiler.identity, self.settings.flags]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return f"{source.version}-{digest[:12]}"

    def finished(self, source: sources.Source) -> OneDNN | None:
        """The finished build of a source, if the cache holds one."""
        key = self.key(source)
        stamp = read_record(self.cache.prefix_record(key))
        if stamp is None or stamp.get("content") != self._content(source):
            return None
        found = prefix.inspect(
            self.cache.prefix(key), self.pins.minimum_version, "Delete it to have it built again."
        )
        tree = self._tree(source)
        return OneDNN(found.path, found.include_dir, found.library, found.version, tree, True)

    # -- how -----------------------------------------------------------------------------------

    @cached_property
    def _local(self) -> sources.LocalTree | None:
        return sources.local(self.settings, self.pins)

    @cached_property
    def _fetched(self) -> list[sources.Fetched]:
        return sources.pinned(self.settings, self.pins, self.cache)

    def _tree(self, source: sources.Source) -> Path | None:
        if isinstance(source, sources.LocalTree):
            return source.path
        return sources.cached_tree(source, self.cache)

    def _content(self, source: sources.Source) -> str:
        if isinstance(source, sources.LocalTree):
            return trees.fingerprint(source.path)
        return source.identity

    def _locked_ensure(self, lock: int) -> OneDNN:
        if self._local is not None:
            return self.finished(self._local) or self._build(self._local, self._local.path, lock)
        reasons = {}
        for source in self._fetched:
            ready = self.finished(source)
            if ready is None:
                try:
                    tree = sources.obtain(source, self.cache)
                except UnavailableError as error:
                    reasons[source.name] = sources.unavailable(source, error)
                    continue
            # Before the build: one that is interrupted is resumed without asking sources again.
            sources.remember(source, self.settings, self.cache)
            return ready or self._build(source, tree, lock)
        raise sources.none_left(reasons, self.settings, self.pins)

    def _build(self, source: sources.Source, tree: Path, lock: int) -> OneDNN:
        tools = {
            name: toolchain.find_tool(name, minimum, self.cache.tools)
            for name, minimum in self.pins.tools.items()
        }
        content = self._content(source)
        job = compilation.Job(
            key=self.key(source),
            tree=tree,
            version=source.version,
            arguments=self.arguments,
            options=_options(self.arguments),
            cmake=tools["cmake"],
            ninja=tools["ninja"],
            jobs=self.settings.jobs,
            minimum_version=self.pins.minimum_version,
            keep_objects=isinstance(source, sources.LocalTree),
            stamp={
                "content": content,
                "version": source.version,
                "source": source.name,
                "arguments": self.arguments,
                "compiler": self.compiler.identity,
                "flags": self.settings.flags,
            },
        )
        compilation.run(job, self.cache, lock)
        ready = self.finished(source)
        if ready is None:
            raise RecipeError(
                f"{tree} changed while it was being built. Run the build again when it rests."
            )
        return ready

    def _installed(self, root: Path) -> OneDNN:
        hint = (
            "ONEDNN_ROOT should name the prefix of an installed oneDNN "
            f"{self.pins.minimum_version} or newer. Correct it, or unset it to have oneDNN built."
        )
        found = prefix.inspect(root, self.pins.minimum_version, hint)
        if self.settings.version not in (None, found.version):
            raise RecipeError(
                f"ONEDNN_VERSION asks for {self.settings.version}, but ONEDNN_ROOT={root} is "
                f"{found.version}. Unset one of them."
            )
        tree = self.settings.source_dir
        return OneDNN(found.path, found.include_dir, found.library, found.version, tree, False)


def _options(arguments: tuple[str, ...]) -> dict[str, str]:
    """The options that CMake ends up with: the last one of a name wins."""
    found = (re.match(r"-D(\w+)(?::\w+)?=(.*)", argument) for argument in arguments)
    return {match.group(1): match.group(2) for match in found if match}


__all__ = ["OneDNN", "Recipe", "RecipeError"]
