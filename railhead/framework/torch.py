"""PyTorch: torchrun in each pod starts its processes, and they meet at the first pod's address.

DDP needs nothing more. What is started by torchrun too differs in its row alone: :func:`torchrun`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from railhead.base.programs import program
from railhead.framework.base import NODE_RANK, PORT, PROGRAMS, Expanded, Framework, Gang

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railhead.catalog.versions import Combination

_RENDEZVOUS = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
_SOURCE = (
    "Trainer v2.1.0 and v2.3.0, pkg/runtime/framework/plugins/torch and pkg/constants; "
    "torch/distributed/argparse_util.py and torch/distributed/elastic"
)


#: Programs in whose place torchrun may start the processes.
_STARTERS = re.compile(r"(?:\S*/)?(?:python[0-9.]*|torchrun|deepspeed)")
#: Programs that run the words behind their own as they are; any other may be a launcher itself.
_WRAPPERS = frozenset(("conda", "env", "mamba", "ncu", "nsys", "numactl", "pixi", "poetry", "uv"))
#: Arguments of torchrun by which a world has another size or place than the job's.
_SIZES = re.compile(r"--(standalone|nnodes|nproc[_-]per[_-]node|rdzv[_-](backend|endpoint|id))\b")
#: Arguments of `accelerate launch` by which it starts processes itself, or a file that may say so.
_KINDS = frozenset(
    ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu", "--cpu")
)


def _accelerate(before: str, word: str) -> bool:
    """Return whether two words of a command are accelerate's launcher."""
    of_module = (before, word) == ("-m", "accelerate.commands.launch")
    return of_module or (before.rpartition("/")[2], word) == ("accelerate", "launch")


def _machines(words: Sequence[str], gang: Gang) -> tuple[str, ...]:
    """Return the arguments of `accelerate launch` that Trainer's variables hold.

    accelerate 1.15.0, src/accelerate/commands/launch.py and utils/launch.py: arguments win over a
    configuration file; where a process sees one GPU, only --multi_gpu has it make a world; and of
    DeepSpeed's launchers, `standard` alone needs no ssh.
    """
    # Its own default is 0, which wins over a runtime's PET_TEE, and output stays in a file.
    shown = ("--tee", "1")
    if gang.nodes == 1:
        return ("--num_machines", "1", "--num_processes", str(gang.world_size), *shown)
    file = any(word.partition("=")[0] == "--config_file" for word in words)
    alone = gang.processes == 1 and not file and not _KINDS & set(words)
    return (
        *(("--multi_gpu",) if alone else ()),
        *("--num_machines", str(gang.nodes), "--num_processes", str(gang.world_size)),
        *("--machine_rank", Expanded("$(PET_NODE_RANK)")),
        *("--main_process_ip", Expanded("$(PET_MASTER_ADDR)")),
        *("--main_process_port", Expanded("$(PET_MASTER_PORT)")),
        *("--deepspeed_multinode_launcher", "standard"),
        *shown,
    )


def _python() -> Mapping[str, str]:
    """Return PyTorch's entry point and its module, :mod:`railhead.framework.programs.world`."""
    return {
        "railhead_world.py": program(PROGRAMS, "world.py"),
        # Of a package only its entry points are read (importlib/metadata); inventories want a name.
        "railhead_world-1.dist-info/METADATA": "Metadata-Version: 2.1\n"
        "Name: railhead-world\nVersion: 1\n",
        "railhead_world-1.dist-info/entry_points.txt": "[torch.backends]\n"
        "railhead_world = railhead_world:watch\n",
    }


