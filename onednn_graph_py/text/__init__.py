"""What people read and type: tables, HTML, numbers, progress, options that commands share."""
