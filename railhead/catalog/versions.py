"""Every version in one place, and the combinations that belong together.

A combination is a set of controllers that belong together; a stack names one, and its row says
whether it ever ran, and where. `lab` takes versions whose whole Go module graph verifies, with
the charts that their modules carry; `proven` takes those same versions from their publishers'
registries, and `jobset-0.11` and `trainer-2.2` those that upgrades were run to; `newest-read`
takes the publishers' newest, which were read and never run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from railhead.base.names import ENDED_WHEN_LOST


def mirrored(reference: str, mirrors: Mapping[str, str]) -> str:
    """Return where an image, or a prefix of it, is pulled from; ``mirrors`` is host -> prefix.

    >>> mirrored("docker.io/library/python:3.13", {"docker.io": "registry.example.com/docker"})
    'registry.example.com/docker/library/python:3.13'
    """
    host, slash, rest = reference.partition("/")
    if not slash or not any(mark in host for mark in ".:"):
        # An image without a registry is Docker Hub's (distribution/reference, normalize.go).
        host, rest = "docker.io", reference if slash else f"library/{reference}"
    return f"{mirrors[host]}/{rest}" if host in mirrors else reference


@dataclass(frozen=True, kw_only=True)
class OciChart:
    """A chart in a publisher's OCI registry."""

    url: str


@dataclass(frozen=True, kw_only=True)
class ModuleChart:
    """A chart that travels inside a Go module; `railhead.lab` unpacks it into the cache."""

    module: str
    module_version: str
    path: str


@dataclass(frozen=True, kw_only=True)
class HttpChart:
    """A chart in a publisher's HTTP repository: ``repository`` is what `helm repo add` takes."""

    repository: str
    chart: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Release manifests of a project that publishes no chart."""

    url: str


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """Installed by another controller's chart or custom resource, named ``by``."""

    by: str


@dataclass(frozen=True, kw_only=True)
class Managed:
    """Installed and upgraded by a cloud; ``switch`` is what turns it on there."""

    cloud: Literal["aws", "gcp"]
    switch: str


@dataclass(frozen=True, kw_only=True)
class KubernetesRange:
    """Kubernetes minors that a publisher supports; ``newest`` is None without an end."""

    oldest: str
    newest: str | None
    source: str

    def holds(self, minor: str) -> bool:
        """Return whether ``minor``, such as ``"1.35"``, is inside."""
        return _minor(self.oldest) <= _minor(minor) and (
            self.newest is None or _minor(minor) <= _minor(self.newest)
        )


@dataclass(frozen=True, kw_only=True)
class Image:
    """A container image: ``repository`` without tag, and the tag that belongs to the release."""

    repository: str
    tag: str

    def through(self, mirrors: Mapping[str, str]) -> Image:
        """Return the image from a stack's mirrors."""
        return dataclasses.replace(self, repository=mirrored(self.repository, mirrors))

    @property
    def reference(self) -> str:
        """The value for a container's ``image``; a tag that is a digest is joined as one."""
        return f"{self.repository}{'@' if self.tag.startswith('sha256:') else ':'}{self.tag}"


