"""Files of oneDNN that can't be compiled together, found by trying.

``onednn_build.cmake`` has several sources compiled as one, and knows some that can't be: they name
what another names too. Other versions have others. The compiler's errors tell which.
"""

import re
from pathlib import Path

_SOURCE = re.compile(r"(/[^\s:]+\.cpp)\b")
_ERROR = re.compile(r"(?<!fatal )\berror: ")


class Misfits:
    """Listens to a build, and keeps the sources to be compiled alone in a file that CMake reads."""

    def __init__(self, tree: Path, build_dir: Path) -> None:
        self._sources = tree / "src"
        self._file = build_dir / "alone.txt"
        self._found: set[str] = set()
        self._failed_alone = False
        self._is_united = False
        self._at: str | None = None

    def feed(self, line: str) -> None:
        """Take one line of the build's output."""
        if line.startswith("FAILED: "):
            self._is_united = "/united/" in line
            self._failed_alone |= not self._is_united
            self._at = None
            return
        if not self._is_united or line.startswith("["):
            self._is_united = False
            return
        for name in _SOURCE.findall(line):
            path = Path(name)
            # An error within a header is of the last source that the compiler said it was in.
            if path.is_relative_to(self._sources):
                self._at = str(path.relative_to(self._sources))
        if self._at is not None and _ERROR.search(line):
            self._found.add(self._at)

    def settle(self) -> bool:
        """Have CMake take what was found since the last call; return whether to go on with that."""
        if self._failed_alone:  # then it is no matter of what is compiled together
            return False
        known = set(self._file.read_text().split()) if self._file.exists() else set()
        new, self._found = self._found - known, set()
        if new:
            self._file.write_text("".join(f"{name}\n" for name in sorted(known | new)))
        return bool(new)
