"""``python -m onednn_graph_py`` and ``onednn-graph``: see `onednn_graph_py.tools.command_line`."""

import os
import signal
import sys
from types import FrameType

ended_by = 0  # the signal that ended the command as Ctrl-C does; 0 if there was none


def end(number: int, frame: FrameType | None) -> None:
    """End the command in the way of Ctrl-C, so that it leaves neither processes nor files."""
    global ended_by
    ended_by = number
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup has SIGHUP ignored
                signal.signal(number, end)
        from .tools import command_line

        status = command_line.main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader stopped reading, such as ``... | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except KeyboardInterrupt:  # before the command is known
        print("interrupted", file=sys.stderr)
        status = 130
    return 128 + ended_by if ended_by and status == 130 else status


if __name__ == "__main__":
    sys.exit(main())