@dataclass(frozen=True, kw_only=True)
class Controller:
    """One controller as its chart installs it.

    Args:
        name: the chart's and the release's name.
        version: the chart's version as its registry spells it.
        namespace: where the release lives.
        image: repository without tag.
        tag: image tag; empty if only the chart knows it.
        operands: further images that the release runs by default, by what they are.
        crds: ``Kind.group/version`` of the custom resources that the release brings.
        kubernetes: the minors that the publisher supports; None if it does not say.
        gates: feature gates that must be other than their default.
        image_values: dotted path of a chart's value -> what the chart has there: a registry with
            what of its images' names is said in that place. All that the chart can run here, but
            for what the components write themselves from ``image`` and ``operands``.
        moved: the values that a stack's mirrors change, as :meth:`through` sets them.
        source: where the version and the image name were read.
    """

    name: str
    version: str
    namespace: str
    chart: OciChart | HttpChart | ModuleChart
    image: str
    tag: str
    source: str
    operands: Mapping[str, Image] = field(default_factory=dict)
    crds: tuple[str, ...] = ()
    kubernetes: KubernetesRange | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    image_values: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)

    def through(self, mirrors: Mapping[str, str]) -> Controller:
        """Return the row with its images from a stack's mirrors."""
        moved = {path: mirrored(value, mirrors) for path, value in self.image_values.items()}
        return dataclasses.replace(
            self,
            image=mirrored(self.image, mirrors),
            operands={name: image.through(mirrors) for name, image in self.operands.items()},
            moved={
                path: value for path, value in moved.items() if value != self.image_values[path]
            },
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component that has no chart of its own.

    Args:
        version: the release; None if a cloud chooses it.
        delivery: how it gets into a cluster.
        crds: ``Kind.group/version`` of the custom resources that it brings.
        kubernetes: the minors that the publisher supports; None if it does not say.
    """

    name: str
    version: str | None
    delivery: Manifest | Bundled | Managed
    images: tuple[Image, ...]
    source: str
    crds: tuple[str, ...] = ()
    kubernetes: KubernetesRange | None = None


@dataclass(frozen=True, kw_only=True)
class ProvenRun:
    """A run of a combination's three controllers together.

    Args:
        what: what ran, and what of the combination differs from it.
        where: the cluster, with its Kubernetes.
        source: what ran it: a folder of tests, or "by hand".
    """

    what: str
    where: str
    source: str


@dataclass(frozen=True, kw_only=True)
class LostPods:
    """Kueue's way to end pods that hang on a node that does not answer, if a stack asks for it.

    It marks them as failed and deletes them by force, whether or not their containers run.

    Args:
        gate: the feature gate that turns it on.
        annotation: of pods that it may end; the value is ``"true"``.
        seconds: from the end of such a pod's grace period to its deletion.
        source: where it was read.
    """

    gate: str
    annotation: str
    seconds: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Versions that belong together.

    Args:
        kubernetes: oldest and newest Kubernetes minor served, such as ``("1.33", "1.35")``.
        ran: where its versions ran; empty for versions that were only read.
        gang_charge: how Kueue charges a TrainJob's gang. ``job``: by the node count of the job.
            ``template``: by the runtime's template whatever the job asks (kueue PR #8135 mends it);
            the stack then publishes a guard that refuses any other node count.
        placement_field: the TrainJob field through which Kueue places the pods. Both sides must
            agree or the API server prunes it and flavors and topology are lost silently.
        lost_pods: how Kueue ends pods on a lost node. None if their gang waits for the node:
            before 0.16.3 Kueue marks them and leaves them (v0.16.2,
            pkg/controller/failurerecovery), which sets no JobSet free.
        addons: further controllers that fabrics, storage and other launchers need, by name.
        parts: further components without a chart of their own.
    """

    name: str
    kubernetes: tuple[str, str]
    kueue: Controller
    jobset: Controller
    trainer: Controller
    gang_charge: Literal["job", "template"]
    placement_field: Literal["podTemplateOverrides", "runtimePatches"]
    source: str
    addons: Mapping[str, Controller]
    parts: Mapping[str, Part]
    lost_pods: LostPods | None = None
    ran: tuple[ProvenRun, ...] = ()

    @property
    def controllers(self) -> tuple[Controller, Controller, Controller]:
        """Kueue, JobSet and Trainer."""
        return self.kueue, self.jobset, self.trainer

    def through(self, mirrors: Mapping[str, str]) -> Combination:
        """Return the combination with every image from a stack's mirrors."""
        return dataclasses.replace(
            self,
            kueue=self.kueue.through(mirrors),
            jobset=self.jobset.through(mirrors),
            trainer=self.trainer.through(mirrors),
            addons={name: row.through(mirrors) for name, row in self.addons.items()},
        )

    def addon(self, name: str) -> Controller:
        """Return the add-on called ``name``.

        Raises:
            KeyError: there is no such add-on; the message lists all add-ons.
        """
        if name not in self.addons:
            raise KeyError(f"no add-on {name!r} in {self.name!r}; there are: {list(self.addons)}")
        return self.addons[name]

    def kubernetes_with(self, addons: Iterable[str]) -> tuple[str, str]:
        """Return the oldest and the newest Kubernetes minor of the combination with add-ons."""
        oldest, newest = self.kubernetes
        for name in addons:
            served = self.addon(name).kubernetes
            if served is None:
                continue
            oldest = max(oldest, served.oldest, key=_minor)
            newest = min(newest, served.newest or newest, key=_minor)
        return oldest, newest


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


_EKS_CHARTS = "https://aws.github.io/eks-charts"
_EKS_IMAGES = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks"
_NGC = "https://helm.ngc.nvidia.com/nvidia"
_NVIDIA_MELLANOX = "nvcr.io/nvidia/mellanox"
_NETWORK_OPERATOR_TAG = "network-operator-v26.4.1"

GPU_OPERATOR = Controller(
    name="gpu-operator",
    version="v26.7.0",
    namespace="gpu-operator",
    chart=HttpChart(repository=_NGC, chart="gpu-operator"),
    image="nvcr.io/nvidia/gpu-operator",
    tag="v26.7.0",
    operands=MappingProxyType(
        {
            "driver": Image(repository="nvcr.io/nvidia/driver", tag="595.91.07"),
            "driver-manager": Image(
                repository="nvcr.io/nvidia/cloud-native/k8s-driver-manager", tag="v0.12.0"
            ),
            "container-toolkit": Image(
                repository="nvcr.io/nvidia/k8s/container-toolkit", tag="v1.20.0"
            ),
            "device-plugin": Image(repository="nvcr.io/nvidia/k8s-device-plugin", tag="v0.20.0"),
            "dcgm-exporter": Image(
                repository="nvcr.io/nvidia/k8s/dcgm-exporter", tag="4.6.0-4.8.3-distroless"
            ),
            "mig-manager": Image(
                repository="nvcr.io/nvidia/cloud-native/k8s-mig-manager", tag="v0.15.0"
            ),
            "gdrcopy": Image(repository="nvcr.io/nvidia/cloud-native/gdrdrv", tag="v2.6"),
            "dra-driver": Image(repository="nvcr.io/nvidia/dra-driver-nvidia-gpu", tag="v0.5.0"),
        }
    ),
    crds=(
        "ClusterPolicy.nvidia.com/v1",
        "NVIDIADriver.nvidia.com/v1alpha1",
        "GPUCluster.nvidia.com/v1alpha1",
        "ComputeDomain.resource.nvidia.com/v1beta1",
        "ComputeDomainClique.resource.nvidia.com/v1beta1",
    ),
    kubernetes=KubernetesRange(
        oldest="1.33",
        newest="1.36",
        source="NVIDIA/cloud-native-docs gpu-operator/platform-support.rst of 2026-08-21, Ubuntu "
        "rows; the chart itself only asks for 1.16",
    ),
    image_values=MappingProxyType(
        {
            "operator.repository": "nvcr.io/nvidia",
            "validator.repository": "nvcr.io/nvidia",
            "driver.repository": "nvcr.io/nvidia",
            "driver.manager.repository": "nvcr.io/nvidia/cloud-native",
            "toolkit.repository": "nvcr.io/nvidia/k8s",
            "devicePlugin.repository": "nvcr.io/nvidia",
            "gfd.repository": "nvcr.io/nvidia",
            "dcgm.repository": "nvcr.io/nvidia/cloud-native",
            "dcgmExporter.repository": "nvcr.io/nvidia/k8s",
            "migManager.repository": "nvcr.io/nvidia/cloud-native",
            "nodeStatusExporter.repository": "nvcr.io/nvidia",
            "gdrcopy.repository": "nvcr.io/nvidia/cloud-native",
            "draDriver.repository": "nvcr.io/nvidia",
            "node-feature-discovery.image.repository": (
                "registry.k8s.io/nfd/node-feature-discovery"
            ),
        }
    ),
    source="NVIDIA/gpu-operator tag v26.7.0, deployments/gpu-operator/values.yaml and crds/",
)

NETWORK_OPERATOR = Controller(
    name="network-operator",
    version="26.4.1",
    namespace="nvidia-network-operator",
    chart=HttpChart(repository=_NGC, chart="network-operator"),
    image="nvcr.io/nvidia/cloud-native/network-operator",
    tag="v26.4.1",
    operands=MappingProxyType(
        {
            "doca-driver": Image(
                repository=f"{_NVIDIA_MELLANOX}/doca-driver", tag="doca3.4.1-26.04-1.1.0.0-1"
            ),
            **{
                name: Image(repository=f"{_NVIDIA_MELLANOX}/{name}", tag=_NETWORK_OPERATOR_TAG)
                for name in (
                    "network-operator-init-container",
                    "k8s-rdma-shared-dev-plugin",
                    "sriov-network-operator",
                    "sriov-network-operator-webhook",
                    "sriov-network-operator-config-daemon",
                    "sriov-network-device-plugin",
                    "sriov-cni",
                    "ib-sriov-cni",
                    "rdma-cni",
                    "ipoib-cni",
                    "multus-cni",
                    "plugins",
                    "nvidia-k8s-ipam",
                    "ib-kubernetes",
                    "nic-feature-discovery",
                    "nic-configuration-operator",
                    "nic-configuration-operator-daemon",
                    "maintenance-operator",
                    "node-feature-discovery",
                )
            },
            "doca_telemetry": Image(
                repository="nvcr.io/nvidia/doca/doca_telemetry", tag="1.25.5-doca3.4.0-host"
            ),
        }
    ),
    crds=(
        "NicClusterPolicy.mellanox.com/v1alpha1",
        "NicNodePolicy.mellanox.com/v1alpha1",
        "MacvlanNetwork.mellanox.com/v1alpha1",
        "HostDeviceNetwork.mellanox.com/v1alpha1",
        "IPoIBNetwork.mellanox.com/v1alpha1",
        "NetworkAttachmentDefinition.k8s.cni.cncf.io/v1",
        "MaintenanceOperatorConfig.maintenance.nvidia.com/v1alpha1",
        "NodeMaintenance.maintenance.nvidia.com/v1alpha1",
    ),
    kubernetes=KubernetesRange(
        oldest="1.31",
        newest="1.35",
        source="Mellanox/network-operator-docs docs/platform-support.rst of 2026-05-21; the chart "
        "itself only asks for 1.21",
    ),
    # What the policy names is in the operands.
    image_values=MappingProxyType(
        {
            "operator.repository": "nvcr.io/nvidia/cloud-native",
            "operator.ofedDriver.initContainer.repository": _NVIDIA_MELLANOX,
            "node-feature-discovery.image.repository": f"{_NVIDIA_MELLANOX}/node-feature-discovery",
            **{
                f"sriov-network-operator.images.{value}": (
                    f"{_NVIDIA_MELLANOX}/{name}:{_NETWORK_OPERATOR_TAG}"
                )
                for value, name in (
                    ("operator", "sriov-network-operator"),
                    ("sriovConfigDaemon", "sriov-network-operator-config-daemon"),
                    ("sriovCni", "sriov-cni"),
                    ("ibSriovCni", "ib-sriov-cni"),
                    ("ovsCni", "ovs-cni-plugin"),
                    ("rdmaCni", "rdma-cni"),
                    ("sriovDevicePlugin", "sriov-network-device-plugin"),
                    ("sriovDraDriver", "dra-driver-sriov"),
                    ("webhook", "sriov-network-operator-webhook"),
                )
            },
            "sriov-network-operator.images.resourcesInjector": (
                "ghcr.io/k8snetworkplumbingwg/network-resources-injector:v1.7.0"
            ),
        }
    ),
    source="Mellanox/network-operator tag v26.4.1, deployment/network-operator/Chart.yaml and "
    "hack/release.yaml; 26.7.0 was seen as release candidates only and asks for 1.32",
)

_SRIOV_CRDS = (
    "SriovNetworkNodePolicy.sriovnetwork.openshift.io/v1",
    "SriovNetworkPoolConfig.sriovnetwork.openshift.io/v1",
    "SriovNetworkNodeState.sriovnetwork.openshift.io/v1",
    "SriovNetwork.sriovnetwork.openshift.io/v1",
    "SriovIBNetwork.sriovnetwork.openshift.io/v1",
    "OVSNetwork.sriovnetwork.openshift.io/v1",
    "SriovOperatorConfig.sriovnetwork.openshift.io/v1",
)

NFD = Controller(
    name="node-feature-discovery",
    version="0.19.0",
    namespace="node-feature-discovery",
    chart=OciChart(url="oci://registry.k8s.io/nfd/charts/node-feature-discovery"),
    image="registry.k8s.io/nfd/node-feature-discovery",
    tag="v0.19.0",
    crds=(
        "NodeFeature.nfd.k8s-sigs.io/v1alpha1",
        "NodeFeatureGroup.nfd.k8s-sigs.io/v1alpha1",
        "NodeFeatureRule.nfd.k8s-sigs.io/v1alpha1",
    ),
    source="the version that the chart of gpu-operator v26.7.0 depends on; exactly one of the "
    "two operators' and this may be on",
)

EFA_DEVICE_PLUGIN = Controller(
    name="aws-efa-k8s-device-plugin",
    version="v0.5.30",
    namespace="kube-system",
    chart=HttpChart(repository=_EKS_CHARTS, chart="aws-efa-k8s-device-plugin"),
    image=f"{_EKS_IMAGES}/aws-efa-k8s-device-plugin",
    tag="v0.5.20",
    image_values=MappingProxyType({"image.repository": f"{_EKS_IMAGES}/aws-efa-k8s-device-plugin"}),
    source="aws/eks-charts of 2026-08-03, stable/aws-efa-k8s-device-plugin; the chart is ahead of "
    "its image; versions before 0.5.10 count NVLink controllers as EFA devices",
)

AWS_DRANET = Controller(
    name="aws-dranet",
    version="1.0.0",
    namespace="kube-system",
    chart=HttpChart(repository=_EKS_CHARTS, chart="aws-dranet"),
    image=f"{_EKS_IMAGES}/dranet",
    tag="v1.2.0-eksbuild.2",
    image_values=MappingProxyType({"image.repository": f"{_EKS_IMAGES}/dranet"}),
    kubernetes=KubernetesRange(
        oldest="1.35", newest=None, source="aws/eks-charts stable/aws-dranet/README.md"
    ),
    source="aws/eks-charts of 2026-08-03, stable/aws-dranet",
)

DRANET = Controller(
    name="dranet",
    version="1.4.0",
    namespace="kube-system",
    chart=OciChart(url="oci://registry.k8s.io/networking/charts/dranet"),
    image="registry.k8s.io/networking/dranet",
    tag="v1.4.0",
    image_values=MappingProxyType({"image.repository": "registry.k8s.io/networking/dranet"}),
    source="newest tag of kubernetes-sigs/dranet seen 2026-08; image as in "
    "deployments/helm/dranet/values.yaml, its tag is the release's",
)

GPU_DRA = Controller(
    name="dra-driver-nvidia-gpu",
    version="0.4.1",
    namespace="dra-driver-nvidia-gpu",
    chart=OciChart(url="oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"),
    image="registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu",
    tag="v0.4.1",
    image_values=MappingProxyType(
        {"image.repository": "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"}
    ),
    crds=(
        "ComputeDomain.resource.nvidia.com/v1beta1",
        "ComputeDomainClique.resource.nvidia.com/v1beta1",
    ),
    kubernetes=KubernetesRange(
        oldest="1.32",
        newest=None,
        source="kubernetes-sigs/dra-driver-nvidia-gpu Chart.yaml of 2026-08-07",
    ),
    source="v0.4.0, which oracle-quickstart/oci-hpc-oke pins, keeps a node's channel for a pod "
    "that went while its domain was starting (issue 1162, mended in v0.4.1); never beside the "
    "GPU operator's device plugin on a node",
)

FSX_CSI = Controller(
    name="aws-fsx-csi-driver",
    version="1.17.0",
    namespace="kube-system",
    chart=HttpChart(
        repository="https://kubernetes-sigs.github.io/aws-fsx-csi-driver",
        chart="aws-fsx-csi-driver",
    ),
    image="public.ecr.aws/fsx-csi-driver/aws-fsx-csi-driver",
    tag="v1.9.0",
    kubernetes=KubernetesRange(oldest="1.20", newest=None, source="its Chart.yaml"),
    source="kubernetes-sigs/aws-fsx-csi-driver of 2026-04-21, charts/aws-fsx-csi-driver",
)

EFS_CSI = Controller(
    name="aws-efs-csi-driver",
    version="4.4.1",
    namespace="kube-system",
    chart=HttpChart(
        repository="https://kubernetes-sigs.github.io/aws-efs-csi-driver",
        chart="aws-efs-csi-driver",
    ),
    image="public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver",
    tag="v3.4.1",
    kubernetes=KubernetesRange(oldest="1.17", newest=None, source="its Chart.yaml"),
    source="kubernetes-sigs/aws-efs-csi-driver of 2026-07-24, charts/aws-efs-csi-driver",
)

NFS_CSI = Controller(
    name="csi-driver-nfs",
    version="4.13.4",
    namespace="kube-system",
    chart=HttpChart(
        repository="https://raw.githubusercontent.com/kubernetes-csi/csi-driver-nfs/master/charts",
        chart="csi-driver-nfs",
    ),
    image="registry.k8s.io/sig-storage/nfsplugin",
    tag="v4.13.4",
    kubernetes=KubernetesRange(oldest="1.21", newest=None, source="its README's table"),
    # A name that does not begin with a slash is taken as it is (templates/csi-nfs-*.yaml).
    image_values=MappingProxyType(
        {
            f"image.{value}.repository": f"registry.k8s.io/sig-storage/{name}"
            for value, name in (
                ("nfs", "nfsplugin"),
                ("csiProvisioner", "csi-provisioner"),
                ("csiResizer", "csi-resizer"),
                ("livenessProbe", "livenessprobe"),
                ("nodeDriverRegistrar", "csi-node-driver-registrar"),
            )
        }
    ),
    source="kubernetes-csi/csi-driver-nfs of 2026-08-22, charts/v4.13.4",
)

VOLCANO = Controller(
    name="volcano",
    version="1.15.1",
    namespace="volcano-system",
    chart=HttpChart(repository="https://volcano-sh.github.io/helm-charts", chart="volcano"),
    image="docker.io/volcanosh/vc-controller-manager",
    tag="v1.15.1",
    operands=MappingProxyType(
        {
            "scheduler": Image(repository="docker.io/volcanosh/vc-scheduler", tag="v1.15.1"),
            "webhooks": Image(repository="docker.io/volcanosh/vc-webhook-manager", tag="v1.15.1"),
        }
    ),
    crds=(
        "Job.batch.volcano.sh/v1alpha1",
        "CronJob.batch.volcano.sh/v1alpha1",
        "PodGroup.scheduling.volcano.sh/v1beta1",
        "Queue.scheduling.volcano.sh/v1beta1",
        "HyperNode.topology.volcano.sh/v1alpha1",
    ),
    kubernetes=KubernetesRange(
        oldest="1.23", newest="1.35", source="compatibility table of its README at v1.15.1"
    ),
    source="newest final tag of volcano-sh/volcano seen 2026-08; images of its "
    "installer/helm/chart/volcano/values.yaml, `basic`",
)

WHEREABOUTS = Controller(
    name="whereabouts-chart",
    version="0.9.4",
    namespace="kube-system",
    chart=OciChart(url="oci://ghcr.io/k8snetworkplumbingwg/whereabouts-chart"),
    image="ghcr.io/k8snetworkplumbingwg/whereabouts",
    tag="v0.9.4",
    source="newest tag of k8snetworkplumbingwg/whereabouts seen 2026-06; the network operator "
    "dropped it in 25.10 for nv-ipam",
)

KUBE_PROMETHEUS_STACK = Controller(
    name="kube-prometheus-stack",
    version="88.5.3",
    namespace="monitoring",
    chart=HttpChart(
        repository="https://prometheus-community.github.io/helm-charts",
        chart="kube-prometheus-stack",
    ),
    image="quay.io/prometheus-operator/prometheus-operator",
    tag="",
    source="prometheus-community/helm-charts, newest tag seen 2026-08; the operator's tag is the "
    "chart's own and was not read",
)

DCGM_EXPORTER = Controller(
    name="dcgm-exporter",
    version="4.8.2",
    namespace="monitoring",
    chart=HttpChart(
        repository="https://nvidia.github.io/dcgm-exporter/helm-charts", chart="dcgm-exporter"
    ),
    image="nvcr.io/nvidia/k8s/dcgm-exporter",
    tag="4.5.3-4.8.2-distroless",
    kubernetes=KubernetesRange(oldest="1.19", newest=None, source="its Chart.yaml"),
    source="NVIDIA/dcgm-exporter tag 4.5.3-4.8.2, deployment/; only where the GPU operator, which "
    "brings one, is not installed",
)

#: Tells custom resources alone, beside whichever a site has. Read at v2.15.0, examples/standard:
#: the newest whose Go module can be had.
KUBE_STATE_METRICS = Image(
    repository="registry.k8s.io/kube-state-metrics/kube-state-metrics", tag="v2.15.0"
)

NODE_PROBLEM_DETECTOR = Controller(
    name="node-problem-detector",
    version="2.4.1",
    namespace="kube-system",
    chart=OciChart(url="oci://ghcr.io/deliveryhero/helm-charts/node-problem-detector"),
    image="registry.k8s.io/node-problem-detector/node-problem-detector",
    tag="",
    source="what oracle-quickstart/oci-hpc-oke installs; the image's tag is the chart's own and "
    "was not read",
)

#: What fabrics, storage, monitoring and other launchers need beside the queue controllers.
ADDONS: Mapping[str, Controller] = MappingProxyType(
    {
        addon.name: addon
        for addon in (
            GPU_OPERATOR,
            NETWORK_OPERATOR,
            NFD,
            EFA_DEVICE_PLUGIN,
            AWS_DRANET,
            DRANET,
            GPU_DRA,
            FSX_CSI,
            EFS_CSI,
            NFS_CSI,
            VOLCANO,
            WHEREABOUTS,
            KUBE_PROMETHEUS_STACK,
            DCGM_EXPORTER,
            NODE_PROBLEM_DETECTOR,
        )
    }
)

_GCE_AI = "us-docker.pkg.dev/gce-ai-infra"
_GKE_MANIFESTS = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/master"
)

