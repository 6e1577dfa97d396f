"""The finer claims: versions, devices, channels, settings; and notes on them."""

from __future__ import annotations

from collections import Counter

from railhead.nccl.facts import Facts, SeenValues
from railhead.nccl.reading import UNKNOWN, Claim, Note
from railhead.nccl.signs import Hits
from railhead.nccl.transport import net_kind

# Left over from a search for a fault, they cost bandwidth or turn a path off.
DEBUG_ONLY = {
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET_GDR_LEVEL": "0",
    "NCCL_NVLS_ENABLE": "0",
}
AUTO_GID_FROM = (2, 21)


def of_values(seen: SeenValues, why: str) -> Claim:
    """Return all values of a kind, the most frequent first."""
    if not seen:
        return UNKNOWN
    return Claim(
        value=", ".join(value for value, _ in seen.counts.most_common(8) if value) or "unknown",
        why=why,
        evidence=seen.evidence(),
    )


def details(facts: Facts, hits: Hits, finer_gdr: str) -> dict[str, Claim]:
    """Return the claims by name; a claim about which the log shows nothing is unknown."""
    results = {
        "nccl": of_values(facts.seen("nccl"), "NCCL's version"),
        "rccl": of_values(facts.seen("rccl"), "RCCL's version"),
        "cuda": of_values(facts.seen("cuda"), "the CUDA that NCCL was built with"),
        "driver": _driver(facts),
        "plugin": of_values(facts.seen("nccl.plugin"), "the network plugin and its interface"),
        "aws-ofi-nccl": of_values(facts.seen("ofi.version"), "the AWS plugin's version"),
        "libfabric": of_values(facts.seen("ofi.libfabric"), "libfabric's version"),
        "google": of_values(facts.seen("gcp.version"), "Google's network and its version"),
        "provider": of_values(facts.seen("ofi.provider"), "libfabric's provider and its NICs"),
        "protocol": of_values(facts.seen("ofi.protocol"), "the AWS plugin's protocol"),
        "network": of_values(facts.networks, "the network that NCCL chose"),
        "gdr-detail": _gdr(facts, hits, finer_gdr),
        "gdr-mechanism": _mechanism(facts, hits),
        "hcas": _hcas(facts),
        "channels": _channels(facts),
        "local": of_values(facts.seen("channel-local"), "connections within a node"),
        "nvls": _nvls(facts, hits),
        "sharp": _sharp(hits),
        "pxn": _pxn(facts),
        "bootstrap": _bootstrap(facts),
        "oob": of_values(facts.seen("oob"), "the interface of the verbs' handshakes"),
        "algorithms": of_values(facts.seen("setting NCCL_ALGO"), "set by environment"),
        "protocols": of_values(facts.seen("setting NCCL_PROTO"), "set by environment"),
        "gpu": of_values(facts.seen("gpu-model"), "the test's devices"),
        "test": of_values(facts.seen("tests.name"), "the test that ran"),
        "bandwidth": _bandwidth(facts),
    }
    return {name: claim for name, claim in results.items() if claim is not UNKNOWN}


def _driver(facts: Facts) -> Claim:
    seen = facts.seen("nccl.driver")
    if not seen:
        return UNKNOWN
    versions = sorted(f"{int(value) // 1000}.{int(value) % 1000 // 10}" for value in seen)
    return Claim(
        value=", ".join(versions), why="the driver's CUDA version", evidence=seen.evidence()
    )


def _gdr(facts: Facts, hits: Hits, finer: str) -> Claim:
    if finer == "unknown":
        return UNKNOWN
    without = sorted({rank for (rank, _), route in facts.routes.items() if route.staged})
    with_it = sorted({rank for (rank, _), route in facts.routes.items() if route.direct})
    ways = Counter[str]()
    for (_, way), route in facts.routes.items():
        ways[f"{way} with"] += route.direct
        ways[f"{way} without"] += route.staged
    parts = [f"{count} {way}" for way, count in sorted(ways.items()) if count]
    text = finer
    if parts:
        text += f": {', '.join(parts)}"
    if with_it and without and finer == "partly":
        text += f"; ranks without: {_few(without)}"
    return Claim(
        value=text,
        why="connections over the network by direction",
        evidence=(
            *facts.seen("channel-gdr").evidence(1),
            *facts.seen("channel-no-gdr").evidence(1),
        )
        or hits.evidence("gdr.hca")[:2],
    )


