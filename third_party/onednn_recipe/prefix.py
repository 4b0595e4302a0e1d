"""An installed oneDNN on disk: its headers, its library, its version."""

import mmap
import re
from dataclasses import dataclass
from pathlib import Path

from .report import RecipeError
from .trees import at_least

# A function of the C API that only a library with the graph component exports.
_GRAPH_SYMBOL = b"dnnl_graph_graph_finalize"


@dataclass(frozen=True)
class OneDNN:
    """An installed oneDNN."""

    prefix: Path
    include_dir: Path
    library: Path
    version: str
    # The source tree it was built from, where that is known and still there.
    source_dir: Path | None = None
    # Whether the recipe built it; otherwise ONEDNN_ROOT named it.
    built: bool = False


def inspect(path: Path, minimum_version: str, hint: str) -> OneDNN:
    """Check that a prefix holds a usable oneDNN; the hint ends every error message."""
    include_dir = path / "include"
    headers = include_dir / "oneapi" / "dnnl"
    version = _header_version(headers / "dnnl_version.h")
    if version is None:
        raise RecipeError(f"{path} should hold include/oneapi/dnnl/dnnl_version.h. {hint}")
    if not at_least(version, minimum_version):
        raise RecipeError(
            f"{path} holds oneDNN {version}, but {minimum_version} or newer is needed. {hint}"
        )
    library = _library(path)
    if library is None:
        raise RecipeError(
            f"{path} holds oneDNN's headers but no shared library libdnnl*.so in "
            f"{', '.join(_library_dirs(path))}. {hint}"
        )
    config = headers / "dnnl_config.h"
    with_graph = (
        (headers / "dnnl_graph.hpp").is_file()
        and config.is_file()
        and re.search(r"^#define ONEDNN_BUILD_GRAPH\b", config.read_text(), re.MULTILINE)
        and _contains(library, _GRAPH_SYMBOL)
    )
    if not with_graph:
        raise RecipeError(
            f"the oneDNN {version} in {path} was built without the graph component "
            f"(ONEDNN_BUILD_GRAPH=ON). {hint}"
        )
    return OneDNN(path, include_dir, library, version)


def cpu_runtime(include_dir: Path) -> str | None:
    """The CPU threading runtime that oneDNN was configured for, such as ``OMP`` or ``SEQ``."""
    config = include_dir / "oneapi" / "dnnl" / "dnnl_config.h"
    pattern = r"^#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_(\w+)"
    match = re.search(pattern, config.read_text(), re.MULTILINE) if config.is_file() else None
    return match.group(1) if match else None


def _header_version(header: Path) -> str | None:
    text = header.read_text() if header.is_file() else ""
    parts = [
        re.search(rf"#define DNNL_VERSION_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    numbers = [match.group(1) for match in parts if match]
    return ".".join(numbers) if len(numbers) == len(parts) else None


def _library_dirs(prefix: Path) -> list[str]:
    multiarch = sorted(path.name for path in (prefix / "lib").glob("*-linux-*"))
    return ["lib", "lib64", *(f"lib/{name}" for name in multiarch)]


def _library(prefix: Path) -> Path | None:
    for folder in _library_dirs(prefix):
        for pattern in ("libdnnl.so", "libdnnl*.so", "libdnnl*.so.[0-9]*"):
            found = sorted((prefix / folder).glob(pattern))
            if found:
                return found[0]
    return None


def _contains(library: Path, symbol: bytes) -> bool:
    with (
        library.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(symbol) >= 0
