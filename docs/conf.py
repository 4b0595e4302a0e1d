"""Sphinx's settings; ``./dev docs`` builds the site."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
# The package runs from the source tree, where ./dev has built its extension.
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

import onednn_graph_py as og  # noqa: E402

project = "onednn_graph_py"
author = "onednn_graph_py contributors"
version = release = og.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_parser",
    "extension_docstrings",
    "op_table",
    "outputs",
    "short_references",
]
exclude_patterns = ["extensions", "static", "data", "reports"]
# Docstrings put names of the package, and arguments, into single backticks.
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch"]  # the same pages whether it is installed
autodoc_typehints = "none"  # types stand in the docstrings, in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False

# README.md and the guides link to headings as GitHub names them.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = f"onednn_graph_py {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "static" / "scorer.js")
html_copy_source = False
html_show_copyright = False
