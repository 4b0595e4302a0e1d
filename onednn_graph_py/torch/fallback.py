"""The warning that torch runs what was meant for oneDNN."""


class FallbackWarning(UserWarning):
    """torch runs a graph, or more than half of its arithmetic, instead of oneDNN."""
