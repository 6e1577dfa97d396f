"""The stack's last update, as its own outputs describe it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pulumi

from railhead import contract

# The output that says that the stack took over what an earlier one had left.
ADOPTED = "adopted"
# How often the state is read that is being written, and how long after.
READS = 5
READ_SECONDS = 0.3


def outputs() -> Mapping[str, Any]:
    """Return the stack's outputs as they are, which also stay its outputs should the program fail.

    The engine reads them from the stack's state (pulumi, pkg/resource/deploy/builtins.go,
    readStackOutputs), of which no update of ours has begun. Without exporting them again a program
    that raises would leave the stack without outputs (sdk/python, runtime/stack.py, run_in_stack
    finishes the stack whatever happens), and the next edit would be compared with nothing.
    """
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    reported = _read(stack)
    result: dict[str, Any] = (reported or {}).get("outputs") or {}
    secret = set((reported or {}).get("secretOutputNames") or ())
    for name, value in result.items():
        pulumi.export(name, pulumi.Output.secret(value) if name in secret else value)
    return result


def _read(stack: str, reads: int = READS) -> Any:
    """Return the answer of ``readStackOutputs``.

    The engine writes the stack's state while it asks its backend for it: a file backend then may
    find a file that is empty (``failed to load checkpoint: EOF``), and a moment later the whole.
    """
    try:
        return pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": stack}).value
    except Exception as error:  # the SDK raises nothing more exact
        if reads == 1 or "failed to load checkpoint" not in str(error):
            raise
    time.sleep(READ_SECONDS)
    return _read(stack, reads - 1)


def made(found: Mapping[str, Any]) -> contract.ClusterContract | None:
    """Return the contract among them; None where no update has got that far.

    Raises:
        InputError: it is of a newer Railhead, or none.
    """
    if (raw := found.get(contract.OUTPUT)) is None:
        return None
    return contract.ClusterContract.from_data(raw, where=f"the stack's output {contract.OUTPUT!r}")


def detailed(published: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contract with the platform's details: those of ``found`` that have a name."""
    details = {name: value for name, value in found.items() if name}
    return {**published, "details": details} if details else dict(published)
