"""Facts that follow from a whole reading, each with an id that rules may name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from railhead.diagnose.knowledge import SHARED
from railhead.diagnose.model import Fact
from railhead.nccl.reading import Reading
from railhead.nccl.signs import Evidence, Hits

CONNECT = (
    "connect-refused",
    "connect-no-route",
    "connect-timed-out",
    "connect-unreachable",
    "connect-aborted",
)
COMPLETION = (
    "wc-retry",
    "wc-rnr",
    "wc-local-protection",
    "wc-local-length",
    "wc-flush",
    "wc-remote-access",
    "wc-remote-operation",
)
MODIFY_QP = (
    "modify-qp-einval",
    "modify-qp-enodata",
    "modify-qp-enodev",
    "modify-qp-unreachable",
    "modify-qp-timeout",
)
OUT_OF_MEMORY = ("gpu-oom", "host-oom", "killed-9")
# An error that ends a run; with one of them a fallback to TCP is not the story.
FATAL = (
    *CONNECT,
    *COMPLETION,
    *MODIFY_QP,
    *OUT_OF_MEMORY,
    "closed-by-peer",
    "reset-by-peer",
    "efa-handshake",
    "efa-unresponsive",
    "efa-unreachable",
    "xid",
    "gpu-lost",
    "gpu-ecc",
    "cuda-failure",
    "ibv-create-failed",
    "ibv-reg-mr-enomem",
    "watchdog-timeout",
    "bootstrap-no-interface",
    "shm-nccl-enospc",
    "driver-too-old",
    "nccl-version-mismatch",
    "duplicate-gpu",
    "store-connect-timeout",
    "store-clients-missing",
)
# Xids that name hardware, link, memory or firmware; the others may come from the program as well.
HARDWARE_XIDS = frozenset(
    {"46", "48", "54", "56", "57", "58", "61", "62", "63", "64", "65", "74", "79", "92", "94", "95"}
    | {"96", "97", "109", "110", "119", "120", "121", "123", "140", "143", "144", "145", "146"}
    | {"147", "148", "149", "150", "154", "155", "156"}
)
# Collectives whose element counts are the same on every rank.
EVEN = frozenset({"ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})

# The reader's claim about HCAs.
HCAS = re.compile(r"(?P<present>\d+) present: .*; used: (?P<used>.+)")
MANY_CHANNELS = 8

CONTAINER_HOST = re.compile(
    r"^[0-9a-f]{12}$|-(?:worker|master|launcher|ps|chief)-\d+$|-[0-9]+-[a-z0-9]{5}$"
)
AWS_HOST = re.compile(r"^ip-\d+-\d+-\d+-\d+|\.ec2\.internal$|\.compute\.internal$")


def _one_node(reading: Reading) -> bool:
    if reading.transport == "p2p/shm-only":
        return True
    sizes = [communicator.nodes for communicator in reading.communicators]
    return bool(sizes) and all(size == 1 for size in sizes)


def evidence(hits: Hits, name: str) -> tuple[Evidence, ...]:
    """Return the first lines of a clue, or of the reader's own signs that stand for it."""
    if name not in SHARED:
        return hits.evidence(name)
    return tuple(line for sign in SHARED[name] for line in hits.evidence(sign))


def shared(hits: Hits) -> frozenset[str]:
    """Return the names of :data:`railhead.diagnose.knowledge.SHARED` that were seen."""
    return frozenset(name for name, signs in SHARED.items() if hits.any(*signs))


def _group(lines: Iterable[Evidence], name: str) -> set[str]:
    return {line.groups[name] for line in lines if line.groups.get(name)}


def _versions(hits: Hits) -> set[str]:
    return {
        item.groups["v"]
        for item in evidence(hits, "nccl-version")
        if item.groups.get("kind") == "NCCL" and item.groups["v"].count(".") == 2
    }