#: What no chart of its own installs.
PARTS: Mapping[str, Part] = MappingProxyType(
    {
        part.name: part
        for part in (
            Part(
                name="sriov-network-operator",
                version="26.4.1",
                delivery=Bundled(by="network-operator"),
                images=(
                    Image(
                        repository=f"{_NVIDIA_MELLANOX}/sriov-network-operator",
                        tag=_NETWORK_OPERATOR_TAG,
                    ),
                ),
                crds=_SRIOV_CRDS,
                source="sub-chart `sriovNetworkOperator.enabled` of network-operator v26.4.1; "
                "upstream is 1.6.0",
            ),
            Part(
                name="nv-ipam",
                version="26.4.1",
                delivery=Bundled(by="network-operator"),
                images=(
                    Image(
                        repository=f"{_NVIDIA_MELLANOX}/nvidia-k8s-ipam", tag=_NETWORK_OPERATOR_TAG
                    ),
                ),
                crds=(
                    "IPPool.nv-ipam.nvidia.com/v1alpha1",
                    "CIDRPool.nv-ipam.nvidia.com/v1alpha1",
                ),
                source="NicClusterPolicy `nvIpam` of network-operator v26.4.1, hack/release.yaml",
            ),
            Part(
                name="multus",
                version="4.3.0",
                delivery=Bundled(by="network-operator"),
                images=(
                    Image(repository=f"{_NVIDIA_MELLANOX}/multus-cni", tag=_NETWORK_OPERATOR_TAG),
                ),
                crds=("NetworkAttachmentDefinition.k8s.cni.cncf.io/v1",),
                source="NicClusterPolicy `secondaryNetwork.multus`; upstream release 4.3.0; the "
                "community chart has not moved since 2025",
            ),
            Part(
                name="mpi-operator",
                version="0.8.0",
                delivery=Manifest(
                    url="https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.0/deploy/"
                    "v2beta1/mpi-operator.yaml"
                ),
                images=(Image(repository="docker.io/mpioperator/mpi-operator", tag="0.8.0"),),
                crds=("MPIJob.kubeflow.org/v2beta1",),
                source="kubeflow/mpi-operator tag v0.8.0; training-operator v1 owns the same "
                "custom resource, so only one of them",
            ),
            Part(
                name="training-operator",
                version="1.9.4",
                delivery=Manifest(
                    url="https://github.com/kubeflow/trainer//manifests/overlays/standalone"
                    "?ref=v1.9.4"
                ),
                images=(),
                crds=(
                    "PyTorchJob.kubeflow.org/v1",
                    "TFJob.kubeflow.org/v1",
                    "JAXJob.kubeflow.org/v1",
                    "PaddleJob.kubeflow.org/v1",
                    "MPIJob.kubeflow.org/v1",
                ),
                source="kubeflow/trainer tag v1.9.4, a kustomization; for jobs of the older APIs",
            ),
            Part(
                name="azurelustre-csi-driver",
                version="0.4.0",
                delivery=Manifest(
                    url="https://raw.githubusercontent.com/kubernetes-sigs/azurelustre-csi-driver/"
                    "v0.4.0/deploy/install-driver.sh"
                ),
                images=(
                    Image(
                        repository="mcr.microsoft.com/oss/v2/kubernetes-csi/azurelustre-csi",
                        tag="v0.4.0-noble",
                    ),
                    Image(
                        repository="mcr.microsoft.com/oss/v2/kubernetes-csi/azurelustre-csi",
                        tag="v0.4.0-jammy",
                    ),
                ),
                kubernetes=KubernetesRange(oldest="1.21", newest=None, source="its README's table"),
                source="kubernetes-sigs/azurelustre-csi-driver of 2026-05-14, README.md",
            ),
            Part(
                name="dra-driver-sriov",
                version="26.4.1",
                delivery=Bundled(by="network-operator"),
                images=(
                    Image(
                        repository=f"{_NVIDIA_MELLANOX}/dra-driver-sriov", tag=_NETWORK_OPERATOR_TAG
                    ),
                ),
                crds=(
                    "SriovResourcePolicy.sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",
                    "DeviceAttributes.sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",
                ),
                kubernetes=KubernetesRange(
                    oldest="1.34", newest=None, source="chart of its repository"
                ),
                source="hack/release.yaml of network-operator v26.4.1; upstream has no tags",
            ),
            Part(
                name="nccl-gib",
                version="1.1.2",
                delivery=Manifest(url=f"{_GKE_MANIFESTS}/gpudirect-rdma/nccl-rdma-installer.yaml"),
                images=(
                    Image(repository=f"{_GCE_AI}/gpudirect-gib/nccl-plugin-gib", tag="v1.1.2"),
                ),
                source="container-engine-accelerators, gpudirect-rdma/nccl-rdma-installer.yaml; "
                "tag of the diagnostic image in nccl-test-managed-rdma.yaml of 2026",
            ),
            Part(
                name="nccl-tcpxo",
                version="1.0.16",
                delivery=Manifest(
                    url=f"{_GKE_MANIFESTS}/gpudirect-tcpxo/nccl-tcpxo-installer.yaml"
                ),
                images=(
                    Image(
                        repository=f"{_GCE_AI}/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev",
                        tag="v1.0.16",
                    ),
                    Image(repository=f"{_GCE_AI}/gpudirect-tcpxo/tcpgpudmarxd-dev", tag="v1.0.22"),
                ),
                source="container-engine-accelerators, gpudirect-tcpxo/nccl-tcpxo-installer.yaml; "
                "plugin 1.0.16 and daemon 1.0.22 belong to driver branch R580, 1.0.17 and 1.0.23 "
                "to R595 (elideng-sg/hypercomputer-internode-deepdive, lab-22)",
            ),
            Part(
                name="nccl-tcpx",
                version="3.1.12",
                delivery=Manifest(url=f"{_GKE_MANIFESTS}/gpudirect-tcpx/nccl-tcpx-installer.yaml"),
                images=(
                    Image(
                        repository=f"{_GCE_AI}/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev",
                        tag="v3.1.12",
                    ),
                    Image(repository=f"{_GCE_AI}/gpudirect-tcpx/tcpgpudmarxd-dev", tag="v2.0.15"),
                ),
                source="container-engine-accelerators, gpudirect-tcpx/README.md, Jun 22, 2026: "
                "plugin 3.1.12 with daemon 2.0.15; never `latest`, which is of 2023",
            ),
            Part(
                name="nri-device-injector",
                version=None,
                delivery=Manifest(
                    url=f"{_GKE_MANIFESTS}/nri_device_injector/nri-device-injector.yaml"
                ),
                images=(
                    Image(
                        repository="gcr.io/gke-release/nri-device-injector",
                        tag="sha256:"
                        "6e79483d52abdc28454bf186320b10a56b0f117a10e8d65d5c74dbb821a76970",
                    ),
                    Image(repository="gke.gcr.io/pause", tag="3.8"),
                ),
                source="container-engine-accelerators, nri_device_injector; pinned by digest there",
            ),
            Part(
                name="filestore-csi",
                version=None,
                delivery=Managed(cloud="gcp", switch="gcp_filestore_csi_driver_config"),
                images=(),
                source="GKE installs and upgrades it",
            ),
            Part(
                name="gcs-fuse-csi",
                version=None,
                delivery=Managed(cloud="gcp", switch="gcs_fuse_csi_driver_config"),
                images=(),
                source="GKE installs and upgrades it",
            ),
            Part(
                name="managed-lustre-csi",
                version=None,
                delivery=Managed(cloud="gcp", switch="lustre_csi_driver_config"),
                images=(),
                source="GKE installs and upgrades it",
            ),
        )
    }
)

