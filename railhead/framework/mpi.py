"""MPI by Open MPI's mpirun: the first pod starts the others' processes over ssh.

As Trainer's MPI policy has it: a launcher that is a node too, pods of sshd, a key of the job's own,
and a hostfile. sshd gives a process none of its container's variables: a runtime says its own to
sshd, but for those that choose a network, and launch says all of them to mpirun.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.base.errors import InputError
from railhead.base.names import TRAINER_JOB, TRAINER_LAUNCHER
from railhead.catalog.switches import SWITCHES
from railhead.framework.base import SHELLS, WRAPPERS, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: As in the images of Trainer and of the MPI operator (build/base/Dockerfile, v0.7.0).
HOME = "/home/mpiuser"
SSH_PORT = 2222
SSHD = ("/usr/sbin/sshd", "-De", "-f", f"{HOME}/.sshd_config")
_HOSTFILE = "/etc/mpi/hostfile"
_MPIRUN = ("mpirun", "mpiexec", "orterun")
# Horovod's own passes on all variables (horovod 0.28.1, horovod/runner/mpi_run.py).
_STARTERS = (*_MPIRUN, "horovodrun")
_PATH = rf"(?:[\w.+${{}}-]*/)*(?:{'|'.join(_STARTERS)})"
# One where a command begins in a shell's text, also quoted or looked up, and what stands before it.
_IN_SHELL = re.compile(
    r"((?:^|[;&|()`\n]|[{!]\s|\b(?:do|elif|else|exec|if|nohup|then|until|while)\s"
    rf"|\b(?:{'|'.join(sorted(WRAPPERS))})\s(?:[^;&|()\n]*?\s)?)\s*(?:\w+=\S*\s+)*)"
    rf"((?P<quote>[\"']?)(?:{_PATH}|\$\((?:which|command -v) {_PATH}\)|`which {_PATH}`)(?P=quote))"
    r"(?=\s)"
)


@dataclass(frozen=True, kw_only=True)
class Mpi(Framework):
    """A framework that mpirun starts."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer's ``mpi``; 1 would mean as many as the pod has GPUs of a few vendors.

        The runtime's ``numNodes`` is how many launchers a job gets, whatever its own is (trainer
        v2.1.0, pkg/runtime/core/trainingruntime.go, newRuntimeInfo; MPI changes the others alone).
        """
        del combination
        return {
            "numNodes": 1,
            "mpi": {
                "numProcPerNode": processes,
                "mpiImplementation": "OpenMPI",
                "sshAuthMountPath": f"{HOME}/.ssh",
                "runLauncherAsNode": True,
            },
        }

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the variables of Trainer v2.1.0 (pkg/runtime/framework/plugins/mpi/mpi.go)."""
        return {
            "OMPI_MCA_orte_default_hostfile": _HOSTFILE,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": str(gang.processes),
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        }

    def process(self, gang: Gang, node: int, local: int) -> dict[str, str]:
        """Open MPI 4.1, ompi/docs and mpirun(1), exported environment variables."""
        return {
            "OMPI_COMM_WORLD_RANK": str(node * gang.processes + local),
            "OMPI_COMM_WORLD_SIZE": str(gang.world_size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(gang.processes),
        }

    def passed_on(self, words: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
        """Add mpirun's ``-x`` for each variable that the words do not pass on themselves.

        Not by ``OMPI_MCA_mca_base_env_list``: beside any ``-x`` mpirun ends with it (Open MPI
        4.1.4, orte/tools/orterun/help-orterun.txt, orterun:conflict-env-set).

        Raises:
            InputError: the job leaves Open MPI without TCP.
        """
        self._check_interfaces(words, names)
        if any("mca_base_env_list" in text for text in (*words, *names)):
            return tuple(words)
        at = next((n for n, word in enumerate(words) if word.rpartition("/")[2] in _MPIRUN), None)
        if at is None:
            return tuple(_in_shell(word, names) if _shell(words) else word for word in words)
        pairs = itertools.pairwise(words)
        given = {name.partition("=")[0] for option, name in pairs if option == "-x"}
        added = _passing(names, given)
        results = [*words[: at + 1], *added]
        for word in words[at + 1 :]:
            # Each program has options of its own (Open MPI 4.1.4, orted_submit.c, create_app).
            results += [word, *added] if word == ":" else [word]
        return tuple(results)

    def _check_interfaces(self, words: Sequence[str], names: Sequence[str]) -> None:
        """Refuse interfaces that Open MPI is to leave out, beside the runtime's that it is to take.

        It then opens no TCP (Open MPI 4.1, opal/mca/btl/tcp/btl_tcp_component.c, orte/mca/oob/tcp/
        oob_tcp_component.c: mca_base_var_check_exclusive). ``--mca`` wins over the variable, also
        where ``-x`` passes it on (orte/orted/orted_submit.c; schizo_ompi.c, parse_env).
        """
        for name in self.sockets:
            include = name.removeprefix("OMPI_MCA_")
            exclude = include.replace("include", "exclude")
            if name in names and any(exclude in text for text in (*words, *names)):
                raise InputError(
                    f"command or env: {exclude} is not allowed: beside {name}, which the runtime "
                    "sets, Open MPI takes no TCP at all",
                    remedy="leave it out: the runtime names the interfaces; or name yours by "
                    f"`mpirun --mca {include} NAMES`",
                )

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Return one process a slot of the hostfile, unless the words start a launcher themselves.

        Up to Open MPI 4.1 mpirun ends below another mpirun (open-mpi/ompi issue 11148).
        """
        first, *rest = (word.rpartition("/")[2] for word in words)
        wrapped = first in WRAPPERS and not {*_STARTERS}.isdisjoint(rest)
        in_text = _shell(words) and any(_IN_SHELL.search(word) for word in words)
        if first in _STARTERS or wrapped or in_text:
            return tuple(words)
        # Pods have their cores by quota: binding would crowd them on the first ones.
        mpirun = ("mpirun", "-np", str(gang.world_size), "--bind-to", "none")
        return (*mpirun, *super().start(words, gang))

    def job_set(self, job: Mapping[str, Any], nodes: int) -> dict[str, Any]:
        """Pods of sshd, and a launcher once they serve; the job is done when the launcher is."""
        server, launcher = copy.deepcopy(dict(job)), copy.deepcopy(dict(job))
        if nodes > 2 and "parallelism" not in server:
            # For a job that says no number itself. The launcher is one of them.
            server["parallelism"] = nodes - 1
        (container,) = (
            c for c in server["template"]["spec"]["containers"] if c["name"] == self.container
        )
        container["command"] = [*SSHD, *_set_env(container.get("env", ()))]
        container["readinessProbe"] = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2}
        inside = launcher["template"]["spec"]
        inside["initContainers"] = [*inside.get("initContainers", ()), named(container["image"])]
        return {
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [TRAINER_LAUNCHER]},
            "replicatedJobs": [
                {"name": TRAINER_JOB, "template": {"spec": server}},
                {
                    "name": TRAINER_LAUNCHER,
                    "template": {"metadata": {}, "spec": launcher},
                    "dependsOn": [{"name": TRAINER_JOB, "status": "Ready"}],
                },
            ],
        }


def _shell(words: Sequence[str]) -> bool:
    """Return whether a shell reads the command, also below a profiler and its like."""
    first, *rest = (word.rpartition("/")[2] for word in words)
    return first in SHELLS or (first in WRAPPERS and not {*SHELLS}.isdisjoint(rest))


def _passing(names: Iterable[str], given: Iterable[str]) -> list[str]:
    """Return mpirun's options that pass variables on, without those that it is given already."""
    return [word for name in sorted({*names} - {*given}) for word in ("-x", name)]


def _in_shell(text: str, names: Iterable[str]) -> str:
    """Return a shell's text in which each mpirun passes the variables on."""
    added = " ".join(_passing(names, re.findall(r"\s-x\s+(\w+)", text)))

    def passing(match: re.Match[str]) -> str:
        return match[0] if "horovodrun" in match[2] else f"{match[0]} {added}"

    return _IN_SHELL.sub(passing, text) if added else text


def _set_env(entries: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return sshd's option by which what it starts has its pod's variables.

    Those that choose a network are not among them: the guards refuse them in a command, launch
    passes them by ``-x``, and NCCL reads them from the file that the runtime mounts.
    sshd_config(5) of OpenSSH 7.8 and newer, SetEnv; a launcher's ``-x`` wins over it.
    """
    pairs = (
        f"{e['name']}={e['value']}"
        for e in entries
        if not set('"\\') & set(e.get("value", '"')) and e["name"] not in SWITCHES
    )
    text = " ".join(f'"{pair}"' for pair in pairs)
    return ("-o", f"SetEnv={text}") if text else ()


def named(image: str) -> dict[str, Any]:
    """Waits until the pod's own name is known.

    The launcher is the first in its own hostfile, by a name that the cluster's DNS learns seconds
    after the pod has started; ssh asks once, and mpirun ends with the first that it cannot reach.
    """
    return {
        "name": "named",
        "image": image,
        "command": [
            "sh",
            "-c",
            "name=$(hostname -f | cut -d. -f1,2); for _ in $(seq 120); do "
            'getent hosts "$name" && exit 0; sleep 1; done; '
            'echo "the cluster\'s DNS does not know $name"; exit 1',
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }


_RENDEZVOUS = (
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)


def mpi(name: str, source: str) -> Mpi:
    """Return a framework that mpirun starts, under a name."""
    return Mpi(
        name=name,
        replicated_job=TRAINER_LAUNCHER,
        servers=(TRAINER_JOB,),
        launcher="mpirun",
        rendezvous=_RENDEZVOUS,
        per_process=(
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
        # The user of Trainer's images, as in its own runtime (v2.1.0, manifests/base/runtimes/
        # deepspeed_distributed.yaml). ssh refuses root a key that others may read, as they may
        # read what a Secret brings (tried with OpenSSH 9.2p1).
        user=1000,
        # Else messages go over all interfaces, the rails too, which peers may not reach by TCP
        # (Open MPI 4.1.2, opal/mca/btl/tcp/btl_tcp_component.c, orte/mca/oob/tcp; Google's own
        # manifests name eth0: container-engine-accelerators, gpudirect-tcpx/nccl-config.yaml,
        # cluster-toolkit, examples/gke-a3-ultragpu/nccl-jobset-example.yaml).
        sockets=("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"),
        nodes_variable="OMPI_MCA_orte_default_hostfile",
        # Trainer makes a launcher and at least one more node (mpi.go, EnforceMLPolicy).
        fewest_nodes=2,
        kinds=("mpijob",),
        controller={"mpijob": _RENDEZVOUS},
        label=None,
        source=source,
    )


FRAMEWORK = mpi(
    "mpi",
    "Trainer v2.1.0, pkg/runtime/framework/plugins/mpi/mpi.go; MPI operator v0.7.0, "
    "pkg/controller/mpi_job_controller.go; mpirun(1) of Open MPI 4.1",
)
