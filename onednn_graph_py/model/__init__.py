"""Graphs as they are written, their plans, and models that run them."""
