"""What everything stands on: errors, data types, loading the extension, text, processes."""
