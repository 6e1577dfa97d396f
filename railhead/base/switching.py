"""Detection of environment variables that a command changes before it runs a program."""

from __future__ import annotations

import re
from collections.abc import Iterable


def changed(names: Iterable[str], pinned: Iterable[str]) -> str:
    """Return a regular expression (RE2 and Python) that matches a command's changes of variables.

    A match sets one of ``names`` (first group), removes one of ``pinned`` (second group), or drops
    the whole environment.

    >>> change = re.compile(changed(["NCCL_NET", "UCX_TLS"], ["NCCL_NET"]))
    >>> change.search("env -u NCCL_NET ./train")[2]
    'NCCL_NET'
    >>> change.search("env NCCL_NETS=x ./train") or change.search("unset UCX_TLS; ./train")
    """
    listed, kept = ("|".join(map(re.escape, every)) or "$^" for every in (names, pinned))
    away = r"unset (?:[^;&|]*[^A-Za-z0-9_;&|])?|-u *|--unset[= ]|export -n "
    return (
        rf"(?:^|[^A-Za-z0-9_])(?:({listed})=|(?:{away})({kept})(?:$|[^A-Za-z0-9_=])"
        r"|env (?:-i|-|--ignore-environment) )"
    )
