"""The version of the four distributions, which are one program and released together."""

__version__ = "0.1.0"
#: Their names, from the base up.
DISTRIBUTIONS = ("railhead-diagnose", "railhead", "railhead-accept", "railhead-lab")