#: Kueue from 0.18 on charges claims by default, and admits no job whose DeviceClass is in none of
#: its deviceClassMappings (v0.19.2, pkg/dra/claims.go: "is not mapped in DRA configuration"). NICs
#: by claim follow the GPUs here, which are charged.
_NO_CLAIMS: Mapping[str, bool] = MappingProxyType(
    {"KueueDRAIntegration": False, "KueueDRARejectWorkloadsWhenDRADisabled": False}
)
#: Kueue 0.19 turns two more gates on by default; both require the first, and Kueue exits without it
#: (v0.19.2, pkg/features/kube_features.go; pkg/config/validation.go, LoadAndValidateFeatureGates).
_NO_CLAIMS_0_19: Mapping[str, bool] = MappingProxyType(
    {
        **_NO_CLAIMS,
        "KueueDRAIntegrationExtendedResource": False,
        "KueueDRAIntegrationPartitionableDevices": False,
    }
)

#: Kueue 0.16.6 and 0.16.7 take an owner for gone that their cache of metadata does not have yet,
#: or has as an earlier one of its name, and finish the Workload of a job that was just made, which
#: stays suspended (v0.16.6, pkg/controller/core/workload_controller.go: isControllerOwnerGone;
#: kueue #10901, for which PR 11019 turns it off in 0.16.8).
_NO_ORPHANS: Mapping[str, bool] = MappingProxyType({"FinishOrphanedWorkloads": False})

