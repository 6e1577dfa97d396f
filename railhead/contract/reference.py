"""Contracts of other stacks in a Pulumi program: the only module of Railhead that imports Pulumi.

>>> from railhead.contract import ClusterContract
>>> training = ClusterContract.from_stack("organization/railhead/lab")  # doctest: +SKIP
>>> training.contract.apply(lambda contract: contract.queue().name)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime.settings import get_monitor

from railhead.base.errors import NotFoundError, RailheadError


class Published(Protocol):
    """The interface of a contract."""

    @property
    def details(self) -> Mapping[str, str]:
        """The platform's identifiers for other projects."""


C = TypeVar("C", bound=Published)
Options = pulumi.ResourceOptions
Reference = pulumi.StackReference


class MissingOutputError(NotFoundError, pulumi.RunError):
    """The other stack has no such output; the message lists its outputs.

    A ``RunError`` as well, so that the engine prints its message without a traceback.
    """


class UnreadableContractError(RailheadError, pulumi.RunError):
    """The other stack's output is not a contract that this Railhead can read."""


# Connection to the engine -> stack -> its reference: the engine refuses a second one by that name.
_REFERENCES: WeakKeyDictionary[Any, dict[str, pulumi.StackReference]] = WeakKeyDictionary()


def _reference(
    stack: str, name: str | None, opts: pulumi.ResourceOptions | None
) -> pulumi.StackReference:
    """Return a reference; the program's only one of that stack without a name and options."""
    if name is not None or opts is not None:
        return pulumi.StackReference(name or stack, stack_name=stack, opts=opts)
    # A program has one connection to the engine.
    known = _REFERENCES.setdefault(get_monitor(), {})
    if stack not in known:
        known[stack] = pulumi.StackReference(stack)
    return known[stack]


class StackContract(Generic[C]):
    """The contract of another stack, as outputs.

    It works at preview: the engine reads the other stack's last deployment. Secrets stay secrets,
    and the contract, which is not secret, does not become one.

    Args:
        stack: ``organization/project/stack``.
        key: the output that holds the contract.
        kubeconfig: the output that holds the kubeconfig.
        parse: makes a contract of the output's value; an error that it raises stops the program.
        name: of the StackReference; default: ``stack``, once for a program however often it asks.
        opts: of the StackReference.
        reference: a StackReference of the program's own, in place of a new one.
    """

    #: The contract, parsed.
    contract: pulumi.Output[C]

    def __init__(
        self,
        stack: str,
        *,
        key: str,
        kubeconfig: str,
        parse: Callable[[Any], C],
        name: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
        reference: pulumi.StackReference | None = None,
    ) -> None:
        self.stack = stack
        self._kubeconfig = kubeconfig
        self._parse = parse
        self.reference = reference or _reference(stack, name, opts)
        self.contract = self.output(key).apply(self._parsed)

    @property
    def kubeconfig(self) -> pulumi.Output[str]:
        """The kubeconfig, a secret; stacks on existing clusters have no kubeconfig."""
        return self.output(self._kubeconfig)

    @property
    def details(self) -> pulumi.Output[Mapping[str, str]]:
        """The platform's identifiers for other projects, such as ``vpc_id``."""
        return self.contract.apply(lambda contract: contract.details)

    def detail(self, name: str) -> pulumi.Output[str]:
        """Return one of ``details``; the error for an unknown one lists them all."""
        return self.details.apply(lambda details: self._of(details, name, "detail"))

    def output(self, name: str) -> pulumi.Output[Any]:
        """Return an output of the stack; the error for an unknown one lists them all."""
        # By name: the outputs as a whole are a secret as soon as one of them is.
        return self.reference.get_output(name).apply(
            lambda value: value if value is not None else self._missing(name)
        )

    def _missing(self, name: str) -> pulumi.Output[Any]:
        return self.reference.outputs.apply(lambda outputs: self._of(outputs, name, "output"))

    def _of(self, there: Mapping[str, Any], name: str, kind: str) -> Any:
        if name in there:
            return there[name]
        listed = ", ".join(sorted(there)) or "none; it was never deployed, or destroyed"
        raise MissingOutputError(
            f"stack {self.stack!r} has no {kind} {name!r}; there are: {listed}",
            remedy="run `pulumi up` on that stack, or name another output",
        )

    def _parsed(self, data: Any) -> C:
        try:
            return self._parse(data)
        except RailheadError as error:
            raise UnreadableContractError(error.problem, remedy=error.remedy) from None
