"""The interface of a training framework: how the processes of a gang find each other.

A framework is one module of this package. Runtimes, guards, the contract and launch use this
interface; none of them names a framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railhead.base.names import TRAINER_CONTAINER, TRAINER_JOB
from railhead.base.programs import program

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: A pod's variable with its own number in its gang, from 0; the kubelet puts it in place of
#: ``$(RAILHEAD_NODE_RANK)`` in variables that come after it, and in commands.
NODE_RANK = "RAILHEAD_NODE_RANK"
#: A pod's variable with the number of its gang's pods.
NODES = "RAILHEAD_NODES"
#: Programs of frameworks: :func:`railhead.base.programs.program`.
PROGRAMS = "railhead.framework.programs"
#: Programs that run the words behind their own as they are; any other may be a launcher itself.
WRAPPERS = frozenset(
    "conda env mamba micromamba ncu nice nsys numactl pixi poetry stdbuf taskset time timeout "
    "uv".split()
)
#: Programs that read a command from their words.
SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
#: What Trainer's own policies take (v2.1.0, pkg/constants), and so everything here.
PORT = 29500


def starter_key(name: str) -> str:
    """Return the name that a starter has among the pods' programs: no module's that it imports."""
    return f"start_{name}"


def program_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a job's program itself, which no launcher starts."""
    return ("python3", *words) if words[0].endswith(".py") else tuple(words)


