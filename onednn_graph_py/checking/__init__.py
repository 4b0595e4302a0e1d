"""Whether results are right: what they may be, by data type and by what ops do to errors."""
