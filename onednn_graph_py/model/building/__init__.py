"""Building graphs: the builder, its values, and the methods of both for each op."""
