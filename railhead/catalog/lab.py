"""The lab's parts: their modules and versions, and what production runs instead.

`railhead/lab/build/*/go.mod` are the locks; a test compares these rows with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.catalog.versions import KUBE_STATE_METRICS


@dataclass(frozen=True, kw_only=True)
class Part:
    """One program of the lab that is built from a Go module.

    Args:
        name: the binary's name in the cache.
        module: the Go module that holds the program.
        version: the module's version as its go.mod names it.
        production: what a production cluster runs instead.
        source: why this version.
    """

    name: str
    module: str
    version: str
    production: str
    source: str


_NEWEST = "newest whose module graph verifies and that compiles on Kubernetes 0.35"
_DISTRIBUTION = "the cloud's or the distribution's own, 1.33 to 1.36"
_KUBERNETES_SOURCE = "newest 1.35 patch; 1.35 is what kueue v0.16.2 is compiled against"

#: The Kubernetes version of every Kubernetes program of the lab.
KUBERNETES = "v1.35.8"

PARTS: tuple[Part, ...] = (
    *(
        Part(
            name=name,
            module="k8s.io/kubernetes",
            version=KUBERNETES,
            production=_DISTRIBUTION,
            source=_KUBERNETES_SOURCE,
        )
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        )
    ),
    Part(
        name="etcd",
        module="go.etcd.io/etcd/server/v3",
        version="v3.6.5",
        production=_DISTRIBUTION,
        source=_NEWEST,
    ),
    Part(
        name="coredns",
        module="github.com/coredns/coredns",
        version="v1.13.0",
        production=_DISTRIBUTION,
        source=_NEWEST,
    ),
    Part(
        name="kueue",
        module="sigs.k8s.io/kueue",
        version="v0.16.2",
        production="v0.16.2, from its chart",
        source="its module graph verifies, and it compiles on Kubernetes 0.35",
    ),
    Part(
        name="jobset",
        module="sigs.k8s.io/jobset",
        version="v0.10.1",
        production="v0.10.1, from its chart",
        source="required by the go.mod of kueue v0.16.2 and of trainer v2.1.0",
    ),
    Part(
        name="trainer",
        module="github.com/kubeflow/trainer/v2",
        version="v2.1.0",
        production="v2.1.0, from its chart",
        source="required by the go.mod of kueue v0.16.2",
    ),
    Part(
        name="multus",
        module="gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
        version="v4.3.0",
        production="the network operator's or the cloud's own",
        source=_NEWEST,
    ),
    Part(
        name="netpol",
        module="github.com/cloudnativelabs/kube-router/v2",
        version="v2.2.1",
        production="the cluster network's own enforcer of network policies",
        source="kube-router's network policy controller from K3s's release of it: the newest of "
        "either whose module graph verifies; iptables and ipsets, which the lab's kernels have",
    ),
    Part(
        name="helm",
        module="helm.sh/helm/v3",
        version="v3.20.2",
        production="the library inside the Pulumi Kubernetes provider",
        source=_NEWEST,
    ),
    Part(
        name="kwok",
        module="sigs.k8s.io/kwok",
        version="v0.6.1",
        production="none: simulated nodes exist in the lab only",
        source="v0.7.0 uses an API that Kubernetes 0.35 dropped; v0.8.0 needs 0.36 and thus "
        "minutes of compiling for itself alone; this one shares the others' packages and adds 3 s",
    ),
    Part(
        name="local-path-provisioner",
        module="github.com/rancher/local-path-provisioner",
        version="v0.0.30",
        production="the shared file system's own CSI driver",
        source=_NEWEST,
    ),
    Part(
        name="pulumi",
        module="github.com/pulumi/pulumi/pkg/v3",
        version="v3.250.0",
        production="the user's own, 3.220 or newer; the lab uses that too where it is on PATH",
        source="newest whose module graph verifies",
    ),
    Part(
        name="kube-state-metrics",
        module="k8s.io/kube-state-metrics/v2",
        version=KUBE_STATE_METRICS.tag,
        production=f"{KUBE_STATE_METRICS.tag}, by the stack where it is watched",
        source="the one that stacks deploy",
    ),
    Part(
        name="prometheus",
        module="github.com/prometheus/prometheus",
        version="v0.313.5",
        production="your own, with its Alertmanager",
        source="Prometheus 3.13.5, the newest that names Kubernetes' libraries of 0.35",
    ),
)


_BY_NAME = {p.name: p for p in PARTS}


def part(name: str) -> Part:
    """Return the row of a program.

    Raises:
        KeyError: there is no such program; the message lists all programs.
    """
    if name not in _BY_NAME:
        raise KeyError(f"no program {name!r} in the lab; there are: {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]