LAB = Combination(
    name="lab",
    kubernetes=("1.33", "1.35"),
    kueue=Controller(
        name="kueue",
        version="0.16.2",
        namespace="kueue-system",
        chart=ModuleChart(
            module="sigs.k8s.io/kueue", module_version="v0.16.2", path="charts/kueue"
        ),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.16.2",
        source="its module graph verifies; image name as in its release chart",
    ),
    jobset=Controller(
        name="jobset",
        version="0.10.1",
        namespace="jobset-system",
        chart=ModuleChart(
            module="sigs.k8s.io/jobset", module_version="v0.10.1", path="charts/jobset"
        ),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.10.1",
        source="required by the go.mod of kueue v0.16.2 and of trainer v2.1.0",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.1.0",
        namespace="kubeflow-system",
        chart=ModuleChart(
            module="github.com/kubeflow/trainer/v2",
            module_version="v2.1.0",
            path="charts/kubeflow-trainer",
        ),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.1.0",
        source="required by the go.mod of kueue v0.16.2, which places pods by "
        "podTemplateOverrides; trainer v2.2.0 dropped that field",
    ),
    gang_charge="job",
    placement_field="podTemplateOverrides",
    source="go.mod of kueue v0.16.2; charge measured in tests/lab",
    addons=ADDONS,
    parts=PARTS,
    ran=(
        ProvenRun(
            what="queues, gangs, jobs, restarts, fabric modes, up, refresh, destroy",
            where="the lab, Kubernetes 1.35.8",
            source="tests/lab",
        ),
    ),
)

