"""Compares an edited stack's file with what the stack made last, for what the edit would lose.

The stack records what it made in its contract, one of its outputs. Kubernetes renames nothing: an
object with another name is another object, and the old one goes with all that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from railhead.base.errors import RefusedError
from railhead.config.edits.below import recreated
from railhead.config.edits.doubts import doubts
from railhead.config.edits.edit import Edit
from railhead.config.edits.objects import lost
from railhead.contract import ClusterContract
from railhead.model.removals import RemovalConfig

__all__ = ["Edit", "edits", "stop"]


def edits(before: ClusterContract, after: ClusterContract) -> tuple[Edit, ...]:
    """Return all that an edit removes or recreates of what the stack made before."""
    return (*recreated(before, after), *lost(before, after))


def stop(before: ClusterContract, after: ClusterContract, removals: Sequence[RemovalConfig]) -> str:
    """Refuse an edit that loses what the file does not allow; return warnings.

    Raises:
        RefusedError: something would be lost; one paragraph for each object.
    """
    all_edits = edits(before, after)
    if barred := [edit for edit in all_edits if not edit.allowed_by(removals)]:
        raise RefusedError(
            f"cluster {after.cluster}: this edit would lose what the stack made:\n"
            + "\n".join(f"  {edit}" for edit in barred),
            remedy="undo the edit, or say in the stack's file what may be lost; "
            "nothing was changed (docs/editing.md)",
        )
    named = {(edit.kind, edit.name) for edit in all_edits}
    stale = [row for row in removals if (row.kind, row.name) not in named]
    there = _present(after)
    if standing := [f"{r.kind} {r.name}" for r in stale if (r.kind, r.name) in there]:
        raise RefusedError(
            f"removals: {', '.join(standing)}: this edit takes nothing from it, and the entry "
            "would let a later one do so",
            remedy="take the entry out; nothing was changed",
        )
    gone = ", ".join(f"{row.kind} {row.name}" for row in stale)
    messages = [f"removals: {gone}: no longer there; take the entry out"] if stale else []
    return "\n".join((*messages, *doubts(before, after)))


def _present(contract: ClusterContract) -> set[tuple[str, str]]:
    return {
        *(("checkpoint", f"{c.namespace}/{c.claim}") for c in contract.checkpoints),
        *(("namespace", name) for name in contract.namespaces),
        *(("queue", f"{q.namespace}/{q.name}") for q in contract.queues),
        *(("pool", pool.name) for pool in contract.node_pools),
        *(("storage", name) for name in contract.made.storage),
        ("cluster", contract.cluster),
    }
