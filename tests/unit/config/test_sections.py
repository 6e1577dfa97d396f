"""Reading a stack with malformed parts: every well-formed part is read, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from railhead.base.errors import InputError
from railhead.base.fields import MalformedError, Model, Name, Positive
from railhead.base.sections import Problem, knowing, read, told, told_each
from railhead.config import parse
from tests.conftest import REPO
from tests.shipped import stack


class Disk(Model):
    kind: Literal["disk"]
    gib: Positive = 10


class Share(Model):
    kind: Literal["share"]
    name: Name


class Pool(Model):
    name: Name
    nodes: Positive
    least: Positive = 1
    labels: dict[Name, Name] = Field(default_factory=dict)
    storage: tuple[Annotated[Disk | Share, Field(discriminator="kind")], ...] = ()


class Site(Model):
    pools: tuple[Pool, ...] = Field(min_length=1)
    main: Annotated[Disk | Share, Field(discriminator="kind")] | None = None
    name: Name = "site"


GOOD = {"name": "a", "nodes": 2}


def test_valid_mapping_gives_the_model_itself() -> None:
    assert read(Site, {"pools": [GOOD]}) == Site(pools=(Pool(name="a", nodes=2),))


def test_one_malformed_field_hides_no_other() -> None:
    site = read(Site, {"pools": [GOOD | {"nodes": "x", "least": 3}, None, GOOD], "nmae": 1})
    first, second, third = site.pools
    assert (first.name, first.least, first.labels, third.nodes) == ("a", 3, {}, 2)
    with pytest.raises(MalformedError):
        _ = first.nodes
    with pytest.raises(MalformedError):
        _ = second.name
    assert site.name == "site"


def test_malformed_field_raises_and_a_missing_one_is_default() -> None:
    pool = read(Pool, {"least": 0})
    with pytest.raises(MalformedError):
        _ = pool.least
    with pytest.raises(MalformedError):
        _ = pool.nodes
    assert pool.storage == ()


@pytest.mark.parametrize("raw", [None, [], "x", 3])
def test_value_that_is_not_a_mapping_has_no_fields(raw: Any) -> None:
    with pytest.raises(MalformedError):
        _ = read(Site, raw).name


def test_tag_alone_decides_a_unions_type() -> None:
    kinds = ({"kind": "disk", "gib": "x"}, {"kind": "share"}, {"kind": "dsk"}, {"gib": 1}, 4)
    raw = GOOD | {"storage": list(kinds)}
    disk, share, *others = read(Pool, raw).storage
    assert isinstance(disk, Disk)
    assert isinstance(share, Share)
    assert len(others) == 3
    for other in others:
        with pytest.raises(MalformedError):
            isinstance(other, Disk)
    main = read(Site, {"pools": [], "main": {"kind": "disk", "gib": 0}}).main
    assert isinstance(main, Disk)
    assert read(Site, {"pools": []}).pools == ()


def test_a_malformed_value_keeps_its_key_and_is_equal_to_nothing() -> None:
    labels = read(Pool, GOOD | {"labels": {"a": "b", "c": 4}}).labels
    assert (list(labels), labels["a"]) == (["a", "c"], "b")
    for ask in (lambda: labels["c"] == "b", lambda: f"{labels['c']}", lambda: {labels["c"]}):
        with pytest.raises(MalformedError):
            ask()
    with pytest.raises(MalformedError):
        _ = read(Pool, GOOD | {"labels": {4: "b"}}).labels


def small(path: str, pool: Pool) -> Iterator[Problem]:
    if pool.nodes < 3:
        yield f"{path}.nodes", "is less than 3"
    if pool.least > 1:
        yield f"{path}.least", "is more than 1"


def test_checks_report_findings_before_malformed_fields() -> None:
    site = read(Site, {"pools": [GOOD | {"least": "x"}, GOOD | {"nodes": []}, GOOD | {"least": 2}]})
    assert [path for path, _ in told_each([small], site.pools, "pools")] == [
        "pools[0].nodes",
        "pools[2].nodes",
        "pools[2].least",
    ]
    assert [path for path, _, _ in knowing(site.pools, "pools", lambda p: p.nodes)] == [
        "pools[0]",
        "pools[2]",
    ]


def test_internal_error_is_not_blamed_on_the_file() -> None:
    def wrong(_: Site) -> Iterator[Problem]:
        yield from ()
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(told(wrong, read(Site, None)))
    with pytest.raises(AttributeError):
        _ = read(Site, {}).nmae  # type: ignore[attr-defined]


# -- the stacks that are shipped ---------------------------------------------------------------

STACKS = sorted((REPO / "stacks").glob("Pulumi.*.yaml"))


def leaves(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a stack's file, the cluster itself aside."""
    inner = raw.items() if isinstance(raw, dict) else enumerate(raw)
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


