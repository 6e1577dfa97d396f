"""The knowledge base: whole, consistent, and every cause from both sides."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from railhead.diagnose import facts, ranking, read, table
from railhead.diagnose.facts import FACTS
from railhead.diagnose.knowledge import CAUSES, CLUES, OBSERVATIONS, SHARED
from railhead.diagnose.model import LISTED, NAMED, VERDICTS, Cause, Clue, Proof, RankedCause
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
    observed = {one: (Proof(id=one, where="test", text=one),) for one in seen.observed}
    return {one.cause.id: one for one in ranking.rank(read([path]), observed=observed)}


@pytest.mark.parametrize("cause", ASKED.values(), ids=ASKED)
def test_what_was_asked_for_is_there(cause: str) -> None:
    assert cause in CAUSES


def test_every_cause_has_both_sides() -> None:
    assert set(CASES) == set(CAUSES)
    for name, case in CASES.items():
        assert case.fires.log or case.fires.observed, name
        assert case.silent != case.fires, name


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_fires_where_it_should(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    found = findings(case.fires, tmp_path)
    assert name in found, sorted(found)
    assert found[name].named is case.named, found[name]
    assert found[name].evidence or not case.fires.log or CAUSES[name].rules, found[name]


@pytest.mark.parametrize("name", CAUSES)
def test_a_similar_run_does_not_fire_it(name: str, tmp_path: Path) -> None:
    assert name not in findings(CASES[name].silent, tmp_path)


@pytest.mark.parametrize(("name", "seen", "named"), FURTHER)
def test_observations_fire_causes(name: str, seen: Seen, named: bool, tmp_path: Path) -> None:
    assert findings(seen, tmp_path)[name].named is named


@pytest.mark.parametrize("log", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_run_has_no_cause(log: str, tmp_path: Path) -> None:
    found = findings(Seen(log=log), tmp_path)
    assert not [name for name, finding in found.items() if finding.named]


@pytest.mark.parametrize(("name", "log"), LOOK_ALIKES)
def test_a_line_that_only_looks_like_it_names_nothing(name: str, log: str, tmp_path: Path) -> None:
    found = findings(Seen(log=log), tmp_path)
    assert name not in found or not found[name].named


def test_every_observation_is_exercised() -> None:
    used = {one for case in CASES.values() for one in case.fires.observed}
    used |= {one for _, seen, _ in FURTHER for one in seen.observed}
    assert set(OBSERVATIONS) - used == set()


def test_ids_are_unique_and_in_kebab_case() -> None:
    assert len(KNOWN) == len(CLUES) + len(FACTS) + len(OBSERVATIONS) + len(SHARED) - len(
        CLUES.keys() & OBSERVATIONS.keys()
    )
    for name in (*KNOWN, *CAUSES):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name), name


@pytest.mark.parametrize("clue", CLUES.values(), ids=CLUES)
def test_a_clue_matches_its_example(clue: Clue) -> None:
    assert re.search(clue.pattern, clue.example.encode())
    assert clue.sign.needles
    assert clue.seen
    assert clue.source


@pytest.mark.parametrize("clue", CLUES.values(), ids=CLUES)
def test_a_clue_fits_one_automaton(clue: Clue) -> None:
    """No lookaround, no backreference: what Hyperscan and RE2 cannot take."""
    assert not re.search(rb"\(\?[=!<](?!P)[=!]?|\(\?<[=!]|\(\?P=|\\[1-9]", clue.pattern)


@pytest.mark.parametrize("clue", CLUES.values(), ids=CLUES)
def test_no_clue_takes_long_over_a_hostile_line(clue: Clue) -> None:
    """4 KiB is what the reader hands on; each repeats the clue's own literals."""
    import time

    for needle in clue.sign.needles:
        line = (needle + b" ") * (4096 // (len(needle) + 1))
        begin = time.process_time()
        re.search(clue.pattern, line)
        re.search(clue.pattern, clue.example.encode() * 8 + b"a1." * 1000)
        assert time.process_time() - begin < 0.5, clue.id


def test_every_id_in_a_rule_exists_and_every_one_is_used() -> None:
    used = {one for cause in CAUSES.values() for rule in cause.rules for one in rule.ids}
    assert used - KNOWN == set()
    in_facts = set(re.findall(r'"([a-z0-9-]+)"', inspect.getsource(facts)))
    in_reports = {"other-rank-timeout", "gloo-timeout", "fr-no-dump"}
    assert KNOWN - used - in_facts - in_reports == set()


def test_the_reader_has_the_signs_that_are_shared() -> None:
    from railhead.nccl.facts import SIGNS

    known = {sign.id for sign in SIGNS}
    assert {sign for signs in SHARED.values() for sign in signs} <= known


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_row_is_whole(cause: Cause) -> None:
    assert cause.verdict is None or cause.verdict in VERDICTS
    assert all(LISTED <= rule.confidence < 1 for rule in cause.rules)
    assert all(rule.needs or rule.any_of for rule in cause.rules)
    for text in (cause.title, cause.by_hand, cause.confirm, cause.source, cause.fix.text):
        assert len(text) > 8
        assert "  " not in text
    for other in (*cause.apart, *cause.explains):
        assert other in CAUSES
        assert other != cause.id


def paths(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Every setting of a model of the configuration, as ``runtimes[].shared_memory``."""
    found = set()
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        found.add(path)
        text = repr(info.annotation)
        for inner in _models(info.annotation):
            many = "[]" if "tuple[" in text else ""
            found |= paths(inner, f"{path}{many}.")
    return found


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_fix_names_a_setting_that_exists(cause: Cause) -> None:
    where = {"stack": paths(Cluster), "job": set(JobFile.model_fields), "none": {""}}
    assert cause.fix.path in where[cause.fix.where], cause.fix


def test_thresholds_are_in_order() -> None:
    assert 0 < LISTED < ranking.CONSEQUENCE < NAMED < 1


def test_the_page_lists_every_cause() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/diagnosing.md").read_text()
    assert table.replaced(page) == page, "run: python -m railhead.diagnose.table docs/diagnosing.md"
    assert all(f"| `{name}` |" in page for name in CAUSES)
