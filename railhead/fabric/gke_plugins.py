"""Google's NCCL plugins on GKE: what installs them on nodes, and the daemons beside a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.catalog.versions import PARTS, Image
from railhead.fabric.rows import ModeName


@dataclass(frozen=True, kw_only=True)
class PluginDaemon:
    """A sidecar: its command, the capabilities it needs, and devices beside the GPUs' own."""

    name: str
    image: Image
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    devices: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class GkePlugin:
    """A plugin as an installer puts it on nodes.

    Args:
        installer: the image that carries it.
        accelerators: ``cloud.google.com/gke-accelerator`` of the nodes that get it.
        script: what the installer's container runs, a text of our own with nothing spliced in.
        prepare: what runs in the node's own namespaces before, or empty.
        mounts: (path on the node, path in the installer).
        injector: whether nodes need GKE's device injector for the sidecar.
    """

    installer: Image
    accelerators: tuple[str, ...]
    script: str
    prepare: str
    mounts: tuple[tuple[str, str], ...]
    daemon: PluginDaemon | None
    injector: bool
    source: str


#: Gives containers the devices that an annotation of their pod lists.
DEVICE_INJECTOR, PAUSE = PARTS["nri-device-injector"].images

_ACCELERATORS = "container-engine-accelerators"

# In the node's own namespaces: pods' data flows in over TCP, DMA-BUF needs its helper module, and
# the NICs' apertures are bound where unprivileged containers can be given them.
_APERTURES = """set -e
iptables -I INPUT -p tcp -m tcp -j ACCEPT
modprobe import-helper
mkdir -p /dev/aperture_devices
lspci -nn -D | grep '1ae0:0084' | while read -r address _; do
  mkdir -p "/dev/aperture_devices/$address"
  umount -R "/dev/aperture_devices/$address" || true
  mount --bind "$(readlink -f "/sys/bus/pci/devices/$address")" "/dev/aperture_devices/$address"
done
chmod -R a+r /dev/aperture_devices/
chmod a+rw /dev/aperture_devices/*/resource*
"""

# A strict martian log floods the console when eight interfaces share one pod.
_MARTIANS = """set -e
for path in /proc/sys/net/ipv4/conf/gpu*rdma*/log_martians; do
  echo 0 > "$path"
done
"""

GKE_PLUGINS: Mapping[str, GkePlugin] = MappingProxyType(
    {
        ModeName.GCP_RDMA: GkePlugin(
            installer=PARTS["nccl-gib"].images[0],
            accelerators=("nvidia-h200-141gb", "nvidia-b200"),
            script="""set -e
/scripts/container_entry.sh install --install-nccl
cp -r /var/lib/gib/lib64/. /host/nvidia/lib64
cp -r /var/lib/gib/. /host/gib
""",
            prepare=_MARTIANS,
            mounts=(
                ("/home/kubernetes/bin/nvidia/lib64", "/host/nvidia/lib64"),
                ("/home/kubernetes/bin/gib", "/host/gib"),
            ),
            daemon=None,
            injector=False,
            source=f"{_ACCELERATORS}, gpudirect-rdma/nccl-rdma-installer.yaml; tag of the "
            "diagnostic image in nccl-test-managed-rdma.yaml",
        ),
        ModeName.TCPXO: GkePlugin(
            installer=PARTS["nccl-tcpxo"].images[0],
            accelerators=("nvidia-h100-mega-80gb",),
            script="""set -e
/scripts/container_entry.sh install --install-nccl
mkdir -p /usr/local/nvidia/lib64
cp -r /var/lib/tcpxo/lib64/. /usr/local/nvidia/lib64
""",
            prepare=_APERTURES,
            mounts=(("/var/lib", "/var/lib"), ("/home/kubernetes/bin", "/usr/local")),
            daemon=PluginDaemon(
                name="tcpxo-daemon",
                image=PARTS["nccl-tcpxo"].images[1],
                command=(
                    "/bin/sh",
                    "-c",
                    "chmod 755 /fts/entrypoint_rxdm_container.sh && exec "
                    "/fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= "
                    "--alsologtostderr",
                ),
                capabilities=("NET_ADMIN", "NET_BIND_SERVICE"),
                devices=("/dev/dmabuf_import_helper",),
                source=f"{_ACCELERATORS}, gpudirect-tcpxo/nccl-test-latest.yaml; the pair v1.0.22 "
                "and v1.0.16 belongs to driver branch R580",
            ),
            injector=True,
            source=f"{_ACCELERATORS}, gpudirect-tcpxo/nccl-tcpxo-installer.yaml",
        ),
        ModeName.TCPX: GkePlugin(
            installer=PARTS["nccl-tcpx"].images[0],
            accelerators=("nvidia-h100-80gb",),
            script="""set -e
/scripts/container_entry.sh install --install-nccl
mkdir -p /usr/local/nvidia/lib64
cp -r /var/lib/tcpx/lib64/. /usr/local/nvidia/lib64
""",
            prepare="",
            mounts=(("/var/lib", "/var/lib"), ("/home/kubernetes/bin", "/usr/local")),
            daemon=PluginDaemon(
                name="tcpx-daemon",
                image=PARTS["nccl-tcpx"].images[1],
                command=(
                    "/tcpgpudmarxd/build/app/tcpgpudmarxd",
                    "--gpu_nic_preset",
                    "a3vm",
                    "--gpu_shmem_type",
                    "fd",
                    "--uds_path",
                    "/run/tcpx",
                    "--setup_param",
                    "--verbose 128 2 0 ",
                ),
                capabilities=("NET_ADMIN",),
                devices=(),
                source=f"{_ACCELERATORS}, gpudirect-tcpx/"
                "nccl-test-unprivileged-without-hostnetwork.yaml",
            ),
            injector=True,
            source=f"{_ACCELERATORS}, gpudirect-tcpx/nccl-tcpx-installer.yaml; v3.1.12 and not "
            "`latest`",
        ),
    }
)
