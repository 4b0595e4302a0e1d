"""Running plans: models and their arrays, on an engine or a SYCL queue, and traced functions."""
