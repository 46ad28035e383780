"""The version of the package, in a module that everything may import."""

__version__ = "0.2.0"
