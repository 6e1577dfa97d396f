"""The knowledge base: whole, consistent, and every cause from both sides."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from railhead.diagnose import facts, knowledge, ranking, read, table
from railhead.diagnose.facts import FACTS
from railhead.diagnose.knowledge import CAUSES, CLUES, OBSERVATIONS, SHARED
from railhead.diagnose.model import LISTED, NAMED, VERDICTS, Proof, RankedCause
from railhead.launch.job import JobFile
from railhead.model.cluster import Cluster
from tests.unit.diagnose.cases import CASES, FURTHER, HEALTHY, LOOK_ALIKES, Seen

KNOWN = {*CLUES, *FACTS, *OBSERVATIONS, *SHARED}
# What people report, in their words, with the cause that answers it.
ASKED = {
    "RDMA device not in the container": "rdma-device-not-in-container",
    "wrong HCA": "wrong-hca-selected",
    "wrong HCA, by the filter": "wrong-hca-filter",
    "topology": "topology-file-or-path",
    "network policy or firewall on bootstrap or data": "network-policy-or-firewall",
    "unroutable socket interface": "wrong-socket-interface",
    "wrong socket interface": "no-usable-socket-interface",
    "GID index or RoCE version": "gid-index-wrong",
    "MTU mismatch": "mtu-mismatch",
    "memlock": "memlock-limit",
    "peermem or DMA-BUF missing": "gpudirect-kernel-support-missing",
    "ACS or IOMMU": "acs-or-iommu",
    "/dev/shm": "dev-shm-too-small",
    "/dev/infiniband by hostPath": "dev-infiniband-by-host-path",
    "plugin missing or not found": "plugin-not-found",
    "plugin wrong": "plugin-does-not-load",
    "plugin wrong for the fabric": "wrong-plugin-on-infiniband",
    "libfabric errors": "efa-libfabric-version",
    "EFA errors": "efa-device-or-provider-missing",
    "EFA security group": "efa-security-group",
    "driver or CUDA mismatch": "driver-cuda-mismatch",
    "NCCL mismatch": "nccl-version-mismatch",
    "link down, flap, symbol errors": "link-down-or-flapping",
    "completion error 12": "rdma-retry-exceeded",
    "completion error 13": "rdma-receiver-not-ready",
    "completion errors, others": "rdma-remote-access-error",
    "PyTorch watchdog": "pytorch-watchdog-timeout",
    "flight recorder": "stuck-with-all-ranks-present",
    "desync": "straggler",
    "rendezvous": "rendezvous-timeout",
    "DNS": "name-resolution",
    "port in use": "port-in-use",
    "one rank died first": "a-rank-died-first",
    "out of memory (GPU)": "gpu-out-of-memory",
    "out of memory (host)": "host-out-of-memory",
    "Xid": "xid-error",
    "collective mismatch between ranks": "collective-mismatch",
    "IPv6": "ipv6-address-family",
}


def findings(seen: Seen, directory: Path) -> dict[str, RankedCause]:
    path = directory / "job.log"
    path.write_text(seen.log)
    observed = {item: (Proof(id=item, where="test", text=item),) for item in seen.observed}
    return {item.cause.id: item for item in ranking.rank(read([path]), observed=observed)}


def test_required_causes_are_listed() -> None:
    assert {asked: cause for asked, cause in ASKED.items() if cause not in CAUSES} == {}


def test_every_cause_has_both_sides() -> None:
    assert set(CASES) == set(CAUSES)
    for name, case in CASES.items():
        assert case.fires.log or case.fires.observed, name
        assert case.silent != case.fires, name


def test_a_cause_fires_where_it_should(tmp_path: Path) -> None:
    wrong = []
    for name, case in CASES.items():
        result = findings(case.fires, tmp_path)
        if name not in result or result[name].named is not case.named:
            wrong.append((name, sorted(result)))
    assert wrong == []


def test_a_similar_run_does_not_fire_it(tmp_path: Path) -> None:
    fired = [name for name, case in CASES.items() if name in findings(case.silent, tmp_path)]
    assert fired == []


def test_observations_fire_causes(tmp_path: Path) -> None:
    wrong = []
    for name, seen, named in FURTHER:
        result = findings(seen, tmp_path)
        if name not in result or result[name].named is not named:
            wrong.append((name, seen))
    assert wrong == []


def test_a_healthy_run_has_no_cause(tmp_path: Path) -> None:
    for run, log in HEALTHY.items():
        result = findings(Seen(log=log), tmp_path)
        assert [name for name, finding in result.items() if finding.named] == [], run


def test_a_line_that_only_looks_like_it_names_nothing(tmp_path: Path) -> None:
    for name, log in LOOK_ALIKES:
        result = findings(Seen(log=log), tmp_path)
        assert name not in result or not result[name].named, log


def test_program_exception_comes_first(tmp_path: Path) -> None:
    """A KeyError on rank 3, and what torchrun and the other ranks print after it."""
    log = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/workspace/train.py", line 12, in <module>\n'
        "[rank3]: KeyError: 'learning_rate'\n"
        "w-0:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
        "w-1<57557>\n"
        "Root Cause (first observed failure):\n"
        "  exitcode  : 1 (pid: 4242)\n"
    )
    for observed in ((), ("pod-ended-early",), ("pod-ended-early", "pod-no-shm", "pod-small-shm")):
        result = findings(Seen(log=log, observed=observed), tmp_path)
        first, *others = result.values()
        assert first.cause.id == "application-error"
        assert any("learning_rate" in proof.text for proof in first.evidence)
        assert [item.cause.id for item in others if item.named] == []
        assert "dev-shm-too-small" not in result


def test_small_shm_alone_is_no_cause(tmp_path: Path) -> None:
    for shm in ("pod-no-shm", "pod-small-shm"):
        assert "dev-shm-too-small" not in findings(Seen(observed=(shm,)), tmp_path)


def test_no_cause_sends_back_to_what_sent_here() -> None:
    """`railhead status` and `describe` name `railhead diagnose`, so no fix may name them."""
    back = re.compile(r"railhead (?:status|describe) JOB|railhead diagnose --job")
    sent = [
        name
        for name, cause in CAUSES.items()
        for text in (cause.fix.text, cause.by_hand, cause.confirm)
        if back.search(text)
    ]
    assert sent == []


def test_every_observation_is_exercised() -> None:
    used = {item for case in CASES.values() for item in case.fires.observed}
    used |= {item for _, seen, _ in FURTHER for item in seen.observed}
    assert set(OBSERVATIONS) - used == set()


def test_ids_are_unique_and_in_kebab_case() -> None:
    assert len(KNOWN) == len(CLUES) + len(FACTS) + len(OBSERVATIONS) + len(SHARED) - len(
        CLUES.keys() & OBSERVATIONS.keys()
    )
    for name in (*KNOWN, *CAUSES):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name), name


def test_a_clue_matches_its_example() -> None:
    for clue in CLUES.values():
        assert re.search(clue.pattern, clue.example.encode()), clue.id
        assert clue.sign.needles, clue.id
        assert clue.seen, clue.id
        assert clue.source, clue.id


def test_a_clue_fits_one_automaton() -> None:
    """Hyperscan and RE2 take neither lookaround nor backreference."""
    refused = re.compile(rb"\(\?[=!<](?!P)[=!]?|\(\?<[=!]|\(\?P=|\\[1-9]")
    assert [clue.id for clue in CLUES.values() if refused.search(clue.pattern)] == []


def test_no_clue_takes_long_over_a_hostile_line() -> None:
    """4 KiB is what the reader hands on; each repeats the clue's own literals."""
    import time

    for clue in CLUES.values():
        for needle in clue.sign.needles:
            line = (needle + b" ") * (4096 // (len(needle) + 1))
            begin = time.process_time()
            re.search(clue.pattern, line)
            re.search(clue.pattern, clue.example.encode() * 8 + b"a1." * 1000)
            assert time.process_time() - begin < 0.5, clue.id


def test_every_id_in_a_rule_exists_and_every_one_is_used() -> None:
    used = {item for cause in CAUSES.values() for rule in cause.rules for item in rule.ids}
    assert used - KNOWN == set()
    in_facts = set(re.findall(r'"([a-z0-9-]+)"', inspect.getsource(facts)))
    in_reports = {"other-rank-timeout", "gloo-timeout", "fr-no-dump"}
    assert KNOWN - used - in_facts - in_reports == set()


def test_the_reader_has_the_signs_that_are_shared() -> None:
    from railhead.nccl.facts import SIGNS

    known = {sign.id for sign in SIGNS}
    assert {sign for signs in SHARED.values() for sign in signs} <= known


def test_a_row_is_whole() -> None:
    for cause in CAUSES.values():
        assert cause.verdict is None or cause.verdict in VERDICTS, cause.id
        assert all(LISTED <= rule.confidence < 1 for rule in cause.rules), cause.id
        assert all(rule.needs or rule.any_of for rule in cause.rules), cause.id
        for text in (cause.title, cause.by_hand, cause.confirm, cause.source, cause.fix.text):
            assert len(text) > 8, cause.id
            assert "  " not in text, cause.id
        for other in (*cause.apart, *cause.explains):
            assert other in CAUSES, cause.id
            assert other != cause.id


def test_every_file_of_rows_is_read() -> None:
    assert {path.stem for path in knowledge.FOLDER.glob("*.yaml")} == set(knowledge.FAMILIES)


def paths(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Return every setting of a model of the configuration, as ``runtimes[].shared_memory``."""
    results = set()
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        results.add(path)
        text = repr(info.annotation)
        for inner in _models(info.annotation):
            many = "[]" if "tuple[" in text else ""
            results |= paths(inner, f"{path}{many}.")
    return results


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def test_a_fix_names_a_setting_that_exists() -> None:
    where = {"stack": paths(Cluster), "job": set(JobFile.model_fields), "none": {""}}
    fixes = [cause.fix for cause in CAUSES.values()]
    assert [fix for fix in fixes if fix.path not in where[fix.where]] == []


def test_thresholds_are_in_order() -> None:
    assert 0 < LISTED < ranking.CONSEQUENCE < NAMED < 1


def test_the_page_lists_every_cause() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/diagnosing.md").read_text()
    assert table.replaced(page) == page, "run: python -m railhead.diagnose.table docs/diagnosing.md"
    assert all(f"| `{name}` |" in page for name in CAUSES)
