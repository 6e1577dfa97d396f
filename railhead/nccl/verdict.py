"""One word for a run: did it work, over what was wanted, and if not, at which stage did it end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from railhead.nccl.facts import Facts
from railhead.nccl.lines import Line
from railhead.nccl.reading import Claim
from railhead.nccl.signs import Evidence, Hits
from railhead.nccl.transport import RDMA, VERBS, Judge, net_kind
from railhead.nccl.trouble import VERDICT_OF

# GPUs without GPUDirect RDMA: for them its absence is no fault.
NO_GDR_GPUS = ("GeForce", "RTX 20", "RTX 30", "RTX 40", "RTX 50", "GB10", "Tesla T4", "TITAN")


# The grade of a verdict that a known cause may overrule.
WEAK = "weak"
# A DGX Spark sees its ports twice, the second time in PCI domain 2; its GPU has no GDR.
SPARK_PORT = "roceP2p1s0f"
# Bytes from which on a size shows bandwidth; GB/s that every RDMA port reaches; and GB/s of a port
# of 25 Gbit/s, the slowest that is sold for training.
BIG = 1 << 28
SLOWEST_RDMA = 2.0
SLOWEST_PORT = 3.125
# Of the line rate, as in `railhead nccl bench`; and the tests whose busbw is what the NICs carry.
LOW = 0.5
RING_TESTS = ("all_reduce", "all_gather", "reduce_scatter")
# Devices of which one is not enough for as many ranks.
MANY_DEVICES, MANY_RANKS = 4, 4
# Transports over which a run that ended was a good one.
GOOD = RDMA | {"p2p/shm-only"}
# Silence between two lines' times that is no waiting any more, in seconds.
STILL_SECONDS = 600
# As the last line of a log they say that their writer waits for others.
WAITING = (
    (re.compile(r"potentially cause a hang if this rank"), "the first barrier was entered"),
    (re.compile(r"No available shared memory broadcast block"), "a worker does not answer"),
    (re.compile(r"GLOBAL_RANK: \d+, MEMBER: \d+/\d+"), "a process waits for the others to join"),
)
# Of finding each other before NCCL begins: warnings of a look-up or port that was tried in vain.
RENDEZVOUS = frozenset(
    f"trouble.rendezvous-{what}"
    for what in ("address", "refused", "timeout", "unreachable", "barrier")
)


class Verdict:
    """The verdict of one reading.

    ``last`` is the log's last message, ``tail`` its last lines.
    """

    def __init__(
        self,
        facts: Facts,
        hits: Hits,
        judge: Judge,
        transport: Claim,
        gdr: Claim,
        last: str,
        tail: Sequence[Line] = (),
    ) -> None:
        self.last = last
        self.tail = tail
        self.facts = facts
        self.hits = hits
        self.judge = judge
        self.transport = transport
        self.gdr = gdr

    def claim(self) -> Claim:
        """The verdict, why, and the lines."""
        for step in (
            self._test_is_void,
            self._test_is_wrong,
            self._trouble,
            self._silence,
            self._slow_path,
            self._worked,
            self._stopped,
        ):
            if (claim := step()) is not None:
                return claim
        return Claim(value="other", why="the lines show neither success nor a failure", grade=WEAK)

    def _test_is_void(self) -> Claim | None:
        facts = self.facts
        if facts.repeated_ranks:
            return Claim(
                value="other",
                why="several processes call themselves the same rank: nccl-tests without MPI=1",
                evidence=tuple(facts.repeated_ranks),
            )
        single = len(facts.test_ranks) == 1 and 0 in facts.test_ranks
        started = self.hits["tests.start"]
        others = any((comm.ranks or 0) > 1 for comm in facts.comms.values())
        if single and started.count == 1 and not others and not facts.channels:
            largest = facts.largest
            if largest is None or largest.busbw == 0:
                return Claim(
                    value="other",
                    why="a test of one rank: its bus bandwidth is 0 by definition",
                    evidence=self.hits.evidence("tests.rank")[:1],
                )
        return None

    def _test_is_wrong(self) -> Claim | None:
        if self.facts.bad_rows:
            return Claim(
                value="other",
                why="the test found wrong values",
                evidence=tuple(self.facts.bad_rows),
            )
        for value, at in self.facts.seen("tests.bounds").first.items():
            if value.endswith("FAILED"):
                return Claim(value="other", why="the test found wrong values", evidence=(at,))
        return None

    def _finished_test(self) -> bool:
        return bool(self.facts.row_count) and self.hits.any("tests.average", "tests.bounds")

    def _trouble(self) -> Claim | None:
        if self._finished_test():
            return None
        # `trouble.VERDICT_OF` is in the order in which one line of failure explains another.
        for sign, verdict in VERDICT_OF.items():
            found = self.hits.evidence(sign)
            if not found:
                continue
            value = verdict
            if sign in RENDEZVOUS and self._began():
                continue
            begun = self.facts.channels or self.facts.networks
            if sign == "trouble.completion" and begun and not self._ran():
                value = "init-failure"
            if sign in ("trouble.error-return", "trouble.cuda") and self._ran():
                value = "other"
            why = {
                "timeout": "an operation ran into its time limit",
                "init-failure": "initialisation failed",
                "hang": "an operation never ended",
                "other": "the run failed",
            }[value]
            return Claim(value=value, why=f"{why} ({sign.split('.')[1]})", evidence=found[:2])
        if (
            self.hits.any("ofi.no-provider", "ofi.refused")
            and self.transport.value == "unknown"
            and not self._ran()
        ):
            return Claim(
                value="init-failure",
                why="libfabric has no provider for the plugin, or not one that it accepts",
                evidence=self.hits.evidence("ofi.no-provider")[:1]
                or self.hits.evidence("ofi.refused")[:1],
            )
        return None

    def _began(self) -> bool:
        """NCCL itself got to work, so the ranks had found each other."""
        return self._ran() or bool(self.facts.channels)

    def _silence(self) -> Claim | None:
        """The log ends where something should have followed at once."""
        facts = self.facts
        if self._launched_last() and self.hits.any("nccl.launch"):
            return Claim(
                value="hang",
                why="the first operation was launched and nothing follows",
                evidence=self.hits.evidence("nccl.launch")[-1:],
            )
        for pattern, what in WAITING:
            if pattern.search(self.last) and (at := self._shown(pattern)):
                return Claim(value="hang", why=f"{what}, and nothing follows", evidence=at)
        # The head's last line is that of the units.
        if self.hits.any("tests.header") and not facts.row_count and "(GB/s)" in self.last:
            return Claim(
                value="hang",
                why="the head of the test's table is printed and no row follows",
                evidence=self.hits.evidence("tests.header")[-1:],
            )
        if (still := self._stood_still()) is not None:
            return still
        hosts = {host for host, _, _ in facts.test_ranks.values()}
        listed = len(hosts) > 1 and not self.hits.any("tests.header") and not facts.row_count
        if listed and not facts.writers and " device " in self.last:
            return Claim(
                value="hang",
                why="the test lists its devices and nothing follows",
                evidence=self.hits.evidence("tests.rank")[-1:],
            )
        return None

    def _launched_last(self) -> bool:
        """After the first launch come only lines of other ranks' initialisation."""
        messages = [line.message for line in self.tail]
        launched = [n for n, message in enumerate(messages) if b"Launch mode " in message]
        return bool(launched) and all(b"NCCL INFO" in one for one in messages[launched[-1] :])

    def _shown(self, pattern: re.Pattern[str]) -> tuple[Evidence, ...]:
        found = self.hits.evidence("wait.last")
        return tuple(at for at in found if pattern.search(at.text))[-1:]

    def _stood_still(self) -> Claim | None:
        """NCCL's last line, and the next line of the log came only long after it."""
        before: tuple[datetime, Line] | None = None
        for line in self.tail:
            at = _when(line.time)
            if at is None:
                continue
            if before is not None and (at - before[0]).total_seconds() >= STILL_SECONDS:
                text = before[1].message.decode("utf-8", "replace")
                if "NCCL INFO" in text and not self.facts.row_count:
                    seconds = (at - before[0]).total_seconds()
                    return Claim(
                        value="hang",
                        why=f"nothing was written for {seconds:.0f} s after NCCL's line of "
                        f"{before[1].time}",
                        evidence=self.hits.evidence("nccl.bootstrap")[:1]
                        or self.hits.evidence("nccl.version")[:1]
                        or tuple(list(self.facts.hosts.values())[:1]),
                    )
            before = (at, line)
        return None

    def _ran(self) -> bool:
        return bool(self.facts.row_count) or self.hits.any(
            "nccl.rings", "nccl.trees", "nccl.init-complete", "nccl.destroy"
        )

    def _slow_path(self) -> Claim | None:
        facts = self.facts
        if self.transport.value == "socket":
            return self._tcp()
        largest = facts.largest
        big = largest is not None and largest.size >= BIG and largest.busbw > 0
        if self.transport.value == "unknown" and (slow := self._below_line_rate()) is not None:
            return slow
        if self.transport.value == "unknown" and big and largest is not None:
            if largest.busbw < SLOWEST_PORT and self.judge.several_nodes().value != "no":
                return Claim(
                    value="other",
                    why=f"{largest.busbw:g} GB/s busbw: slower than any RDMA port, and no line "
                    "tells the network",
                    evidence=(largest.at,),
                )
            return None
        if self.transport.value not in RDMA:
            return None
        if (idle := self._one_of_many()) is not None:
            return idle
        if (slow := self._below_line_rate()) is not None:
            return slow
        if self.transport.value not in VERBS:
            return None
        if self.gdr.value == "no" and not self._gpus_without_gdr():
            return Claim(
                value="low-bandwidth",
                why=f"no GPUDirect RDMA: {self.gdr.why}",
                evidence=self.gdr.evidence,
            )
        if big and largest is not None and largest.busbw < SLOWEST_RDMA:
            return Claim(
                value="low-bandwidth",
                why=f"{largest.busbw:g} GB/s busbw over RDMA: less than one port of 25 Gbit/s",
                evidence=(largest.at,),
            )
        layers = facts.seen("link-layer")
        alone = not facts.channels and not self.hits.any("nccl.init-start", "nccl.comm-nodes")
        if "IB" in layers and len(layers.counts) > 1 and alone:
            return Claim(
                value="low-bandwidth",
                why="an Ethernet port is used next to InfiniBand ports",
                evidence=layers.evidence(2),
            )
        return None

    def _one_of_many(self) -> Claim | None:
        """Many ranks share one device while others lie idle."""
        facts = self.facts
        ranks = max(len({rank for rank, _ in facts.routes}), self.judge.ranks() or 0)
        used: dict[str, set[int]] = {}
        for (net, number), count in facts.devices_used.items():
            if count:
                used.setdefault(net_kind(net) or net, set()).add(number)
        listed = {net_kind(net) or net: len(devices) for net, devices in facts.devices.items()}
        at = facts.seen("device-list").evidence(1)
        if "ofi" in used and "ofi" not in listed:
            found = facts.seen("ofi.provider")
            counts = [int(value.split()[-1]) for value in found if value.split()[-1].isdigit()]
            listed["ofi"], at = max(counts, default=0), found.evidence(1)
        for kind, numbers in used.items():
            many = listed.get(kind, 0)
            connections = sum(facts.channels.counts.values())
            if (
                many >= MANY_DEVICES
                and len(numbers) == 1
                and ranks >= MANY_RANKS
                and connections >= MANY_RANKS
            ):
                return Claim(
                    value="low-bandwidth",
                    why=f"all connections share one of {many} devices",
                    evidence=(*at, *facts.channels.evidence(1)),
                )
        return None

    def _below_line_rate(self) -> Claim | None:
        """A table of a collective beside the rate of the NICs, where the log tells it."""
        facts, row = self.facts, self.facts.largest
        rates = facts.seen("nic-rate")
        if row is None or row.size < BIG or not row.busbw or not rates:
            return None
        names = facts.seen("tests.name")
        ring = any(name.startswith(RING_TESTS) for name in names) if names else False
        # Of the collectives only all_reduce has a busbw above its algbw.
        if not ring and row.busbw <= row.algbw:
            return None
        several = self.judge.several_nodes().value
        if several == "no" or (several == "unknown" and self.transport.value != "unknown"):
            return None
        slowest = min(float(rate) for rate in rates)
        nics = max(1, len(facts.devices_used))
        bound = slowest / 8 * nics
        if row.busbw >= LOW * bound:
            return None
        return Claim(
            # Where no line tells whether the NICs carried it, it is not known to be their fault.
            value="low-bandwidth" if several == "yes" else "other",
            why=f"{row.busbw:g} GB/s busbw, and {nics} NIC(s) of {slowest:g} Gbit/s carry "
            f"{bound:g} GB/s",
            evidence=(row.at, *rates.evidence(1)),
        )

    def _gpus_without_gdr(self) -> bool:
        models = self.facts.seen("gpu-model")
        named = [name for devices in self.facts.devices.values() for name, _ in devices.values()]
        return any(gpu in model for model in models for gpu in NO_GDR_GPUS) or any(
            name.startswith(SPARK_PORT) for name in named
        )

    def _tcp(self) -> Claim:
        if at := self.facts.devices.get("FastSocket") and self.facts.seen("device-list"):
            return Claim(
                value="low-bandwidth",
                why="Google's FastSocket plugin carries the data: it is TCP",
                evidence=at.evidence(1),
            )
        return Claim(
            value="tcp-fallback",
            why=f"TCP carries the data: {self.transport.why}",
            evidence=self.transport.evidence,
        )

    def _worked(self) -> Claim | None:
        facts = self.facts
        largest = facts.largest
        if largest is not None and (largest.busbw > 0 or self.hits.any("tests.average")):
            return Claim(
                value="ok",
                why=f"the test gave results up to {largest.busbw:g} GB/s busbw",
                evidence=(largest.at,),
            )
        unfinished = self._unfinished()
        if unfinished is not None:
            return unfinished
        if warned := facts.seen("warning"):
            begun = self.hits.any("nccl.bootstrap", "nccl.version", "nccl.init-start")
            early = begun and not self._ran()
            return Claim(
                value="init-failure" if early else "other",
                why="NCCL warns of something, and no result shows that it went well",
                evidence=warned.evidence(2),
                grade=WEAK,
            )
        # NCCL's own view of a job that runs tells no more than that.
        if found := self.hits.evidence("ras.ok"):
            return Claim(
                value="ok",
                why="NCCL's own view is that all communicators run",
                evidence=found[:1],
                grade=WEAK,
            )
        if self.transport.value not in GOOD:
            return None
        for sign, why in (
            ("nccl.destroy", "communicators were closed in order"),
            ("nccl.init-complete", "initialisation completed"),
        ):
            if found := self.hits.evidence(sign):
                return Claim(
                    value="ok",
                    why=f"{why}, and the transport is {self.transport.value}",
                    evidence=(*found[:1], *self.transport.evidence[:1]),
                    grade=WEAK,
                )
        return None

    def _unfinished(self) -> Claim | None:
        """Every rank began and none ended: nothing else can explain the silence."""
        if (waiting := self._host_unfinished()) is not None:
            return waiting
        # Lines of many processes cut each other, so one that is missing shows nothing.
        if self.hits.any("nccl.init-complete", "nccl.rings", "nccl.trees", "nccl.destroy"):
            return None
        for comm in self.facts.comms.values():
            if comm.ranks and comm.ranks > 1 and len(comm.started) == comm.ranks:
                return Claim(
                    value="hang",
                    why=f"all {comm.ranks} ranks began initialisation and none completed it",
                    evidence=tuple(comm.evidence[:2]),
                )
        return None

    def _host_unfinished(self) -> Claim | None:
        """Some ranks completed, and of a whole host that began none did."""
        facts = self.facts
        if facts.counting:
            return None
        for comm in facts.comms.values():
            if not comm.completed or not comm.started - comm.completed:
                continue
            on: dict[str, set[int]] = {}
            for (node, _, _), (ranks, rank) in facts.rank_by_process.items():
                if node is not None and ranks == comm.ranks and rank in comm.started:
                    on.setdefault(node, set()).add(rank)
            for node, ranks_there in on.items():
                if len(ranks_there) > 1 and not ranks_there & comm.completed:
                    return Claim(
                        value="hang",
                        why=f"{len(ranks_there)} ranks began on {node} and none completed, "
                        "while others did",
                        evidence=tuple(comm.evidence[:2]),
                    )
        return None

    def _stopped(self) -> Claim | None:
        facts = self.facts
        if self.hits.any("nccl.init-start", "nccl.comm-nodes"):
            return None
        chosen = bool(facts.networks)
        bootstrapped = self.hits.any("nccl.bootstrap")
        # Up to 2.7 no line says which network was chosen, but its devices are listed.
        further = chosen or facts.channels or facts.seen("device-list")
        if bootstrapped and not further and self.hits.any("nccl.version"):
            return Claim(
                value="hang",
                why="nothing follows the bootstrap: NCCL did not get to choose a network",
                evidence=self.hits.evidence("nccl.bootstrap")[:2],
            )
        return None


def _when(text: str | None) -> datetime | None:
    """A line's time, where it has a date; without its zone, which a log keeps."""
    if text is None or not re.match(r"\d{4}-\d\d-\d\d[ T]", text):
        return None
    return datetime.fromisoformat(text[:19].replace(" ", "T"))
