"""What is done with graphs, models and files: see, compare, capture, replay, shrink, test."""