def _bootstraps(hits: Hits) -> set[str]:
    """Return the addresses that bootstrap uses, without their ports."""
    # NCCL before 2.4 lists every interface; the one it takes is not told apart there.
    return {item.partition("<")[0] for item in _group(hits.evidence("nccl.bootstrap"), "addr")}


def _bootstrap_networks(hits: Hits) -> set[str]:
    """Return the first half of each IPv4 address that bootstrap uses."""
    return {
        ".".join(bootstrap.split(".")[:2])
        for bootstrap in _bootstraps(hits)
        if bootstrap.count(".") == 3
    }


def _same_network(hits: Hits) -> bool:
    """Return whether an unreachable peer's address is in the network that bootstrap uses."""
    peers = _group(hits.evidence("connect-timed-out-address"), "address")
    return bool({".".join(peer.split(".")[:2]) for peer in peers} & _bootstrap_networks(hits))


def _families_differ(hits: Hits) -> bool:
    return len({":" in bootstrap for bootstrap in _bootstraps(hits) if bootstrap}) > 1


def _interfaces_differ(hits: Hits) -> bool:
    return len(_group(hits.evidence("nccl.bootstrap"), "if")) > 1


def _gdr_differs(hits: Hits) -> bool:
    # Receiving only: sending without GPUDirect is the default of NCCL_NET_GDR_READ on PCIe hosts.
    with_gdr = hits["receive-gdr"].nodes
    without = hits["receive-no-gdr"].nodes
    return bool(with_gdr) and bool(without - with_gdr)


def _no_near_nic(hits: Hits) -> bool:
    """Return whether a GPU is too far from every NIC; only where all of its lines are read."""
    far, near = hits["gdr-disabled-distance"], hits["gdr-enabled-distance"]
    if any(item.count > len(item.evidence) for item in (far, near)):
        return False
    return bool(_group(far.evidence, "gpu") - _group(near.evidence, "gpu"))


def _socket_between_nodes(reading: Reading) -> bool:
    if any((communicator.nodes or 0) > 1 for communicator in reading.communicators):
        return reading.transport == "socket" or "socket-line" in reading.hits
    return "socket-channel" in reading.hits or (
        reading.transport == "socket" and len(reading.nodes) > 1
    )


def _calls(hits: Hits) -> list[tuple[str, str, str, str, int | None]]:
    """Return group, sequence number, operation, element count and rank of each timeout."""
    calls = []
    for item in hits.evidence("watchdog-timeout"):
        groups = item.groups
        rank = int(groups["rank"]) if groups.get("rank") else item.rank
        calls.append(
            (
                groups.get("pg") or "",
                groups.get("seq") or "",
                groups.get("op") or "",
                groups.get("numel") or "",
                rank,
            )
        )
    return calls


def _calls_differ(hits: Hits) -> bool:
    seen: dict[tuple[str, str], tuple[str, str, int | None]] = {}
    for group, seq, op, numel, rank in _calls(hits):
        if not seq or not op:
            continue
        first = seen.setdefault((group, seq), (op, numel, rank))
        if first[2] == rank:
            continue
        if first[0] != op or (op in EVEN and numel and first[1] != numel):
            return True
    return False


def _sequences_differ(hits: Hits) -> bool:
    """Return whether ranks of a group time out in one operation at different sequence numbers."""
    by_group: dict[str, dict[int, set[tuple[str, str]]]] = {}
    for group, seq, op, _, rank in _calls(hits):
        # Without the group's name the numbers of different groups would be compared.
        if group and seq and rank is not None:
            by_group.setdefault(group, {}).setdefault(rank, set()).add((seq, op))
    for ranks in by_group.values():
        calls = [next(iter(seen)) for seen in ranks.values() if len(seen) == 1]
        one_call_each = len(calls) == len(ranks)
        if one_call_each and len({op for _, op in calls}) == 1 and len(set(calls)) > 1:
            return True
    return False