def _few(numbers: list[int], limit: int = 12) -> str:
    shown = ", ".join(str(number) for number in numbers[:limit])
    return shown if len(numbers) <= limit else f"{shown} and {len(numbers) - limit} more"


def _mechanism(facts: Facts, hits: Hits) -> Claim:
    if not facts.seen("channel-gdr"):
        return UNKNOWN
    if at := hits.evidence("gdr.dmabuf"):
        return Claim(
            value="dma-buf",
            why="connections use GDR and DMA-BUF is available: NCCL prefers it",
            evidence=(*facts.seen("channel-gdr").evidence(1), *at[:1]),
        )
    for value, at_value in facts.seen("ofi.dmabuf").first.items():
        return Claim(
            value="dma-buf" if value == "true" else "peermem",
            why="the AWS plugin says whether it registers with DMA-BUF",
            evidence=(at_value,),
        )
    return UNKNOWN


def _hcas(facts: Facts) -> Claim:
    names: list[str] = []
    used_names: set[str] = set()
    for net, devices in facts.devices.items():
        used = {number for other, number in facts.devices_used if net_kind(other) == net_kind(net)}
        for number, (name, layer) in sorted(devices.items()):
            mark = f"{name}/{layer}" if layer else name
            if mark not in names:
                names.append(mark)
            if number in used:
                used_names.add(mark)
    if not names:
        return UNKNOWN
    used_text = f"; used: {', '.join(n for n in names if n in used_names)}" if used_names else ""
    return Claim(
        value=f"{len(names)} present: {', '.join(names[:16])}{used_text}",
        why="devices by the list, use by the connections",
        evidence=facts.seen("device-list").evidence(1),
    )


def _channels(facts: Facts) -> Claim:
    seen = facts.seen("nccl.channels")
    if not seen:
        return UNKNOWN
    return Claim(
        value="; ".join(seen),
        why="coll[ collnet][ nvls] p2p p2p-per-peer, as many as each communicator has",
        evidence=seen.evidence(),
    )


def _nvls(facts: Facts, hits: Hits) -> Claim:
    if at := hits.evidence("nccl.nvls-tree"):
        return Claim(value="yes", why="an NVLS tree is connected", evidence=at[:1])
    for value, at_value in facts.seen("nccl.nvls").first.items():
        return Claim(
            value="no" if value else "available",
            why="multicast support of the device",
            evidence=(at_value,),
        )
    return UNKNOWN


def _sharp(hits: Hits) -> Claim:
    if at := hits.evidence("nccl.collnet"):
        return Claim(value="yes", why="connections via CollNet", evidence=at[:1])
    if at := hits.evidence("nccl.sharp"):
        return Claim(
            value="loaded", why="its plugin is there; no connection shows its use", evidence=at[:1]
        )
    return UNKNOWN


def _pxn(facts: Facts) -> Claim:
    seen = facts.seen("pxn")
    if not seen:
        return UNKNOWN
    return Claim(
        value="yes", why="connections go through another rank's NIC", evidence=seen.evidence(1)
    )


def _bootstrap(facts: Facts) -> Claim:
    seen = facts.seen("nccl.bootstrap")
    if not seen:
        return UNKNOWN
    names = sorted({value.split()[0] for value in seen})
    return Claim(
        value=", ".join(names),
        why="the interface that NCCL's own TCP connections use",
        evidence=seen.evidence(),
    )


def _bandwidth(facts: Facts) -> Claim:
    row = facts.largest
    if row is None:
        return UNKNOWN
    return Claim(
        value=f"{row.busbw:g} GB/s busbw, {row.algbw:g} algbw at {row.size} bytes",
        why="the largest size of the table",
        evidence=(row.at,),
    )


def notes(facts: Facts, hits: Hits) -> tuple[Note, ...]:
    """Return notes on values that disagree, settings that hurt, and devices that were not used."""
    return (
        *_version_notes(facts),
        *_setting_notes(facts),
        *_device_notes(facts),
        *_communicator_notes(facts, hits),
    )


