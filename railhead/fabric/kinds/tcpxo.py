"""Google's GPUDirect-TCPXO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from railhead.catalog.parts import Variable
from railhead.catalog.versions import PARTS
from railhead.fabric.kind import FabricKind
from railhead.fabric.plugin import NodePlugin, PluginDaemon, Qualified
from railhead.fabric.variables import (
    BOOTSTRAP,
    pinned,
    vendor,
)

_REPOSITORY = "google/nccl-plugin-gpudirect-tcpxo"
_TCPXO = f"{_REPOSITORY} at v1.0.16, tcpxo_scripts/nccl-env-profile.sh"
_ENFORCED = (
    "; the plugin's guest config checker ends a job that sets another value "
    "(container-engine-accelerators, gpudirect-tcpxo/README.md, Aug 21, 2025)"
)
_PAIRS = (
    "the pairs of plugin, daemon and driver: elideng-sg/hypercomputer-internode-deepdive, lab-22"
)

#: The plugin's tag -> what belongs to it.
QUALIFIED: Mapping[str, Qualified] = MappingProxyType(
    {
        row.plugin: row
        for row in (
            Qualified(
                plugin="v1.0.16",
                daemon="v1.0.22",
                driver="580",
                # nccl_cuda/BUILD links @local_cuda//:cuda_runtime, of CUDA 12.8.
                cuda=12,
                nccl="2.28.7",
                source=f"{_REPOSITORY}, tag v1.0.16: CUDA 12.8, driver 580.65.06, NCCL 2.28.7-1; "
                f"{_PAIRS}",
            ),
            Qualified(
                plugin="v1.0.17",
                daemon="v1.0.23",
                driver="595",
                # nccl_cuda/BUILD links the driver's library alone from here on.
                cuda=None,
                nccl="2.28.7",
                source=f"{_REPOSITORY}, tag v1.0.17: CUDA 13.2, driver 595.71.05, NCCL 2.28.7-1; "
                f"{_PAIRS}",
            ),
        )
    }
)

# In the node's own namespaces: pods' data flows in over TCP, DMA-BUF needs its helper module, and
# the NICs' apertures are bound where unprivileged containers can be given them. On a node with jobs
# it changes nothing that is there already.
_APERTURES = """set -e
iptables -w -C INPUT -p tcp -m tcp -j ACCEPT || iptables -w -I INPUT -p tcp -m tcp -j ACCEPT
modprobe import-helper
lspci -nn -D | grep '1ae0:0084' | while read -r address _; do
  target="/dev/aperture_devices/$address"
  mkdir -p "$target"
  if mountpoint -q "$target"; then
    continue
  fi
  mount --bind "$(readlink -f "/sys/bus/pci/devices/$address")" "$target"
  chmod -R a+r "$target"
  chmod a+rw "$target"/resource*
done
"""

PLUGIN = NodePlugin(
    name="tcpxo",
    installer=PARTS["nccl-tcpxo"].images[0],
    accelerators=("nvidia-h100-mega-80gb",),
    qualified=QUALIFIED[PARTS["nccl-tcpxo"].images[0].tag],
    script="""/scripts/container_entry.sh install --install-nccl
