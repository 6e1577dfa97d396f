"""Checks before a job is created: one file each, found by being here.

Each has ``ORDER`` and ``check(asked)``, which returns its findings.
"""