@dataclass(frozen=True, kw_only=True)
class Torch(Framework):
    """A framework that torchrun starts."""

    launcher: str = "torchrun"
    rendezvous: tuple[str, ...] = _RENDEZVOUS
    per_process: tuple[str, ...] = (
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "RANK",
        "WORLD_SIZE",
    )
    # torchrun ends at once on it; without it each pod would be a world of one, with a plausible
    # result.
    unwired: Mapping[str, str] = field(default_factory=lambda: {"PET_NNODES": "0"})
    elastic: bool = True
    nodes_variable: str = "PET_NNODES"
    # An elastic job gives a range.
    one_node: tuple[str, ...] = ("1", "1:1")
    nodes_argument: str | None = r"(^|\s)--nnodes[= ](0*[2-9]|0*[1-9][0-9]+|[0-9]+:)"
    # Others read none of what Trainer sets; accelerate's takes it as arguments, which start() adds.
    launches: str | None = (
        r"(^|[\s/;&|\"'(])(torchrun|torch\.distributed\.(run|launch))($|[\s;&|\"')])"
        r"|(^|[\s/;&|\"'(])accelerate( |\.commands\.)launch .*--machine_rank"
    )
    # Arguments win over the PET_ variables (torch/distributed/argparse_util.py).
    alone: str | None = (
        r"(^|\s)--(standalone($|[\s;&|\"')])|nnodes[= ][\"']?0*1(:[0-9]+)?($|[\s;&|\"')]))"
        # Each node would wait for the others at itself.
        r"|(^|\s)--rdzv[_-]endpoint[= ][\"']?(localhost|127\.0\.0\.1)\b"
        # Set or unset; `$(PET_NODE_RANK)` is a word for the kubelet.
        r"|(^|[\s;&|\"']|(^|[^$])\()(unset +)?"
        r"PET_(NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|STANDALONE)($|[=\s;&|\"')])"
    )
    python: Mapping[str, str] = field(default_factory=_python)
    # With --tee: `[<role><local rank>]:`.
    process_prefix: str | None = r"\[[A-Za-z_-]*?(\d+)\]:"
    kinds: tuple[str, ...] = ("pytorchjob",)
    # training-operator v1.9.3, pkg/controller.v1/pytorch/envvar.go and master.go.
    controller: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({"pytorchjob": _RENDEZVOUS})
    )
    # The Kubeflow SDK starts this one by torchrun.
    label: str | None = "torch"

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Return Trainer's ``torch``: 2.2 dropped ``numProcPerNode``, and takes the pod's GPUs."""
        # A number, because `auto` is the CPU count if there is no CUDA.
        counted = combination.placement_field == "podTemplateOverrides"
        return {"torch": {"numProcPerNode": processes} if counted else {}}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the arguments of torchrun, which reads each from ``PET_`` and its name."""
        return {
            "PET_NNODES": str(gang.nodes),
            "PET_NPROC_PER_NODE": str(gang.processes),
            "PET_NODE_RANK": f"$({NODE_RANK})",
            "PET_MASTER_ADDR": gang.hosts[0],
            "PET_MASTER_PORT": str(PORT),
        }

    def saving(self, seconds: int) -> dict[str, str]:
        """Return torchrun's time between SIGTERM and SIGKILL, which is 30 s before PyTorch 2.12.

        torch 2.15, torch/distributed/launcher/api.py, LaunchConfig; pytorch pull request 172596.
        """
        return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(seconds)}

    def process(self, gang: Gang, node: int, local: int) -> dict[str, str]:
        """torch/distributed/elastic/agent/server/local_elastic_agent.py, ``_start_workers``."""
        return {
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(gang.processes),
            "MASTER_ADDR": gang.hosts[0],
            "MASTER_PORT": str(PORT),
            "RANK": str(node * gang.processes + local),
            "WORLD_SIZE": str(gang.world_size),
        }

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Put torchrun before a Python file, and say the rendezvous to accelerate's launcher."""
        if words[0].endswith(".py"):
            return ("torchrun", *words)
        for at in range(1, len(words)):
            if _accelerate(words[at - 1], words[at]):
                return (*words[: at + 1], *_machines(words[at + 1 :], gang), *words[at + 1 :])
        return tuple(words)

    def instead(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words with torchrun in place of what starts one process, or one world a node.

        What stands before it (uv, conda, a profiler) and the program's own arguments stay.
        """
        starters = [n for n, word in enumerate(words) if _STARTERS.fullmatch(word)]
        first = starters[0] if starters else len(words)
        ends = (n for n, w in enumerate(words) if w.endswith(".py") or (w == "-m" and n > first))
        at = next(ends, None)
        if at is None or " " in words[at]:
            return ()
        if not starters and words[0].rpartition("/")[2] not in _WRAPPERS:
            return ()
        first = min(first, at)
        before, options, rest = words[:first], words[first + 1 : at], words[at:]
        if tuple(rest[1:2]) == ("torch.distributed.run",):
            return self.instead([*before, "torchrun", *rest[2:]])
        kept: list[str] = []
        value = False
        for word in options if words[first].rpartition("/")[2] == "torchrun" else ():
            size = _SIZES.match(word)
            if size is None and not value:
                kept.append(word)
            value = size is not None and "=" not in word and size[1] != "standalone"
        return (*before, "torchrun", *kept, *rest)

    def proving(self, program: str) -> tuple[str, ...] | None:
        """Return torchrun, whose arguments win over the job's variables (argparse_util.py)."""
        return (
            "torchrun",
            "--rdzv-backend=static",
            f"--master-port={PORT + 1}",
            "--max-restarts=0",
            program,
        )


FRAMEWORK = Torch(name="torch", source=_SOURCE)
