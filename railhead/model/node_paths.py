"""Directories of nodes that operators must know, by distribution of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

KUBELET = "/var/lib/kubelet"
CNI_BINARIES = "/opt/cni/bin"
CNI_CONFIGURATION = "/etc/cni/net.d"
_K3S_SOCKET = "/run/k3s/containerd/containerd.sock"
_SNAP = "/var/snap/microk8s"


@dataclass(frozen=True, kw_only=True)
class NodePaths:
    """Directories of a distribution's nodes.

    Args:
        kubelet: kubelet's own directory.
        linked: whether :data:`KUBELET` leads there. Device plugins of the network operator know
            only that one (network-operator v26.4.1, manifests).
        cni_binaries: where containerd looks for CNI plugins.
        cni_configuration: where it looks for their configuration.
        toolkit: variables by which the GPU operator's container toolkit finds containerd
            (gpu-operator v26.7.0, controllers/object_controls.go).
        source: where they were read.
    """

    kubelet: str = KUBELET
    linked: bool = True
    cni_binaries: str = CNI_BINARIES
    cni_configuration: str = CNI_CONFIGURATION
    toolkit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    source: str = "the defaults of kubeadm, containerd and both operators"


USUAL = NodePaths()
DISTRIBUTIONS: Mapping[str, NodePaths] = MappingProxyType(
    {
        "kubeadm": NodePaths(
            # By default the toolkit asks containerd for its configuration, which answers in its
            # newest version, and writes one of that beside the node's file: containerd 2.3.0 to
            # 2.3.4 ends at one above the file's, the node with it (containerd v2.3.4, cmd/
            # containerd/server/config: LoadConfig), and 2.0 to 2.2 lose what the file says
            # (containerd #12891).
            toolkit=MappingProxyType({"RUNTIME_CONFIG_SOURCE": "file"}),
            source="NVIDIA/gpu-operator #2646, NVIDIA/aicr #1688; NVIDIA/cloud-native-docs 52dcb7b,"
            " gpu-operator/google-gke.rst",
        ),
        "rke2": NodePaths(
            toolkit=MappingProxyType({"CONTAINERD_SOCKET": _K3S_SOCKET}),
            source="rancher/rke2-docs 0267b20, docs/advanced.md: Deploy NVIDIA operator",
        ),
        "k3s": NodePaths(
            cni_binaries="/var/lib/rancher/k3s/data/cni",
            cni_configuration="/var/lib/rancher/k3s/agent/etc/cni/net.d",
            toolkit=MappingProxyType({"CONTAINERD_SOCKET": _K3S_SOCKET}),
            source="docs.k3s.io, networking/multus-ipams and advanced; containerd as RKE2's",
        ),
        "microk8s": NodePaths(
            kubelet=f"{_SNAP}/common/var/lib/kubelet",
            cni_binaries=f"{_SNAP}/current/opt/cni/bin",
            cni_configuration=f"{_SNAP}/current/args/cni-network",
            toolkit=MappingProxyType(
                {
                    "CONTAINERD_CONFIG": f"{_SNAP}/current/args/containerd-template.toml",
                    "CONTAINERD_SOCKET": f"{_SNAP}/common/run/containerd.sock",
                    # The template has variables that MicroK8s alone replaces.
                    "RUNTIME_CONFIG_SOURCE": f"file={_SNAP}/current/args/containerd.toml",
                }
            ),
            source="NVIDIA/cloud-native-docs, gpu-operator/getting-started.rst, MicroK8s; "
            "canonical/microk8s-core-addons, addons/nvidia/enable",
        ),
        "k0s": NodePaths(
            kubelet="/var/lib/k0s/kubelet",
            linked=False,
            toolkit=MappingProxyType(
                {
                    # The toolkit writes its file's import there, where nobody reads it: k0s imports
                    # the directory by itself, and stops managing a file of its own that another
                    # has written.
                    "CONTAINERD_CONFIG": "/run/k0s/nvidia/imports.toml",
                    # Its version is the file's: from 1.36 on a worker does not start beside one of
                    # another (k0s v1.36.3, internal/pkg/sysinfo/probes/containerd.go).
                    "RUNTIME_CONFIG_SOURCE": "file=/etc/k0s/containerd.toml",
                    "RUNTIME_DROP_IN_CONFIG": "/etc/k0s/containerd.d/nvidia.toml",
                    "CONTAINERD_SOCKET": "/run/k0s/containerd.sock",
                }
            ),
            source="k0sproject/k0s v1.35.7 and v1.36.3, docs/runtime.md and pkg/component/worker/"
            "containerd",
        ),
    }
)
