"""Graphs as they are written: the builder, its values, and the methods of both for each op."""