def _version_notes(facts: Facts) -> list[Note]:
    version_notes = []
    for kind, name in (("nccl", "NCCL"), ("nccl.driver", "the driver"), ("ofi.version", "plugin")):
        seen = facts.seen(kind)
        # PyTorch's error text gives the version without its build.
        values = {value.split("+")[0] for value in seen}
        if len(values) > 1:
            version_notes.append(
                Note(
                    id="versions-differ",
                    text=f"{name} differs within this log: {', '.join(sorted(values)[:6])}",
                    evidence=seen.evidence(),
                )
            )
    return version_notes


def _setting_notes(facts: Facts) -> list[Note]:
    setting_notes = []
    for name, values in sorted(facts.settings.items()):
        seen = facts.seen(f"setting {name}")
        if len(values) > 1:
            text = "; ".join(
                f"{value or '(empty)'} on {_hosts(nodes)}"
                for value, nodes in list(values.items())[:4]
            )
            setting_notes.append(
                Note(
                    id="settings-differ",
                    text=f"{name} differs: {text}",
                    evidence=seen.evidence(),
                )
            )
        bad = DEBUG_ONLY.get(name)
        if bad is not None and bad in values:
            setting_notes.append(
                Note(
                    id="debug-setting",
                    text=f"{name}={bad} is for finding faults and should not stay set",
                    evidence=(seen.first[bad],),
                )
            )
    if (gid := facts.seen("setting NCCL_IB_GID_INDEX")) and _newest(facts) >= AUTO_GID_FROM:
        setting_notes.append(
            Note(
                id="gid-index-set",
                text="NCCL_IB_GID_INDEX is set: from NCCL 2.21 on the GID is found by itself",
                evidence=gid.evidence(1),
            )
        )
    return setting_notes


def _hosts(nodes: set[str]) -> str:
    shown = ", ".join(sorted(nodes)[:4])
    return shown if len(nodes) <= 4 else f"{shown} and {len(nodes) - 4} more"


def _newest(facts: Facts) -> tuple[int, int]:
    best = (0, 0)
    for value in facts.seen("nccl"):
        parts = value.split(".")
        if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
            best = max(best, (int(parts[0]), int(parts[1])))
    return best


def _device_notes(facts: Facts) -> list[Note]:
    device_notes = []
    layers = facts.seen("link-layer")
    if "IB" in layers and len(layers.counts) > 1:
        device_notes.append(
            Note(
                id="mixed-link-layers",
                text="InfiniBand and Ethernet ports are in one list: name the right ones in "
                "NCCL_IB_HCA, with a leading =",
                evidence=layers.evidence(2),
            )
        )
    for net, devices in facts.devices.items():
        used = {number for other, number in facts.devices_used if other == net}
        idle = [name for number, (name, _) in sorted(devices.items()) if number not in used]
        # With few connections shown, an unused device shows nothing.
        if idle and len(used) >= 1 and sum(facts.devices_used.values()) >= 4 * len(devices):
            device_notes.append(
                Note(
                    id="devices-unused",
                    text=f"{net}: {len(idle)} of {len(devices)} devices carry no connection: "
                    + ", ".join(idle[:8]),
                    evidence=facts.seen("device-list").evidence(1),
                )
            )
    return device_notes


def _communicator_notes(facts: Facts, hits: Hits) -> list[Note]:
    communicator_notes = []
    for key, comm in facts.comms.items():
        # Of sampled lines a missing one shows nothing.
        whole = hits["nccl.init-start"].exact and hits["nccl.init-complete"].exact
        if not comm.ranks or comm.ranks < 2 or not hits.any("nccl.init-start") or not whole:
            continue
        absent = sorted(set(range(comm.ranks)) - comm.started)
        open_ranks = sorted(comm.started - comm.completed)
        if comm.started and absent and len(absent) <= comm.ranks // 2 and comm.ranks <= 100_000:
            communicator_notes.append(
                Note(
                    id="ranks-absent",
                    text=f"communicator {key}: {len(absent)} of {comm.ranks} ranks wrote nothing: "
                    + _few(absent),
                    evidence=tuple(comm.evidence[:1]),
                )
            )
        if open_ranks and comm.completed:
            communicator_notes.append(
                Note(
                    id="ranks-incomplete",
                    text=f"communicator {key}: {len(open_ranks)} ranks began and did not complete: "
                    + _few(open_ranks),
                    evidence=tuple(comm.evidence[:1]),
                )
            )
        if len(communicator_notes) >= 8:
            break
    return communicator_notes