mkdir -p /usr/local/nvidia/lib64
cp -r --remove-destination /var/lib/tcpxo/lib64/. /usr/local/nvidia/lib64
""",
    prepare=_APERTURES,
    mounts=(("/var/lib", "/var/lib"), ("/home/kubernetes/bin", "/usr/local")),
    daemon=PluginDaemon(
        name="tcpxo-daemon",
        image=PARTS["nccl-tcpxo"].images[1],
        # The other flags of older manifests are retired: tag v1.0.16, README.md.
        command=(
            "/bin/sh",
            "-c",
            "chmod 755 /fts/entrypoint_rxdm_container.sh && exec "
            "/fts/entrypoint_rxdm_container.sh --num_hops=2",
        ),
        capabilities=("NET_ADMIN", "NET_BIND_SERVICE"),
        devices=("/dev/dmabuf_import_helper",),
        # It ends with status 0 when it fails; the file is there when it serves.
        environment=(("HEALTH_CHECK_LOG_FILE", "/run/health-check"),),
        started=("cat", "/run/health-check"),
        source="container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml; "
        "best-practice.md: startup probe",
    ),
    injector=True,
    libraries=(
        "nvidia/lib64/libnccl-net.so",
        "nvidia/lib64/libnccl-net_internal.so",
        "nvidia/lib64/libnccl-tuner.so",
        "nvidia/lib64/a3plus_tuner_config.textproto",
        "nvidia/lib64/a3plus_guest_config.textproto",
    ),
    apertures=8,
    source="container-engine-accelerators, gpudirect-tcpxo/nccl-tcpxo-installer.yaml; "
    f"{_REPOSITORY} at v1.0.16, tcpxo_scripts/container_entry.sh: what it installs",
)


def qualified(tag: str) -> NodePlugin:
    """Return the plugin of a tag of :data:`QUALIFIED`, with the daemon that belongs to it.

    Environment and steps are the same (tags v1.0.16 and v1.0.17, tcpxo_scripts: the profile is, and
    the installer copies a profiler more).
    """
    row, daemon = QUALIFIED[tag], PLUGIN.daemon
    assert daemon is not None  # noqa: S101 - it is written above
    return replace(
        PLUGIN,
        qualified=row,
        installer=replace(PLUGIN.installer, tag=row.plugin),
        daemon=replace(daemon, image=replace(daemon.image, tag=str(row.daemon))),
    )


def _profile(name: str, value: str, reason: str = "the vendor's profile") -> Variable:
    return vendor(name, value, reason, _TCPXO)


def _enforced(name: str, value: str, reason: str = "the vendor's profile") -> Variable:
    return vendor(name, value, reason, f"{_TCPXO}{_ENFORCED}")


FABRIC = FabricKind(
    name="tcpxo",
    rdma=False,
    counted=True,
    environment=(
        *BOOTSTRAP,
        vendor(
            "LD_LIBRARY_PATH",
            "/usr/local/nvidia/lib64",
            "the plugin and the NCCL it was qualified with are the node's, mounted",
            _TCPXO,
        ),
        pinned("FasTrak", "the network's name as the plugin reports it (`Using network FasTrak`)"),
        _profile("NCCL_FASTRAK_CTRL_DEV", "{bootstrap}", "control stays off the rails"),
        _profile("NCCL_FASTRAK_IFNAME", "{rails}", "the eight GPU NICs and no other"),
        vendor(
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
            "/dev/aperture_devices",
            "where the apertures of the NICs are mounted",
            "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml",
        ),
        _enforced("NCCL_CROSS_NIC", "0", "one VPC a rail: rails do not reach each other"),
        _enforced("NCCL_PROTO", "Simple,LL128"),
        _enforced("NCCL_MIN_NCHANNELS", "4"),
        _enforced("NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072"),
        _enforced("NCCL_P2P_NET_CHUNKSIZE", "524288"),
        _enforced("NCCL_P2P_PCI_CHUNKSIZE", "524288"),
        _enforced("NCCL_P2P_NVL_CHUNKSIZE", "1048576"),
        _enforced("NCCL_FASTRAK_NUM_FLOWS", "2"),
        _enforced("NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"),
        _enforced("NCCL_BUFFSIZE", "8388608"),
        _enforced("NCCL_FASTRAK_USE_SNAP", "1", "the offload engine instead of kernel TCP"),
        _enforced("NCCL_FASTRAK_USE_LLCM", "1", "low-latency messages by the aperture"),
        _enforced("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the NIC below its own switch"),
        _enforced("NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0"),
        _profile("NCCL_TUNER_PLUGIN", "libnccl-tuner.so", "the tables of this network's own tuner"),
        _profile(
            "NCCL_TUNER_CONFIG_PATH",
            "/usr/local/nvidia/lib64/a3plus_tuner_config.textproto",
            "the tables of this network's own tuner",
        ),
        _profile(
            "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
            "/usr/local/nvidia/lib64/a3plus_guest_config.textproto",
            "the plugin's own check that these variables belong together",
        ),
        _profile(
            "NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", "600000", "peers' pods may start minutes apart"
        ),
    ),
    userspace=("the TCPXO plugin, mounted from the node at /usr/local/nvidia/lib64",),
    proofs=(r"NET/FasTrak", r"via NET/FasTrak/\d+"),
    not_set=MappingProxyType(
        {
            "NCCL_IB_HCA": "the NICs are no RDMA devices; `NET/IB : No device found` is normal",
            "NCCL_ALGO": "NCCL and the tuner choose; NVLSTree is among them since v1.0.12",
            "NCCL_NVLS_ENABLE": "NCCL and the tuner choose",
            "NCCL_DYNAMIC_CHUNK_SIZE": "of profiles before v1.0.14",
        }
    ),
    plugin=PLUGIN,
    source=_TCPXO,
)
