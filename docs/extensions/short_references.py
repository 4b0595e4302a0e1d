"""The names that people write, `og.GraphBuilder` and `og.dtypes.pack_int4`, for what is documented.

Sphinx looks for a name in the module that a docstring belongs to. What is not there is looked for
in the package, and in the modules that are its attributes. A name that is written in full and
documented nowhere is a mistake, and warned of; others may be arguments.

Headings show `og.` for the package, and its modules as its attributes.
"""

import inspect
from typing import cast

from docutils.nodes import Element, Text
from sphinx.addnodes import desc_addname, pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

import onednn_graph_py as og

_PACKAGE = "onednn_graph_py."
# The two that are not imported here need what may be missing.
_MODULES = {f"{_PACKAGE}{name}.": name for name in ("onnx", "torch")} | {
    f"{module.__name__}.": name
    for name in set(dir(og)) - {"onnx", "torch"}
    if inspect.ismodule(module := getattr(og, name))
}
_MODULES[f"{_PACKAGE}frontends.regions."] = "frontends"  # which has its names
_FULL_NAMES = {name: full for full, name in _MODULES.items()}
_log = logging.getLogger(__name__)


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element
) -> Element | None:
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"]).removesuffix("()")
    module, _, name = target.removeprefix("og.").removeprefix(_PACKAGE).partition(".")
    full = (_FULL_NAMES.get(module, f"{_PACKAGE}{module}.") + name).removesuffix(".")
    found = cast(PythonDomain, env.get_domain("py")).objects.get(full)
    if found is not None:
        place = (node["refdoc"], found.docname, found.node_id)
        return make_refnode(app.builder, *place, shown, full)
    if target.startswith(_PACKAGE):
        _log.warning("%s is documented nowhere", target, location=node)
    return None


def _show_short_names(_: Sphinx, page: Element) -> None:
    for prefix in page.findall(desc_addname):
        full = prefix.astext()
        if full == _PACKAGE or full in _MODULES:
            prefix.children = [Text(f"og.{_MODULES[full]}." if full in _MODULES else "og.")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to what Sphinx asks when it finds nothing itself, and to pages that it has read."""
    app.connect("missing-reference", _resolve)
    app.connect("doctree-read", _show_short_names)
    return {"parallel_read_safe": True}
