"""PyTorch: torchrun in each pod starts its processes, and they meet at the first pod's address.

DDP needs nothing more. What is started by torchrun too differs in its row alone: :func:`torchrun`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from railhead.base.programs import program
from railhead.framework.base import (
    NODE_RANK,
    PORT,
    PROGRAMS,
    SHELLS,
    WRAPPERS,
    Expanded,
    Framework,
    Gang,
)

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
#: Arguments of torchrun by which a world has another size or place than the job's.
_SIZES = re.compile(
    r"--(standalone|nnodes|nproc[_-]per[_-]node|rdzv[_-](backend|endpoint|id)|node[_-]rank"
    r"|master[_-](addr|port))\b"
)
# One program or launcher in a shell's text; of several nobody knows which trains.
_PYTHON = re.compile(
    r"(?<![\w./-])python[0-9.]*(?: -[A-Za-z]+)*(?= (?:-m (?!(?:pip|venv)\b)|\S+\.py\b))"
)
_ACCELERATE = re.compile(
    r"(?<![\w.-])accelerate(?:[ -]|\.commands\.(?:accelerate_cli )?)launch(?=\s)"
)
# Others that start processes, and of which no text is made.
_STARTS = re.compile(r"(?<![\w.-])(?:deepspeed|torchrun|torch\.distributed\.\w+)(?=\s)")
#: What `accelerate launch` takes and a shell reads from the pod's variables.
_IN_SHELL = (
    " --num_machines $PET_NNODES --num_processes $RAILHEAD_WORLD_SIZE --machine_rank $PET_NODE_RANK"
    " --main_process_ip $PET_MASTER_ADDR --main_process_port $PET_MASTER_PORT"
    " --deepspeed_multinode_launcher standard --tee 1"
)
#: Its arguments that the job has fields for, or that differ from node to node; also with hyphens
#: (accelerate 1.15.0, src/accelerate/commands/utils.py, CustomArgumentParser).
_ITS_OWN = re.compile(
    r"--(num[_-](machines|processes)|machine[_-]rank|main[_-]process[_-](ip|port)"
    r"|deepspeed[_-]multinode[_-]launcher)\b"
)
#: Arguments of `accelerate launch` by which it starts processes itself, or a file that may say so.
_KINDS = frozenset("multi_gpu use_deepspeed use_fsdp use_megatron_lm tpu cpu config_file".split())
# Those that say what the program is: its name follows, or more of them before it.
_PROGRAM = frozenset(("-m", "--module", "--no_python", "--no-python"))
# Its arguments in a shell's text, and where they end there.
_OF_TEXT = re.compile(rf"\s{_ITS_OWN.pattern}(?:=|\s+)[^\s;&|]+")
_ENDS = re.compile(r"\S+\.py\b|[;&|]|(?<!\\)\n|\s(?:-m|--module|--no[_-]python)\s+(?![-\\\s])|$")


def _accelerate(before: str, word: str) -> bool:
    """Return whether two words of a command are accelerate's launcher."""
    of_module = (before, word) == ("-m", "accelerate.commands.launch")
    name = before.rpartition("/")[2].removesuffix(".commands.accelerate_cli")
    return of_module or (name, word) == ("accelerate", "launch")


def _without(options: Sequence[str], names: re.Pattern[str]) -> tuple[str, ...]:
    """Return a launcher's options without those of such names and their values."""
    kept: list[str] = []
    value = False
    for word in options:
        match = names.match(word)
        if match is None and not value:
            kept.append(word)
        value = match is not None and "=" not in word and match[1] != "standalone"
    return tuple(kept)


def _in_shell(words: Sequence[str]) -> tuple[str, ...]:
    """Return a shell's words with the rendezvous for accelerate, or torchrun for Python."""
    if any(map(_STARTS.search, words)):
        return ()
    for at, word in enumerate(words):
        launchers, programs = [*_ACCELERATE.finditer(word)], [*_PYTHON.finditer(word)]
        if len(launchers) == 1:
            start = launchers[0].end()
            end = next(_ENDS.finditer(word, start)).start()
            own = word[start:end]
            if "$(" in own:
                return ()
            text = word[:start] + _IN_SHELL + _OF_TEXT.sub("", own) + word[end:]
            return (*words[:at], text, *words[at + 1 :])
        if len(programs) == 1 and not launchers:
            return (*words[:at], _PYTHON.sub("torchrun", word), *words[at + 1 :])
    return ()


