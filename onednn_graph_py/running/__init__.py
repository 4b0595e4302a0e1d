"""A plan called: models with their arrays, on the CPU's engine or a queue, and functions traced."""
