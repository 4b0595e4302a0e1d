"""What tests that compile C++ programs need of a machine."""

import pytest

from matrix.programs import COMPILER, HEADERS

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")
needs_headers = pytest.mark.skipif(HEADERS is None, reason="the linked oneDNN's headers are gone")
