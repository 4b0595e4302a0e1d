"""Example programs, each named as oneDNN's own where it has one.

``python -m onednn_graph_py.examples`` lists them and ``python -m onednn_graph_py.examples NAME``
runs one. Each public module here is an example: the first line of its docstring is what the list
shows, and ``run`` yields a `Case` for each configuration that it ran and checked.
"""