def _one_rank_silent(reading: Reading) -> bool:
    reported = reading.hits["watchdog-timeout"].ranks | {
        rank for *_, rank in _calls(reading.hits) if rank is not None
    }
    return reading.ranks is not None and reading.ranks > 2 and len(reported) == reading.ranks - 1


def _xids(hits: Hits) -> set[str]:
    evidence = hits.evidence("xid")
    return _group(evidence, "xid") | _group(evidence, "code") | _group(evidence, "number")


def _mtus(hits: Hits) -> bool:
    if any(len(_group(hits.evidence(entry), "mtu")) > 1 for entry in ("active-mtu", "queue-mtu")):
        return True
    by_interface: dict[str, set[str]] = {}
    for item in hits.evidence("link-mtu"):
        name, mtu = item.groups.get("interface", ""), item.groups.get("mtu", "")
        by_interface.setdefault(name, set()).add(mtu)
    return any(len(mtus) > 1 for mtus in by_interface.values())


def _test_ranks(hits: Hits) -> list[tuple[str, str]]:
    return [
        (item.groups.get("rank", ""), f"{item.groups.get('host')}/{item.groups.get('pid')}")
        for item in evidence(hits, "nccltests-rank")
    ]


def _all_rank_zero(hits: Hits) -> bool:
    result = _test_ranks(hits)
    return {rank for rank, _ in result} == {"0"} and len({process for _, process in result}) > 1


def _one_test_rank(hits: Hits) -> bool:
    result = _test_ranks(hits)
    return hits["tests.rank"].count == 1 and {rank for rank, _ in result} == {"0"}


def _rails_unused(reading: Reading) -> bool:
    claim = reading.claims.get("hcas")
    result = HCAS.match(claim.value) if claim is not None else None
    hits = reading.hits
    channels = hits["receive-gdr"].count + hits["receive-no-gdr"].count
    # One rank uses few NICs, and of a cut log nobody knows what the others used.
    if result is None or channels < MANY_CHANNELS:
        return False
    return 4 * len(result["used"].split(",")) <= int(result["present"])


def _silent(hits: Hits) -> bool:
    seen = shared(hits)
    later = {"init-complete", "channel-line"} & seen
    return (
        "bootstrap-using" in seen
        and not later
        and not hits.any("socket-line", "ib-using", "efa-selected", "net-not-found", "net-none")
        and not hits.any(*FATAL)
    )


def _hosts(reading: Reading, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(name) for name in reading.nodes)