_BUILT_HERE = (
    "the same versions, charts of their Go modules, images built from their source; the "
    "registries' own charts and images were not pulled"
)


def _published(lab: Combination, name: str) -> Combination:
    """Return the lab's versions from the places that the publishers' READMEs name.

    The controllers' images are the publishers' own builds, which the lab builds from source.
    """
    kueue, jobset, trainer = lab.controllers
    return dataclasses.replace(
        lab,
        name=name,
        kueue=dataclasses.replace(
            kueue,
            chart=OciChart(url="oci://registry.k8s.io/kueue/charts/kueue"),
            source=f"kubernetes-sigs/kueue tag {kueue.tag}, charts/kueue/README.md",
        ),
        jobset=dataclasses.replace(
            jobset,
            chart=OciChart(url="oci://registry.k8s.io/jobset/charts/jobset"),
            source=f"kubernetes-sigs/jobset tag {jobset.tag}, charts/jobset/README.md",
        ),
        trainer=dataclasses.replace(
            trainer,
            chart=OciChart(url="oci://ghcr.io/kubeflow/charts/kubeflow-trainer"),
            source=f"kubeflow/trainer tag {trainer.tag}, charts/kubeflow-trainer/README.md",
        ),
        source=f"the versions of `{lab.name}`, with the charts that their publishers push at these "
        "tags",
        ran=tuple(dataclasses.replace(run, what=_BUILT_HERE) for run in lab.ran),
    )


