"""What is looked at before a job is created: one file a check, found by being here.

Each has ``ORDER`` and ``check(asked)``, which gives its findings.
"""
