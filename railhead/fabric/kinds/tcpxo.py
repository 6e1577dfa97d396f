"""Google's GPUDirect-TCPXO."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.versions import PARTS
from railhead.fabric.kind import Fabric
from railhead.fabric.plugin import NodePlugin, PluginDaemon
from railhead.fabric.variables import (
    BOOTSTRAP,
    pinned,
    vendor,
)

_TCPXO = (
    "nccl-env-profile.sh of the TCPXO plugin, as AI-Hypercomputer/gpu-recipes' a3mega charts source"
    " it"
)


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

PLUGIN = NodePlugin(
    name="tcpxo",
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
        source="container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml; the pair "
        "v1.0.22 and v1.0.16 belongs to driver branch R580",
    ),
    injector=True,
    source="container-engine-accelerators, gpudirect-tcpxo/nccl-tcpxo-installer.yaml",
)


FABRIC = Fabric(
    name="tcpxo",
    rdma=False,
    environment=(
        *BOOTSTRAP,
        vendor(
            "LD_LIBRARY_PATH",
            "/usr/local/nvidia/lib64",
            "the plugin and its NCCL are the node's, mounted",
            _TCPXO,
        ),
        pinned("FasTrak", "the network's name as the plugin reports it (`Using network FasTrak`)"),
        vendor("NCCL_FASTRAK_CTRL_DEV", "{bootstrap}", "control stays off the rails", _TCPXO),
        vendor("NCCL_FASTRAK_IFNAME", "{rails}", "the eight GPU NICs and no other", _TCPXO),
        vendor(
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
            "/dev/aperture_devices",
            "where the apertures of the NICs are mounted",
            "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml",
        ),
        vendor("NCCL_FASTRAK_NUM_FLOWS", "2", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_FASTRAK_USE_SNAP", "1", "the offload engine instead of kernel TCP", _TCPXO),
        vendor("NCCL_FASTRAK_USE_LLCM", "1", "low-latency messages by the aperture", _TCPXO),
        vendor(
            "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0", "what the plugin was tuned with", _TCPXO
        ),
        vendor(
            "NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS",
            "600000",
            "peers' pods may start minutes apart",
            _TCPXO,
        ),
        vendor("NCCL_CROSS_NIC", "0", "one VPC a rail: rails do not reach each other", _TCPXO),
        vendor("NCCL_ALGO", "Ring,Tree", "NVLS is not supported by the plugin", _TCPXO),
        vendor("NCCL_PROTO", "Simple", "the profile without LL128", _TCPXO),
        vendor("NCCL_NVLS_ENABLE", "0", "NVLS is not supported by the plugin", _TCPXO),
        vendor("NCCL_MIN_NCHANNELS", "4", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_P2P_NET_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_P2P_PCI_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_BUFFSIZE", "8388608", "what the plugin was tuned with", _TCPXO),
        vendor("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the NIC below its own switch", _TCPXO),
        vendor(
            "NCCL_TUNER_PLUGIN",
            "libnccl-tuner.so",
            "the tables of this network's own tuner",
            _TCPXO,
        ),
        vendor(
            "NCCL_TUNER_CONFIG_PATH",
            "/usr/local/nvidia/lib64/a3plus_tuner_config.textproto",
            "the tables of this network's own tuner",
            _TCPXO,
        ),
        vendor(
            "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
            "/usr/local/nvidia/lib64/a3plus_guest_config.textproto",
            "the plugin's own check that these variables belong together",
            _TCPXO,
        ),
    ),
    userspace=("the TCPXO plugin, mounted from the node at /usr/local/nvidia/lib64",),
    proofs=(r"NET/FasTrak", r"via NET/FasTrak/\d+"),
    not_set=MappingProxyType(
        {"NCCL_IB_HCA": "the NICs are no RDMA devices; `NET/IB : No device found` is normal here"}
    ),
    plugin=PLUGIN,
    source="container-engine-accelerators, gpudirect-tcpxo; gpu-recipes",
)
