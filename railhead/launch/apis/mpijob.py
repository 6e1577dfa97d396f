"""MPIJob of the MPI operator, v2beta1: a launcher that is a worker too, over ssh."""

from __future__ import annotations

import copy

from railhead.framework.mpi import HOME, SSH_PORT, SSHD, named
from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan


class MpiJob(Api):
    """A launcher and workers; the operator writes the hostfile and the key."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """pkg/controller/mpi_job_controller.go, newConfigMap with ``runLauncherAsWorker``."""
        names = [f"{plan.name}-launcher"]
        names += [f"{plan.name}-worker-{i}" for i in range(plan.nodes - 1)]
        return tuple(f"{name}.{plan.name}.{plan.namespace}.svc" for name in names)

    def spec(self, plan: Plan, template: Object) -> Object:
        """Workers serve ssh; the launcher starts once they do and it finds its own name."""
        server = copy.deepcopy(template)
        (container,) = (c for c in server["spec"]["containers"] if c["name"] == plan.container)
        container.pop("args", None)
        container["command"] = list(SSHD)
        container["readinessProbe"] = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 1}
        inside = template["spec"]
        inside["initContainers"] = [*inside.get("initContainers", ()), named(container["image"])]
        return {
            "slotsPerWorker": plan.processes_per_node,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": f"{HOME}/.ssh",
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template},
                "Worker": {
                    "replicas": plan.nodes - 1,
                    "restartPolicy": "Never",
                    "template": server,
                },
            },
        }


API = MpiJob(
    name="mpijob",
    api_version="kubeflow.org/v2beta1",
    kind="MPIJob",
    plural="mpijobs",
    index=None,
    own=True,
    since="the MPI operator v0.7",
    # training-operator v1.9.3, manifests/base/crds: the same name, of another version.
    clash={"v1": "the training operator"},
    source="MPI operator v0.7.0, pkg/controller/mpi_job_controller.go",
)