_RULES: Mapping[str, tuple[str, Callable[[Reading], bool]]] = {
    "transport-socket": ("the network in use is TCP", lambda r: r.transport == "socket"),
    "network-socket": (
        "NCCL's network is TCP sockets",
        lambda r: r.transport == "socket" or r.hits.any("socket-line"),
    ),
    "one-node": ("the ranks are all on one host", _one_node),
    "socket-between-nodes": (
        "connections between nodes, or what amounts to it, go over TCP",
        _socket_between_nodes,
    ),
    "gpu-without-near-nic": (
        "a GPU is too far from every NIC that the log names",
        lambda r: _no_near_nic(r.hits),
    ),
    "gdr-in-use": (
        "GPUDirect RDMA is in use on some connection",
        lambda r: r.gdr == "yes" or r.hits.any("send-gdr", "receive-gdr"),
    ),
    "fatal-any": ("an error that ends a run", lambda r: r.hits.any(*FATAL)),
    "fatal-other": (
        "another error that ends a run, or a run that came to a stop",
        lambda r: r.hits.any(*FATAL) or r.verdict in ("init-failure", "timeout", "hang"),
    ),
    "wc-any": ("a completion error", lambda r: r.hits.any(*COMPLETION)),
    "modify-qp-any": ("a queue pair is refused", lambda r: r.hits.any(*MODIFY_QP)),
    "connect-any": ("connecting to a peer fails", lambda r: r.hits.any(*CONNECT)),
    "oom-any": ("memory ran out", lambda r: r.hits.any(*OUT_OF_MEMORY)),
    "nccl-lines": (
        "NCCL has written lines",
        lambda r: any(sign.startswith("nccl.") for sign in r.hits),
    ),
    "container-like": (
        "the hosts' names are those of containers",
        lambda r: _hosts(r, CONTAINER_HOST),
    ),
    "on-aws": (
        "the hosts are on AWS",
        lambda r: r.hits.any("ofi-present") or _hosts(r, AWS_HOST),
    ),
    "only-gai-warning": (
        "the names that do not resolve are only PyTorch's IPv6 look-ups, or outside of the job",
        lambda r: (
            0
            < r.hits["dns-failed"].count
            <= r.hits["gai-warning"].count + r.hits["dns-elsewhere"].count
        ),
    ),
    "bootstrap-then-silence": ("bootstrap starts and nothing follows", lambda r: _silent(r.hits)),
    "bootstrap-networks-differ": (
        "ranks bootstrap on different networks",
        lambda r: len(_bootstrap_networks(r.hits)) > 1,
    ),
    "connect-same-network": (
        "the address that does not answer is of the network that bootstrap uses",
        lambda r: _same_network(r.hits),
    ),
    "bootstrap-families-differ": (
        "some ranks bootstrap on IPv4 and others on IPv6, over interfaces of one name",
        lambda r: _families_differ(r.hits) and not _interfaces_differ(r.hits),
    ),
    "bootstrap-interfaces-differ": (
        "some ranks bootstrap on IPv4 and others on IPv6, over different interfaces",
        lambda r: _families_differ(r.hits) and _interfaces_differ(r.hits),
    ),
    "versions-differ": (
        "the log shows several NCCL versions",
        lambda r: len(_versions(r.hits)) > 1,
    ),
    "nccl-2-24-to-2-26": (
        "NCCL 2.24, 2.25 or 2.26",
        lambda r: any(
            version.startswith(("2.24.", "2.25.", "2.26.")) for version in _versions(r.hits)
        ),
    ),
    "gdr-differs-by-node": (
        "some nodes use GPUDirect RDMA and others do not",
        lambda r: _gdr_differs(r.hits),
    ),
    "watchdog-numel-differ": (
        "ranks time out at one sequence number in different calls",
        lambda r: _calls_differ(r.hits),
    ),
    "watchdog-seq-differ": (
        "ranks time out at different sequence numbers",
        lambda r: _sequences_differ(r.hits),
    ),
    "watchdog-one-rank-missing": (
        "every rank but one reports the timeout, and nothing else is wrong",
        lambda r: _one_rank_silent(r) and not r.hits.any(*CONNECT, *COMPLETION, "closed-by-peer"),
    ),
    "xid-hardware": (
        "an Xid of hardware, link, memory or firmware",
        lambda r: bool(_xids(r.hits) & HARDWARE_XIDS),
    ),
    "xid-other": (
        "an Xid that may come from the program",
        lambda r: bool(_xids(r.hits) - HARDWARE_XIDS),
    ),
    "mtu-differs": ("ports of one kind have different MTUs", lambda r: _mtus(r.hits)),
    "nccltests-all-rank-zero": (
        "several nccl-tests processes call themselves rank 0",
        lambda r: _all_rank_zero(r.hits),
    ),
    "nccltests-one-rank": ("nccl-tests lists one rank only", lambda r: _one_test_rank(r.hits)),
    "rails-unused": ("the channels use fewer NICs than there are", _rails_unused),
}

FACTS: Mapping[str, Fact] = MappingProxyType(
    {name: Fact(id=name, title=title) for name, (title, _) in _RULES.items()}
)


def derive(reading: Reading) -> frozenset[str]:
    """Return the ids of the facts that hold."""
    return frozenset(name for name, (_, holds) in _RULES.items() if holds(reading))