#: What shipped stacks name.
PROVEN = _published(LAB, "proven")


def _at(
    controller: Controller,
    version: str,
    source: str,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> Controller:
    """Return the lab's row of a controller at another version, whose module has its chart too."""
    assert isinstance(controller.chart, ModuleChart)  # noqa: S101 - all of the lab's are
    return dataclasses.replace(
        controller,
        version=version,
        tag=f"v{version}",
        chart=dataclasses.replace(controller.chart, module_version=f"v{version}"),
        gates=gates,
        source=source,
    )


def _lost_pods(tag: str) -> LostPods:
    """Return Kueue's way at a tag; 0.16.6 and newer also end a pod whose node is lost later."""
    return LostPods(
        gate="FailureRecoveryPolicy",
        annotation=ENDED_WHEN_LOST,
        seconds=60,
        source=f"kubernetes-sigs/kueue tag {tag}, pkg/controller/failurerecovery/"
        "pod_termination_controller.go, pkg/controller/constants/constants.go and "
        "pkg/features/kube_features.go, where it is alpha",
    )


#: What the lab is upgraded to and back from, with jobs running (docs/upgrading.md).
LAB_UPGRADED = dataclasses.replace(
    LAB,
    name="lab-jobset-0.11",
    kueue=_at(LAB.kueue, "0.16.6", "newest that verifies on Kubernetes 0.35", _NO_ORPHANS),
    jobset=_at(
        LAB.jobset, "0.11.0", "its go.mod asks for Kubernetes 0.35, as that of kueue v0.16.6 does"
    ),
    source="go.mod of kueue v0.16.6 and of jobset v0.11.0",
    lost_pods=_lost_pods("v0.16.6"),
    ran=(
        ProvenRun(
            what="an upgrade from `lab` and back under a job that trains, jobs on either, and a "
            "lost node, whose pods Kueue ended",
            where="the lab, Kubernetes 1.35.8",
            source="tests/lab",
        ),
    ),
)
JOBSET_0_11 = _published(LAB_UPGRADED, "jobset-0.11")

#: Across the change of the placement field: no job may go on over it (docs/upgrading.md).
LAB_TRAINER = dataclasses.replace(
    LAB,
    name="lab-trainer-2.2",
    kubernetes=("1.34", "1.36"),
    kueue=_at(LAB.kueue, "0.18.4", "newest whose module graph verifies", _NO_CLAIMS),
    jobset=_at(LAB.jobset, "0.12.0", "required by the go.mod of kueue v0.18.4"),
    trainer=_at(
        LAB.trainer,
        "2.2.1",
        "required by the go.mod of kueue v0.18.4, which places pods by runtimePatches",
    ),
    placement_field="runtimePatches",
    source="go.mod of kueue v0.18.4",
    lost_pods=_lost_pods("v0.18.4"),
    ran=(
        ProvenRun(
            what="an upgrade from `lab` and back over jobs that were stopped and submitted again, "
            "and a job that trains on either",
            where="the lab, Kubernetes 1.35.8",
            source="tests/lab",
        ),
    ),
)
TRAINER_2_2 = _published(LAB_TRAINER, "trainer-2.2")

#: The lab's where Volcano admits gangs (docs/teams.md): its chart, too, travels in its module.
LAB_VOLCANO = dataclasses.replace(
    LAB,
    name="lab-volcano",
    addons=MappingProxyType(
        {
            **ADDONS,
            VOLCANO.name: dataclasses.replace(
                VOLCANO,
                chart=ModuleChart(
                    module="volcano.sh/volcano",
                    module_version=VOLCANO.tag,
                    path="installer/helm/chart/volcano",
                ),
            ),
        }
    ),
    ran=(
        ProvenRun(
            what=f"Volcano {VOLCANO.version} in Kueue's place: gangs, shares, restarts, webhooks",
            where="the lab, Kubernetes 1.35.8",
            source="tests/lab",
        ),
    ),
)

NEWEST_READ = Combination(
    name="newest-read",
    kubernetes=("1.33", "1.36"),
    kueue=Controller(
        name="kueue",
        version="0.19.2",
        namespace="kueue-system",
        chart=OciChart(url="oci://registry.k8s.io/kueue/charts/kueue"),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.19.2",
        gates=_NO_CLAIMS_0_19,
        source="publisher's chart, newest tag seen 2026-09",
    ),
    jobset=Controller(
        name="jobset",
        version="0.12.0",
        namespace="jobset-system",
        chart=OciChart(url="oci://registry.k8s.io/jobset/charts/jobset"),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.12.0",
        source="publisher's chart, newest tag seen 2026-09",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.3.0",
        namespace="kubeflow-system",
        chart=OciChart(url="oci://ghcr.io/kubeflow/charts/kubeflow-trainer"),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.3.0",
        source="publisher's chart, newest tag seen 2026-09",
    ),
    gang_charge="job",
    placement_field="runtimePatches",
    source="charts' newest tags, read",
    lost_pods=_lost_pods("v0.19.2"),
    addons=ADDONS,
    parts=PARTS,
)

# A pair that is still in the field: it charges a gang by the runtime's template, so its stack
# gets the guard that refuses every other node count (railhead/resolve/guards.py).
TEMPLATE_CHARGE = Combination(
    name="kueue-0.15",
    kubernetes=("1.33", "1.34"),
    kueue=Controller(
        name="kueue",
        version="0.15.0",
        namespace="kueue-system",
        chart=OciChart(url="oci://registry.k8s.io/kueue/charts/kueue"),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.15.0",
        source="charge measured by hand: no parallelism in the template, and a two-node job was "
        "charged one pod; parallelism 2, and a four-node job was charged two and ran half placed",
    ),
    jobset=Controller(
        name="jobset",
        version="0.10.1",
        namespace="jobset-system",
        chart=OciChart(url="oci://registry.k8s.io/jobset/charts/jobset"),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.10.1",
        source="ran beside kueue 0.15.0 and trainer 2.1.0",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.1.0",
        namespace="kubeflow-system",
        chart=OciChart(url="oci://ghcr.io/kubeflow/charts/kubeflow-trainer"),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.1.0",
        source="ran beside kueue 0.15.0 and jobset 0.10.1",
    ),
    gang_charge="template",
    placement_field="podTemplateOverrides",
    source="the three ran together on Kubernetes 1.34; kueue PR #8135 mends the charge from 0.15.2",
    addons=ADDONS,
    parts=PARTS,
    ran=(
        ProvenRun(
            what="that a gang is charged by its runtime's template; nothing else",
            where="a cluster made for it, Kubernetes 1.34",
            source="by hand",
        ),
    ),
)

COMBINATIONS: dict[str, Combination] = {
    c.name: c
    for c in (
        LAB,
        PROVEN,
        LAB_UPGRADED,
        JOBSET_0_11,
        LAB_TRAINER,
        TRAINER_2_2,
        LAB_VOLCANO,
        NEWEST_READ,
        TEMPLATE_CHARGE,
    )
}


def unrun(versions: Iterable[str]) -> str:
    """Return a line on versions of Kueue, JobSet and Trainer that never ran together, or nothing.

    ``versions`` are in that order.
    """
    asked = tuple(versions)
    ran = [
        c
        for c in COMBINATIONS.values()
        if c.ran and tuple(r.version for r in c.controllers) == asked
    ]
    if ran:
        return ""
    kueue, jobset, trainer = asked
    return (
        f"Kueue {kueue}, JobSet {jobset} and Trainer {trainer} were read and never run together; "
        f"{PROVEN.name!r} is what ran ({PROVEN.ran[0].where})"
    )
