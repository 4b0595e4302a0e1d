"""Docstrings of the compiled extension, and of attached methods, as Sphinx should have them.

pybind11 writes signatures into the docstring: one on top, or a numbered list of overloads with a
text each. Types are written with the name of the extension's module, where people import from the
package. A function that is attached as a method takes the object as its first parameter.
"""

import enum
import inspect
import re
from typing import Any

from sphinx.application import Sphinx

from onednn_graph_py.model.methods import METHODS

_MODULE = re.compile(r"\bonednn_graph_py\._core\.")
_OVERLOAD = re.compile(r"^\d+\. (\w+\(.*\)(?: -> .*)?)$")


def _plain(signature: str) -> str:
    """A signature as it is called."""
    short = _MODULE.sub("", signature).replace("collections.abc.", "")
    return re.sub(r"\(self(?:: [\w.]+)?(?:, )?", "(", short)


def _overloads(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make a paragraph of each overload's signature, with its text below."""
    if "Overloaded function." not in lines:
        return
    made: list[str] = []
    for line in lines[lines.index("Overloaded function.") + 1 :]:
        found = _OVERLOAD.match(line)
        if found is None:
            made.append(line)
            continue
        signature = _plain(found[1])
        if what == "method" and name.endswith("__init__"):
            signature = signature.replace("__init__", name.split(".")[-2], 1)
            signature = signature.removesuffix(" -> None")
        # Two empty lines end a section such as Raises of the overload before.
        made += ["", "", f"``{signature}``"]
    lines[:] = made


def _members(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """List what an enumeration has."""
    if what == "class" and inspect.isclass(obj) and issubclass(obj, enum.Enum):
        values = ", ".join(f"``{key}`` ({member.value})" for key, member in obj.__members__.items())
        if values:
            lines += ["", f"Values, with oneDNN's numbers: {values}.", ""]


_COMPILE = "onednn_graph_py.GraphBuilder.compile"


def _attached(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Leave out the object itself; say at `compile`, and not at the class, what it takes."""
    method = name.rpartition(".")[2]
    is_method = any(
        method in methods and methods[method].function is obj for methods in METHODS.values()
    )
    if not (what == "method" and is_method) and name != "onednn_graph_py.CompiledGraph":
        return
    if "Parameters" not in lines:
        return
    first = lines.index("Parameters") + 2
    entries = [i for i, line in enumerate(lines) if i >= first and line and line[0] != " "]
    if inspect.isclass(obj) and what == "method":
        head = ["Partition and compile the graph: make a `CompiledGraph`.", ""]
        lines[:] = head + lines[first - 2 : first] + lines[entries[1] : lines.index("Notes")]
    elif what == "method":
        del lines[first : entries[1]]
    else:
        head = [f"The options are those of `{_COMPILE}`.", ""]
        lines[first - 2 : lines.index("Raises")] = head


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, result: str
) -> tuple[str, str] | None:
    if what == "class" and issubclass(obj, enum.Enum):
        return "", ""  # how a member is looked up is Python's own
    if arguments is None:
        return None
    if arguments == "(*args, **kwargs)":  # overloads, listed below
        return "(...)", ""
    return _plain(arguments), _MODULE.sub("", result or "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to autodoc, before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _overloads, priority=100)
    app.connect("autodoc-process-docstring", _attached, priority=100)
    app.connect("autodoc-process-docstring", _members)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}
