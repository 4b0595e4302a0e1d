"""Dotted version numbers."""


def parse(version: str) -> tuple[int, ...]:
    """Turn ``"3.13.1"`` into ``(3, 13, 1)``."""
    return tuple(int(part) for part in version.split("."))


def at_least(version: str, minimum: str) -> bool:
    """Whether a version is the minimum or newer."""
    return parse(version) >= parse(minimum)
