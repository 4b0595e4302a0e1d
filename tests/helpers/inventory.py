"""The inventory of oneDNN's API (data/api.tsv), row by row."""

import csv
from pathlib import Path
from typing import NamedTuple

from graphs import LINKED

PATH = Path(__file__).parent / "data" / "api.tsv"


class Row(NamedTuple):
    """One member of one class, of one version's header."""

    owner: str
    member: str
    kind: str
    signature: str
    since: str
    header: str
    notes: str

    @property
    def version(self) -> tuple[int, int]:
        """The version that brought it, as far as it matters: 3.7 stands for 3.7 and before."""
        if self.since == "<=3.7.2":
            return (3, 7)
        major, minor = self.since.removeprefix("v").split(".")
        return (int(major), int(minor))

    @property
    def is_linked(self) -> bool:
        """Whether the linked oneDNN has it."""
        return self.version <= LINKED


def rows() -> list[Row]:
    """Return all rows."""
    with PATH.open(newline="") as file:
        lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(lines)
        return [Row(*(line + [""] * (7 - len(line)))) for line in lines]
