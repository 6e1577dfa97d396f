"""The start of each part of the cluster: command lines and configuration files as data.

Paths in here are those that the lab sees (`railhead.lab.spec.INSIDE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from railhead.lab import spec as lab
from railhead.lab.spec import INSIDE, INSIDE_LAB, LabSpec
from railhead.platform.lab import networks

PKI = INSIDE_LAB / "pki"
KUBECONFIGS = INSIDE_LAB / "kubeconfigs"
CONFIG = INSIDE_LAB / "config"
LOGS = INSIDE_LAB / "logs"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_CONFIG = INSIDE / "cni" / "net.d"
CNI_BIN = INSIDE / "cni" / "bin"
# Kept off the host's /tmp, where a killed process would leave its files.
LAB_TEMPORARY = str(INSIDE / "tmp")
NODE_TEMPORARY = "/var/lib/railhead/tmp"
# The place of a node's cgroups while its own /sys is mounted.
NODE_CGROUPS = "/var/lib/railhead/cgroup"
# With less than this a node's own disk is full.
DISK_FREE_MIB = 32
PROVISIONER = "railhead.dev/shared"
PROVISIONER_NAMESPACE = "railhead-storage"


@dataclass(frozen=True, kw_only=True)
class Service:
    """A process of the lab or of a node."""

    role: str
    argv: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """Variables beside PATH, HOME and LANG."""
        temporary = NODE_TEMPORARY if "/" in self.role else LAB_TEMPORARY
        return {"TMPDIR": temporary}

    @property
    def log(self) -> str:
        """The path of its log, as the lab sees it."""
        return str(LOGS / f"{self.role.replace('/', '.')}.log")


def etcd(bin_dir: str) -> Service:
    """Etcd, alone and without flushing to disk."""
    peer = "http://127.0.0.1:2380"
    client = "http://127.0.0.1:2379"
    return Service(
        role="etcd",
        argv=(
            f"{bin_dir}/etcd",
            "--name=lab",
            f"--data-dir={INSIDE_LAB / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=lab={peer}",
            # A lab's data need not survive a power cut, and flushing is what makes etcd slow.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
    )


def api_server(bin_dir: str) -> Service:
    """Return the API server, on every address of the lab's own network namespace."""
    return Service(
        role="kube-apiserver",
        argv=(
            f"{bin_dir}/kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={lab.CONTROL_ADDRESS}",
            "--bind-address=0.0.0.0",
            f"--secure-port={lab.API_PORT}",
            f"--service-cluster-ip-range={networks.SERVICE_NETWORK}",
            f"--client-ca-file={PKI}/ca.crt",
            f"--tls-cert-file={PKI}/apiserver.crt",
            f"--tls-private-key-file={PKI}/apiserver.key",
            f"--kubelet-certificate-authority={PKI}/ca.crt",
            f"--kubelet-client-certificate={PKI}/apiserver-kubelet.crt",
            f"--kubelet-client-key={PKI}/apiserver-kubelet.key",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer=https://kubernetes.default.svc.{lab.CLUSTER_DOMAIN}",
            f"--service-account-key-file={PKI}/service-account.pub",
            f"--service-account-signing-key-file={PKI}/service-account.key",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # The front proxy lets aggregated APIs (Kueue's visibility) answer; without it their
            # discovery fails and every namespace deletion hangs.
            f"--requestheader-client-ca-file={PKI}/front-proxy-ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={PKI}/front-proxy-client.crt",
            f"--proxy-client-key-file={PKI}/front-proxy-client.key",
            # Webhooks are called at their pods: no service routing where the API server runs.
            "--enable-aggregator-routing=true",
            "--allow-privileged=true",
            "--profiling=false",
        ),
    )


def controller_manager(bin_dir: str) -> Service:
    """Return the controller manager, without leader election."""
    return Service(
        role="kube-controller-manager",
        argv=(
            f"{bin_dir}/kube-controller-manager",
            f"--kubeconfig={KUBECONFIGS}/kube-controller-manager",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--service-account-private-key-file={PKI}/service-account.key",
            f"--root-ca-file={PKI}/ca.crt",
            "--use-service-account-credentials=true",
            "--kube-api-qps=100",
            "--kube-api-burst=200",
            "--profiling=false",
        ),
    )


def scheduler(bin_dir: str) -> Service:
    """Return the scheduler, without leader election."""
    return Service(
        role="kube-scheduler",
        argv=(
            f"{bin_dir}/kube-scheduler",
            f"--kubeconfig={KUBECONFIGS}/kube-scheduler",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--profiling=false",
        ),
    )


COREFILE = f"""\
.:53 {{
    bind {lab.CONTROL_ADDRESS}
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes {lab.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {KUBECONFIGS}/coredns
        pods insecure
        ttl 5
    }}
    cache {{
        success 4096 5
        denial 1024 1
    }}
}}
"""


