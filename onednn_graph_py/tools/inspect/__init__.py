"""Tools that show what oneDNN does: diagrams and profiles."""

from .diagram import Diagram, diagram, repr_mimebundle
from .profile import Profile, profile

__all__ = ["Diagram", "Profile", "diagram", "profile", "repr_mimebundle"]
