"""Values that are well-formed and mean nothing: refused or doubted, with the line of the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import InputError
from railhead.config import check
from railhead.config.lines import lines
from tests import shipped

REPO = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 11, 1, tzinfo=UTC)
# As PyYAML's own, in C, where it was built with that.
Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Edit = Callable[[dict[str, Any]], None]


def steps(path: str) -> list[str | int]:
    return [
        int(part) if part.isdigit() else part
        for part in re.sub(r"\[(\d+)\]", r".\1", path).split(".")
    ]


def put(path: str, value: Any) -> Edit:
    def edit(cluster: dict[str, Any]) -> None:
        at: Any = cluster
        *parents, last = steps(path)
        for part in parents:
            at = at.setdefault(part, {}) if isinstance(at, dict) else at[part]
        at[last] = value

    return edit


def many(*edits: Edit) -> Edit:
    def edit(cluster: dict[str, Any]) -> None:
        for change in edits:
            change(cluster)

    return edit


def rename(old: str, new: str) -> Edit:
    """Give a namespace another name in every place that names it."""

    def edit(cluster: dict[str, Any]) -> None:
        text = yaml.safe_dump(cluster)
        edited = re.sub(rf"(namespace: |- ){old}$", rf"\g<1>{new}", text, flags=re.MULTILINE)
        cluster.clear()
        cluster.update(yaml.safe_load(edited))

    return edit


def written(tmp_path: Path, stack: str, edit: Edit) -> Path:
    data = shipped.document(stack)
    edit(data["config"]["railhead:cluster"])
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True))
    return file


def second_pool(cluster: dict[str, Any]) -> None:
    cluster["pools"].append(
        cluster["pools"][0] | {"name": "idle", "node_selector": {"railhead.dev/pool": "idle"}}
    )


SELECTOR = "pools[0].node_selector"
NO_START = "so no job would ever start"
SECRET = "keep it in a Secret"
# (stack, edit, path in the message, words of the message)
REFUSED: list[tuple[str, Edit, str, str]] = [
    ("aws-p5-prod", put("runtimes[0].cpu", "400"), "runtimes[0].cpu", NO_START),
    ("aws-p5-prod", put("runtimes[0].memory", "4000Gi"), "runtimes[0].memory", NO_START),
    ("onprem-ib-sriov", put("runtimes[0].cpu", "209"), "runtimes[0].cpu", "the 208 CPUs"),
    ("onprem-ib-sriov", put("runtimes[0].memory", "1793Gi"), "runtimes[0].memory", "1792Gi"),
    ("lab", put("runtimes[0].memory", "8Gi"), "runtimes[0].memory", NO_START),
    ("lab", put("runtimes[0].cpu", "3"), "runtimes[0].cpu", NO_START),
    (
        "aws-p5-prod",
        put("runtimes[0].shared_memory", "1801Gi"),
        "runtimes[0].shared_memory",
        "more than the runtime's memory",
    ),
    ("lab", put("runtimes[0].shared_memory", "0"), "runtimes[0].shared_memory", "at least 1Mi"),
    ("lab", put("runtimes[0].shared_memory", "64Mi"), "runtimes[0].shared_memory", "no more than"),
    ("lab", put("runtimes[0].cpu", "0"), "runtimes[0].cpu", "number of CPUs"),
    ("lab", put("runtimes[0].cpu", "512Mi"), "runtimes[0].cpu", "number of CPUs"),
    ("lab", put("runtimes[0].memory", "200m"), "runtimes[0].memory", "amount of bytes"),
    ("lab", put("runtimes[0].memory", "0"), "runtimes[0].memory", "amount of bytes"),
    ("lab", put("runtimes[0].memory", "7000Pi"), "runtimes[0].memory", NO_START),
    ("lab", put("versions", "kueue-0.15"), "runtimes[3].framework", "charges the whole gang for"),
    ("lab", put("checkpoints[0].size", "0"), "checkpoints[0].size", "at least 1Mi"),
    (
        "lab",
        lambda raw: (
            raw["namespaces"].append("idle")
            or raw["checkpoints"].append(
                raw["checkpoints"][0] | {"namespace": "idle", "retention": {"days": 1, "keep": 1}}
            )
        ),
        "checkpoints[1].retention",
        "no queue is in namespace 'idle'",
    ),
    ("lab", put("checkpoints[0].size", "0Gi"), "checkpoints[0].size", "at least 1Mi"),
    ("lab", put("checkpoints[0].size", "10"), "checkpoints[0].size", "at least 1Mi"),
    ("lab", put("checkpoints[0].size", "9999Ei"), "checkpoints[0].size", "amount of bytes"),
    ("lab", put("controllers.memory_limit", "32Mi"), "controllers.memory_limit", "is less than"),
    ("lab", put("controllers.cpu", "0"), "controllers.cpu", "number of CPUs"),
    ("aws-p5-prod", put("pools[0].nodes", 10**9), "pools[0].nodes", "100000"),
    ("onprem-ib-sriov", put("runtimes[0].nodes", 10**9), "runtimes[0].nodes", "100000"),
    (
        "onprem-ib-sriov",
        lambda c: c["pools"].append(c["pools"][0] | {"name": "again"}),
        "pools[1].node_selector",
        "may be nodes of pool 'h100' as well",
    ),
    (
        "aws-p5-prod",
        put("runtimes[0].environment.AWS_SECRET_ACCESS_KEY", "x" * 40),
        "runtimes[0].environment.AWS_SECRET_ACCESS_KEY",
        SECRET,
    ),
    (
        "lab",
        put("runtimes[0].environment.WHO", "AKIAIOSFODNN7EXAMPLE"),
        "runtimes[0].environment.WHO",
        "looks like a token",
    ),
    (
        "lab",
        put("runtimes[0].environment.HF_TOKEN", "x"),
        "runtimes[0].environment.HF_TOKEN",
        SECRET,
    ),
    (
        "lab",
        put("runtimes[0].environment.WANDB_API_KEY", "x"),
        "runtimes[0].environment.WANDB_API_KEY",
        SECRET,
    ),
    ("lab", put("fabric.environment.DB_PASSWORD", "x"), "fabric.environment.DB_PASSWORD", SECRET),
    (
        "aws-p5-prod",
        put("platform.tags.owner", "ghp_0123456789abcdefghij"),
        "platform.tags.owner",
        "looks like a token",
    ),
    ("lab", put("runtimes[0].environment.PATH", "/x"), "runtimes[0].environment.PATH", "image's"),
    ("lab", put("runtimes[0].image", "nvcr.io/x:latest"), "runtimes[0].image", "another image"),
    ("lab", put("runtimes[0].image", "nvcr.io/x"), "runtimes[0].image", "another image"),
    ("lab", put("runtimes[0].image", "host:5000/x"), "runtimes[0].image", "another image"),
    ("lab", put("runtimes[0].image", "my image:1"), "runtimes[0].image", "not an image's name"),
    ("lab", put("runtimes[0].image", "My/Image:1"), "runtimes[0].image", "not an image's name"),
    ("lab", put("runtimes[0].image", "x@sha256:12"), "runtimes[0].image", "not an image's name"),
    ("lab", put("gate.image", "python"), "gate.image", "another image"),
    *(
        ("lab", put("checkpoints[0].mount_path", at), "checkpoints[0].mount_path", "would hide")
        for at in ("/dev/shm", "/dev", "/proc", "/sys/fs", "/etc", "/usr/lib", "/run/x")
    ),
    ("lab", put("checkpoints[0].mount_path", "/a:b"), "checkpoints[0].mount_path", "not a path"),
    ("lab", put("checkpoints[0].mount_path", "/a b"), "checkpoints[0].mount_path", "not a path"),
    (
        "aws-p5en-block",
        put("platform.endpoint.from_cidrs", ["0.0.0.0/1", "128.0.0.0/1"]),
        "platform.endpoint.from_cidrs[1]",
        "much of the internet",
    ),
    (
        "gcp-a3-mega",
        put("platform.endpoint.authorized_networks", ["64.0.0.0/2"]),
        "platform.endpoint.authorized_networks[0]",
        "much of the internet",
    ),
    (
        "gcp-a3-mega",
        put("platform.endpoint.authorized_networks", ["40.0.0.0/8", "41.0.0.0/8"]),
        "platform.endpoint.authorized_networks",
        "together",
    ),
    (
        "aws-p5-prod",
        put("platform.endpoint.from_cidrs", ["::/3"]),
        "platform.endpoint.from_cidrs[0]",
        "much of the internet",
    ),
    ("lab", put("network_policy.dns", ["0.0.0.0/0"]), "network_policy.dns[0]", "no name server"),
    *(
        ("lab", put("researchers", group), "researchers", "Kubernetes' own")
        for group in ("system:authenticated", "system:masters", "system:unauthenticated")
    ),
    ("lab", put("researchers", "*"), "researchers", "a group's name"),
    ("lab", put("researchers", " team"), "researchers", "a group's name"),
    (
        "lab",
        put(
            "teams",
            [
                {
                    "name": "vision",
                    "namespaces": ["kube-system"],
                    "researchers": ["system:masters"],
                    "shares": [{"pool": "gpu", "nodes": 1}],
                }
            ],
        ),
        "teams[0].namespaces[0]",
        "a namespace of their own",
    ),
    *(
        ("lab", rename("training", name), "namespaces[0]", "a namespace of their own")
        for name in (
            "kube-system",
            "kube-public",
            "kube-flannel",
            "default",
            "kueue-system",
            "jobset-system",
            "kubeflow-system",
            "railhead-system",
            "railhead-gate",
            "gpu-operator",
        )
    ),
    (
        "gcp-a3-mega",
        put("topology[0]", "topology.k8s.aws/network-node-layer-1"),
        "topology[0]",
        "on nodes of platform 'aws' only",
    ),
    (
        "aws-p5-prod",
        put("topology[0]", "cloud.google.com/gce-topology-block"),
        "topology[0]",
        "on nodes of platform 'gcp' only",
    ),
    (
        "lab",
        put("pools[0].node_selector", {"cloud.google.com/gke-nodepool": "x"}),
        "pools[0].node_selector.cloud.google.com/gke-nodepool",
        "on nodes of platform 'gcp' only",
    ),
    (
        "aws-p5-prod",
        lambda c: c["topology"].insert(0, c["topology"].pop(2)),
        "topology[1]",
        "write the widest first",
    ),
    (
        "lab",
        put(
            "topology",
            [f"topology.example.com/l{i}" for i in range(16)] + ["kubernetes.io/hostname"],
        ),
        "topology",
        "Kueue takes 16",
    ),
    ("aws-p5-prod", put("versions", "lab"), "versions", "the lab's own build"),
    ("gcp-a3-ultra", put("versions", "lab"), "versions", "the lab's own build"),
    (
        "onprem-ib-sriov",
        put("pools[0].tolerations", [{"operator": "Equal", "value": "x"}]),
        "pools[0].tolerations[0].key",
        "is missing",
    ),
    (
        "onprem-ib-sriov",
        put("pools[0].tolerations[0].value", "x"),
        "pools[0].tolerations[0].value",
        "Exists takes none",
    ),
    (
        "onprem-ib-sriov",
        put("pools[0].node_selector", {"railhead.dev/pool": "not a value"}),
        "pools[0].node_selector.railhead.dev/pool",
        "label's value",
    ),
    ("lab", put("name", "lab\n"), "name", "DNS label"),
    ("onprem-ib-sriov", put("platform.context", " admin"), "platform.context", "white space"),
    ("onprem-ib-sriov", put("platform.context", "a\u200bb"), "platform.context", "cannot be seen"),
    ("onprem-ib-sriov", put("platform.kubeconfig", "x" * 2000), "platform.kubeconfig", "longer"),
    ("lab", put("runtimes[0].environment.A", "a\0b"), "runtimes[0].environment.A", "NUL"),
    *(
        ("aws-p5-prod", put("checkpoints[0].mount_path", at), path, words)
        for at, path, words in (
            ("/opt/amazon", "checkpoints[0].mount_path", "would hide"),
            ("/workspace", "runtimes[0].checkpoint", "a job's files"),
        )
    ),
    *(
        ("lab", put(f"runtimes[0].environment.{name}", "1"), f"runtimes[0].environment.{name}", why)
        for name, why in (
            ("WORLD_SIZE", "for each job"),
            ("PET_NNODES", "for each job"),
            ("CUDA_VISIBLE_DEVICES", "would hide GPUs"),
        )
    ),
    *(
        (
            "aws-p5-prod",
            put("pools[0].node_selector", {"railhead.dev/pool": "h100", key: value}),
            f"pools[0].node_selector.{key}",
            words,
        )
        for key, value, words in (
            ("kubernetes.io/os", "windows", "has 'linux'"),
            ("kubernetes.io/arch", "arm64", "has 'amd64'"),
            ("kubernetes.io/hostname", "ip-10-0-0-1", "one node"),
            ("topology.kubernetes.io/zone", "us-east-2b", "have 'us-east-2a'"),
            ("node.kubernetes.io/instance-type", "p4d.24xlarge", "have 'p5.48xlarge'"),
        )
    ),
    (
        "aws-p5-prod",
        put("platform.network.cidr", "224.0.0.0/16"),
        "platform.network.cidr",
        "no network",
    ),
    (
        "aws-p5-prod",
        put("platform.system_pool.instance_type", "p5.48xlarge"),
        "platform.system_pool.instance_type",
        "has GPUs",
    ),
    (
        "aws-p5-prod",
        put("platform.system_pool.instance_type", "m7g.2xlarge"),
        "platform.system_pool.architecture",
        "'arm64'",
    ),
    (
        "aws-p5-prod",
        put("pools[0].hugepages_2mib", 900000),
        "pools[0].hugepages_2mib",
        "never start",
    ),
    (
        "aws-p5-prod",
        lambda c: c["platform"]["s3_access"][0]["buckets"].append({"name": "acme-datasets"}),
        "platform.s3_access[0].buckets[2].name",
        "is taken",
    ),
    (
        "aws-p5-prod",
        put("platform.administrators[0]", "arn:aws-us-gov:iam::123456789012:role/x"),
        "platform.administrators[0]",
        "of partition",
    ),
    (
        "gcp-a3-mega",
        put("platform.system_pool.machine_type", "a3-megagpu-8g"),
        "platform.system_pool.machine_type",
        "has GPUs",
    ),
    ("gcp-a3-mega", put("platform.kubernetes", "1.27"), "platform.kubernetes", "not served"),
    ("gcp-a3-mega", put("researchers", "ml-researchers"), "researchers", "no group's address"),
    (
        "gcp-a3-ultra",
        put("platform.storage[1].bucket", "goog-data"),
        "platform.storage[1].bucket",
        "Cloud Storage takes no name",
    ),
    (
        "onprem-ib-sriov",
        put("fabric.sriov.max_unavailable", 32),
        "fabric.sriov.max_unavailable",
        "every one of the 32 nodes",
    ),
    ("onprem-ib-sriov", put("pools[0].nodes", 777), "fabric.mode", "for 776 nodes at most"),
    (
        "onprem-ib-sriov",
        lambda c: c["topology"].insert(0, c["topology"].pop(1)),
        "topology[1]",
        "write the widest first",
    ),
    (
        "onprem-roce-shared",
        put("platform.nfs.classes[0].server", "127.0.0.1"),
        "platform.nfs.classes[0].server",
        "each node itself",
    ),
    (
        "lab",
        put("registry_mirrors", {"docker.io": "docker.io"}),
        "registry_mirrors.docker.io",
        "its own mirror",
    ),
    *(
        ("lab", put("checkpoints[0].mount_path", at), "checkpoints[0].mount_path", "absolute path")
        for at in ("/", "/./a", "/a/.", "/a/..", "/a//b")
    ),
    (
        "lab",
        put("runtimes[0].scratch", {"size": "1Gi", "mount_path": "/etc"}),
        "runtimes[0].scratch.mount_path",
        "would hide",
    ),
    (
        "lab",
        many(put("runtimes[0].scratch", {"size": "2Gi"}), put("runtimes[0].disk", "1Gi")),
        "runtimes[0].disk",
        "counts toward it",
    ),
    *(
        ("lab", put("watching", {"kind": "files", "namespace": name}), "watching.namespace", words)
        for name, words in (("training", "jobs run in"), ("kueue-system", "kueue's"))
    ),
    *(
        (
            "lab",
            put(
                "watching",
                {"kind": "files", "acceptance": {"image": "a/b:1", "schedule": schedule}},
            ),
            "watching.acceptance.schedule",
            words,
        )
        for schedule, words in (
            ("61 3 * * *", "61 is no minute"),
            ("0 3,24 * * *", "24 is no hour"),
            ("0 3 0 * *", "0 is no day of the month"),
            ("0 3 * 1-13 *", "13 is no month"),
            ("0 3 * * 7", "7 is no day of the week"),
        )
    ),
    (
        "lab",
        put("runtimes[0].environment", {"nccl_net": "Socket"}),
        "runtimes[0].environment.nccl_net",
        "NCCL_NET is the fabric's",
    ),
    *(
        (
            stack,
            put("runtimes[0].environment", {name: "0"}),
            f"runtimes[0].environment.{name}",
            f"which fabric '{fabric}' sets",
        )
        for stack, name, fabric in (
            ("gcp-a3-mega", "NCCL_FASTRAK_USE_SNAP", "tcpxo"),
            ("gcp-a3-ultra", "LD_LIBRARY_PATH", "gcp-rdma"),
        )
    ),
    *(
        ("lab", put("runtimes[0].environment", {"A": text}), "runtimes[0].environment.A", SECRET)
        for text in (
            "https://hooks.slack.com/services/T00000000/B00000000/abcdefgh",
            "AccountName=x;AccountKey=abcdEFGH1234567890abcdEFGH==",
            "AIzaSyA1234567890abcdefghijklmnopqrstuv",
            "sk_live_abcdefghijklmnop",
            "npm_abcdefghijklmnop",
            "pypi-abcdefghijklmnop",
        )
    ),
    *(
        ("lab", put("runtimes[0].environment", {n: "x"}), f"runtimes[0].environment.{n}", SECRET)
        for n in ("PGPASSWORD", "MYSQL_PWD", "GITHUB_PAT")
    ),
    (
        "lab",
        put("registry_mirrors", {"docker.io": "quay.io/d", "quay.io": "docker.io/q"}),
        "registry_mirrors.docker.io",
        "has a mirror itself",
    ),
    *(
        ("onprem-ib-sriov", put("pools[0].node_selector", {key: value}), f"{SELECTOR}.{key}", words)
        for key, value, words in (
            ("nvidia.com/gpu.count", "4", "has '8'"),
            ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", "NVIDIA H100"),
        )
    ),
    *(
        ("onprem-ib-sriov", put("platform.kubeconfig", at), "platform.kubeconfig", "a file's path")
        for at in ("https://rancher.example.com/k8s", "~/.kube/")
    ),
    (
        "onprem-ib-sriov",
        put("fabric.rails[0].pf_names", ["mlx5_0"]),
        "fabric.rails[0]",
        "no network interface",
    ),
    (
        "onprem-roce-shared",
        put("fabric.rails[0].master", "lo"),
        "fabric.rails[0]",
        "interface of a",
    ),
    (
        "onprem-roce-shared",
        put("fabric.pod_interface", "net1"),
        "fabric.pod_interface",
        "a rail's",
    ),
    (
        "onprem-roce-shared",
        many(put("gpu_operator.driver", "host"), put("gpu_operator.driver_version", "570.86.15")),
        "gpu_operator.driver_version",
        "the nodes' own",
    ),
    (
        "onprem-roce-shared",
        many(
            put("gpu_operator.driver", "host"),
            put("gpu_operator.driver_environment", {"http_proxy": "http://proxy.example.com"}),
        ),
        "gpu_operator.driver_environment",
        "the nodes' own",
    ),
    (
        "onprem-ib-sriov",
        put("gpu_operator.gdrcopy", True),
        "gpu_operator.gdrcopy",
        "pods get it without this",
    ),
    (
        "onprem-roce-shared",
        put("teams[1].shares[0].quota", {"nvidia.com/gpu": "2500m"}),
        "teams[1].shares[0].quota.nvidia.com/gpu",
        "no whole number",
    ),
    *(
        ("aws-p5-prod", put(bucket, name), bucket, "a bucket's name")
        for bucket in ("platform.s3_access[0].buckets[0].name",)
        for name in ("192.168.5.4", "xn--acme", "acme..data", "acme-s3alias", "acme--x-s3")
    ),
    ("aws-p5-prod", put("platform.tags", {"a#b": "x"}), "platform.tags.a#b", "has '#' in it"),
    ("aws-p5-prod", put("platform.tags.who", "<me>"), "platform.tags.who", "has '<' in it"),
    (
        "aws-p5-prod",
        put("platform.system_pool.instance_type", "m7i.2xlrage"),
        "platform.system_pool.instance_type",
        "an instance type",
    ),
    (
        "aws-p5-prod",
        put("platform.storage[0].capacity_gib", 38400 * 2**30),
        "platform.storage[0].capacity_gib",
        "2147483647",
    ),
    (
        "aws-p5-prod",
        put("pools[0].ami_release", "1.34.2-20261015"),
        "pools[0].ami_release",
        "not an image of Kubernetes '1.35'",
    ),
    (
        "aws-p5-prod",
        lambda c: c["pools"][0]["taints"].append(c["pools"][0]["taints"][0] | {"value": "false"}),
        "pools[0].taints[1]",
        "is at pools[0].taints[0] already",
    ),
    (
        "aws-p5-prod",
        put(
            "pools[0].purchase",
            {
                "kind": "reservation-group",
                "arn": "arn:aws:resource-groups:eu-west-1:123456789012:group/p5",
                "availability_zone": "us-east-2a",
            },
        ),
        "pools[0].purchase.arn",
        "is of region 'eu-west-1'",
    ),
    (
        "aws-p5en-block",
        put("platform.endpoint.from_cidrs", [f"203.0.{i}.0/24" for i in range(41)]),
        "platform.endpoint.from_cidrs",
        "41 networks; EKS takes 40",
    ),
    (
        "aws-p5en-block",
        put("pools[0].purchase.starts", 1796641800),
        "pools[0].purchase.starts",
        "not a moment",
    ),
    ("gcp-a3-mega", rename("training", "gmp-system"), "namespaces[0]", "GKE's own"),
    ("gcp-a3-mega", put("platform.labels", {"goog-a": "x"}), "platform.labels.goog-a", "Google's"),
    (
        "gcp-a3-mega",
        put("platform.labels", {f"k{i}": "v" for i in range(60)}),
        "platform.labels",
        "60 are more than 54",
    ),
]


@pytest.mark.parametrize(("stack", "edit", "path", "words"), REFUSED)
def test_nonsense_is_refused_with_its_line(
    tmp_path: Path, stack: str, edit: Edit, path: str, words: str
) -> None:
    file = written(tmp_path, stack, edit)
    with pytest.raises(InputError) as caught:
        check(file, now=NOW)
    where = lines(file.read_text(), "config", "railhead:cluster")
    rows = caught.value.problem.splitlines()
    assert any(
        row.startswith(f"{file}:{where.of(path)}: {path}") and words in row for row in rows
    ), rows


def every_queue_over(pool: str) -> Callable[[dict[str, Any]], None]:
    def edit(cluster: dict[str, Any]) -> None:
        for queue in cluster["queues"]:
            queue["pools"].append(pool)

    return edit


DOUBTED: list[tuple[str, Edit, str, str]] = [
    (
        "onprem-ib-sriov",
        put("runtimes[0].framework", "mpi"),
        "runtimes[0].framework",
        "run as user 1000, to whom Kubernetes gives no IPC_LOCK",
    ),
    (
        "aws-p5-prod",
        put("runtimes[0].image", "ghcr.io/acme/train:nightly-gpu"),
        "runtimes[0].image",
        "is moved from image to image",
    ),
    (
        "aws-p5-prod",
        put("runtimes[0].image", "ghcr.io/acme/train:2.8.0-cpu-py312"),
        "runtimes[0].image",
        "for CPUs alone",
    ),
    ("aws-p5-prod", put("runtimes[0].grace_seconds", 1), "runtimes[0].grace_seconds", "is 1"),
    ("aws-p5-prod", put("ready_timeout_seconds", 60), "ready_timeout_seconds", "a large image"),
    ("aws-p5-prod", put("ready_timeout_seconds", 86400), "ready_timeout_seconds", "24 hours"),
    (
        "aws-p5-prod",
        put("pools[0].node_selector", {"kubernetes.io/os": "linux"}),
        "pools[0].node_selector",
        "all nodes of the cluster",
    ),
    (
        "onprem-ib-sriov",
        many(
            put("checkpoints[0].storage_class", "local-path"),
            put("checkpoints[1].storage_class", "local-path"),
        ),
        "checkpoints[0].storage_class",
        "one node mounts",
    ),
    (
        "aws-p5-prod",
        put("checkpoints[0].mount_path", "/root"),
        "checkpoints[0].mount_path",
        "hides what the image has",
    ),
    (
        "aws-p5-prod",
        put("platform.network.cidr", "8.8.0.0/16"),
        "platform.network.cidr",
        "others' on the internet",
    ),
    (
        "gcp-a3-mega",
        put("platform.endpoint.authorized_networks", ["10.0.0.0/20", "192.168.0.0/24"]),
        "platform.endpoint.authorized_networks[0]",
        "nobody comes to a public address",
    ),
    (
        "aws-p5-prod",
        put("network_policy.egress[0]", {"cidr": "169.254.169.254/32", "ports": [80, 443]}),
        "network_policy.egress[0]",
        "credentials of their node",
    ),
    ("onprem-roce-shared", put("fabric.mtu", 1500), "fabric.mtu", "packets of 4096 bytes"),
    (
        "lab",
        lambda c: c["queues"].append(c["queues"][0] | {"name": "second"}),
        "default_queue",
        "training, second",
    ),
    (
        "onprem-roce-shared",
        many(put("teams[1].shares[0].nodes", 0), put("teams[1].shares[0].borrow", 0)),
        "teams[1].shares[0]",
        "is nothing",
    ),
    (
        "aws-p5-prod",
        put("platform.researchers[0]", "arn:aws:iam::999999999999:role/x"),
        "platform.researchers[0]",
        "of account 999999999999",
    ),
    (
        "aws-p5-prod",
        put("platform.system_pool.instance_type", "t3.nano"),
        "platform.system_pool.instance_type",
        "too small",
    ),
    (
        "aws-p5-prod",
        many(second_pool, every_queue_over("idle")),
        "pools[1].purchase.id",
        "the nodes of both",
    ),
    (
        "aws-p5en-block",
        put("pools[0].initial_nodes", 4),
        "pools[0].initial_nodes",
        "EC2 starts none",
    ),
    (
        "gcp-a3-mega",
        put("platform.system_pool.machine_type", "e2-micro"),
        "platform.system_pool.machine_type",
        "too small",
    ),
    (
        "gcp-a3-mega",
        put("pools[1].capacity", {"kind": "reservation", "name": "a3-mega-8"}),
        "pools[1].capacity.name",
        "the nodes of both",
    ),
    ("gcp-a3-mega", put("pools[0].driver", "disabled"), "pools[0].driver", "nobody installs"),
    (
        "gcp-a3-mega",
        put("platform.network.mtu", 8896),
        "platform.network.mtu",
        "8244 that Google gives all interfaces",
    ),
    (
        "gcp-a3-mega",
        put("platform.maintenance.no_upgrades_from", None),
        "platform.maintenance.no_upgrades_from",
        "ends the jobs",
    ),
    (
        "gcp-a3-mega",
        put("platform.gpu_networks.mtu", 1460),
        "platform.gpu_networks.mtu",
        "not the 8244",
    ),
    (
        "gcp-a3-ultra",
        put("pools[0].placement", {"kind": "compact"}),
        "pools[0].placement.kind",
        "a placement already",
    ),
    ("onprem-ib-sriov", second_pool, "pools[1].name", "no queue covers pool 'idle'"),
    (
        "onprem-ib-sriov",
        many(second_pool, every_queue_over("idle")),
        "pools[1].name",
        "no runtime uses pool 'idle'",
    ),
    (
        "onprem-ib-sriov",
        put("runtimes[0].shared_memory", "256Mi"),
        "runtimes[0].shared_memory",
        "less than the 1Gi",
    ),
    ("onprem-ib-sriov", put("runtimes[0].cpu", "7"), "runtimes[0].cpu", "a CPU for each GPU"),
    (
        "onprem-ib-sriov",
        many(put("runtimes[0].memory", "7Gi"), put("runtimes[0].shared_memory", "4Gi")),
        "runtimes[0].memory",
        "1Gi for each GPU",
    ),
    (
        "onprem-ib-sriov",
        put("pools[0].tolerations", [{"operator": "Exists"}]),
        "pools[0].tolerations",
        "bears every taint",
    ),
    (
        "onprem-ib-sriov",
        many(
            put("pools[0].nodes", 6000),
            put("fabric", {"kind": "infiniband", "mode": "rdma-shared"}),
        ),
        "pools",
        "tested up to 5000",
    ),
    (
        "onprem-roce-shared",
        put("teams[1].shares[0].borrow", 13),
        "teams[1].shares[0].borrow",
        "13 is no limit: beside its own 4 nodes others lend 8 of pool 'h200'",
    ),
    (
        "lab",
        put("network_policy.egress", [{"cidr": "0.0.0.0/0"}]),
        "network_policy.egress[0]",
        "any port",
    ),
    ("lab", put("network_policy.enabled", False), "network_policy.enabled", "everywhere"),
    (
        "aws-p5-prod",
        put("topology[0]", "topology.example.com/pod"),
        "topology[0]",
        "nothing puts 'topology.example.com/pod' on nodes",
    ),
    (
        "aws-p5en-block",
        many(
            put("pools[0].purchase.starts", "2026-10-01T11:30:00Z"),
            put("pools[0].purchase.ends", "2026-10-14T11:30:00Z"),
        ),
        "pools[0].purchase.ends",
        "was over at 2026-10-14",
    ),
    (
        "aws-p5en-block",
        many(
            put("pools[0].purchase.starts", "2062-10-01T11:30:00Z"),
            put("pools[0].purchase.ends", "2062-10-14T11:30:00Z"),
        ),
        "pools[0].purchase.starts",
        "more than 56 days",
    ),
    *(
        ("aws-p5-prod", put("runtimes[0].image", image), "runtimes[0].image", words)
        for image, words in (
            ("ghcr.io/x/y:Latest", "is moved from image to image"),
            ("ghcr.io/x/y:1.0-arm64", "is for arm64"),
            ("rocm/pytorch:6.2", "'rocm' in its name"),
            ("public.ecr.aws/neuron/pytorch-training-neuronx:2.1", "not for GPUs of NVIDIA"),
            ("localhost:5000/y:1", "each node itself"),
        )
    ),
    *(
        ("aws-p5-prod", put("checkpoints[0].mount_path", at), "checkpoints[0].mount_path", "hides")
        for at in ("/var", "/var/lib")
    ),
    (
        "aws-p5-prod",
        put("datasets", [{"name": "d", "namespace": "training", "mount_path": "/root"}]),
        "datasets[0].mount_path",
        "hides what the image has",
    ),
    ("aws-p5-prod", put("checkpoints[0].size", "30Mi"), "checkpoints[0].size", "one checkpoint"),
    ("aws-p5-prod", put("requeue.recovery_seconds", 5), "requeue.recovery_seconds", "its place"),
    (
        "aws-p5-prod",
        put("runtimes[0].environment", {"NCCL_DEBUG": "yes"}),
        "runtimes[0].environment.NCCL_DEBUG",
        "not one of NCCL's",
    ),
    (
        "aws-p5-prod",
        lambda c: c.update(yaml.safe_load(yaml.safe_dump(c).replace("us-east-2", "us-east-9"))),
        "platform.region",
        "no region that is known",
    ),
    (
        "onprem-roce-shared",
        put("runtimes[0].gpus_per_node", 3),
        "runtimes[0].gpus_per_node",
        "leaves 2 of a node idle",
    ),
    (
        "onprem-roce-shared",
        put("gpu_operator.compute_domains", True),
        "gpu_operator.compute_domains",
        "NVLink domain",
    ),
    (
        "onprem-ib-sriov",
        many(
            put("fabric", {"kind": "infiniband", "mode": "dranet", "driver": "install"}),
            put("fabric.selector", "has(device.driver)"),
            put("pools[0].instance_type", "dgx-gb200"),
            put("pools[0].schedulable", None),
            *(put(f"runtimes[{n}].cpu", "128") for n in (0, 1)),
            *(put(f"runtimes[{n}].memory", "700Gi") for n in (0, 1)),
            put("gpu_operator.compute_domains", False),
        ),
        "gpu_operator.compute_domains",
        "by the NICs alone",
    ),
    ("onprem-roce-shared", put("gpu_operator.mig", "single"), "gpu_operator.mig", "whole ones"),
    (
        "onprem-roce-shared",
        put("teams[0].shares[0].lend", 0),
        "teams[1].shares[0].borrow",
        "others lend 0",
    ),
    ("onprem-roce-shared", put("fair.sharing", False), "teams[0].weight", "no effect"),
    (
        "onprem-roce-shared",
        many(
            put("teams[1].shares[0].quota", {"nvidia.com/gpu": "4"}),
            put("teams[1].shares[0].borrow", 0),
        ),
        "teams[1].shares[0].quota.nvidia.com/gpu",
        "each node of a job takes 8",
    ),
    (
        "onprem-roce-shared",
        put("platform.nfs.classes[0].mount_options", ["nfsvers=4.1", "soft"]),
        "platform.nfs.classes[0].mount_options",
        "write 'hard'",
    ),
    (
        "onprem-roce-shared",
        put("platform.nfs.classes[0].mount_options", ["vers=3", "hard"]),
        "platform.nfs.classes[0].mount_options",
        "add 'nolock'",
    ),
]


@pytest.mark.parametrize(("stack", "edit", "path", "words"), DOUBTED)
def test_doubtful_values_are_reported_with_their_line(
    tmp_path: Path, stack: str, edit: Edit, path: str, words: str
) -> None:
    file = written(tmp_path, stack, edit)
    where = lines(file.read_text(), "config", "railhead:cluster")
    rows = check(file, now=NOW).doubts
    assert any(
        row.startswith(f"{file}:{where.of(path)}: {path}: ") and words in row for row in rows
    ), rows


#: Field -> (stack, values that mean something, value and what is said of it).
EDGES: dict[str, tuple[str, list[Any], dict[Any, str]]] = {
    "runtimes[0].grace_seconds": (
        "aws-p5-prod",
        [10],
        {9: "is 9: a job that ends has no moment to save anything"},
    ),
    "runtimes[0].restarts.gang": (
        "aws-p5-prod",
        [0, 6, 1000],
        {
            5: "is 5: of jobs on all 128 GPUs of the pool one in a hundred and more is "
            "interrupted more often within 30 days; 6 is enough for the others"
        },
    ),
    "runtimes[0].image": (
        "aws-p5-prod",
        [
            "ghcr.io/x/y-cpu:1",
            f"ghcr.io/x/y:latest@sha256:{'0' * 64}",
            "ghcr.io/x/y:maintained",
            "ghcr.io/x/y:1-amd64",
        ],
        {
            "x/y:1-cpu": "tag '1-cpu' says that it is built for CPUs alone",
            "x/y:nightly-2": "tag 'nightly-2' is moved from image to image; take a version",
            "localhost/y:1": "its registry is each node itself; name it as nodes reach it",
            "127.0.0.1:5000/y:1": "its registry is each node itself; name it as nodes reach it",
            "x/y:1-aarch64": "tag '1-aarch64' is for arm64, and 'p5.48xlarge' is amd64",
            "x/rocm:1": "'rocm' in its name is not for GPUs of NVIDIA, which 'p5.48xlarge' has",
            "railhead.local/y:1": "is made by the lab, and on nodes of the lab alone",
        },
    ),
    "ready_timeout_seconds": (
        "aws-p5-prod",
        [180, 14400],
        {
            179: "179: a gang is put back before its nodes can have pulled a large image",
            14401: "14401: a gang whose pods do not start keeps its nodes from others for 4 hours",
        },
    ),
    "requeue.recovery_seconds": (
        "aws-p5-prod",
        [0, 60],
        {59: "59: a gang that starts again loses its place before its pods can be ready"},
    ),
    "checkpoints[0].size": (
        "aws-p5-prod",
        ["1Gi"],
        {"1023Mi": "'1023Mi' is less than one checkpoint of any model's size"},
    ),
    "checkpoints[0].storage_class": (
        "onprem-ib-sriov",
        ["nfs"],
        {
            "gp3": "'gp3' is mostly a class of volumes that one node mounts; a gang's pods are on "
            "several"
        },
    ),
    "fabric.mtu": (
        "onprem-roce-shared",
        [4200],
        {4199: "4199 cuts RDMA's packets of 4096 bytes; 4200 hold one"},
    ),
    "pools[0].nodes": ("onprem-ib-sriov", [776], {}),
    "runtimes[0].shared_memory": (
        "onprem-ib-sriov",
        ["1Gi"],
        {"1023Mi": "'1023Mi' is less than the 1Gi that NCCL's user guide asks for"},
    ),
    "runtimes[0].cpu": (
        "onprem-ib-sriov",
        ["8"],
        {"7999m": "'7999m' is less than a CPU for each GPU's process"},
    ),
    "runtimes[0].environment.NCCL_DEBUG": (
        "aws-p5-prod",
        ["info", "TRACE"],
        {"NOTE": "'NOTE' is not one of NCCL's: NONE, VERSION, WARN, INFO, ABORT, TRACE"},
    ),
    "runtimes[0].gpus_per_node": (
        "onprem-ib-sriov",
        [4],
        {3: "3 leaves 2 of a node idle"},
    ),
    "gpu_operator.allocation": (
        "onprem-roce-shared",
        [],
        {
            "dra": "'dra': Kueue places gangs by what nodes list as allocatable, and GPUs by "
            "claim are not (kueue #10548, open), so that jobs may wait for ever; take "
            "'device-plugin'"
        },
    ),
    "gpu_operator.mig": (
        "onprem-roce-shared",
        ["none"],
        {
            "single": "'single': parts of GPUs reach each other neither over NVLink nor PCIe (MIG "
            "user guide), and quotas here count whole ones"
        },
    ),
    "gpu_operator.compute_domains": (
        "onprem-roce-shared",
        [False],
        {True: "true: no pool's machines share an NVLink domain with others; leave it out"},
    ),
    "network_policy.enabled": (
        "lab",
        [True],
        {False: "is false: jobs reach, and are reached from, everywhere"},
    ),
    "versions": (
        "onprem-ib-sriov",
        ["newest-read"],
        {"lab-jobset-0.11": "'lab-jobset-0.11' takes its charts from the lab's own build"},
    ),
    "checkpoints[0].mount_path": (
        "aws-p5-prod",
        ["/home/data", "/data"],
        {
            at: f"{at!r} hides what the image has there; mount it elsewhere"
            for at in ("/home", "/opt", "/root", "/tmp", "/var", "/var/lib")
        },
    ),
    "platform.network.google_services": (
        "gcp-a3-ultra",
        ["10.8.0.0/23"],
        {
            "10.8.0.0/24": "'10.8.0.0/24' has no /23 for each Lustre file system (1), which Google "
            "takes for new ones; widen it in a new stack, and leave one that runs"
        },
    ),
    "platform.maintenance.recurrence": (
        "gcp-a3-ultra",
        ["FREQ=WEEKLY;BYDAY=SA,SU", "FREQ=DAILY"],
        {
            "FREQ=WEEKLY;BYDAY=FR,SU": "'FREQ=WEEKLY;BYDAY=FR,SU' leaves out SA, the day of start "
            "in UTC, as which GKE reads the rule's days: name it where the window should begin then"
        },
    ),
    "platform.storage[0].addresses": (
        "gcp-a3-mega",
        ["10.9.0.0/26"],
        {
            "10.9.0.0/24": "'10.9.0.0/24' is a /24, and Filestore wants a /26 for new ones; name "
            "one in a new stack, and leave one that runs"
        },
    ),
    "watching.sources": (
        "gcp-a3-ultra",
        [("kubernetes", "nodes")],
        {
            ("kubernetes", "dcgm"): "names dcgm: GKE's own exporter has no Xids, remapped rows or "
            "PCIe replays, whose alerts would never come; run one of NVIDIA's with its default "
            "counters, or leave it out"
        },
    ),
    "fair.sharing": ("onprem-roce-shared", [True], {}),
    "teams[1].shares[0].borrow": (
        "onprem-roce-shared",
        [8],
        {
            9: "9 is no limit: beside its own 4 nodes others lend 8 of pool 'h200'; leave it out "
            "if none is meant"
        },
    ),
}


@pytest.mark.parametrize("path", EDGES)
def test_doubts_start_exactly_at_their_limits(tmp_path: Path, path: str) -> None:
    """Each doubt has exactly these words, which say what is wrong or what to do."""
    stack, meant, doubted = EDGES[path]
    for value in meant:
        assert check(written(tmp_path, stack, put(path, value)), now=NOW).doubts == (), value
    for value, words in doubted.items():
        (doubt,) = check(written(tmp_path, stack, put(path, value)), now=NOW).doubts
        assert doubt.split(":", 2)[2] == f" {path}: {words}"


@pytest.mark.parametrize(("disk", "doubted"), [("1999Gi", True), ("2000Gi", False), (None, False)])
def test_a_disk_below_the_cache_of_a_bucket_is_doubted(
    tmp_path: Path, disk: str | None, doubted: bool
) -> None:
    cached = many(put("platform.storage[1].cache_gib", 2000), put("runtimes[0].disk", disk))
    doubts = check(written(tmp_path, "gcp-a3-ultra", cached), now=NOW).doubts
    words = " runtimes[0].disk: '1999Gi' is less than the 2000 GiB of 'datasets' "
    assert [words in row for row in doubts] == ([True] if doubted else [])


@pytest.mark.parametrize(("gib", "doubted"), [(5304, True), (5303, False)])
def test_caches_of_one_pod_are_doubted_together(tmp_path: Path, gib: int, doubted: bool) -> None:
    def cached(cluster: dict[str, Any]) -> None:
        storage, claims = cluster["platform"]["storage"], cluster["checkpoints"]
        storage[1]["cache_gib"] = 5304
        storage.append(storage[1] | {"name": "more", "bucket": "acme-more", "cache_gib": gib})
        claims.append(claims[1] | {"name": "more", "storage_class": "more", "mount_path": "/more"})

    doubts = check(written(tmp_path, "gcp-a3-ultra", cached), now=NOW).doubts
    words = "the caches of datasets and more come to 10608 GiB, more than the 10607 of local SSDs"
    assert [words in row for row in doubts] == ([True] if doubted else [])


@pytest.mark.parametrize(
    ("nodes", "nfd", "doubted"),
    [(1000, "operator", True), (999, "operator", False), (1000, "existing", False)],
)
def test_a_discovery_that_drops_labels_is_doubted(
    tmp_path: Path, nodes: int, nfd: str, doubted: bool
) -> None:
    fabric = {"kind": "infiniband", "mode": "rdma-shared", "network_operator": {"nfd": nfd}}
    many_nodes = many(put("pools[0].nodes", nodes), put("fabric", fabric))
    doubts = check(written(tmp_path, "onprem-ib-sriov", many_nodes), now=NOW).doubts
    assert [f"fabric.network_operator.nfd: '{nfd}': on {nodes}" in row for row in doubts] == (
        [True] if doubted else []
    )


@pytest.mark.parametrize(
    ("edit", "doubted"),
    [
        (put("runtimes[0].gpus_per_node", 4), True),
        (put("runtimes[0].gpus_per_node", 8), False),
        (
            many(
                put("runtimes[0].gpus_per_node", 4),
                put("fabric.environment", {"NCCL_CROSS_NIC": "2"}),
            ),
            False,
        ),
    ],
    ids=["half", "whole", "connected"],
)
def test_pods_on_some_rails_of_many_are_doubted(tmp_path: Path, edit: Edit, doubted: bool) -> None:
    """Pods with other GPUs use other rails, which nothing connects (NVIDIA/nccl #836)."""
    doubts = check(written(tmp_path, "onprem-roce-shared", edit), now=NOW).doubts
    assert [" runtimes[0].gpus_per_node: 4 of 8: " in row for row in doubts] == (
        [True] if doubted else []
    )


def test_stand_ins_get_no_doubts_about_gpus(tmp_path: Path) -> None:
    for path, value in (
        ("runtimes[0].image", "ghcr.io/x/rocm:1.0-cpu-arm64"),
        ("ready_timeout_seconds", 100),
        ("fabric.mtu", 1500),
    ):
        assert check(written(tmp_path, "lab", put(path, value)), now=NOW).doubts == ()


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ({"cidr": "10.1.0.0/16"}, None),
        ({"cidr": "0.0.0.0/0", "ports": [443]}, None),
        ({"cidr": "169.254.169.254/32", "ports": [443]}, None),
        (
            {"cidr": "0.0.0.0/0"},
            "jobs may connect to any port of 0.0.0.0/0; name ports, such as 443",
        ),
        *(
            (to, "lets jobs ask 169.254.169.254 for the credentials of their node")
            for to in (
                {"cidr": "169.254.0.0/16"},
                {"cidr": "169.254.169.254/32", "ports": [22, 80]},
                {"cidr": "0.0.0.0/0", "ports": [80]},
            )
        ),
    ],
)
def test_where_jobs_may_go_is_doubted(tmp_path: Path, to: Any, said: str | None) -> None:
    file = written(tmp_path, "onprem-ib-sriov", put("network_policy.egress", [to]))
    doubts = [row.split(":", 2)[2] for row in check(file, now=NOW).doubts]
    assert doubts == ([f" network_policy.egress[0]: {said}"] if said else [])


