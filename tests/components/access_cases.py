"""Requests that each persona may and may not make, one row each, as the API server gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The namespace of the personas, and one that is another team's.
OWN, OTHER = "training", "vision"

VERSIONS: Mapping[str, str] = {
    "": "v1",
    "admissionregistration.k8s.io": "v1",
    "apiextensions.k8s.io": "v1",
    "apiregistration.k8s.io": "v1",
    "apps": "v1",
    "batch": "v1",
    "certificates.k8s.io": "v1",
    "coordination.k8s.io": "v1",
    "discovery.k8s.io": "v1",
    "jobset.x-k8s.io": "v1alpha2",
    "k8s.cni.cncf.io": "v1",
    "kueue.x-k8s.io": "v1beta2",
    "leaderworkerset.x-k8s.io": "v1",
    "networking.k8s.io": "v1",
    "rbac.authorization.k8s.io": "v1",
    "resource.k8s.io": "v1",
    "scheduling.k8s.io": "v1",
    "storage.k8s.io": "v1",
    "trainer.kubeflow.org": "v1alpha1",
    "visibility.kueue.x-k8s.io": "v1beta2",
}
_METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request.

    Args:
        what: in words; the case's name.
        may: who is let through: L(eads), R(esearchers), V(iewers), S(trangers).
        verb: as RBAC has it. What is no verb of HTTP is asked by a SelfSubjectAccessReview.
        resource: ``group/plural`` or ``plural``, with ``:subresource``.
        namespace: empty for the cluster's own.
        body: what is sent; a create that is allowed must be taken.
        served: whether the bare control plane can do it; a pod's log needs a kubelet.
    """

    what: str
    may: str
    verb: str
    resource: str
    name: str = ""
    namespace: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    served: bool = True

    @property
    def group(self) -> str:
        return self.resource.rpartition("/")[0]

    @property
    def plural(self) -> str:
        return self.resource.rpartition("/")[2].partition(":")[0]

    @property
    def subresource(self) -> str:
        return self.resource.partition(":")[2]

    @property
    def in_rbac(self) -> str:
        """The resource as a rule of a Role names it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def review(self) -> bool:
        return self.verb not in _METHODS

    @property
    def method(self) -> str:
        return _METHODS[self.verb]

    @property
    def path(self) -> str:
        version = VERSIONS[self.group]
        path = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        if self.namespace:
            path += f"/namespaces/{self.namespace}"
        path += f"/{self.plural}"
        named = self.name and not (self.verb == "create" and not self.subresource)
        path += f"/{self.name}" if named else ""
        return f"{path}/{self.subresource}" if self.subresource else path


def _own(what: str, may: str, verb: str, resource: str, name: str = "", **more: Any) -> Asked:
    return Asked(what=what, may=may, verb=verb, resource=resource, name=name, namespace=OWN, **more)


def _other(what: str, verb: str, resource: str, name: str = "", may: str = "") -> Asked:
    return Asked(
        what=f"another team's {what}", may=may, verb=verb, resource=resource, name=name,
        namespace=OTHER,
    )  # fmt: skip


def _wide(what: str, may: str, verb: str, resource: str, name: str = "", **more: Any) -> Asked:
    return Asked(what=what, may=may, verb=verb, resource=resource, name=name, **more)


def _in(
    namespace: str, what: str, verb: str, resource: str, name: str = "", may: str = ""
) -> Asked:
    return Asked(what=what, may=may, verb=verb, resource=resource, name=name, namespace=namespace)


_TRAINER, _KUEUE, _JOBSET = "trainer.kubeflow.org/", "kueue.x-k8s.io/", "jobset.x-k8s.io/"
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/", "admissionregistration.k8s.io/"

TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "new", "labels": {"kueue.x-k8s.io/queue-name": "training"}},
    "spec": {
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 2, "numProcPerNode": 2, "command": ["torchrun", "x.py"]},
    },
}
JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "new", "labels": {"kueue.x-k8s.io/queue-name": "training"}},
    "spec": {
        "replicatedJobs": [
            {
                "name": "node",
                "template": {
                    "spec": {
                        "parallelism": 2,
                        "completions": 2,
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "c",
                                        "image": "x",
                                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                                    }
                                ],
                            }
                        },
                    }
                },
            }
        ]
    },
}
_FILES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}}
_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "new"},
    "stringData": {"token": "not-one"},
}

#: What some personas may do and others may not.
WORK: tuple[Asked, ...] = (
    _own("submit a TrainJob", "LR", "create", f"{_TRAINER}trainjobs", "new", body=TRAIN_JOB),
    _own("submit a JobSet", "LR", "create", f"{_JOBSET}jobsets", "new", body=JOB_SET),
    _own("suspend a TrainJob", "LR", "patch", f"{_TRAINER}trainjobs", "mine",
         body={"spec": {"suspend": True}}),
    _own("suspend a JobSet", "LR", "patch", f"{_JOBSET}jobsets", "mine",
         body={"spec": {"suspend": True}}),
    _own("cancel a TrainJob", "LR", "delete", f"{_TRAINER}trainjobs", "mine"),
    _own("cancel a JobSet", "LR", "delete", f"{_JOBSET}jobsets", "mine"),
    _own("list the TrainJobs", "LRV", "list", f"{_TRAINER}trainjobs"),
    _own("read a TrainJob", "LRV", "get", f"{_TRAINER}trainjobs", "mine"),
    _own("read a JobSet", "LRV", "get", f"{_JOBSET}jobsets", "mine"),
    _own("list the Jobs", "LRV", "list", "batch/jobs"),
    _own("list the pods", "LRV", "list", "pods"),
    _own("read a pod", "LRV", "get", "pods", "rank"),
    _own("read a pod's log", "LRV", "get", "pods:log", "rank", served=False),
    _own("list the events", "LRV", "list", "events"),
    _own("list the claims", "LRV", "list", "persistentvolumeclaims"),
    _own("list the workloads", "LRV", "list", f"{_KUEUE}workloads"),
    _own("list the queues", "LRV", "list", f"{_KUEUE}localqueues"),
    _own("see the place in the queue", "LRV", "get",
         "visibility.kueue.x-k8s.io/localqueues:pendingworkloads", "training", served=False),
    _own("see what the namespace may hold", "LRV", "list", "resourcequotas"),
    _own("see what a container gets by default", "LRV", "list", "limitranges"),
    _own("send a job's files", "LR", "create", "configmaps", "new", body=_FILES),
    _own("read a job's files", "LR", "get", "configmaps", "railhead-nccl"),
    _own("take a job's files away", "LR", "delete", "configmaps", "files"),
    _own("run a command in a pod", "LR", "create", "pods:exec", "rank", served=False),
    _own("run a command in a pod over a web socket", "LR", "get", "pods:exec", "rank",
         served=False),
    _own("forward a pod's port", "LR", "create", "pods:portforward", "rank", served=False),
    _own("delete a stuck pod", "L", "delete", "pods", "rank"),
    _own("give jobs a key", "L", "create", "secrets", "new", body=_SECRET),
    _wide("list the runtimes", "LRV", "list", f"{_TRAINER}clustertrainingruntimes"),
    _wide("read a runtime", "LRV", "get", f"{_TRAINER}clustertrainingruntimes", "torch"),
    _wide("list the cluster queues", "LRV", "list", f"{_KUEUE}clusterqueues"),
    _wide("list the flavors", "LRV", "list", f"{_KUEUE}resourceflavors"),
    _wide("list the topologies", "LRV", "list", f"{_KUEUE}topologies"),
    _wide("list the priorities", "LRV", "list", f"{_KUEUE}workloadpriorityclasses"),
    _wide("list the nodes", "LR", "list", "nodes"),
    _in("railhead-system", "read the contract", "get", "configmaps", "railhead-contract",
        may="LRVS"),
)  # fmt: skip

#: What nobody is let do but the cluster's administrators.
REFUSED: tuple[Asked, ...] = (
    # Another team's.
    _other("secret", "get", "secrets", "key"),
    _other("secrets", "list", "secrets"),
    _other("new secret", "create", "secrets"),
    _other("jobs", "list", f"{_TRAINER}trainjobs"),
    _other("job, submitted", "create", f"{_TRAINER}trainjobs"),
    _other("job, cancelled", "delete", f"{_TRAINER}trainjobs", "mine"),
    _other("job, suspended", "patch", f"{_TRAINER}trainjobs", "mine"),
    _other("JobSet, submitted", "create", f"{_JOBSET}jobsets"),
    _other("JobSet, cancelled", "delete", f"{_JOBSET}jobsets", "mine"),
    _other("pods", "list", "pods"),
    _other("log", "get", "pods:log", "rank"),
    _other("pod, entered", "create", "pods:exec", "rank"),
    _other("pod's ports", "create", "pods:portforward", "rank"),
    _other("pod, deleted", "delete", "pods", "rank"),
    _other("claims", "list", "persistentvolumeclaims"),
    _other("claim, deleted", "delete", "persistentvolumeclaims", "checkpoints"),
    _other("files", "get", "configmaps", "files"),
    _other("workloads", "list", f"{_KUEUE}workloads"),
    _other("queue", "get", f"{_KUEUE}localqueues", "vision"),
    _other("place in the queue", "get",
           "visibility.kueue.x-k8s.io/localqueues:pendingworkloads", "vision"),
    _other("events", "list", "events"),
    # Everybody's.
    _wide("all secrets", "", "list", "secrets"),
    _wide("all pods", "", "list", "pods"),
    _wide("all jobs", "", "list", f"{_TRAINER}trainjobs"),
    _wide("all waiting workloads", "", "get",
          "visibility.kueue.x-k8s.io/clusterqueues:pendingworkloads", "training"),
    # Secrets and tokens.
    _own("read a secret", "", "get", "secrets", "key"),
    _own("list the secrets", "", "list", "secrets"),
    _own("read a secret by patching it", "", "patch", "secrets", "key"),
    _own("read a secret by deleting it", "", "delete", "secrets", "key"),
    _own("a token of the jobs' account", "", "create", "serviceaccounts:token", "default"),
    _own("a service account of one's own", "", "create", "serviceaccounts"),
    _own("pull secrets of the jobs' account", "", "patch", "serviceaccounts", "default"),
    _in("kube-system", "a token of a controller", "create", "serviceaccounts:token",
        "job-controller"),
    _in("kueue-system", "a token of Kueue", "create", "serviceaccounts:token",
        "kueue-controller-manager"),
    _in("kueue-system", "the key of Kueue's webhook", "get", "secrets",
        "kueue-webhook-server-cert"),
    # Controllers.
    _in("kueue-system", "enter Kueue", "create", "pods:exec", "kueue-controller-manager"),
    _in("jobset-system", "enter JobSet", "create", "pods:exec", "jobset-controller-manager"),
    _in("kubeflow-system", "enter Trainer", "create", "pods:exec", "trainer-controller-manager"),
    _in("kueue-system", "Kueue's log", "get", "pods:log", "kueue-controller-manager"),
    _in("kueue-system", "Kueue's settings", "patch", "configmaps", "kueue-manager-config"),
    _in("kueue-system", "delete Kueue's pod", "delete", "pods", "kueue-controller-manager"),
    _in("kueue-system", "stop Kueue", "patch", "apps/deployments:scale",
        "kueue-controller-manager"),
    _in("kueue-system", "Kueue's lease", "patch", "coordination.k8s.io/leases", "kueue"),
    _in("railhead-gate", "what nodes must prove", "list", "configmaps"),
    # The contract.
    _in("railhead-system", "write the contract", "patch", "configmaps", "railhead-contract"),
    _in("railhead-system", "delete the contract", "delete", "configmaps", "railhead-contract"),
    _in("railhead-system", "another contract", "create", "configmaps"),
    _in("railhead-system", "what lies beside the contract", "list", "configmaps"),
    # Pods beside the jobs' own.
    _own("a bare pod", "", "create", "pods"),
    _own("a pod's labels", "", "patch", "pods", "rank"),
    _own("a pod's status", "", "patch", "pods:status", "rank"),
    _own("a debug container", "", "patch", "pods:ephemeralcontainers", "rank"),
    _own("a pod's terminal", "", "create", "pods:attach", "rank"),
    _own("a pod, bound to a node", "", "create", "pods:binding", "rank"),
    _own("a pod, evicted", "", "create", "pods:eviction", "rank"),
    _own("a pod, resized", "", "patch", "pods:resize", "rank"),
    _own("a pod through the API server's proxy", "", "get", "pods:proxy", "rank"),
    _own("a Job", "", "create", "batch/jobs"),
    _own("a Job, deleted under its JobSet", "", "delete", "batch/jobs", "mine"),
    _own("a CronJob", "", "create", "batch/cronjobs"),
    _own("a claim's retention, changed", "", "patch", "batch/cronjobs", "checkpoints-retention"),
    _own("a claim's retention, deleted", "", "delete", "batch/cronjobs", "checkpoints-retention"),
    _own("a LeaderWorkerSet", "", "create", "leaderworkerset.x-k8s.io/leaderworkersets"),
    _own("a Deployment", "", "create", "apps/deployments"),
    _own("a StatefulSet", "", "create", "apps/statefulsets"),
    _own("a DaemonSet", "", "create", "apps/daemonsets"),
    _own("every job at once", "", "deletecollection", f"{_TRAINER}trainjobs"),
    _own("a job's status", "", "patch", f"{_TRAINER}trainjobs:status", "mine"),
    # Queues.
    _own("a workload's priority", "", "patch", f"{_KUEUE}workloads", "mine"),
    _own("a workload, admitted by hand", "", "patch", f"{_KUEUE}workloads:status", "mine"),
    _own("a workload of one's own", "", "create", f"{_KUEUE}workloads"),
    _own("a workload, deleted", "", "delete", f"{_KUEUE}workloads", "mine"),
    _own("a queue of one's own", "", "create", f"{_KUEUE}localqueues"),
    _own("a queue, moved", "", "patch", f"{_KUEUE}localqueues", "training"),
    _own("a queue, deleted", "", "delete", f"{_KUEUE}localqueues", "training"),
    _wide("a cluster queue's quota", "", "patch", f"{_KUEUE}clusterqueues", "training"),
    _wide("a cluster queue of one's own", "", "create", f"{_KUEUE}clusterqueues"),
    _wide("a cluster queue, deleted", "", "delete", f"{_KUEUE}clusterqueues", "training"),
    _wide("a flavor's nodes", "", "patch", f"{_KUEUE}resourceflavors", "gpu"),
    _wide("a cohort's quota", "", "patch", f"{_KUEUE}cohorts", "all"),
    _wide("a topology's levels", "", "patch", f"{_KUEUE}topologies", "lab"),
    _wide("a priority's value", "", "patch", f"{_KUEUE}workloadpriorityclasses", "production"),
    _wide("a priority of one's own", "", "create", f"{_KUEUE}workloadpriorityclasses"),
    _wide("an admission check's answer", "", "patch", f"{_KUEUE}admissionchecks:status", "x"),
    _wide("a pod priority of one's own", "", "create", "scheduling.k8s.io/priorityclasses"),
    # Runtimes.
    _wide("a runtime, changed", "", "patch", f"{_TRAINER}clustertrainingruntimes", "torch"),
    _wide("a runtime of one's own, for all", "", "create", f"{_TRAINER}clustertrainingruntimes"),
    _wide("a runtime, deleted", "", "delete", f"{_TRAINER}clustertrainingruntimes", "torch"),
    _own("a runtime of one's own", "", "create", f"{_TRAINER}trainingruntimes"),
    # Storage.
    _own("a claim, deleted", "", "delete", "persistentvolumeclaims", "checkpoints"),
    _own("a claim of one's own", "", "create", "persistentvolumeclaims"),
    _own("a claim, grown", "", "patch", "persistentvolumeclaims", "checkpoints"),
    _wide("a volume, deleted", "", "delete", "persistentvolumes", "x"),
    _wide("a volume of the node's disk", "", "create", "persistentvolumes"),
    _wide("a storage class", "", "create", "storage.k8s.io/storageclasses"),
    # Nodes.
    _wide("a node's labels", "", "patch", "nodes", "gpu-0"),
    _wide("a node, deleted", "", "delete", "nodes", "gpu-0"),
    _wide("a node of one's own", "", "create", "nodes"),
    _wide("a node's capacity", "", "patch", "nodes:status", "gpu-0"),
    _wide("a node's kubelet, read", "", "get", "nodes:proxy", "gpu-0"),
    _wide("a node's kubelet, commanded", "", "create", "nodes:proxy", "gpu-0"),
    _wide("the devices that drivers tell", "", "create", "resource.k8s.io/resourceslices"),
    _wide("a device class", "", "create", "resource.k8s.io/deviceclasses"),
    # The namespace and its fences.
    _wide("a namespace's Pod Security level", "", "patch", "namespaces", OWN),
    _wide("a namespace, deleted", "", "delete", "namespaces", OWN),
    _wide("a namespace of one's own", "", "create", "namespaces"),
    _own("a network policy, deleted", "", "delete", "networking.k8s.io/networkpolicies",
         "railhead-default-deny"),
    _own("a network policy of one's own", "", "create", "networking.k8s.io/networkpolicies"),
    _own("a quota, deleted", "", "delete", "resourcequotas", "railhead-objects"),
    _own("a quota, raised", "", "patch", "resourcequotas", "railhead-objects"),
    _own("a limit range, deleted", "", "delete", "limitranges", "railhead-defaults"),
    _own("a Service", "", "create", "services"),
    _own("a Service's addresses", "", "create", "discovery.k8s.io/endpointslices"),
    _own("an Ingress", "", "create", "networking.k8s.io/ingresses"),
    _own("a network of one's own", "", "create",
         "k8s.cni.cncf.io/network-attachment-definitions"),
    _own("all files of the namespace", "", "list", "configmaps"),
    # Rights.
    _own("a role of one's own", "", "create", f"{_RBAC}roles"),
    _own("a role, widened", "", "patch", f"{_RBAC}roles", "railhead-researchers"),
    _own("a role, bound to oneself", "", "create", f"{_RBAC}rolebindings"),
    _own("a binding, changed", "", "patch", f"{_RBAC}rolebindings", "railhead-leads"),
    _own("escalate", "", "escalate", f"{_RBAC}roles", "railhead-leads"),
    _own("bind", "", "bind", f"{_RBAC}clusterroles", "cluster-admin"),
    _wide("a cluster role of one's own", "", "create", f"{_RBAC}clusterroles"),
    _wide("a cluster role, widened", "", "patch", f"{_RBAC}clusterroles", "view"),
    _wide("a cluster role, bound", "", "create", f"{_RBAC}clusterrolebindings"),
    _wide("be the administrator", "", "impersonate", "users", "admin"),
    _wide("be of the administrators", "", "impersonate", "groups", "system:masters"),
    _in("kueue-system", "be Kueue", "impersonate", "serviceaccounts",
        "kueue-controller-manager"),
    _wide("a certificate request", "", "create",
          "certificates.k8s.io/certificatesigningrequests"),
    _wide("a certificate, approved", "", "patch",
          "certificates.k8s.io/certificatesigningrequests:approval", "x"),
    _wide("sign certificates", "", "sign", "certificates.k8s.io/signers",
          "kubernetes.io/kube-apiserver-client"),
    # Guards.
    _wide("a guard, deleted", "", "delete", f"{_ADMISSION}validatingadmissionpolicies",
          "railhead-node-reach"),
    _wide("a guard's binding, deleted", "", "delete",
          f"{_ADMISSION}validatingadmissionpolicybindings", "railhead-node-reach"),
    _wide("a guard, emptied", "", "patch", f"{_ADMISSION}validatingadmissionpolicies",
          "railhead-node-reach"),
    _wide("a webhook, deleted", "", "delete", f"{_ADMISSION}validatingwebhookconfigurations",
          "kueue-validating-webhook-configuration"),
    _wide("a webhook of one's own", "", "create", f"{_ADMISSION}mutatingwebhookconfigurations"),
    _wide("a definition, deleted", "", "delete", "apiextensions.k8s.io/customresourcedefinitions",
          "workloads.kueue.x-k8s.io"),
    _wide("a definition of one's own", "", "create",
          "apiextensions.k8s.io/customresourcedefinitions"),
    _wide("an aggregated API", "", "create", "apiregistration.k8s.io/apiservices"),
)  # fmt: skip