def coredns(bin_dir: str) -> Service:
    """CoreDNS beside the API server, on the cluster bridge."""
    return Service(role="coredns", argv=(f"{bin_dir}/coredns", "-conf", f"{CONFIG}/Corefile"))


def volume_provisioner(bin_dir: str) -> Service:
    """Return Rancher's local-path provisioner, on a file system that all nodes share."""
    return Service(
        role="volume-provisioner",
        argv=(
            f"{bin_dir}/local-path-provisioner",
            "start",
            f"--kubeconfig={KUBECONFIGS}/volume-provisioner",
            f"--config={CONFIG}/volume-provisioner.json",
            f"--namespace={PROVISIONER_NAMESPACE}",
            f"--provisioner-name={PROVISIONER}",
            "--service-account-name=volume-helper",
            "--configmap-name=volume-provisioner",
            f"--helper-pod-file={CONFIG}/volume-helper-pod.json",
            "--helper-image=railhead.local/busybox:1",
        ),
    )


def volume_provisioner_config() -> dict[str, Any]:
    """Return the provisioner's configuration: one shared path, which makes volumes RWX."""
    return {"sharedFileSystemPath": str(lab.SHARED_VOLUMES)}


def gateway(bin_dir: str) -> Service:
    """Return the forwarder from an inherited socket of the host's loopback to the API server."""
    return Service(
        role="gateway",
        argv=(
            f"{bin_dir}/labagent",
            "gateway",
            "-fd=3",
            f"-to={lab.CONTROL_ADDRESS}:{lab.API_PORT}",
        ),
    )


def kwok(bin_dir: str, stages: Sequence[str]) -> Service:
    """KWOK, for the nodes labelled ``type=kwok`` alone."""
    return Service(
        role="kwok",
        argv=(
            f"{bin_dir}/kwok",
            f"--kubeconfig={KUBECONFIGS}/kwok",
            "--manage-all-nodes=false",
            "--manage-nodes-with-label-selector=type=kwok",
            "--node-lease-duration-seconds=200",
            *(f"--config={stage}" for stage in stages),
        ),
    )


def containerd_config(*, restrict_oom_score_adj: bool) -> dict[str, Any]:
    """Return the configuration of one node's containerd, version 2."""
    return {
        "version": 2,
        "root": "/var/lib/containerd",
        "state": "/run/containerd",
        "grpc": {"address": CONTAINERD_SOCKET},
        "disabled_plugins": [
            "io.containerd.internal.v1.opt",
            "io.containerd.snapshotter.v1.aufs",
            "io.containerd.snapshotter.v1.btrfs",
            "io.containerd.snapshotter.v1.devmapper",
            "io.containerd.snapshotter.v1.zfs",
        ],
        "plugins": {
            "io.containerd.grpc.v1.cri": {
                "sandbox_image": "registry.k8s.io/pause:3.10",
                # Without CAP_SYS_RESOURCE runc cannot lower a score and ends.
                "restrict_oom_score_adj": restrict_oom_score_adj,
                "disable_tcp_service": True,
                "stream_server_address": "127.0.0.1",
                "cni": {"bin_dir": str(CNI_BIN), "conf_dir": str(CNI_CONFIG)},
                "containerd": {
                    "snapshotter": "overlayfs",
                    "default_runtime_name": "runc",
                    "runtimes": {
                        "runc": {
                            "runtime_type": "io.containerd.runc.v2",
                            "options": {"SystemdCgroup": False},
                        }
                    },
                },
            }
        },
    }


def node_directory(index: int) -> str:
    """Return a node's own directory, as the lab sees it."""
    return str(INSIDE_LAB / "nodes" / str(index))


def containerd(index: int) -> Service:
    """Containerd of one node."""
    return Service(
        role=f"node-{index}/containerd",
        argv=("containerd", "--config", f"{node_directory(index)}/containerd.toml", "-l", "warn"),
    )


