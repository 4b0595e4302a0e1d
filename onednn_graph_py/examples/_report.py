"""Reports of examples on the configurations that they ran or skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..checking.expected import Verification
from ..text.numbers import counted


class ExampleError(Exception):
    """An example can't run; the message says what to do."""


@dataclass(frozen=True)
class Case:
    """One configuration of an example, run and checked.

    Parameters
    ----------
    name : str
        The name that tells it from the example's other cases.
    expected_partitions : int
    partitions : sequence of sequence of str
        The ops of each partition.
    comparisons : mapping of str to Verification
        The comparisons by a text that says what was compared; that of the result comes last.
    milliseconds : float
        Median time of a run.
    facts : sequence of str
        Further facts worth reporting.
    faults : sequence of str
        Faults beyond those of the partitions and comparisons.
    """

    name: str
    expected_partitions: int
    partitions: Sequence[Sequence[str]]
    comparisons: Mapping[str, Verification]
    milliseconds: float
    facts: Sequence[str] = ()
    faults: Sequence[str] = ()

    def all_faults(self) -> list[str]:
        """Return all faults; none if the case has passed."""
        faults = list(self.faults)
        if len(self.partitions) != self.expected_partitions:
            faults.insert(
                0, f"expected {self.expected_partitions} partitions, got {len(self.partitions)}"
            )
        for what, compared in self.comparisons.items():
            wrong = sum(output.wrong for output in compared.outputs)
            if wrong:
                count = sum(output.count for output in compared.outputs)
                faults.append(
                    f"{wrong} of {count} elements are off by more than their tolerance ({what})"
                )
        return faults

    def lines(self) -> list[str]:
        """Return the lines of a report on the case."""
        lines = [self.name, *_partition_lines(self.partitions)]
        for what, compared in self.comparisons.items():
            lines += [
                f"compared: {what}",
                f"  maximum error: {compared.max_error:.3g} of values up to"
                f" {max(output.largest for output in compared.outputs):.3g};"
                f" at most {compared.share:.2g} of a tolerance used",
            ]
        lines += [f"time: {self.milliseconds:.3f} ms (median)", *self.facts]
        return lines + [f"WRONG: {fault}" for fault in self.all_faults()]


@dataclass(frozen=True)
class Skipped:
    """A configuration that this machine or the linked oneDNN can't run.

    Parameters
    ----------
    name : str
        The name that tells it from the example's other configurations.
    reason : str
        The reason, as a fact that was found out, not guessed.
    partitions : sequence of sequence of str
        The ops of each partition, where the graph could at least be partitioned.
    """

    name: str
    reason: str
    partitions: Sequence[Sequence[str]] = ()

    def lines(self) -> list[str]:
        """Return the lines of a report on the configuration."""
        partitions = _partition_lines(self.partitions) if self.partitions else []
        return [self.name, *partitions, f"skipped: {self.reason}"]


def _partition_lines(partitions: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"partitions: {len(partitions)}"]
    for number, ops in enumerate(partitions, 1):
        lines.append(f"  {number}. {counted(len(ops), 'op')}: {' + '.join(ops)}")
    return lines
