"""Text for people: tables, HTML, numbers, progress, and options that commands share."""
