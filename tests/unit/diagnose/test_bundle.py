"""Bundles that leave the cluster: redacted, 0600, and enough to come to the same findings."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError, RefusedError
from railhead.diagnose import bundle, redact
from railhead.diagnose.objects import ClusterObjects
from railhead.nccl.sources import Source
from tests.unit.diagnose.test_live import healthy

SECRETS = (
    "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz",
    "export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
    "--api-key sk-abcdefghijklmnop",
    "Authorization: Bearer abcdef.ghijkl-mnop",
    "password: 'hunter2hunter2'",
    '{"aws_secret_access_key": "abcd/efgh+ijkl"}',
    "AKIAABCDEFGHIJKLMNOP",
    "git clone https://me:hunter2hunter2@example.org/x.git",
    "eyJhbGciOiJIUzI1NiIs.eyJzdWIiOiIxMjM0NTY.SflKxwRJSMeKKF2QT4",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0\n-----END PRIVATE KEY-----",
    "AZURE_CLIENT_SECRET: abcd~efgh_ijkl",
)
PARTS = (
    "abcdefghijklmnop",
    "0123456789abcdef",
    "hunter2",
    "efgh",
    "ABCDEFGHIJKLMNOP",
    "SflKxwRJ",
    "MIIEvQ",
    "hkiG9w0",
)
HARMLESS = (
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST)",
    "tokens per second: 1234",
    "generated 4096 tokens in 3 s",
    "HF_TOKEN is not set",
    "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate "
    "memory",
)


@pytest.mark.parametrize("line", SECRETS)
def test_secrets_are_masked(line: str) -> None:
    masked = redact.text(line)
    assert redact.MASK in masked
    assert not any(part in masked for part in PARTS)


@pytest.mark.parametrize("line", HARMLESS)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert redact.text(line) == line


@settings(max_examples=200, deadline=1000)
@given(st.text(max_size=300))
def test_any_text_is_survived_and_masking_twice_changes_nothing(text: str) -> None:
    once = redact.text(text)
    assert redact.text(once) == once


def pod() -> dict[str, Any]:
    return {
        "metadata": {
            "name": "demo",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": '{"a": "hunter2hunter2"}',
                "k8s.v1.cni.cncf.io/networks": "rail-0",
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "node",
                    "env": [
                        {"name": "NCCL_DEBUG", "value": "INFO"},
                        {"name": "NCCL_AUTH_TOKEN", "value": "hunter2hunter2"},
                        {"name": "DATABASE_URL", "value": "postgres://a:hunter2@db/x"},
                        {"name": "WANDB_API_KEY", "value": "0123456789abcdef"},
                        {
                            "name": "HF_TOKEN",
                            "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
                        },
                    ],
                    "args": ["--password=hunter2hunter2", "--epochs", "10"],
                    "resources": {"limits": {"rdma/ib": "1"}},
                }
            ],
            "volumes": [{"name": "s", "secret": {"secretName": "hf"}}],
        },
    }


def test_a_pod_keeps_its_shape_and_loses_its_secrets() -> None:
    masked = redact.manifest(pod())
    text = json.dumps(masked)
    assert not any(part in text for part in PARTS)
    container = masked["spec"]["containers"][0]
    assert container["env"][0] == {"name": "NCCL_DEBUG", "value": "INFO"}
    assert [item["name"] for item in container["env"]][-1] == "HF_TOKEN"
    assert container["env"][-1]["valueFrom"]["secretKeyRef"]["name"] == "hf"
    assert container["resources"] == {"limits": {"rdma/ib": "1"}}
    assert container["args"][1:] == ["--epochs", "10"]
    assert masked["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rail-0"
    assert "managedFields" not in masked["metadata"]
    assert masked["spec"]["volumes"][0]["secret"]["secretName"] == "hf"


def test_the_content_of_secrets_and_config_maps_goes() -> None:
    masked = redact.manifest({"data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "hunter2"}})
    assert masked == {"data": {"a": redact.MASK}, "stringData": {"b": redact.MASK}}


def source(name: str, data: bytes) -> Source:
    return Source(name=name, open=lambda: io.BytesIO(data))


def test_a_bundle_is_private_redacted_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    held = healthy()
    held.pods.append(pod())
    held.unreadable = ["nodes: forbidden"]
    log = b"NCCL INFO Using network IB\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n"
    names = bundle.write(path, sources=[source("pod/demo", log)], objects=held, findings=())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names == ["ABOUT.txt", "objects.json", "logs/0000-pod_demo.log", "findings.json"]
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            stream = tar.extractfile(member)
            assert stream
            text = stream.read().decode()
            assert not any(part in text for part in PARTS), member.name
            assert member.mode == 0o600
    assert bundle.is_bundle(path)
    sources, objects = bundle.read(path)
    assert [item.name for item in sources] == ["b.tar.gz:logs/0000-pod_demo.log"]
    assert b"Using network IB" in sources[0].open().read(1000)
    assert objects
    assert len(objects.pods) == 3
    assert objects.contract


def test_a_bundle_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_text("mine")
    with pytest.raises(RefusedError, match="exists"):
        bundle.write(path, sources=(), objects=None, findings=())
    assert path.read_text() == "mine"
    with pytest.raises(InputError, match="cannot be written"):
        bundle.write(tmp_path / "no" / "b.tar.gz", sources=(), objects=None, findings=())


def test_the_middle_of_a_long_log_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "HEAD_BYTES", 2000)
    monkeypatch.setattr(bundle, "TAIL_BYTES", 3000)
    monkeypatch.setattr(bundle, "CHUNK", 500)
    lines = [b"line %06d\n" % number for number in range(5000)]
    path = tmp_path / "b.tar.gz"
    bundle.write(path, sources=[source("x", b"".join(lines))], objects=None, findings=())
    kept = bundle.read(path)[0][0].open().read(1 << 20)
    assert kept.startswith(lines[0])
    assert kept.endswith(lines[-1])
    assert b"bytes left out]" in kept
    assert 4000 < len(kept) < 9000


@pytest.mark.parametrize("size", [0, 1, 499, 500, 501, 1999, 2000, 2001, 4999, 5001])
def test_short_logs_are_whole(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "HEAD_BYTES", 2000)
    monkeypatch.setattr(bundle, "TAIL_BYTES", 4000)
    monkeypatch.setattr(bundle, "CHUNK", 500)
    data = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
    path = tmp_path / "b.tar.gz"
    bundle.write(path, sources=[source("x", data)], objects=None, findings=())
    assert bundle.read(path)[0][0].open().read(1 << 20) == data


def test_bundle_that_is_too_large_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file may unpack to more than the machine's memory."""
    path = tmp_path / "b.tar.gz"
    bundle.write(path, sources=[source("x", b"\n" * (1 << 20))], objects=None, findings=())
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(bundle, "LARGEST", 1 << 19)
    assert bundle.is_bundle(path)
    with pytest.raises(InputError, match="more than 0 MiB unpacked"):
        bundle.read(path)


