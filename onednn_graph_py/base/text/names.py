"""Names of others in text: shortened lists, hints at misspelt ones, what terminals may get."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from ..errors import escaped


def did_you_mean(name: str, known: Iterable[str], shown: Callable[[str], str] = repr) -> str:
    """Return a hint such as ``, did you mean 'MatMul'?``; empty if no name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f", did you mean {shown(near[0])}?" if near else ""


def install_line(extra: str) -> str:
    """Return how to install what an extra brings; the package is not on PyPI yet."""
    return f"pip install '.[{extra}]' in a clone of onednn_graph_py"


def needs(what: str, module: str, extra: str) -> ModuleNotFoundError:
    """Make the error of what can't work without a module, which the extra installs."""
    return ModuleNotFoundError(f"{what} needs {module}: {install_line(extra)}", name=module)


def printable(text: str, but: str = "\n") -> str:
    r"""Return a text with escapes for what a terminal could obey, or show in another order.

    - `but`: characters that stay as they are

    >>> printable("a\x1b[31mé")
    'a\\x1b[31mé'
    """
    return escaped(text, but)


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Return all names, or the first of them and the number of the others.

    >>> shortened(["MatMul", "Add", "ReLU"], 2)
    ['MatMul', '2 more']
    """
    if len(names) <= most:
        return list(names)
    return [*names[: most - 1], f"{len(names) - most + 1} more"]
