"""A node's user data: objects, dumped into the parts of one MIME document."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any

import yaml

from railhead.platform.aws.facts import LUSTRE_EFA_RESULT

_BOUNDARY = "==railhead=="
_SYSCTL_FILE = "/etc/sysctl.d/60-railhead-hugepages.conf"
_LUSTRE_OPTIONS_FILE = "/etc/modprobe.d/railhead-lustre.conf"
# FSx user guide, performance-tips: of clients with more than 64 vCPUs, before the modules load.
# AWS' own script for EFA clients writes the same.
_LUSTRE_OPTIONS = "options ptlrpc ptlrpcd_per_cpt_max=32\noptions ksocklnd credits=2560\n"
# Images of CUDA ask for all GPUs by a variable, and EKS' image runs every container by NVIDIA's
# runtime (nodeadm, runtime_config_nvidia.go), which obeys by default. What Kubernetes allocates
# comes by CDI (gpu-operator v26.7.0, transformDevicePluginCtrForCDI; the DRA driver); containers of
# agents are privileged, and may ask as before (nvidia-container-toolkit v1.19.1, cuda_image.go).
_GPUS_BY_REQUEST = [
    "nvidia-ctk",
    "config",
    "--config-file=/etc/nvidia-container-runtime/config.toml",
    "--set=accept-nvidia-visible-devices-envvar-when-unprivileged=false",
    "--in-place",
]
# Read when the image loads the module. From 20260917 on it does so beside cloud-init and maybe
# before this file is there (amazon-eks-ami, nvidia-setup.service): the node then boots once more.
_NVIDIA_OPTIONS_FILE = "/etc/modprobe.d/railhead-nvidia.conf"
_NVIDIA_OPTIONS = "options nvidia NVreg_GrdmaPciTopoCheckOverride=1\n"
# Within the stage that nodeadm waits for, and so not by `power_state`, which acts once that ends:
# nodeadm, cut off while it makes the RAID, fails to at the next boot (setup-local-disks: mdadm
# finds the disks in use). cloud-init has run these commands then, and does so once an instance.
_NVIDIA_LOADED_BEFORE = [
    "sh",
    "-c",
    "if grep -qs '^GrdmaPciTopoCheckOverride: 0' /proc/driver/nvidia/params; "
    "then systemctl reboot; sleep 60; fi",
]
_LUSTRE_SCRIPT = "/usr/local/sbin/railhead-lustre-efa"
_LUSTRE_UNIT = "railhead-lustre-efa.service"
# Seconds until a set-up that hangs lets the node join all the same.
_LUSTRE_SECONDS = 300
# Bytes, and more than any machine has. Not RLIM_INFINITY: nodeadm reads the numbers as floats and
# writes 2**64 - 1 as one that containerd's 64 bits do not hold; this one it writes as it is.
_MEMLOCK = 2**53
# A list replaces nodeadm's own, so what that has is said again.
_NOFILE = {"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}

# The commands of FSx' user guide (configure-efa-clients) and EKS' (fsx-csi-tuning-efa). $1: how
# many of the node's EFA devices Lustre takes, spread over all that there are; $2: the oldest
# kefalnd that will do, or nothing. In $RESULT it leaves how many carry Lustre: the gate reads it.
_LUSTRE = """\
#!/bin/bash
set -euo pipefail
wanted=$1
least=${2:-0}
mkdir -p "$(dirname "$RESULT")"
rm -f "$RESULT"
command -v lnetctl >/dev/null || dnf install -y lustre-client
primary=$(ip -o -4 route show default | awk '{print $5; exit}')
devices=()
for path in /sys/class/infiniband/*; do
  if [ "$(basename "$(realpath "$path/device/driver")")" = efa ]; then
    devices+=("$(basename "$path")")
  fi
done
version=$(modinfo -F version kefalnd)
if [ "$(printf '%s\\n' "$least" "$version" | sort -V | head -n 1)" != "$least" ]; then
  echo "kefalnd $version is older than $least, which this machine needs" >&2
  exit 1
fi
step=$((${#devices[@]} / wanted))
if [ "$step" -lt 1 ]; then step=1; fi
modprobe lnet
modprobe kefalnd ipif_name="$primary"
modprobe ksocklnd
lnetctl lnet configure
lnetctl net del --net tcp || true
lnetctl net add --net tcp --if "$primary"
for ((i = 0; i < ${#devices[@]} && i / step < wanted; i += step)); do
  lnetctl net add --net efa --if "${devices[i]}" --peer-credits 32
done
lnetctl set discovery 1
lnetctl udsp add --src efa --priority 0
modprobe lustre
lnetctl net show
lnetctl net show --net efa | grep -c 'status: up' > "$RESULT"
"""


@dataclass(frozen=True, kw_only=True)
class NodeSetup:
    """The setup of a node before it joins.

    Args:
        raid: the instance store's disks as one RAID 0, with the data of containers and pods on it.
        gpus_by_request: whether a container has the GPUs that Kubernetes gave it, and no others.
        hugepages_2mib: huge pages of 2 MiB to set aside; 0 for none.
        lock_memory: whether containers may lock all their memory, as registering it with a NIC
            does. nodeadm's own runtime spec limits files alone, and memory is then whatever
            systemd gives containerd (amazon-eks-ami, nodeadm/internal/containerd).
        nic_to_gpu: whether an option lets NICs reach the GPUs' memory (`facts.COHERENT_MEMORY`).
        lustre_threads: whether Lustre's client gets the threads of a large machine. Also where no
            file system is yet: one that is added later replaces no node for it.
        lustre_efa: EFA devices that Lustre takes; 0 for Lustre over TCP.
        kefalnd: the oldest version of Lustre's EFA driver that will do; empty for any.
    """

    raid: bool = False
    gpus_by_request: bool = False
    hugepages_2mib: int = 0
    lock_memory: bool = False
    nic_to_gpu: bool = False
    lustre_threads: bool = False
    lustre_efa: int = 0
    kefalnd: str = ""


def node_config(setup: NodeSetup) -> dict[str, Any]:
    """Return the `spec` that nodeadm reads; EKS adds the cluster's own part. Empty for defaults.

    amazon-eks-ami, nodeadm/doc/examples.md: `localStorage`, and `baseRuntimeSpec` for limits.
    """
    spec: dict[str, Any] = {}
    if setup.raid:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if setup.lock_memory:
        memory = {"type": "RLIMIT_MEMLOCK", "soft": _MEMLOCK, "hard": _MEMLOCK}
        spec["containerd"] = {"baseRuntimeSpec": {"process": {"rlimits": [_NOFILE, memory]}}}
    return spec


def cloud_config(setup: NodeSetup) -> dict[str, Any]:
    """Return cloud-init's steps, all before kubelet starts: nodeadm waits for its last stage.

    Huge pages are there before kubelet counts them, and by the file at the next boot. Lustre's
    network is set up by a unit, at each boot; where that fails or takes too long, the node joins
    all the same and would mount over TCP: the gate keeps jobs off it.
    """
    files: list[dict[str, str]] = []
    commands = [_GPUS_BY_REQUEST] if setup.gpus_by_request else []
    results: dict[str, Any] = {}
    if setup.hugepages_2mib:
        setting = f"vm.nr_hugepages={setup.hugepages_2mib}"
        files.append(_file(_SYSCTL_FILE, f"{setting}\n", "0644"))
        results["bootcmd"] = [["sysctl", "-w", setting]]
    if setup.nic_to_gpu:
        files.append(_file(_NVIDIA_OPTIONS_FILE, _NVIDIA_OPTIONS, "0644"))
    if setup.lustre_threads:
        files.append(_file(_LUSTRE_OPTIONS_FILE, _LUSTRE_OPTIONS, "0644"))
    if setup.lustre_efa:
        files.append(_file(_LUSTRE_SCRIPT, _LUSTRE, "0755"))
        files.append(_file(f"/etc/systemd/system/{_LUSTRE_UNIT}", _unit(setup), "0644"))
        commands += [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "--now", _LUSTRE_UNIT],
        ]
    if setup.nic_to_gpu:
        # Last: those after it would not run at the next boot.
        commands.append(_NVIDIA_LOADED_BEFORE)
    if commands:
        results["runcmd"] = commands
    return results | ({"write_files": files} if files else {})


def _unit(setup: NodeSetup) -> str:
    command = f"{_LUSTRE_SCRIPT} {setup.lustre_efa} {setup.kefalnd}".rstrip()
    return (
        "[Unit]\n"
        "Description=Lustre over EFA\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "Before=kubelet.service\n\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        # Of a oneshot there is no limit otherwise (systemd.service).
        f"TimeoutStartSec={_LUSTRE_SECONDS}\n"
        f"Environment=RESULT={LUSTRE_EFA_RESULT}\n"
        f"ExecStart={command}\n\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def _file(path: str, content: str, permissions: str) -> dict[str, str]:
    return {"path": path, "content": content, "permissions": permissions}


def user_data(setup: NodeSetup) -> str | None:
    """Return the document in base64, as a launch template takes it; None without any setup."""
    document = MIMEMultipart("mixed", boundary=_BOUNDARY)
    if spec := node_config(setup):
        config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
        document.attach(_part("application", "node.eks.aws", _dump(config)))
    if config := cloud_config(setup):
        document.attach(_part("text", "cloud-config", f"#cloud-config\n{_dump(config)}"))
    if not document.get_payload():
        return None
    return base64.b64encode(document.as_bytes()).decode()


def _dump(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=True)


def _part(maintype: str, subtype: str, text: str) -> MIMENonMultipart:
    part = MIMENonMultipart(maintype, subtype, charset="us-ascii")
    part.add_header("Content-Transfer-Encoding", "7bit")
    part.set_payload(text)
    return part
