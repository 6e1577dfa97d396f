"""What a training framework is to a cluster: how the processes of a gang learn of each other.

A framework is one module of this package. Runtimes, guards, the contract and launch ask it; none
of them names one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railhead.base.names import TRAINER_CONTAINER, TRAINER_JOB
from railhead.catalog.versions import Combination


@dataclass(frozen=True, kw_only=True)
class Framework(ABC):
    """A framework, as Kubeflow Trainer runs it.

    Args:
        name: what a runtime's ``framework`` says.
        replicated_job: the job of a runtime whose pods train.
        container: the one of these pods that Trainer fills in.
        launcher: what starts the processes in each pod.
        rendezvous: variables that Trainer sets in it, by which the gang's processes meet.
        per_process: variables that the launcher sets for each process.
        unwired: variables of a runtime's container that end at once a process whose rendezvous
            nobody set; Trainer replaces them.
        nodes_variable: which variable of the rendezvous says how many nodes there are.
        one_node: its values that say one.
        nodes_argument: a regular expression (RE2) that finds, in a command's words joined by
            spaces, that it is for several nodes; None where no command says so.
        launches: a regular expression (RE2) that finds a launcher in a command's words joined by
            spaces, without which each node of a gang would be a world of its own; None where a
            process finds its peers by itself.
        alone: one that finds an argument by which the launcher makes a world of one node.
        process_prefix: a regular expression that matches what a process' log lines start with;
            its group is the process' number on its node. None where lines have no such start.
        source: where it was read.
    """

    name: str
    replicated_job: str = TRAINER_JOB
    container: str = TRAINER_CONTAINER
    launcher: str
    rendezvous: tuple[str, ...]
    per_process: tuple[str, ...]
    unwired: Mapping[str, str] = field(default_factory=dict)
    nodes_variable: str
    one_node: tuple[str, ...] = ("1",)
    nodes_argument: str | None = None
    launches: str | None = None
    alone: str | None = None
    process_prefix: str | None = None
    source: str

    @property
    def reserved(self) -> dict[str, str]:
        """Variables that no job may set -> who sets them."""
        by_trainer = dict.fromkeys(self.rendezvous, "Kubeflow Trainer")
        return dict.fromkeys(self.per_process, self.launcher) | by_trainer

    @abstractmethod
    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """The ``mlPolicy`` of a runtime, without its ``numNodes``.

        Args:
            combination: the cluster's versions; Trainer's policies change between them.
            processes: how many a pod starts unless its job says otherwise.
        """
