"""What an edit of a stack's file would take away, against what the stack made last.

What it made last is its contract, an output of its own. Kubernetes renames nothing: an object with
another name is another object, and the old one goes with all that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from railhead.base.errors import RefusedError
from railhead.config.edits.below import made_anew
from railhead.config.edits.doubts import doubts
from railhead.config.edits.edit import Edit
from railhead.config.edits.objects import lost
from railhead.contract import ClusterContract
from railhead.model.removals import RemovalConfig

__all__ = ["Edit", "edits", "stop"]


def edits(before: ClusterContract, after: ClusterContract) -> tuple[Edit, ...]:
    """All that goes, or is made anew, from what a stack made to what its file says now."""
    return (*made_anew(before, after), *lost(before, after))


def stop(before: ClusterContract, after: ClusterContract, removals: Sequence[RemovalConfig]) -> str:
    """Let through what loses nothing and what the file allows; return what to warn of.

    Raises:
        RefusedError: something would be lost; one paragraph for each object.
    """
    found = edits(before, after)
    if barred := [one for one in found if not one.allowed_by(removals)]:
        raise RefusedError(
            f"cluster {after.cluster}: this edit would lose what the stack made:\n"
            + "\n".join(f"  {one}" for one in barred),
            remedy="undo the edit, or say in the stack's file what may be lost; "
            "nothing was changed (docs/editing.md)",
        )
    named = {(one.kind, one.name) for one in found}
    stale = [one for one in removals if (one.kind, one.name) not in named]
    there = _present(after)
    if standing := [f"{r.kind} {r.name}" for r in stale if (r.kind, r.name) in there]:
        raise RefusedError(
            f"removals: {', '.join(standing)}: this edit takes nothing from it, and the entry "
            "would let a later one do so",
            remedy="take the entry out; nothing was changed",
        )
    gone = ", ".join(f"{one.kind} {one.name}" for one in stale)
    told = [f"removals: {gone}: no longer there; take the entry out"] if stale else []
    return "\n".join((*told, *doubts(before, after)))


def _present(contract: ClusterContract) -> set[tuple[str, str]]:
    return {
        *(("checkpoint", f"{c.namespace}/{c.claim}") for c in contract.checkpoints),
        *(("namespace", name) for name in contract.namespaces),
        *(("queue", f"{q.namespace}/{q.name}") for q in contract.queues),
        *(("pool", pool.name) for pool in contract.node_pools),
        *(("storage", name) for name in contract.made.storage),
        ("cluster", contract.cluster),
    }
