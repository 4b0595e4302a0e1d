"""Numbers as people read them."""


def or_dash(value: float | None, form: str = "") -> str:
    """Format a number; None becomes a dash."""
    return "-" if value is None else format(value, form)


def counted(count: int, what: str) -> str:
    """Return a count with its noun, such as ``1 op`` or ``3 ops``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def bytes_text(size: int) -> str:
    """Format a size with its unit.

    >>> bytes_text(12), bytes_text(5 << 20)
    ('12 bytes', '5.0 MiB')
    """
    if size < 1024:
        return counted(size, "byte")
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1023.95 or unit == "GiB":
            break
    return f"{amount:.1f} {unit}"


def gib_text(size: float) -> str:
    """Format a size in GiB, so that it compares with others."""
    return f"{size / 2**30:.1f} GiB"


def seconds_text(seconds: float | None) -> str:
    """Format a time with three digits and its unit; None becomes an empty string.

    >>> seconds_text(0.012345), seconds_text(4.5e-6)
    ('12.3 ms', '4.5 µs')
    """
    if seconds is None:
        return ""
    if seconds == 0:
        return "<1 µs"  # below the resolution of oneDNN's log
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        value = float(f"{seconds * factor:.3g}")
        if value < 1000:
            return f"{value:g} {unit}"
    return f"{float(f'{seconds:.3g}'):g} s"
