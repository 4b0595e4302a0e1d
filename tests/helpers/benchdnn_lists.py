"""benchdnn's batch files: the graphs that oneDNN's own lists of cases name, with their options."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchdnn_rewriting import Rewriting, parse_rewritings

from onednn_graph_py.serialization import GraphDocument, parse


@dataclass(frozen=True)
class Listed:
    """A graph's file, and how a list has it rewritten."""

    path: str
    rewriting: Rewriting

    def __str__(self) -> str:
        return f"{self.rewriting} {self.path}".strip()

    def document(self) -> GraphDocument:
        """Read the file, and rewrite it; shapes in the middle are inferred."""
        return self.rewriting.apply(parse(self.path))


def _words(text: str) -> Iterator[str]:
    """``#`` begins a comment; a backslash at the end of a line joins its last word and the next."""
    begun = ""
    for line in text.splitlines():
        for word in line.partition("#")[0].split():
            begun += word
            if word.endswith("\\"):
                begun = begun[:-1]
            else:
                yield begun
                begun = ""


def cases_of_list(batch: Path | str, options: dict[str, str] | None = None) -> Iterator[Listed]:
    """Yield the cases of a batch file; its options persist between lines and files."""
    options = {} if options is None else options
    batch = Path(batch)
    near = [batch.parent, *batch.parents[1:4]]
    for word in _words(batch.read_text()):
        name, _, value = word.partition("=")
        if name == "--reset":
            options.clear()
        elif name not in ("--batch", "--case"):
            options[name] = word
            continue
        files = [folder / value for folder in near if value and (folder / value).is_file()]
        if name == "--batch":
            yield from cases_of_list(files[0], options)
        elif name == "--case":
            # By default benchdnn expects a single partition.
            for rewriting in parse_rewritings(["--expected-n-partitions=1", *options.values()]):
                yield Listed(str(files[0]), rewriting)
