"""What runs, how fast, and why not otherwise."""
