"""The network that carried the data, and whether the NICs accessed the GPUs' memory directly.

The proof is the connections between nodes (``via NET/<net>/<device>``). What NCCL chose
(``Using network``), what it discovered (``NET/IB : Using [0]mlx5_0:1/IB``) and which library an
error came from stand in for them, in that order, when a log shows no connections. Where the lines
of the strongest kind contradict each other, the transport is unknown: a communicator has one
network, which it prints once it is chosen (NVIDIA/nccl src/init.cc, ncclNetInit) and again in each
of its connections (src/transport/net.cc, sendSetup and recvSetup).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from railhead.nccl.facts import Comm, Facts, SeenValues
from railhead.nccl.reading import UNKNOWN, Claim, Communicator
from railhead.nccl.signs import Evidence, Hits

# Of a ring within one node; and the most steps that looking for one takes.
RING_RANKS = 16
RING_STEPS = 2000
# GPUs of the largest NVLink domain, a GB200 or GB300 NVL72 rack.
NVLINK_DOMAIN = 72
VERBS = frozenset({"ib", "roce", "verbs"})
RDMA = VERBS | {"efa", "gib", "tcpx", "libfabric"}
# The grade of a transport that is unknown because lines name several.
CONTRADICTION = "contradiction"


def net_kind(name: str) -> str | None:
    """Return the family of a network by the name that NCCL prints: ``verbs`` is IB or RoCE."""
    low = name.lower()
    if low.startswith(("ib", "ibext")) or low == "ib/ext":
        return "verbs"
    if "libfabric" in low or low == "ofi":
        return "ofi"
    if low.startswith(("gpudirecttcpx", "tcpx", "fastrak")):
        return "tcpx"
    if low.startswith("gib"):
        return "gib"
    if low.startswith(("socket", "fastsocket")):
        return "socket"
    if low.startswith("ucx"):
        return "ucx"
    return None


class Judge:
    """Claims about one set of facts. ``hits`` are all signs that were seen."""

    def __init__(self, facts: Facts, hits: Hits) -> None:
        self.facts = facts
        self.hits = hits

    # One node or several.

    def several_nodes(self) -> Claim:
        """Return ``yes`` or ``no`` with the reason, ``unknown`` when the log does not tell."""
        facts = self.facts
        nodes = facts.seen("nodes")
        if nodes:
            several = [value for value in nodes if int(value) > 1]
            if several:
                return Claim(
                    value="yes",
                    why="a communicator spans several nodes (nNodes)",
                    evidence=(nodes.first[several[0]],),
                )
            return Claim(
                value="no", why="every communicator has nNodes 1", evidence=nodes.evidence(1)
            )
        if facts.channels:
            return Claim(
                value="yes", why="connections over a network", evidence=facts.channels.evidence(1)
            )
        hosts = {host for host, _, _ in facts.test_ranks.values()}
        if len(hosts) > 1:
            return Claim(
                value="yes",
                why="the test's ranks are on several hosts",
                evidence=self.hits.evidence("tests.rank")[:2],
            )
        if self._all_ranks_here():
            return Claim(
                value="no",
                why="all ranks of the job are on one host",
                evidence=self._one_host_evidence(),
            )
        if self._ring_within():
            return Claim(
                value="no",
                why="a ring of all ranks closes without a network",
                evidence=facts.seen("channel-local").evidence(),
            )
        writers = {node for node, _, _ in facts.writers}
        if len(writers) <= 1 and (alone := self.hits.evidence("launch.one-host")):
            return Claim(value="no", why="the job was started on one host", evidence=alone[:1])
        if len(writers) > 1:
            return Claim(
                value="yes",
                why=f"{len(writers)} hosts wrote NCCL lines",
                evidence=tuple(list(facts.hosts.values())[:2]),
            )
        return UNKNOWN

    def _all_ranks_here(self) -> bool:
        """Return whether one host alone wrote lines, and every rank of the job runs on it."""
        facts = self.facts
        hosts = {node for node, _, _ in facts.writers}
        tested = {host for host, _, _ in facts.test_ranks.values()}
        if len(hosts) > 1 or len(tested) > 1:
            return False
        total = self.ranks()
        if total is None or total < 2:
            return False
        if len(tested) == 1 and len(facts.test_ranks) == total:
            return True
        largest = max(facts.comms.values(), key=lambda item: item.ranks or 0, default=None)
        if hosts and largest is not None and len(largest.started) == total:
            return True
        # As many processes and GPUs as the job has ranks.
        if hosts and len(facts.writers) >= total:
            return True
        group = _joined(facts.local_hops)
        # The first rank and the last are on one host only when all are.
        return len(group) >= total or {0, total - 1} <= group

    def _ring_within(self) -> bool:
        """Return whether a ring stays on one host: a ring holds every rank of its communicator."""
        channels: dict[int, dict[int, set[int]]] = {}
        for channel, src, dst in self.facts.local_hops:
            channels.setdefault(channel, {}).setdefault(src, set()).add(dst)
        return any(_has_ring(hops) for hops in channels.values())

    def _one_host_evidence(self) -> tuple[Evidence, ...]:
        return self.hits.evidence("tests.rank")[:1] or tuple(list(self.facts.hosts.values())[:1])

    def ranks(self) -> int | None:
        """Return the size of the job, as the largest communicator or the test tells it."""
        facts = self.facts
        known = [comm.ranks for comm in facts.comms.values() if comm.ranks]
        thresholds = [int(value) // 8 for value in facts.seen("nccl.thresholds")]
        tested = [max(facts.test_ranks) + 1] if len(facts.test_ranks) > 1 else []
        ring = [number for number in (facts.ring, facts.tuned_ranks) if number > 1]
        all_known = known + [value for value in thresholds if value > 1] + tested + ring
        return max(all_known, default=None)

    # Transport.

    def transport(self) -> Claim:
        """Return one of the words of :class:`Reading`, with the lines that it rests on."""
        facts = self.facts
        if facts.channels:
            return self._contradiction(self._against_channels()) or self._of_channels()
        if (inside := self._inside_one_node()) is not None:
            return replace(inside, grade="connections")
        # A communicator of one rank needs none of what was chosen.
        alone = facts.comms and all(comm.ranks == 1 for comm in facts.comms.values())
        if alone and not facts.row_count:
            return UNKNOWN
        # On one host only a network is chosen all the same, and nothing goes over it: there an
        # error of the network's own library is the only proof of use. Where connections are shown
        # and all of them stay within hosts, what was chosen is not shown in use either.
        several = self.several_nodes().value
        if several == "yes" or (several == "unknown" and not facts.seen("channel-local")):
            if facts.networks:
                return self._of_names(facts.networks, "NCCL chose it", "choice")
            if devices := facts.seen("device-list"):
                return self._of_names(devices, "its devices were found", "devices")
        claim = self._of_library()
        if claim is UNKNOWN or claim.grade == CONTRADICTION:
            return claim
        # What a library says never stands against NCCL's own choice.
        names = {name: at for name, at in facts.networks.first.items() if net_kind(name)}
        if names and claim.value not in {
            self._named(net_kind(n) or "", (), "").value for n in names
        }:
            return Claim(
                value="unknown",
                why=f"{claim.why}, and NCCL chose {' and '.join(names)}",
                evidence=(*claim.evidence[:1], *names.values()),
                grade=CONTRADICTION,
            )
        return replace(claim, grade="library")

    def _of_channels(self) -> Claim:
        first = self.facts.channels.first
        kind = net_kind(next(iter(first))) or ""
        claim = self._named(kind, tuple(first.values())[:3], "connections between nodes")
        return claim if claim.grade else replace(claim, grade="connections")

    def _against_channels(self) -> dict[str, Evidence]:
        """Return what names networks as strongly as connections do, with its lines."""
        facts = self.facts
        names = dict(facts.channels.first)
        for name, at in facts.networks.first.items():
            if net_kind(name) or " " not in name:
                names.setdefault(name, at)
        names.update(self._sockets())
        return names

    def _sockets(self) -> dict[str, Evidence]:
        """Return TCP's devices, which are looked for only where no other network has any.

        So it is since NCCL 2.5 (src/init.cc, later src/plugin/net.cc); one before, which prints no
        ``Bootstrap`` and ``Ring`` for ``Channel``, looked for them to bootstrap with.
        """
        old = any("Ring " in at.text for at in self.facts.channels.first.values())
        if old and not self.hits.any("nccl.bootstrap"):
            return {}
        listed = self.facts.seen("device-list").first
        return {name: at for name, at in listed.items() if net_kind(name) == "socket"}

    def _contradiction(self, names: Mapping[str, Evidence]) -> Claim | None:
        """Claim nothing where the names are of several kinds of network."""
        kinds: dict[str, tuple[str, Evidence]] = {}
        for name, at in names.items():
            kinds.setdefault(net_kind(name) or name, (name, at))
        if len(kinds) < 2:
            return None
        return Claim(
            value="unknown",
            why="lines contradict each other: " + ", ".join(name for name, _ in kinds.values()),
            evidence=tuple(at for _, at in kinds.values())[:3],
            grade=CONTRADICTION,
        )

    def _inside_one_node(self) -> Claim | None:
        facts = self.facts
        if any(comm.mnnvl for comm in facts.comms.values()) or "1" in {
            value.split()[0] for value in facts.seen("nccl.mnnvl")
        }:
            local = facts.seen("channel-local")
            if local or self.hits.any("nccl.rings", "nccl.trees"):
                return Claim(
                    value="p2p/shm-only",
                    why="one NVLink domain of several nodes (MNNVL), no connection over a NIC",
                    evidence=self.hits.evidence("nccl.mnnvl")[:1]
                    or self.hits.evidence("nccl.comm-nodes")[:1],
                )
        several = self.several_nodes()
        if several.value == "no" and self._went_on():
            return Claim(
                value="p2p/shm-only",
                why=f"the network was not used: {several.why}",
                evidence=several.evidence,
            )
        if several.value == "yes":
            return self._too_fast_for_nics()
        if (item := self._one_process()) is not None:
            return item
        peers = self._peer_channels()
        return peers or self._too_fast_for_nics()

    def _went_on(self) -> bool:
        """Return whether NCCL went on from the choice of a network: to connections or results."""
        facts = self.facts
        return bool(
            facts.seen("channel-local")
            or self.hits.any("nccl.rings", "nccl.trees", "nccl.init-complete", "nccl.channels")
            or facts.row_count
        )

    def _peer_channels(self) -> Claim | None:
        """Claim NVLink by the channels to a peer: over a network 2, over NVLink all there are."""
        for value in self.facts.seen("nccl.channels"):
            numbers = [int(number) for number in value.split()]
            p2p, peer = numbers[-2], numbers[-1]
            ranks = self.ranks()
            if peer >= 16 and peer == p2p and ranks is not None and ranks <= 16:
                return Claim(
                    value="p2p/shm-only",
                    why=f"{peer} channels to each of {ranks} ranks: NVLink reaches all of them",
                    evidence=self.hits.evidence("nccl.channels")[:1],
                )
        return None

    def _too_fast_for_nics(self) -> Claim | None:
        peak = self.facts.peak
        if peak is None:
            return None
        gpus = self._gpus_of_a_node()
        ranks = self.ranks() or self._ranks_by_factor()
        # Beyond one rack a fast result may be NVLink within racks and NICs between them.
        if ranks is not None and ranks > NVLINK_DOMAIN and gpus != 8:
            return None
        bound = fastest_node_gigabytes(gpus)
        if bound is None or peak.algbw <= bound:
            return None
        return Claim(
            value="p2p/shm-only",
            why=f"{peak.algbw:g} GB/s algbw is more than any node's NICs carry ({bound:g} GB/s)",
            evidence=(peak.at,),
        )

    def _one_process(self) -> Claim | None:
        """Claim one node for a test whose only process has as many GPUs as its table has ranks."""
        starts = self.facts.seen("tests.start")
        if self.hits["tests.start"].count != 1 or len(starts.counts) != 1:
            return None
        threads, gpus = (int(number) for number in next(iter(starts)).split())
        if threads * gpus < 2 or self._ranks_by_factor() != threads * gpus:
            return None
        return Claim(
            value="p2p/shm-only",
            why=f"one process with {threads * gpus} GPUs, and a table of as many ranks",
            evidence=(*starts.evidence(1), *self.hits.evidence("tests.row")[-1:]),
        )

    def _ranks_by_factor(self) -> int | None:
        """Return the ranks n from busbw / algbw of an all_reduce, which is 2(n-1)/n."""
        row = self.facts.largest
        if row is None or row.algbw < 10 or not 1.0 < row.busbw / row.algbw < 2.0:
            return None
        return round(2 / (2 - row.busbw / row.algbw))

    def _gpus_of_a_node(self) -> int | None:
        """Return a node's GPU count by a test's devices, if the last rank has its last GPU."""
        ranks = self.facts.test_ranks
        if not ranks:
            return None
        last = max(ranks)
        gpus = int(ranks[last][2]) + 1
        return gpus if gpus >= 4 and (last + 1) % gpus == 0 else None

    def _of_names(self, names: SeenValues, why: str, grade: str) -> Claim:
        known = {name: at for name, at in names.first.items() if net_kind(name)}
        if known and (doubt := self._contradiction(known | self._sockets())) is not None:
            return doubt
        for name, at in known.items():
            claim = self._named(net_kind(name) or "", (at,), why)
            return claim if claim.grade else replace(claim, grade=grade)
        return UNKNOWN

    def _named(self, kind: str, evidence: tuple[Evidence, ...], why: str) -> Claim:
        if kind == "verbs":
            return self._verbs(evidence, why)
        if kind == "ofi":
            return self._ofi(evidence, why)
        if kind == "ucx":
            return self._verbs(evidence, why) if self._layers() else UNKNOWN
        if kind in ("socket", "tcpx", "gib"):
            return Claim(value=kind, why=why, evidence=evidence)
        return UNKNOWN

    # InfiniBand or Ethernet below the verbs.

    def _layers(self) -> dict[str, Evidence]:
        """Return the link layers of the devices in use, or of all if it is not known which are."""
        facts = self.facts
        used = {number for net, number in facts.devices_used if net_kind(net) == "verbs"}
        listed = [
            (number, layer)
            for net, devices in facts.devices.items()
            if net_kind(net) in ("verbs", "ucx")
            for number, (_, layer) in devices.items()
            if layer in facts.seen("link-layer")
        ]
        of_used = [(number, layer) for number, layer in listed if number in used]
        return {layer: facts.seen("link-layer").first[layer] for _, layer in of_used or listed}

    def _verbs(self, evidence: tuple[Evidence, ...], why: str) -> Claim:
        layers = self._layers()
        if len(layers) == 1:
            [(layer, shown)] = layers.items()
            return Claim(
                value="ib" if layer == "IB" else "roce",
                why=f"{why}; the port's link layer is {layer}",
                evidence=(*evidence[:2], shown),
            )
        ethernet, infiniband = self._ethernet_signs(), self._infiniband_signs()
        for value, at in (("roce", ethernet), ("ib", infiniband)):
            if at is not None and (ethernet is None or infiniband is None):
                return Claim(
                    value=value, why=f"{why}; {at[1]}", evidence=(*evidence[:2], *at[0][:1])
                )
        reported = (
            "both are named" if layers or (ethernet and infiniband) else "no line tells which"
        )
        return Claim(
            value="verbs",
            why=f"{why}: verbs, over InfiniBand or Ethernet ({reported})",
            evidence=(*evidence[:2], *layers.values()),
        )

    def _ethernet_signs(self) -> tuple[tuple[Evidence, ...], str] | None:
        return self._first_sign(
            ("verbs.gid", "GIDs are printed of Ethernet ports only"),
            ("verbs.no-such-device", "a GID's network device exists on Ethernet only"),
            ("verbs.link-ethernet", "a tool's output says that the port is Ethernet"),
            ("verbs.roce", "RoCE is named"),
        )

    def _infiniband_signs(self) -> tuple[tuple[Evidence, ...], str] | None:
        return self._first_sign(
            ("verbs.lid", "LIDs are printed of InfiniBand ports only"),
            ("verbs.link-ib", "a tool's output says that the port is InfiniBand"),
            ("verbs.ib-device", "a device is named after its InfiniBand port"),
            ("verbs.ipoib", "its handshakes go over IPoIB"),
        )

    def _first_sign(self, *signs: tuple[str, str]) -> tuple[tuple[Evidence, ...], str] | None:
        for sign, why in signs:
            if result := self.hits.evidence(sign):
                return result, why
        return None

    def _ofi(self, evidence: tuple[Evidence, ...], why: str) -> Claim:
        providers = self.facts.seen("ofi.provider")
        families = {
            value.split()[0].lower().split("-")[0].split(";")[0]: value for value in providers
        }
        if len(families) > 1:
            return Claim(
                value="unknown",
                why=f"lines contradict each other: providers {', '.join(families)}",
                evidence=tuple(providers.first[value] for value in families.values())[:3],
                grade=CONTRADICTION,
            )
        for value in providers:
            name = value.split()[0].lower()
            at = (*evidence[:2], providers.first[value])
            if name.startswith("efa"):
                return Claim(value="efa", why=f"{why}; libfabric's provider is efa", evidence=at)
            if name.startswith(("tcp", "sockets", "udp", "net")):
                return Claim(
                    value="socket", why=f"{why}; libfabric's provider is {name}", evidence=at
                )
            if name.startswith("verbs"):
                return self._verbs(at, f"{why}; libfabric's provider is verbs")
            return Claim(value="unknown", why=f"libfabric's provider {name} is not a known one")
        if self.hits.any("ofi.other-provider"):
            return UNKNOWN
        # The plugin runs over TCP as well (its provider `tcp`): its name alone proves no EFA.
        if at_efa := self.hits.evidence("ofi.efa-named") or self.hits.evidence("ofi.efa"):
            return Claim(
                value="efa", why=f"{why}; EFA is named", evidence=(*evidence[:2], at_efa[0])
            )
        # NCCL adds it where the plugin registers GPU memory (src/transport/net.cc, useGdr).
        direct = self.facts.seen("channel-gdr").first
        if at_direct := [at for name, at in direct.items() if net_kind(name) == "ofi"]:
            return Claim(
                value="libfabric",
                why=f"{why} end in /GDRDMA, and no line tells libfabric's provider",
                evidence=(*evidence[:1], at_direct[0]),
            )
        return Claim(value="unknown", why=f"{why}, and no line tells libfabric's provider")

    def _of_library(self) -> Claim:
        """Claim a transport by the library that complains, which is the weakest evidence."""
        hits = self.hits
        if at := self.facts.seen("ofi.provider"):
            return self._ofi(at.evidence(1), "the plugin chose a provider")
        if hits.any("ofi.no-provider"):
            if hits.any("verbs.no-library"):
                return Claim(
                    value="socket",
                    why="neither libfabric nor verbs had a device: only TCP is left",
                    evidence=(
                        *hits.evidence("ofi.no-provider")[:1],
                        *hits.evidence("verbs.no-library")[:1],
                    ),
                )
            return UNKNOWN
        if at_named := hits.evidence("gcp.named"):
            kind = "gib" if at_named[0].groups["net"] == "gIB" else "tcpx"
            return Claim(value=kind, why="Google's network is named", evidence=at_named[:1])
        if at_error := hits.evidence("ofi.error") or hits.evidence("ofi.efa"):
            return self._ofi(at_error[:1], "libfabric's plugin was in use")
        if at_error := hits.evidence("verbs.error") or hits.evidence("verbs.stack"):
            return self._verbs(at_error[:1], "the verbs network was in use")
        if (named := self._of_gdr_lines()) is not None:
            return named
        if at_error := hits.evidence("socket.error") or hits.evidence("socket.stack"):
            return Claim(value="socket", why="NCCL's TCP network complains", evidence=at_error[:1])
        if hits.any("nccl.proxy-error") and (at_error := hits.evidence("socket.io")):
            return Claim(
                value="socket",
                why="the thread that moves data lost a TCP connection",
                evidence=(*at_error[:1], *hits.evidence("nccl.proxy-error")[:1]),
            )
        return UNKNOWN

    def _of_gdr_lines(self) -> Claim | None:
        """Claim the network whose devices NCCL names when it says if they have GPUDirect RDMA.

        The line is of each device of the network that was chosen, TCP's too, with that network's
        name (src/graph/topo.cc, ncclTopoPopulateNics); the one of a GPU and a device is only of
        devices that have it (src/graph/paths.cc, ncclTopoCheckGdr).
        """
        named = {
            (net or "IB").strip(): at
            for at in self.hits.evidence("gdr.hca")
            for net in (at.groups.get("net"),)
        }
        if named:
            return self._contradiction(named) or self._named(
                net_kind(next(iter(named))) or "",
                tuple(named.values())[:1],
                "NCCL says of its devices if they have GPUDirect RDMA",
            )
        if at := self.hits.evidence("gdr.gpu"):
            return self._verbs(at[:1], "GPUDirect RDMA is about verbs devices")
        return None

    def link_layer(self, transport: Claim) -> Claim:
        """Return the link layer of the ports that verbs use: InfiniBand or Ethernet."""
        if transport.value not in ("ib", "roce"):
            return UNKNOWN
        for layer, at in self._layers().items():
            if (layer == "IB") == (transport.value == "ib"):
                return Claim(value=layer, why="the device list shows it", evidence=(at,))
        if transport.value == "roce" and (result := self._ethernet_signs()):
            return Claim(value="RoCE", why=result[1], evidence=result[0][:1])
        if transport.value == "ib" and (result := self._infiniband_signs()):
            return Claim(value="IB", why=result[1], evidence=result[0][:1])
        return UNKNOWN

    def communicator(self, key: str, comm: Comm) -> Communicator:
        """Return one communicator, with a transport where its own connections show it."""
        transport, gdr = "unknown", "unknown"
        nodes = comm.nodes
        if nodes is None and comm.ranks == self.ranks():
            # Another communicator of all ranks tells on how many nodes they are.
            same = (item.nodes for item in self.facts.comms.values() if item.ranks == comm.ranks)
            nodes = next((count for count in same if count), None)
        if comm.nets:
            kind = net_kind(comm.nets.most_common(1)[0][0]) or ""
            transport = self._named(kind, (), "").value
            gdr = "no" if comm.staged else "yes"
            if transport == "socket":
                gdr = "no"
        elif nodes == 1 or (comm.mnnvl and comm.completed):
            transport, gdr = "p2p/shm-only", "no"
        elif (nodes or 0) > 1 and len(self.facts.channels.counts) == 1:
            # Its own connections were not looked at; all that were went over one network.
            whole = self._of_channels()
            transport, gdr = whole.value, self.gdr(whole)[0].value
        return Communicator(
            id=key,
            ranks=comm.ranks,
            nodes=nodes,
            started=frozenset(comm.started),
            completed=frozenset(comm.completed),
            aborted=frozenset(comm.aborted),
            transport=transport,
            gdr=gdr,
            evidence=tuple(comm.evidence),
        )

    # GPUDirect RDMA.

    def gdr(self, transport: Claim) -> tuple[Claim, str]:
        """Return yes, no or unknown; and a finer word, which may also be ``partly``."""
        facts = self.facts
        direct, staged = facts.seen("channel-gdr"), facts.seen("channel-no-gdr")
        if transport.value == "socket":
            return (
                Claim(
                    value="no", why="TCP copies through host memory", evidence=transport.evidence
                ),
                "no",
            )
        if direct and staged:
            return self._mixed_gdr()
        if direct:
            return (
                Claim(
                    value="yes",
                    why="every connection over the network ends in /GDRDMA",
                    evidence=direct.evidence(),
                ),
                "yes",
            )
        if staged:
            return (
                Claim(
                    value="no",
                    why="no connection over the network ends in /GDRDMA",
                    evidence=staged.evidence(),
                ),
                "no",
            )
        if transport.value == "p2p/shm-only":
            ran = self.hits.any("nccl.rings", "nccl.trees", "nccl.init-complete", "nccl.channels")
            proven = ran or bool(facts.seen("nodes"))
            return (
                (Claim(value="no", why="no NIC was used", evidence=transport.evidence), "no")
                if proven
                else (UNKNOWN, "unknown")
            )
        if transport.value == "efa" and (lacks := self.hits.evidence("gdr.efa-lacks")):
            return Claim(value="no", why="the EFA device has no RDMA", evidence=lacks[:1]), "no"
        return self._gdr_of_abilities()

    def _mixed_gdr(self) -> tuple[Claim, str]:
        facts = self.facts
        at = (
            *facts.seen("channel-gdr").evidence(1),
            *facts.seen("channel-no-gdr").evidence(2),
        )
        routes = facts.routes
        received = [route for (_, way), route in routes.items() if way == "receive"]
        sent = [route for (_, way), route in routes.items() if way == "send"]
        if (
            received
            and sent
            and not any(route.staged for route in received)
            and not any(route.direct for route in sent)
        ):
            return (
                Claim(
                    value="yes",
                    why="all receive with GPUDirect RDMA and none sends with it, as is the default "
                    "without NVLink (NCCL_NET_GDR_READ)",
                    evidence=at,
                ),
                "receive-only",
            )
        return (
            Claim(
                value="no",
                why="only some connections end in /GDRDMA: the others set the pace",
                evidence=at,
            ),
            "partly",
        )

    def _gdr_of_abilities(self) -> tuple[Claim, str]:
        facts = self.facts
        for value, at in facts.seen("nccl.rings").first.items():
            if value.endswith("1") and value:
                return Claim(value="yes", why="the rings use GDR", evidence=(at,)), "yes"
            if value.endswith("0") and self.several_nodes().value == "yes":
                return Claim(value="no", why="the rings do not use GDR", evidence=(at,)), "no"
        for kind, why in (("gdr.gpu", "between GPU and NIC"), ("gdr.hca rdma", "of the NICs")):
            seen = facts.seen(kind)
            if "Disabled" in seen and "Enabled" in seen:
                return (
                    Claim(
                        value="no",
                        why=f"GPUDirect RDMA {why} is disabled for some",
                        evidence=(seen.first["Disabled"], seen.first["Enabled"]),
                    ),
                    "partly",
                )
            if "Disabled" in seen:
                return (
                    Claim(
                        value="no",
                        why=f"GPUDirect RDMA {why} is disabled",
                        evidence=(seen.first["Disabled"],),
                    ),
                    "no",
                )
            if "Enabled" in seen and kind == "gdr.gpu":
                return (
                    Claim(
                        value="yes",
                        why=f"GPUDirect RDMA {why} is enabled",
                        evidence=(seen.first["Enabled"],),
                    ),
                    "yes",
                )
        return UNKNOWN, "unknown"


def _joined(hops: Iterable[tuple[int, int, int]]) -> set[int]:
    """Return the largest group of the ranks that hops within a host connect."""
    parent: dict[int, int] = {}

    def top(rank: int) -> int:
        while parent.setdefault(rank, rank) != rank:
            parent[rank] = rank = parent[parent[rank]]
        return rank

    for _, src, dst in hops:
        parent[top(src)] = top(dst)
    groups: dict[int, set[int]] = {}
    for rank in list(parent):
        groups.setdefault(top(rank), set()).add(rank)
    return max(groups.values(), key=len, default=set())


def _has_ring(hops: dict[int, set[int]]) -> bool:
    """Return whether the hops form a ring of all ranks, three or more; the search is bounded."""
    size = len(hops)
    if not 3 <= size <= RING_RANKS:
        return False
    first = min(hops)
    stack = [(first, frozenset({first}))]
    for _ in range(RING_STEPS):
        if not stack:
            return False
        at, been = stack.pop()
        for onward in hops.get(at, ()):
            if onward == first and len(been) == size:
                return True
            if onward not in been and onward in hops:
                stack.append((onward, been | {onward}))
    return False


@cache
def fastest_node_gigabytes(gpus: int | None) -> float | None:
    """Return the most that one node's NICs carry, GB/s, by the catalogue; None without a rate.

    Args:
        gpus: GPUs of the node, where known: NICs come with GPUs.
    """
    from railhead.machines import MACHINES

    rates = [
        (machine.gpus, sum(nic.rate_gbps for nic in machine.nics) / 8)
        for machine in MACHINES.values()
        if machine.gpus and any(nic.rate_gbps for nic in machine.nics)
    ]
    if not rates:
        return None
    if gpus is None:
        return max(rate for _, rate in rates)
    return max(rate / count for count, rate in rates) * gpus
