"""The version of this package, in one place."""

__version__ = "0.2.0"
