"""Words for how a process ended."""

import signal


def cause(status: int) -> str:
    """Name an exit status, or the signal that a negative status stands for."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def ending(status: int, who: str = "the process") -> str:
    """Describe how a process ended, by its exit status, which is negative for a signal."""
    return f"{who} {'ended with' if status >= 0 else 'was ended by'} {cause(status)}"


def too_long(seconds: float, who: str = "it") -> str:
    """Say that a process took longer than its time limit."""
    return f"{who} took longer than {seconds:g} s"


def last_line(errors: str) -> str:
    """Return the last line that a process wrote, after a colon; empty if there is none."""
    lines = errors.strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