def test_unread_key_is_doubted_and_a_logins_key_is_not(tmp_path: Path) -> None:
    login = {"name": "registry", "config": "login"}
    file = written(tmp_path, "lab", put("access.image_pull_secrets", [login]))
    others = "  railhead:login: {secure: v1:x}\n  railhead:clusters: {}\n  kubernetes:x: y\n"
    file.write_text(file.read_text().replace("config:\n", f"config:\n{others}", 1))
    line = file.read_text().splitlines().index("  railhead:clusters: {}") + 1
    assert check(file, now=NOW).doubts == (
        f"{file}:{line}: railhead:clusters: is read by nothing; did you mean 'cluster'?",
    )


@pytest.mark.parametrize(
    ("day", "channel", "said"),
    [
        ((2027, 2, 9), "regular", ""),
        ((2027, 2, 10), "regular", "then it makes no cluster of it, and upgrades those that run"),
        ((2027, 5, 1), "stable", "or `release_channel: extended`"),
        ((2027, 5, 1), "rapid", "and then upgrade its nodes"),
        ((2027, 5, 1), "extended", "from then on GKE charges more by the hour"),
    ],
)
def test_gke_version_without_support_is_doubted(
    tmp_path: Path, day: tuple[int, int, int], channel: str, said: str
) -> None:
    file = written(tmp_path, "gcp-a3-ultra", put("platform.release_channel", channel))
    doubts = check(file, now=datetime(*day, tzinfo=UTC)).doubts
    start = "platform.kubernetes: GKE's standard support of '1.35' ends on 2027-04-11: "
    assert [start in row and said in row for row in doubts] == ([True] if said else [])


