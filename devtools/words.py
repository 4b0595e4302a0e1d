"""Words that pages do without; CONTRIBUTING.md lists them, with what to write instead."""

import re
from collections.abc import Iterator
from pathlib import Path

_CODE = re.compile(r"^```.*?^```|`[^`]*`", re.M | re.S)
_ROW = re.compile(r'^\| "(.*?)" \|', re.M)
# What programs write.
_MADE = ("onednn_", "onnx_ops", "patterns")


def refused(root: Path) -> Iterator[str]:
    """Yield a line for each place of a page that has one of the words.

    Parameters
    ----------
    root : pathlib.Path
        The source tree.
    """
    guide = root / "CONTRIBUTING.md"
    words = _ROW.findall(guide.read_text(encoding="utf-8"))
    pattern = re.compile("|".join(rf"\b{word}\b".replace(" ", r"\s+") for word in words), re.I)
    pages = [guide, root / "README.md", root / "SECURITY.md", root / "notebooks" / "README.md"]
    pages += [p for p in sorted((root / "docs").glob("*.md")) if not p.name.startswith(_MADE)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for part in (_CODE, _ROW) if page == guide else (_CODE,):
            text = part.sub(lambda found: "\n" * found[0].count("\n"), text)
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            word = " ".join(found[0].split())
            yield f"{page.relative_to(root)}:{line}: {word!r}: see Words in CONTRIBUTING.md"
