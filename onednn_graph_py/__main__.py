"""``python -m onednn_graph_py``: see `onednn_graph_py.cli`."""

import sys

from .cli import main

sys.exit(main())
