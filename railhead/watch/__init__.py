"""Monitoring: the metrics, the alerts on them, and the programs that export more.

Pure data and text: :mod:`railhead.resolve.watching` fits it to a stack.
"""
