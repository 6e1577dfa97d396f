"""Serves a policy pack: Railhead's rules, with a team's own and its configuration.

A pack of one's own is a folder with a PulumiPolicy.yaml and this as its `__main__.py`::

    from railhead.policies.pack import serve

    serve("acme", file=__file__)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pulumi_policy import Policy, PolicyPack

from railhead.policies import RULES
from railhead.policies.reading import read_late
from railhead.policies.settings import settings

TITLE = "Railhead: training clusters on Kubernetes"
DESCRIPTION = "What a plan of a GPU training cluster must obey, from the fabric to the launcher."


def serve(name: str, *, file: str, own: Sequence[Policy] = ()) -> None:
    """Serve the pack to the engine that started this process; returns when the engine ends it.

    Args:
        name: the pack's.
        file: the pack's `__main__.py`; `policies.yaml` beside the pack's folder has the levels and
            parameters of rules.
        own: rules of a team's own.
    """
    rules = [*RULES, *own]
    read_late()
    PolicyPack(
        name=name,
        policies=rules,
        initial_config=settings(Path(file).resolve().parents[1] / "policies.yaml", rules),
        description=DESCRIPTION,
        display_name=TITLE,
        tags=["kubernetes", "gpu", "training", "aws", "gcp"],
    )