def test_logs_that_no_reader_would_hold_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of many nodes has more logs than a bundle may have."""
    monkeypatch.setattr(bundle, "LARGEST", 1 << 19)
    monkeypatch.setattr(bundle, "LARGEST_MEMBER", 1 << 18)
    path = tmp_path / "b.tar.gz"
    logs = [source(name, b"\n" * (200 << 10)) for name in "ab"]
    bundle.write(path, sources=logs, objects=None, findings=())
    kept = [log.open().read(1 << 20) for log in bundle.read(path)[0]]
    assert kept == [b"\n" * (200 << 10), b"[railhead: 204800 bytes left out]\n"]


def test_other_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    bundle.write(path, sources=[source("x", b"a\n" * 9000)], objects=None, findings=())
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="not a whole bundle"):
        bundle.read(cut)
    (tmp_path / "log.tar.gz").write_text("no")
    assert not bundle.is_bundle(tmp_path / "log.tar.gz")
    assert not bundle.is_bundle(tmp_path / "absent.tar.gz")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(("pods", "nodes", "counters", "contract", "devices", "job", "namespace")),
        st.none()
        | st.integers()
        | st.text()
        | st.lists(st.integers() | st.dictionaries(st.text(), st.text())),
    )
)
def test_any_objects_file_is_survived(held: dict[str, Any]) -> None:
    ClusterObjects.from_json(held)