def test_private_networks_and_custom_labels_are_accepted(tmp_path: Path) -> None:
    for edit in (
        many(
            put("platform.endpoint.from_cidrs", ["10.0.0.0/8", "192.168.0.0/16"]),
            put("platform.network.transit_gateway.cidrs", ["10.0.0.0/16", "192.168.0.0/16"]),
        ),
        many(
            put("topology[0]", "acme.com/hall"),
            put("pools[0].labels", {"acme.com/hall": "north"}),
        ),
    ):
        assert check(written(tmp_path, "aws-p5-prod", edit), now=NOW).doubts == ()


TWICE = [
    ("    name: lab\n", "    name: lab\n    name: other\n", "name", 1),
    ("      kind: lab\n", "      kind: lab\n      kind: existing\n", "platform.kind", 1),
    ("        nodes: 2\n", '        nodes: 2\n        "nodes": 3\n', "pools[0].nodes", 1),
    ("    gate:\n", "    gate: {}\n    gate:\n", "gate", 1),
    ("config:\n", "other: 1\nother: 2\nconfig:\n", "other", 0),
]


@pytest.mark.parametrize(("old", "new", "path", "_line"), TWICE)
def test_a_key_that_is_there_twice_is_refused(
    tmp_path: Path, old: str, new: str, path: str, _line: int
) -> None:
    text = (REPO / "stacks" / "Pulumi.lab.yaml").read_text()
    assert old in text
    edited = text.replace(old, new, 1)
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(edited)
    with pytest.raises(InputError) as caught:
        check(file)
    first = edited[: edited.index(new)].count("\n") + 1
    if path == "other":
        assert f"{file}:{first + 1}: other: is there twice; the first is in line {first}" in str(
            caught.value
        )
    else:
        assert f"{file}:{first + 1}: {path}: is there twice; the first is in line {first}" in str(
            caught.value
        )


