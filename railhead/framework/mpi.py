"""MPI by Open MPI's mpirun: the first pod starts the others' processes over ssh.

As Trainer's MPI policy has it: a launcher that is a node too, pods of sshd, a key of the job's own,
and a hostfile. sshd gives a process none of its container's variables: mpirun's ssh sends those of
the launcher by name, the daemons that it starts give them to their ranks, and the user's words stay
as they are (Open MPI 4.1.4, orte/mca/plm/rsh/plm_rsh_module.c, schizo_ompi.c, setup_fork).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.base.errors import InputError
from railhead.base.names import TRAINER_JOB, TRAINER_LAUNCHER
from railhead.framework.base import SHELLS, WRAPPERS, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: As in the images of Trainer and of the MPI operator (build/base/Dockerfile, v0.7.0).
HOME = "/home/mpiuser"
SSH_PORT = 2222
SSHD = ("/usr/sbin/sshd", "-De", "-f", f"{HOME}/.sshd_config", "-o", "AcceptEnv=*")
_HOSTFILE = "/etc/mpi/hostfile"
# Split at spaces; what Trainer and the MPI operator set is added to it (plm_rsh_module.c).
_AGENT = "OMPI_MCA_plm_rsh_agent"
# What sshd sets itself, whatever a client sends (OpenSSH 9.2p1, session.c, do_setup_env).
_OF_SSHD = frozenset(("HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "USER"))
# sshd takes 129 without a word about more (session.c, session_env_req); ssh may send LC_* as well.
_MOST = 100
_STARTS = re.compile(r"\b(?:mpirun|mpiexec|orterun|horovodrun)\b")


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

    def forwarding(self, words: Sequence[str], names: Iterable[str]) -> dict[str, str]:
        """Return mpirun's ssh with the variables that it sends; Open MPI itself sends its own.

        ``mpirun -x`` wins over them. Not by ``OMPI_MCA_mca_base_env_list``: beside any ``-x``
        mpirun ends with it (Open MPI 4.1.4, orte/tools/orterun/help-orterun.txt).

        Raises:
            InputError: the job leaves Open MPI without TCP, or sshd would not take a variable.
        """
        given = sorted({*names})
        self._check_interfaces(words, given)
        if kept := [name for name in given if name in _OF_SSHD]:
            raise InputError(
                f"env: {', '.join(kept)}: not allowed, since sshd sets its own in all pods but the "
                "first, where mpirun runs",
                remedy=f"leave it out, and say it to mpirun: `mpirun -x {kept[0]}=VALUE`",
            )
        sent = [name for name in given if not name.startswith("OMPI_")]
        if len(sent) > _MOST:
            raise InputError(
                f"env: {len(sent)} variables with the runtime's and the job's secrets; allowed: "
                f"{_MOST}, for sshd takes no more",
                remedy="move some to a file of the job",
            )
        return {_AGENT: " ".join(("ssh", *(f"-oSendEnv={name}" for name in sent)))}

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

        They do if that is the first of them, or if a shell, a profiler or its like is and another
        names one. Up to Open MPI 4.1 mpirun ends below another (open-mpi/ompi issue 11148).
        """
        first = words[0].rpartition("/")[2]
        below = words[1:] if first in SHELLS or first in WRAPPERS else ()
        if any(map(_STARTS.search, (first, *below))):
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
        container["command"] = list(SSHD)
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