class Expanded(str):
    """A word of a command whose ``$(NAME)`` the kubelet expands; all others reach the program."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Gang:
    """The pods of one job, before any of them is there.

    Args:
        job: the job's name.
        hosts: the DNS name of each pod, in the order of their numbers.
        processes: what each of them starts.
        programs: the directory in which they have frameworks' programs; empty if they have none.
    """

    job: str
    hosts: tuple[str, ...]
    processes: int
    programs: str = ""

    @property
    def nodes(self) -> int:
        """Number of pods."""
        return len(self.hosts)

    @property
    def world_size(self) -> int:
        """Number of processes in all pods."""
        return self.nodes * self.processes


@dataclass(frozen=True, kw_only=True)
class Framework(ABC):
    """A framework, as Kubeflow Trainer runs it.

    Args:
        name: what a runtime's ``framework`` says.
        replicated_job: the job of a runtime whose pods train.
        servers: jobs of a runtime whose pods take part, with processes that the former starts.
        container: the one of these pods that Trainer fills in.
        user: the user and group that it runs as; None for the image's.
        launcher: what starts the processes in each pod.
        rendezvous: variables that Trainer sets in it, by which the gang's processes meet.
        per_process: variables that the launcher sets for each process.
        unwired: variables of a runtime's container that end a process at once if nobody set its
            rendezvous; Trainer replaces them.
        sockets: variables of a runtime's container that name the interfaces of the framework's own
            connections, which are those of NCCL's bootstrap.
        nodes_variable: the variable of the rendezvous that holds the number of nodes.
        one_node: its values that mean one node.
        nodes_argument: a regular expression (RE2) that finds, in a command's words joined by
            spaces, that it is for several nodes; None where no command says so.
        launches: a regular expression (RE2) that finds a launcher in a command's words joined by
            spaces, without which each node of a gang would be a world of its own; None where a
            process finds its peers by itself.
        alone: a regular expression that finds an argument by which the launcher makes a world
            of one node.
        same: a regular expression whose group is an argument by which all nodes of a gang would
            take the same place in it.
        python: files that each pod's Python finds first, path -> text; they end a process that
            trains in another world than the one that was asked for.
        process_prefix: a regular expression that matches the start of a process' log lines; its
            group is the process' number on its node. None if lines have no such start.
        starter: the program that starts a pod's processes, which runtimes bring; empty without.
        set_by_job: variables of the rendezvous that the job itself must set, as no policy of
            Trainer's does; launch sets them.
        carries: whether its runtimes set so little that jobs of other frameworks run on them.
        one_process: whether a pod's one process takes all of its GPUs.
        fewest_nodes: the fewest nodes of a job.
        elastic: whether its launcher can go on with fewer nodes than it began with.
        kinds: kinds of job of other controllers that run it, beside those that run anything.
        controller: kind of job -> variables that its controller sets.
        label: what ``trainer.kubeflow.org/framework`` says; the Kubeflow SDK knows some words.
        source: the documents and sources behind this row.
    """

    name: str
    replicated_job: str = TRAINER_JOB
    servers: tuple[str, ...] = ()
    container: str = TRAINER_CONTAINER
    user: int | None = None
    launcher: str
    rendezvous: tuple[str, ...]
    per_process: tuple[str, ...]
    unwired: Mapping[str, str] = field(default_factory=dict)
    sockets: tuple[str, ...] = ()
    nodes_variable: str
    one_node: tuple[str, ...] = ("1",)
    nodes_argument: str | None = None
    launches: str | None = None
    alone: str | None = None
    same: str | None = None
    python: Mapping[str, str] = field(default_factory=dict)
    process_prefix: str | None = None
    starter: str = ""
    set_by_job: tuple[str, ...] = ()
    carries: bool = False
    one_process: bool = False
    fewest_nodes: int = 1
    elastic: bool = False
    kinds: tuple[str, ...] = ()
    controller: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str | None = None
    source: str

    @property
    def job_sets_all(self) -> bool:
        """True if a job alone can set all of the rendezvous, whatever its runtime."""
        return bool(self.set_by_job) and set(self.rendezvous) <= {NODE_RANK, *self.set_by_job}

    @property
    def reserved(self) -> dict[str, str]:
        """Variables that no job may set -> who sets them."""
        by_trainer = dict.fromkeys(self.rendezvous, "Kubeflow Trainer")
        by_launch = dict.fromkeys(self.set_by_job, "railhead launch")
        return dict.fromkeys(self.per_process, self.launcher) | by_trainer | by_launch

    @abstractmethod
    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Return the ``mlPolicy`` of a runtime, whose ``numNodes`` is its nodes unless said here.

        Args:
            combination: the cluster's versions; Trainer's policies change between them.
            processes: how many a pod starts unless its job says otherwise.
        """

    @abstractmethod
    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the variables of each pod by which the processes meet without a controller's help.

        Values may hold ``$(RAILHEAD_NODE_RANK)``.
        """

    def process(self, gang: Gang, node: int, local: int) -> dict[str, str]:
        """Return the variables that a pod's launcher sets for process ``local`` of pod ``node``."""
        del gang, node, local
        return {}

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Return the command of each pod for a job's words; adds the launcher to a Python file."""
        del gang
        return program_of(words)

    def started(self, gang: Gang) -> tuple[str, ...]:
        """Return the words that run ``starter``; its text travels where pods have no programs."""
        if gang.programs:
            return ("python3", f"{gang.programs}/{starter_key(self.starter)}")
        return ("python3", "-c", program(PROGRAMS, self.starter))

    def proving(self, program: str) -> tuple[str, ...] | None:
        """Return the command of each pod that runs a Python file in the job's world first.

        It meets on another port than the job's own processes: those of one pod may begin while
        these still end in another. None if nothing can start such a file before the job's command.
        """
        del program
        return None

    def instead(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the command that does what ``words`` do, by the launcher; empty if none does."""
        del words
        return ()

    def problems(self, words: Sequence[str], gang: Gang, gpus: int) -> list[tuple[str, str]]:
        """Return what cannot work in a job's command, as texts with fixes.

        ``gpus`` are those that NVLink joins to a pod's, its own included.
        """
        del words, gang, gpus
        return []

    def forwarding(self, words: Sequence[str], names: Iterable[str]) -> dict[str, str]:
        """Return the variables by which these ones of the first pod reach the other pods, too."""
        del words, names
        return {}

    def saving(self, seconds: int) -> dict[str, str]:
        """Return the variables by which processes that must end have so long to save their work."""
        del seconds
        return {}

    def patience(self, seconds: int) -> dict[str, str]:
        """Return the variables by which the first pods wait so long for the last one."""
        del seconds
        return {}

    def job_set(self, job: Mapping[str, Any], nodes: int) -> dict[str, Any]:
        """Return the part of a runtime's JobSet that runs ``job``, the spec of the Job of its pods.

        The replicated job called ``replicated_job`` has ``metadata`` for the labels of Trainer.
        """
        del nodes
        template = {"metadata": {}, "spec": dict(job)}
        return {"replicatedJobs": [{"name": self.replicated_job, "template": template}]}