# What PyYAML, which the check reads with, and Pulumi's gopkg.in/yaml.v3 make two things of.
AMBIGUOUS = [
    ("default_queue: true", "default_queue: yes", "default_queue", "a flag"),
    ("name: lab\n", "name: on\n", "name", "a flag"),
    ("nodes: 2", "nodes: 02", "pools[0].nodes", "another number"),
    ("nodes: 2", "nodes: 0o2", "pools[0].nodes", "another number"),
    ("nodes: 2", "nodes: 1:30", "pools[0].nodes", "another number"),
    ("researchers: railhead:researchers", "researchers: 0189", "researchers", "another number"),
    ("name: lab\n", "name: 1e3\n", "name", "another number"),
    ("name: lab\n", "name: 2026-11-22\n", "name", "a date"),
    ("name: lab\n", "name: !!binary bGFi\n", "name", "has the tag"),
    ("      - training\n", "      - on\n", "namespaces[0]", "a flag"),
]


@pytest.mark.parametrize(("old", "new", "path", "words"), AMBIGUOUS)
def test_a_value_that_pulumi_reads_as_another_is_refused(
    old: str, new: str, path: str, words: str
) -> None:
    text = (REPO / "stacks" / "Pulumi.lab.yaml").read_text()
    edited = text.replace(old, new, 1)
    line = edited[: edited.index(new)].count("\n") + 1
    [(at, where, message)] = lines(edited, "config", "railhead:cluster").wrong
    assert (at, where) == (line, path)
    assert words in message


def test_lines_are_of_the_file_whatever_the_yaml_is_like() -> None:
    text = "\n".join(
        [
            "config:",
            "  railhead:cluster: {name: x,",
            "    pools: [a, {b: 1}]}",
            "  other: &it",
            "    - *it",
        ]
    )
    index = lines(text, "config", "railhead:cluster")
    assert index.at["name"] == 2
    assert index.at["pools[1].b"] == 3
    assert index.of("pools[1].b.c") == 3
    assert index.of("pools[7]") == 3
    assert index.of("nothing") == index.of("") == 2
    assert index.wrong == ()
    assert lines("").of("x") is None


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000], ids=["flow", "block"])
def test_text_without_an_end_to_its_depth_is_refused(tmp_path: Path, text: str) -> None:
    """LibYAML would end the process."""
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="levels deep"):
        check(file)
