"""Graphs as programs, for reports to oneDNN and to continue in C++.

`to_python` and `to_cpp` write complete programs that fill the inputs with the same numbers, run the
graph and print the same lines; `benchdnn_command` returns the command that makes oneDNN's own
driver replay a file.
"""

from .benchdnn import benchdnn_command, to_benchdnn
from .cpp_program import to_cpp
from .python_program import to_python

__all__ = ["benchdnn_command", "to_benchdnn", "to_cpp", "to_python"]
