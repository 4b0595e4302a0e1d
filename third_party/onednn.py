#!/usr/bin/env python3
"""Have a oneDNN to build against: find it, or fetch, verify and build it from source.

    python third_party/onednn.py build     build it if needed, tell where it is
    python third_party/onednn.py prefix    the same, and print nothing but the prefix
    python third_party/onednn.py source    fetch the source tree if needed, print its path
    python third_party/onednn.py info      tell what would be done, and do nothing

Results go to stdout, progress to stderr. It needs Python 3.10 and nothing else.
"""

import argparse
import sys

from onednn_recipe import process, settings, toolchain
from onednn_recipe.recipe import Recipe
from onednn_recipe.report import RecipeError, lacked_by


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="onednn.py",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=f"environment:\n{settings.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = {"build": _build, "prefix": _prefix, "source": _source, "info": _info}
    parser.add_argument("command", nargs="?", default="build", choices=commands)
    command = parser.parse_args(arguments).command
    try:
        with process.signals_raise():
            for line in commands[command]():
                print(line)
    except RecipeError as error:
        print(f"oneDNN: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if (lack := lacked_by(error)) is None:
            raise
        print(f"oneDNN: error: {lack}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("oneDNN: interrupted; the same command resumes it", file=sys.stderr)
        return 130
    return 0


def _build() -> list[str]:
    found = Recipe().ensure()
    return [
        f"version      {found.version}",
        f"prefix       {found.prefix}",
        f"library      {found.library}",
        f"source tree  {found.source_dir or '(not kept)'}",
    ]


def _prefix() -> list[str]:
    return [str(Recipe().ensure().prefix)]


def _source() -> list[str]:
    return [str(Recipe().source())]


def _info() -> list[str]:
    recipe = Recipe()
    lines = [f"cache        {recipe.cache.root}", f"jobs         {recipe.settings.jobs}"]
    if recipe.settings.root is not None:
        return [*lines, f"ONEDNN_ROOT  {recipe.settings.root}: nothing is built"]
    source = recipe.preferred
    lines += [
        f"version      {source.version} from {source.name} ({source.identity})",
        f"compiler     {recipe.compiler.identity}",
        f"options      {' '.join(recipe.arguments)}",
        f"finished     {'yes' if recipe.finished(source) else 'no'}",
        f"prefix       {recipe.cache.prefix(recipe.key(source))}",
        f"log          {recipe.cache.log(recipe.key(source))}",
    ]
    if recipe.cache.choice.is_file():
        lines.append(
            f"choice       kept in {recipe.cache.choice}; delete it to ask all sources again"
        )
    missing = toolchain.missing_tools(recipe.pins.tools)
    if missing:
        lines.append(f"from PyPI    {', '.join(missing)}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
