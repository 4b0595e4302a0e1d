"""A graph as it is written: the builder, its values, and the methods that each op adds to both."""
