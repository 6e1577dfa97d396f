"""A node's user data: objects, dumped into the parts of one MIME document."""

from __future__ import annotations

import base64
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any

import yaml

_BOUNDARY = "==railhead=="
_SYSCTL_FILE = "/etc/sysctl.d/60-railhead-hugepages.conf"


def node_config(*, raid: bool) -> dict[str, Any]:
    """What nodeadm reads; EKS adds the cluster's own part.

    ``raid``: the instance store's disks as one RAID 0, with the data of containers and pods on it.
    """
    spec: dict[str, Any] = {}
    if raid:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def hugepages(count: int) -> dict[str, Any]:
    """What cloud-init does: reserve huge pages of 2 MiB before kubelet starts and counts them.

    nodeadm starts kubelet after cloud-init's last stage. The file is for the next boot.
    """
    setting = f"vm.nr_hugepages={count}"
    return {
        "write_files": [
            {"path": _SYSCTL_FILE, "content": f"{setting}\n", "permissions": "0644"},
        ],
        "bootcmd": [["sysctl", "-w", setting]],
    }


def user_data(*, raid: bool, hugepages_2mib: int) -> str | None:
    """The document in base64, as a launch template takes it; None where there is nothing to say."""
    document = MIMEMultipart("mixed", boundary=_BOUNDARY)
    if raid:
        document.attach(_part("application", "node.eks.aws", _dump(node_config(raid=raid))))
    if hugepages_2mib:
        text = f"#cloud-config\n{_dump(hugepages(hugepages_2mib))}"
        document.attach(_part("text", "cloud-config", text))
    if not document.get_payload():
        return None
    return base64.b64encode(document.as_bytes()).decode()


def _dump(value: dict[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=True)


def _part(maintype: str, subtype: str, text: str) -> MIMENonMultipart:
    part = MIMENonMultipart(maintype, subtype, charset="us-ascii")
    part.add_header("Content-Transfer-Encoding", "7bit")
    part.set_payload(text)
    return part
