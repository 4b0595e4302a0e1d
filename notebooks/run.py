"""Execute notebooks from top to bottom, each in a fresh kernel; what ``./dev notebooks`` calls."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

FOLDER = Path(__file__).resolve().parent
KERNEL = "python3"
SECONDS_A_CELL = 300
# How a cell begins the line in which it says what it can't do on this machine, and why.
LEFT_OUT = "left out: "

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class NotFound(Exception):
    """There is no such notebook; the message lists those that there are."""


def chosen(names: Sequence[str], folder: Path = FOLDER) -> list[Path]:
    """The notebooks meant: by number, by how the name begins, or by file name; all for none."""
    every = sorted(folder.glob("*.ipynb"))
    found = []
    for name in names:
        stem = Path(name).name.removesuffix(".ipynb")
        fitting = [p for p in every if p.stem == stem or p.stem.startswith(stem)]
        if not stem or not fitting:
            there = ", ".join(p.stem for p in every)
            raise NotFound(f"there is no notebook {name!r}; there are: {there}")
        found += fitting
    return list(dict.fromkeys(found)) if names else every


def use_this_python(folder: Path) -> None:
    """Have kernels run this environment's Python, and keep their files in a folder.

    Nothing of the user's is read or written: no kernel installed elsewhere takes its place, and no
    start-up file of IPython runs.
    """
    spec = folder / "kernels" / KERNEL
    spec.mkdir(parents=True)
    # Errors only: it warns that other users of this machine could listen, were they root.
    kernel = ["ipykernel_launcher", "-f", "{connection_file}", "--log-level=40"]
    command = [sys.executable, "-m", *kernel]
    described = {"argv": command, "display_name": "Python 3", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(described), encoding="utf-8")
    os.environ.update(
        JUPYTER_PATH=str(folder),
        JUPYTER_RUNTIME_DIR=str(folder / "runtime"),
        IPYTHONDIR=str(folder / "ipython"),
        # The debugger's remark on Python's frozen modules; nobody debugs here.
        PYDEVD_DISABLE_FILE_VALIDATION="1",
    )


def execute(notebook: Any, folder: Path) -> str | None:
    """Run all cells, and put what they give into the notebook.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    folder : Path
        The kernel's working directory.

    Returns
    -------
    str or None
        What went wrong.
    """
    client = NotebookClient(
        notebook,
        kernel_name=KERNEL,
        timeout=SECONDS_A_CELL,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        # What C code prints is in the notebook; the kernel would repeat it on our output.
        client.execute(stdout=subprocess.DEVNULL)
    except (CellExecutionError, CellControlSignal, DeadKernelError) as error:
        return _ANSI.sub("", str(error)).strip()
    return None


def left_out(notebook: Any) -> list[str]:
    """What cells said they can't do here, with the reason."""
    texts = [
        output["text"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    return [
        line.removeprefix(LEFT_OUT)
        for text in texts
        for line in text.splitlines()
        if line.startswith(LEFT_OUT)
    ]


def normalise(notebook: Any) -> None:
    """Take away what another machine or another day would write otherwise."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": KERNEL},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        # nbclient notes when the cell ran.
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """With what one stream wrote at a time in one piece: where it is cut is chance."""
    made: list[Any] = []
    for output in outputs:
        both = [output, *made[-1:]]
        streams = len(both) == 2 and all(o.output_type == "stream" for o in both)
        if streams and output.name == made[-1].name:
            made[-1].text += output.text
        else:
            made.append(output)
    return made


def run(path: Path, *, save: bool) -> bool:
    """Execute one notebook, print a line, and say whether it went well."""
    notebook = nbformat.read(path, as_version=4)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-notebook-") as folder:
        fault = execute(notebook, Path(folder))
    took = time.monotonic() - began
    print(f"{path.stem:<26}{took:6.1f} s  {'ok' if fault is None else 'FAILED'}", flush=True)
    for reason in left_out(notebook):
        print(f"    left out: {reason}", flush=True)
    if fault is not None:
        print("\n".join(f"    {line}" for line in fault.splitlines()), flush=True)
        return False
    if save:
        normalise(notebook)
        nbformat.write(notebook, path)
    return True


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status: 0, 1 if a notebook failed, 2 if there is no such."""
    parser = argparse.ArgumentParser(prog="./dev notebooks", description=__doc__)
    parser.add_argument(
        "name", nargs="*", help="number of a notebook, or the beginning of its name (default: all)"
    )
    parser.add_argument("--save", action="store_true", help="write the outputs into the notebooks")
    given = parser.parse_args(arguments)
    try:
        paths = chosen(given.name)
    except NotFound as error:
        print(f"./dev notebooks: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-jupyter-") as folder:
        use_this_python(Path(folder))
        good = [run(path, save=given.save) for path in paths]
    print(f"{sum(good)} of {len(good)} notebooks ran")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
