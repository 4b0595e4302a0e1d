"""The libraries that this process has loaded."""


def loaded_here() -> list[str]:
    """Return the files of all libraries that this process has loaded, where the system tells."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            fields = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    except OSError:
        return []
    return list(dict.fromkeys(f[5] for f in fields if len(f) == 6 and f[5].startswith("/")))
