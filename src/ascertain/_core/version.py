"""The version of the package; nothing else, so that everything may import it."""

__version__ = "0.1.0"
