"""Checking of results: the reference values, and the errors that rounding may cause."""
