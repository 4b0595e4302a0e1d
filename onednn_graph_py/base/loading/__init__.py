"""Loading the extension, so that another oneDNN in the process and missing drivers do no harm."""
