"""What an example has to tell about what it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..text.numbers import counted
from ._bounded import Comparison


class ExampleError(Exception):
    """An example can't run; the message says what to do."""


@dataclass(frozen=True)
class Case:
    """One configuration of an example, run and checked.

    Parameters
    ----------
    name : str
        What sets it apart from the example's other cases.
    expected_partitions : int
    partitions : sequence of sequence of str
        The ops of each partition.
    comparisons : mapping of str to Comparison
        By what was compared with what; that of the result comes last.
    milliseconds : float
        Median time of a run.
    facts : sequence of str
        What else is worth telling.
    faults : sequence of str
        What is wrong beyond partitions and comparison.
    """

    name: str
    expected_partitions: int
    partitions: Sequence[Sequence[str]]
    comparisons: Mapping[str, Comparison]
    milliseconds: float
    facts: Sequence[str] = ()
    faults: Sequence[str] = ()

    def all_faults(self) -> list[str]:
        """Everything that is wrong; empty if the case has passed."""
        faults = list(self.faults)
        if len(self.partitions) != self.expected_partitions:
            faults.insert(
                0, f"expected {self.expected_partitions} partitions, got {len(self.partitions)}"
            )
        for what, compared in self.comparisons.items():
            if compared.wrong:
                faults.append(
                    f"{compared.wrong} of {compared.elements} elements are off by more than their"
                    f" tolerance ({what})"
                )
        return faults

    def lines(self) -> list[str]:
        """Tell all of it."""
        lines = [self.name, *_partition_lines(self.partitions)]
        for what, compared in self.comparisons.items():
            lines += [
                f"compared: {what}",
                f"  maximum error: {compared.max_error:.3g} of values up to"
                f" {compared.largest:.3g} (tolerance there: {compared.tolerance:.3g});"
                f" at most {compared.max_share:.2g} of a tolerance used",
            ]
        lines += [f"time: {self.milliseconds:.3f} ms (median)", *self.facts]
        return lines + [f"WRONG: {fault}" for fault in self.all_faults()]


@dataclass(frozen=True)
class Skipped:
    """A configuration that this machine or the linked oneDNN can't run.

    Parameters
    ----------
    name : str
        What sets it apart from the example's other configurations.
    reason : str
        As a fact that was asked for, not guessed.
    partitions : sequence of sequence of str
        The ops of each partition, where the graph could at least be partitioned.
    """

    name: str
    reason: str
    partitions: Sequence[Sequence[str]] = ()

    def lines(self) -> list[str]:
        """Tell all of it."""
        partitions = _partition_lines(self.partitions) if self.partitions else []
        return [self.name, *partitions, f"skipped: {self.reason}"]


def _partition_lines(partitions: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"partitions: {len(partitions)}"]
    for number, ops in enumerate(partitions, 1):
        lines.append(f"  {number}. {counted(len(ops), 'op')}: {' + '.join(ops)}")
    return lines