def kubelet_config(spec: LabSpec, index: int, *, cgroup_root: str) -> dict[str, Any]:
    """Return the kubelet's configuration for one node."""
    name = lab.node_name(spec.name, index)
    nothing_free = "0%"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": lab.node_address(index),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{PKI}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{PKI}/kubelet-{name}.crt",
        "tlsPrivateKeyFile": f"{PKI}/kubelet-{name}.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [lab.DNS_SERVICE_ADDRESS],
        # Without it the headless names that Trainer's pods look up do not resolve.
        "clusterDomain": lab.CLUSTER_DOMAIN,
        "resolvConf": f"{CONFIG}/resolv.conf",
        # Without it cAdvisor measures no disk (v0.53.0, container/raw/handler.go), and nothing is
        # ever full.
        "localStorageCapacityIsolation": spec.disk_mib is not None,
        # The machine's disk is not theirs to clean. A node's own may stand beside nodes without,
        # for which so little is as good as nothing.
        "evictionHard": {
            "imagefs.available": nothing_free,
            "imagefs.inodesFree": nothing_free,
            "memory.available": nothing_free,
            "nodefs.available": f"{DISK_FREE_MIB}Mi" if spec.disk_mib else nothing_free,
            "nodefs.inodesFree": nothing_free,
        },
        # By default a disk counts as full for five minutes after it was.
        "evictionPressureTransitionPeriod": "30s",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        # Controllers wait for their webhook's certificate to appear in a mounted Secret, which the
        # kubelet brings up to date when it next looks at the pod: by default once a minute.
        "syncFrequency": "3s",
        "registerNode": True,
        "makeIPTablesUtilChains": True,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "nodeStatusReportFrequency": "1m0s",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def kubelet(bin_dir: str, spec: LabSpec, index: int) -> Service:
    """Return the kubelet of one node, with its pool and topology labels."""
    name = lab.node_name(spec.name, index)
    labels = {
        "railhead.dev/pool": "gpu",
        "topology.railhead.dev/block": "block-0",
        # Two hosts a rack, so that a lab of more than two nodes has racks to choose between.
        "topology.railhead.dev/rack": f"rack-{index // 2}",
    }
    return Service(
        role=f"node-{index}/kubelet",
        argv=(
            f"{bin_dir}/kubelet",
            f"--config={node_directory(index)}/kubelet.json",
            f"--kubeconfig={KUBECONFIGS}/kubelet-{name}",
            f"--hostname-override={name}",
            f"--node-ip={lab.node_address(index)}",
            f"--node-labels={','.join(f'{k}={v}' for k, v in labels.items())}",
        ),
    )


def kube_proxy_config(spec: LabSpec, index: int) -> dict[str, Any]:
    """Return kube-proxy's configuration for one node."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{KUBECONFIGS}/kube-proxy"},
        "bindAddress": lab.node_address(index),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "hostnameOverride": lab.node_name(spec.name, index),
        "clusterCIDR": networks.POD_NETWORK,
        "mode": "iptables",
        # Zeros leave the sysctls alone, which a sandbox may not let us write.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms"},
    }


def kube_proxy(bin_dir: str, index: int) -> Service:
    """Kube-proxy of one node."""
    return Service(
        role=f"node-{index}/kube-proxy",
        argv=(f"{bin_dir}/kube-proxy", f"--config={node_directory(index)}/kube-proxy.json"),
    )


def network_policy(bin_dir: str, spec: LabSpec, index: int) -> Service:
    """Return the service that enforces NetworkPolicies on the pods of one node."""
    return Service(
        role=f"node-{index}/netpol",
        argv=(
            f"{bin_dir}/netpol",
            f"-kubeconfig={KUBECONFIGS}/netpol",
            f"-node={lab.node_name(spec.name, index)}",
            f"-service-cidr={networks.SERVICE_NETWORK}",
        ),
    )


def device_plugin(bin_dir: str, spec: LabSpec, index: int) -> Service:
    """Return the stand-in device plugin of one node."""
    return Service(
        role=f"node-{index}/device-plugin",
        argv=(
            f"{bin_dir}/labagent",
            "device-plugin",
            *(f"-resource={name}={count}" for name, count in spec.device_resources().items()),
        ),
    )


def cni_config(index: int) -> dict[str, Any]:
    """Return the configuration of Multus, which delegates the pod's own interface to `ptp`.

    `ptp` routes, so that a service whose endpoint is on the same node needs no bridge netfilter.
    """
    return {
        "cniVersion": "0.3.1",
        "name": "multus",
        "type": "multus",
        "kubeconfig": str(KUBECONFIGS / "multus"),
        "confDir": str(CNI_CONFIG),
        "binDir": str(CNI_BIN),
        "cniDir": "/var/lib/cni/multus",
        "logLevel": "error",
        "logFile": str(LOGS / f"node-{index}.multus.log"),
        # A pod joins networks of its own namespace only, as production installs Multus.
        "namespaceIsolation": True,
        "delegates": [
            {
                "cniVersion": "0.3.1",
                "name": "pods",
                "plugins": [
                    {
                        "type": "ptp",
                        "ipMasq": False,
                        "mtu": 1500,
                        "ipam": {
                            "type": "host-local",
                            "dataDir": "/var/lib/cni/networks",
                            "ranges": [[{"subnet": lab.pod_subnet(index)}]],
                            "routes": [{"dst": "0.0.0.0/0"}],
                        },
                    },
                    {"type": "portmap", "capabilities": {"portMappings": True}},
                ],
            }
        ],
    }
