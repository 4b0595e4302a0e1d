"""Why oneDNN refused a call: another process makes it again, and reads what oneDNN prints."""

from .ask import ask, with_reason

__all__ = ["ask", "with_reason"]
