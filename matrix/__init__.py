"""What oneDNN gets right, by version and instruction set: ``./dev matrix`` measures, pages show it.

`programs` tries each known wrong result in C++ against the library alone, `measuring` runs that and
the package's own commands for each instruction set, `results` keeps what was found in
``docs/data/matrix/``, and `page` makes the documentation's page of it.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
