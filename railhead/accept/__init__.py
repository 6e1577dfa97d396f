"""The acceptance suite: five promises, each proven by a run, and the report that is signed.

:mod:`~railhead.accept.model` is what a check gives, :mod:`~railhead.accept.check` what a check is,
:mod:`~railhead.accept.site` the cluster that it runs on, and ``checks`` has one file a check.
"""
