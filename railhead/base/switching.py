"""Variables that a command changes on its way: what its words say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def changed(names: Iterable[str], pinned: Iterable[str]) -> str:
    """A regular expression (RE2, and Python's) that finds what a command changes of variables.

    It sets one of ``names``, or takes one of ``pinned`` away, which is the first or the second
    group; or it drops the whole environment.

    >>> found = re.compile(changed(["NCCL_NET", "UCX_TLS"], ["NCCL_NET"]))
    >>> found.search("env -u NCCL_NET ./train")[2]
    'NCCL_NET'
    >>> found.search("env NCCL_NETS=x ./train") or found.search("unset UCX_TLS; ./train")
    """
    listed, kept = ("|".join(map(re.escape, every)) or "$^" for every in (names, pinned))
    away = r"unset (?:[^;&|]*[^A-Za-z0-9_;&|])?|-u *|--unset[= ]|export -n "
    return (
        rf"(?:^|[^A-Za-z0-9_])(?:({listed})=|(?:{away})({kept})(?:$|[^A-Za-z0-9_=])"
        r"|env (?:-i|-|--ignore-environment) )"
    )
