"""The base of all else: errors, data types, loading the extension, text, processes."""
