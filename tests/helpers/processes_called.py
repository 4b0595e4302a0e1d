"""Modules' ``main`` for tests of processes: what it does is what the first request says."""

import ctypes
import os
import signal
import sys
import time

from onednn_graph_py.base.processes import printed, serve


def answer(request):
    if request == "path":
        return sys.path
    if request == "environment":
        return dict(os.environ)
    if request == "crash":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == "hang":
        time.sleep(600)
    if request == "raise":
        raise ValueError("not ready")
    return request


def main(descriptor):
    serve(descriptor, answer, first="hello")


def _prints():
    print("of Python", flush=True)
    ctypes.CDLL(None).puts(b"of C")
    return 3


def printing():
    return printed(_prints)


def seconds_asleep(seconds):
    time.sleep(seconds)
    return seconds


def large():
    return b"x" * 3_000_000


def unpicklable():
    return lambda: None


def flags():
    return sys.flags.optimize, sys.flags.no_user_site


def imported(module):
    return module in sys.modules
