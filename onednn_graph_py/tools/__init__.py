"""Tools for graphs, models and files: see, compare, capture, replay, shrink, test."""