def _end(words: Sequence[str]) -> int:
    """Return how many words behind `accelerate launch` are its own; the program's follow."""
    for at, (word, following) in enumerate(itertools.pairwise((*words, ""))):
        if word.endswith(".py") or (word in _PROGRAM and not following.startswith("-")):
            return at
    return len(words)


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
    options = {w.partition("=")[0][2:].replace("-", "_") for w in words if w.startswith("--")}
    alone = gang.processes == 1 and not _KINDS & options
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
        r"|(^|[\s/;&|\"'(])accelerate( |-|\.commands\.(accelerate_cli )?)launch\s"
        r"[\s\S]*--machine[_-]rank"
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
    # Of the launcher: what comes behind the program is the program's.
    same: str | None = (
        r"^(?:(?!\.py\s|\s-m\s(?![-\d]|torch\.|accelerate\.|pip\b))[\s\S])*?\s"
        r"(--(?:node|machine)[_-]rank[= ][\"']?[0-9]+\b"
        r"|--(?:master[_-]addr|main[_-]process[_-]ip)[= ][\"']?(?:localhost|127\.0\.0\.1)\b)"
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

    def patience(self, seconds: int) -> dict[str, str]:
        """Return how long torchrun waits, at least its own 900 s; ``--rdzv-conf`` replaces it.

        ``static`` reads ``timeout``, and c10d the others. By default c10d gives up after 600 s, and
        after 60 s if the first pod does not serve, as while it pulls its image (torch 2.15,
        torch/distributed/elastic/rendezvous: dynamic_rendezvous.py, c10d_rendezvous_backend.py).
        """
        names = ("timeout", "join_timeout", "read_timeout")
        return {"PET_RDZV_CONF": ",".join(f"{name}={max(seconds, 900)}" for name in names)}

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
                own = tuple(words[at + 1 :])
                end = _end(own)
                # On one node all of them are the command's own to say.
                options = _without(own[:end], _ITS_OWN) if gang.nodes > 1 else own[:end]
                return (*words[: at + 1], *_machines(options, gang), *options, *own[end:])
        return tuple(words)

    def instead(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words with torchrun in place of what starts one process, or one world a node.

        What stands before it (uv, conda, a profiler) and the program's own arguments stay.
        """
        for place, word in enumerate(words):
            if word.rpartition("/")[2] == "accelerate-launch":
                launch = (word.removesuffix("-launch"), "launch")
                return (*words[:place], *launch, *words[place + 1 :])
        if words[0].rpartition("/")[2] in SHELLS:
            return _in_shell(words)
        if any(word.rpartition("/")[2] == "deepspeed" for word in words):
            # Its word for torchrun's -m (deepspeed 0.19.8, deepspeed/launcher/runner.py).
            end = next((n for n, word in enumerate(words) if word.endswith(".py")), len(words))
            words = [*("-m" if w == "--module" else w for w in words[:end]), *words[end:]]
        starters = [n for n, word in enumerate(words) if _STARTERS.fullmatch(word)]
        first = starters[0] if starters else len(words)
        # uv takes a module, too.
        own = min(first, 1 if words[0].rpartition("/")[2] == "uv" else first)
        ends = (n for n, w in enumerate(words) if w.endswith(".py") or (w == "-m" and n > own))
        at = next(ends, None)
        if at is None or " " in words[at]:
            return ()
        if not starters and words[0].rpartition("/")[2] not in WRAPPERS:
            return ()
        first = min(first, at)
        before, options, rest = words[:first], words[first + 1 : at], words[at:]
        if tuple(rest[1:2]) == ("torch.distributed.run",):
            return self.instead([*before, "torchrun", *rest[2:]])
        kept = _without(options, _SIZES) if words[first].rpartition("/")[2] == "torchrun" else ()
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
