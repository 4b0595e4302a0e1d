"""References by the names that people import: docstrings of any module may say `GraphBuilder`.

Sphinx looks for a name in the module that a docstring belongs to. What is not there is looked for
in the package. A name that is written in full and documented nowhere is a mistake, and warned of;
others may be arguments.
"""

from typing import cast

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

_PACKAGE = "onednn_graph_py."
_log = logging.getLogger(__name__)


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element
) -> Element | None:
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"]).removesuffix("()")
    found = cast(PythonDomain, env.get_domain("py")).objects.get(_PACKAGE + target)
    if found is not None:
        place = (node["refdoc"], found.docname, found.node_id)
        return make_refnode(app.builder, *place, shown, _PACKAGE + target)
    if target.startswith(_PACKAGE):
        _log.warning("%s is documented nowhere", target, location=node)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to what Sphinx asks when it finds nothing itself."""
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True}
