"""Ninja's ``[n/m]`` lines as progress for a person: one live line, or a line now and then."""

import re
import time
from typing import TextIO

_STEP = re.compile(r"\[(\d+)/(\d+)\]")


class Progress:
    """Turns a build's output lines into progress on a stream."""

    QUIET_SECONDS = 30.0
    QUIET_SHARE = 0.05

    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._live = stream.isatty()
        self._start = time.monotonic()
        self._done = 0
        self._total = 0
        self._told = self._start
        self._told_done = 0

    def feed(self, line: str) -> None:
        """Take one line of the build's output."""
        match = _STEP.match(line)
        if match:
            self._done, self._total = int(match.group(1)), int(match.group(2))
            self.tick()

    def tick(self) -> None:
        """Bring the display up to date; called at least once a second."""
        if not self._total:
            return
        if self._live:
            self._stream.write(f"\r{self._text()}\x1b[K")
            self._stream.flush()
            return
        now = time.monotonic()
        first = self._told_done == 0
        far = self._done - self._told_done >= self.QUIET_SHARE * self._total
        late = now - self._told >= self.QUIET_SECONDS
        last = self._done == self._total != self._told_done
        if first or far or late or last:
            print(self._text(), file=self._stream, flush=True)
            self._told, self._told_done = now, self._done

    def finish(self) -> None:
        """Leave the live line."""
        if self._live and self._total:
            self._stream.write("\n")
            self._stream.flush()

    def _text(self) -> str:
        elapsed = time.monotonic() - self._start
        text = f"{self._label}: step {self._done} of {self._total}, {_clock(elapsed)} elapsed"
        # The first steps are no measure of the rest.
        if self.QUIET_SHARE * self._total <= self._done < self._total:
            left = elapsed / self._done * (self._total - self._done)
            text += f", about {_clock(left)} left"
        return text


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