def put(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(raw)
    at: Any = result
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return result


def shown(path: tuple[Any, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def lines(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    return [line.removeprefix("x: ") for line in caught.value.problem.splitlines()]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("file", STACKS, ids=lambda f: f.name)
def test_malformed_values_yield_only_their_own_mistakes(file: Any) -> None:
    raw = stack(file.name.removeprefix("Pulumi.").removesuffix(".yaml"))
    # Neither a text nor a number, a list nor a mapping of anything.
    nonsense = {1: [None]}
    for path in leaves(raw):
        for line in lines(put(raw, path, nonsense)):
            assert line.startswith(shown(path)), (shown(path), line)


BOTH: list[tuple[str, list[tuple[tuple[Any, ...], Any]], list[str]]] = [
    (
        "aws-p5-prod",
        [
            (("platform", "account"), 1),
            (("platform", "log_retention_days"), 2),
            (("pools", 0, "instance_type"), "x"),
            (("pools", 0, "min_nodes"), 17),
            (("platform", "storage", 0, "backup_days"), "x"),
            (("platform", "storage", 0, "capacity_gib"), 9600),
            (("runtimes", 0, "image"), 7),
            (("runtimes", 0, "checkpoint"), "nowhere"),
            (("checkpoints", 0, "mount_path"), "x"),
            (("checkpoints", 0, "storage_class"), "nowhere"),
        ],
        [
            "platform.account: ",
            "platform.log_retention_days: 2 is not allowed",
            "pools[0].instance_type: ",
            "pools[0].min_nodes: 17 is more",
            "platform.storage[0].backup_days: ",
            "platform.storage[0].capacity_gib: 9600 is not",
            "runtimes[0].image: ",
            "runtimes[0].checkpoint: 'nowhere' is not",
            "checkpoints[0].mount_path: ",
            "checkpoints[0].storage_class: 'nowhere' is no name",
        ],
    ),
    (
        "gcp-a3-ultra",
        [
            (("platform", "network", "mtu"), 1),
            (("platform", "network", "services"), "10.5.0.0/20"),
            (("pools", 0, "placement"), {"kind": "nearby"}),
            (("pools", 0, "min_nodes"), 17),
            (("pools", 0, "tolerations"), []),
            (("fabric", "rails"), 4),
            (("queues", 0, "name"), 4),
            (("queues", 0, "pools"), ["nowhere", 5]),
        ],
        [
            "platform.network.mtu: ",
            "platform.network.services: '10.5.0.0/20' overlaps",
            "pools[0].placement.kind: 'nearby'",
            "pools[0].min_nodes: 17 is more",
            "pools[0].tolerations: nothing",
            "fabric.rails: ",
            "queues[0].name: ",
            "queues[0].pools[0]: 'nowhere' is not",
            "queues[0].pools[1]: ",
        ],
    ),
    (
        "onprem-ib-sriov",
        [
            (("fabric", "rails", 0), 3),
            (("fabric", "rails", 1, "subnet"), 3),
            (("fabric", "rails", 2, "range_end"), "x"),
            (("fabric", "rails", 3, "name"), "rail-4"),
            (("fabric", "rails", 5, "subnet"), "192.168.0.0/20"),
            (("fabric", "rails", 5, "range_end"), "10.0.0.1"),
            (("fabric", "rails", 6, "subnet"), "10.10.0.0/24"),
            (("fabric", "rails", 7, "pf_names"), ["ib6"]),
            (("fabric", "rails", 6, "pf_names"), ["ib6"]),
            (("fabric", "cluster_ranges", 1), 4),
        ],
        [
            "fabric.rails[0]: ",
            "fabric.rails[1].subnet: 3",
            "fabric.rails[2].range_end: 'x'",
            "fabric.rails[4].name: 'rail-4' is there twice",
            "fabric.rails[5].range_end: '10.0.0.1' is not in subnet",
            "fabric.rails[6].subnet: '10.10.0.0/24' overlaps '10.10.0.0/16'",
            "fabric.rails[7].pf_names: 'ib6' is of fabric.rails[6] already",
        ],
    ),
]


@pytest.mark.parametrize(("name", "changes", "told_of"), BOTH)
def test_malformed_and_contradictory_fields_come_in_one_run(
    name: str, changes: list[tuple[tuple[Any, ...], Any]], told_of: list[str]
) -> None:
    raw = stack(name)
    for path, value in changes:
        raw = put(raw, path, value)
    reported = lines(raw)
    for start in told_of:
        assert any(line.startswith(start) for line in reported), (start, reported)
