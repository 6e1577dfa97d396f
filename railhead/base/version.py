"""The version of the four distributions, which are one program and released together."""

__version__ = "0.1.0"
