"""The recipe: from the user's settings to an installed oneDNN."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from . import compile as compilation
from . import pins as pins_module
from . import prefix, sources, toolchain
from .cache import Cache, read_record
from .prefix import OneDNN
from .report import RecipeError, UnavailableError
from .settings import Settings
from .trees import LocalTree, Source

_BUILD_FILE = Path(__file__).parents[1] / "onednn_build.cmake"


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
            source, got = self._first(built=True)
            return self._build(source, got, lock) if isinstance(got, Path) else got

    def source(self) -> Path:
        """Return a source tree; fetch it first if there is none yet."""
        self.cache.check_owner()
        kept = sources.kept_tree(self.preferred, self.cache)
        if kept is not None:
            return kept
        with self.cache.lock():
            _, tree = self._first(built=False)
            assert isinstance(tree, Path)
            return tree

    def verified_source(self) -> Path:
        """Return the source tree of the preferred source to build from, with the lock held."""
        try:
            return sources.obtain(self.preferred, self.cache)
        except UnavailableError as error:
            raise RecipeError(f"oneDNN's source can't be had: {error}") from None

    # -- what it works with --------------------------------------------------------------------

    @cached_property
    def sources(self) -> Sequence[Source]:
        """The sources that may be used, in the order in which they are tried."""
        return sources.usable(self.settings, self.pins, self.cache)

    @property
    def preferred(self) -> Source:
        """The source that is tried first."""
        return self.sources[0]

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
        given = self.settings.cmake_args
        return (*(f"-D{name}={value}" for name, value in options.items()), *given)

    def key(self, source: Source) -> str:
        """The cache key of a build: equal exactly when the result would be."""
        # What the build file says, wherever it lies.
        arguments = self._arguments(hashlib.sha256(_BUILD_FILE.read_bytes()).hexdigest())
        facts = [source.identity, arguments, self.compiler.identity, self.settings.flags]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return f"{source.version}-{digest[:12]}"

    def finished(self, source: Source) -> OneDNN | None:
        """The finished build of a source, if the cache holds one."""
        key = self.key(source)
        stamp = read_record(self.cache.prefix_record(key))
        if stamp is None or stamp.get("content") != source.content():
            return None
        place, hint = self.cache.prefix(key), "Delete it to have it built again."
        installed = prefix.inspect(place, self.pins.minimum_version, hint)
        return replace(installed, source_dir=sources.kept_tree(source, self.cache), built=True)

    # -- how -----------------------------------------------------------------------------------

    def _first(self, built: bool) -> tuple[Source, Path | OneDNN]:
        """Return the first source that can be had: its tree, or the build that may be there."""
        lines = []
        for source in self.sources:
            try:
                ready = self.finished(source) if built else None
                got = ready or sources.obtain(source, self.cache)
            except UnavailableError as error:
                lines.append(sources.unavailable(source, error))
                continue
            # Before the build: one that is interrupted is resumed without asking sources again.
            sources.remember(source, self.settings, self.cache)
            return source, got
        raise sources.none_left(lines, self.settings, self.pins)

    def _build(self, source: Source, tree: Path, lock: int) -> OneDNN:
        stamp = {
            "content": source.content(),
            "version": source.version,
            "source": source.name,
            "arguments": self.arguments,
            "compiler": self.compiler.identity,
            "flags": self.settings.flags,
        }
        job = compilation.Job(
            key=self.key(source),
            tree=tree,
            version=source.version,
            arguments=self.arguments,
            tools=self.tools(),
            jobs=self.settings.jobs,
            minimum_version=self.pins.minimum_version,
            keep_objects=isinstance(source, LocalTree),
            stamp=stamp,
        )
        compilation.run(job, self.cache, lock)
        ready = self.finished(source)
        if ready is None:
            raise RecipeError(
                f"{tree} changed while it was being built. Run the build again when it rests."
            )
        return ready

    def tools(self) -> dict[str, str]:
        """The paths of CMake and Ninja, which are installed if they are missing."""
        return {
            name: toolchain.find_tool(name, minimum, self.cache.tools)
            for name, minimum in self.pins.tools.items()
        }

    def _installed(self, root: Path) -> OneDNN:
        hint = (
            "ONEDNN_ROOT should name the prefix of an installed oneDNN "
            f"{self.pins.minimum_version} or newer. Correct it, or unset it to have oneDNN built."
        )
        installed = prefix.inspect(root, self.pins.minimum_version, hint)
        if self.settings.version not in (None, installed.version):
            raise RecipeError(
                f"ONEDNN_VERSION asks for {self.settings.version}, but ONEDNN_ROOT={root} is "
                f"{installed.version}. Unset one of them."
            )
        return replace(installed, source_dir=self.settings.source_dir)
