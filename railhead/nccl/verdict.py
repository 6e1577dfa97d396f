"""One word for a run: did it work, over the wanted transport, and if not, where did it end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from railhead.nccl.facts import Facts, Row
from railhead.nccl.lines import Line
from railhead.nccl.reading import Claim
from railhead.nccl.signs import Evidence, Hits
from railhead.nccl.transport import CONTRADICTION, RDMA, VERBS, Judge, net_kind
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
# From here on a size shows a tenth of the bandwidth, and a table whether it falls.
SOME = 1 << 22
FALLING = 1 << 24
SLOWEST_RDMA = 2.0
SLOWEST_PORT = 3.125
# Of the line rate, as in `railhead nccl bench`; and the tests whose busbw is what the NICs carry.
LOW = 0.5
VERY_LOW = 0.2
RING_TESTS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
# A row below so much of a smaller size's.
FALLEN = 0.6
# GB/s of half a port of 400 Gbit/s, the fastest that is sold: below it a result may be that of any
# network, slow or not, and only a rate tells.
TELLING = 25.0
# Lines that must agree before no failure is called a success: ranks are two at least, and each
# prints its network and its connections.
AGREEING = 2
# GPUs beside which no port below 100 Gbit/s is sold, and that GPUDirect RDMA reaches.
FAST_GPUS = ("A100", "A800", "H100", "H800", "H200", "H20", "GH200", "B200", "B300", "MI300")
FAST_PORT = 12.5
# Such a port is beside these too, and GPUDirect RDMA does not reach them.
SLOW_BUS = ("GB10",)
# Devices of which one is not enough for as many ranks.
MANY_DEVICES, MANY_RANKS = 4, 4
# Transports over which a run that ended was a good one.
GOOD = RDMA | {"p2p/shm-only"}
# Silence between two lines' times that is no waiting any more, in seconds.
STILL_SECONDS = 600
# As the last line of a log they say that their writer waits for others.
WAITING = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        # ProcessGroupNCCL.cpp of PyTorch 1.8 to 2.9, and its distributed_c10d.py before 2.1.
        (r"cause a hang if (?:this )?rank", "the first barrier was entered"),
        (r"Added key: store_based_barrier_key", "a process waits for the others in the store"),
        # vLLM: shm_broadcast.py, pynccl.py, parallel_state.py, core_client.py and v1/utils.py.
        (r"No available shared memory broadcast block", "a worker does not answer"),
        (r"(?:vLLM|sglang) is using nccl==", "the first communicator is being made"),
        (r"distributed_init_method=\S+ backend=", "a process waits for the others to join"),
        (r"Waiting for \d+ (?:local, \d+ remote )?core engine proc", "an engine does not answer"),
        # Lightning, torchvision's references (and DETR and what copied them), SGLang, Megatron.
        (r"GLOBAL_RANK: \d+, MEMBER: \d+/\d+", "a process waits for the others to join"),
        (r"processes registered\. Starting", "all have joined"),
        (r"\| distributed init \(rank \d", "a process waits for the others to join"),
        (r"Init torch distributed begin", "a process waits for the others to join"),
        (r"> initializing torch distributed", "a process waits for the others to join"),
        # SGLang and vLLM, parallel_state.py: what comes next is its first collective.
        (r"Custom allreduce is disabled because this process group spans", "the group is made"),
        # NCCL's proxy while it connects: proxy.cc.
        (r"ncclPollProxyResponse|matches expected opId=", "NCCL connects"),
        # A bar of tqdm before the first step has ended.
        (r"\b0%\|[^|]{0,200}\| 0/\d+ \[\d\d:\d\d<\?", "the first step has begun"),
    )
)
# Lines after it that say nothing: rules, and a server's report that nothing moves.
IDLE = re.compile(r"^[\s\-*=#_+|.]*$|throughput: 0\.0 tokens/s")
# Of finding each other before NCCL begins: warnings of a look-up or port that was tried in vain.
RENDEZVOUS = frozenset(
    f"trouble.rendezvous-{what}"
    for what in ("address", "refused", "timeout", "unreachable", "barrier")
)


class LogVerdict:
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
        """Return the verdict, why, and the lines."""
        for step in (
            self._test_is_void,
            self._test_is_wrong,
            self._trouble,
            self._silence,
            self._contradicted,
            self._slow_path,
            self._worked,
            self._stopped,
            self._wired,
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
            result = self.hits.evidence(sign)
            if not result:
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
            return Claim(value=value, why=f"{why} ({sign.split('.')[1]})", evidence=result[:2])
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
        """Return whether NCCL itself began to work, so the ranks had reached each other."""
        return self._ran() or bool(self.facts.channels)

    def _silence(self) -> Claim | None:
        """Claim a hang where the log ends although something should have followed at once."""
        facts = self.facts
        if self._launched_last() and self.hits.any("nccl.launch"):
            return Claim(
                value="hang",
                why="the first operation was launched and nothing follows",
                evidence=self.hits.evidence("nccl.launch")[-1:],
            )
        last = self._last_word()
        for pattern, what in WAITING:
            if pattern.search(last) and (at := self._shown(pattern)):
                return Claim(value="hang", why=f"{what}, and nothing follows", evidence=at)
        # The head's last line is that of the units; NCCL connects for the first row.
        headed = "(GB/s)" in last or "NCCL INFO" in last
        if self.hits.any("tests.header") and not facts.row_count and headed:
            return Claim(
                value="hang",
                why="the head of the test's table is printed and no row follows",
                evidence=self.hits.evidence("tests.header")[-1:],
            )
        if (apart := self._different_calls()) is not None:
            return apart
        if (still := self._stood_still()) is not None:
            return still
        if (stopped := self._connecting(last)) is not None:
            return stopped
        hosts = {host for host, _, _ in facts.test_ranks.values()}
        listed = not self.hits.any("tests.header") and not facts.row_count
        ended = self.hits.any("nccl.init-complete", "nccl.destroy", "nccl.rings", "nccl.trees")
        # The test prints the head of its table once its communicators are there.
        waits = bool(facts.writers) and "NCCL INFO" in last and not ended and not facts.channels
        if listed and waits and len(facts.test_ranks) > 1:
            return Claim(
                value="hang",
                why="the test lists its devices, and the initialisation does not end",
                evidence=(*self.hits.evidence("tests.rank")[-1:], *self.transport.evidence),
            )
        if listed and len(hosts) > 1 and not facts.writers and " device " in self.last:
            return Claim(
                value="hang",
                why="the test lists its devices and nothing follows",
                evidence=self.hits.evidence("tests.rank")[-1:],
            )
        return None

    def _connecting(self, last: str) -> Claim | None:
        """Claim a hang where several processes began to connect and none has finished."""
        known = self.facts.planned & self.facts.connecting
        if len(known) < 2 or self._ran() or "NCCL INFO" not in last or " via " not in last:
            return None
        return Claim(
            value="hang",
            why=f"{len(known)} processes connect, the log ends, and none has all its connections",
            evidence=self.hits.evidence("nccl.tree-plan")[:2],
        )

    def _launched_last(self) -> bool:
        """Return whether only other ranks' initialisation follows the last launch."""
        messages = [line.message for line in self.tail]
        launched = [n for n, message in enumerate(messages) if b"Launch mode " in message]
        return bool(launched) and all(b"NCCL INFO" in item for item in messages[launched[-1] :])

    def _last_word(self) -> str:
        """Return the last message that says something."""
        for line in reversed(self.tail):
            text = line.message.decode("utf-8", "replace")
            if not IDLE.search(text):
                return text
        return self.last

    def _different_calls(self) -> Claim | None:
        """Claim a hang where ranks of one communicator call different collectives."""
        hit = self.hits["nccl.calls"]
        # Of many calls only the first are kept, and of a log that goes on they are no news.
        if hit.count != len(hit.evidence):
            return None
        calls: dict[tuple[str | None, str], dict[str, Evidence]] = {}
        for at in hit.evidence:
            calls.setdefault((at.node, at.groups["comm"]), {})[at.groups["count"]] = at
        # Of several communicators nobody knows which ranks share one.
        if {int(at.groups["n"]) for at in hit.evidence} != {len(calls)}:
            return None
        for count in dict.fromkeys(count for own in calls.values() for count in own):
            named = {own[count].groups["op"]: own[count] for own in calls.values() if count in own}
            if len(named) > 1:
                return Claim(
                    value="hang",
                    why=f"at operation {count} some ranks call {' and others '.join(named)}",
                    evidence=tuple(named.values())[:3],
                )
        return None

    def _shown(self, pattern: re.Pattern[str]) -> tuple[Evidence, ...]:
        result = self.hits.evidence("wait.last")
        return tuple(at for at in result if pattern.search(at.text))[-1:]

    def _stood_still(self) -> Claim | None:
        """Claim a hang where the next line of the log came only long after NCCL's last line."""
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

    def _contradicted(self) -> Claim | None:
        """Claim neither success nor fault where lines contradict each other about the network."""
        if self.transport.grade != CONTRADICTION:
            return None
        if (waiting := self._unfinished()) is not None:
            return waiting
        return Claim(value="other", why=self.transport.why, evidence=self.transport.evidence)

    def _slow_path(self) -> Claim | None:
        facts = self.facts
        if self.transport.value == "socket":
            return self._tcp()
        largest = facts.largest
        big = largest is not None and largest.size >= BIG and largest.busbw > 0
        if self.transport.value == "unknown" and (slow := self._below_line_rate()) is not None:
            return slow
        if self.transport.value == "unknown":
            return self._slow_somewhere()
        if self.transport.value not in RDMA:
            return None
        for step in (self._one_of_many, self._below_line_rate, self._falling):
            if (slow := step()) is not None:
                return slow
        # EFA reaches the memory of some GPUs only.
        able = not self._gpus_without_gdr() if self._on_verbs() else self._fast_gpus()
        if self.gdr.value == "no" and able:
            return Claim(
                value="low-bandwidth",
                why=f"no GPUDirect RDMA: {self.gdr.why}",
                evidence=self.gdr.evidence,
            )
        if not self._on_verbs():
            return None
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

    def _slow_somewhere(self) -> Claim | None:
        """Claim low bandwidth over a network that no line names: not ok, and maybe not RDMA."""
        row = self.facts.largest
        if row is None or not row.busbw or self.judge.several_nodes().value == "no":
            return None
        port = LOW * FAST_PORT if self._fast_gpus() else SLOWEST_PORT
        if row.size >= BIG // 2 and row.busbw < port:
            why = f"{row.busbw:g} GB/s busbw: slower than any RDMA port"
        elif self.gdr.value == "no" and self._fast_gpus():
            why = "connections without GPUDirect RDMA"
        elif (falling := self._falling()) is not None:
            why = falling.why
        else:
            return None
        return Claim(value="other", why=f"{why}, and no line tells the network", evidence=(row.at,))

    def _on_verbs(self) -> bool:
        return self.transport.value in VERBS

    def _fast_gpus(self, *more: str) -> bool:
        models = self.facts.seen("gpu-model")
        return any(gpu in model for model in models for gpu in (*FAST_GPUS, *more))

    def _falling(self) -> Claim | None:
        """Claim low bandwidth where a size is much slower than a smaller one, between nodes."""
        several = self.judge.several_nodes().value
        if several == "no":
            return None
        best: Row | None = None
        before = 0
        for row in self.facts.rows:
            if row.size < before:
                best = None
            before = row.size
            if row.size < FALLING:
                continue
            if best is not None and row.busbw < FALLEN * best.busbw:
                return Claim(
                    value="low-bandwidth" if several == "yes" else "other",
                    why=f"{row.busbw:g} GB/s busbw at {row.size} bytes, after {best.busbw:g} at "
                    f"{best.size}",
                    evidence=(best.at, row.at),
                )
            if best is None or row.busbw > best.busbw:
                best = row
        return None

    def _one_of_many(self) -> Claim | None:
        """Claim low bandwidth where many ranks share one device while others lie idle."""
        facts = self.facts
        ranks = max(len({rank for rank, _ in facts.routes}), self.judge.ranks() or 0)
        used: dict[str, set[int]] = {}
        for (net, number), count in facts.devices_used.items():
            if count:
                used.setdefault(net_kind(net) or net, set()).add(number)
        listed = {net_kind(net) or net: len(devices) for net, devices in facts.devices.items()}
        at = facts.seen("device-list").evidence(1)
        if "ofi" in used and "ofi" not in listed:
            result = facts.seen("ofi.provider")
            counts = [int(value.split()[-1]) for value in result if value.split()[-1].isdigit()]
            listed["ofi"], at = max(counts, default=0), result.evidence(1)
        for kind, numbers in used.items():
            many = listed.get(kind, 0)
            connections = sum(facts.channels.counts.values())
            shared = len(numbers) == 1 and ranks >= MANY_RANKS and connections >= MANY_RANKS
            # A quarter of them, where the connections of as many ranks as devices are shown.
            shown = len({rank for rank, _ in facts.routes})
            if many >= MANY_DEVICES and (shared or (len(numbers) * 4 <= many <= shown)):
                return Claim(
                    value="low-bandwidth",
                    why=f"all connections share {_few(len(numbers))} of {many} devices",
                    evidence=(*at, *facts.channels.evidence(1)),
                )
        return None

    def _below_line_rate(self) -> Claim | None:
        """Claim low bandwidth where a collective's table is far below what the NICs carry."""
        facts, row = self.facts, self.facts.largest
        if row is None or row.size < SOME or not row.busbw:
            return None
        several = self.judge.several_nodes().value
        if several == "no" or (several == "unknown" and self.transport.value != "unknown"):
            return None
        nics = max(1, len(facts.devices_used))
        names = facts.seen("tests.name")
        # Of the collectives only all_reduce has a busbw above its algbw.
        ring = any(name.startswith(RING_TESTS) for name in names) or (
            not names and row.busbw > row.algbw
        )
        at: tuple[Evidence, ...] = ()
        if (rate := self._line_rate(min)) is not None:
            bound, reported, at = rate
        elif self.transport.value in RDMA and self._fast_gpus(*SLOW_BUS):
            bound, reported = FAST_PORT * nics, f"{nics} port(s) of 100 Gbit/s carry"
        else:
            return None
        if not ring:
            # Each rank has its share of its host's NICs in an exchange of pairs.
            bound /= max(1, self._ranks_of_a_host())
        if row.busbw >= (LOW if row.size >= BIG // 2 else VERY_LOW) * bound:
            return None
        return Claim(
            # Where no line tells whether the NICs carried it, it is not known to be their fault.
            value="low-bandwidth" if several == "yes" else "other",
            why=f"{row.busbw:g} GB/s busbw, and {reported} {bound:g} GB/s",
            evidence=(row.at, *at),
        )

    def _line_rate(
        self, choose: Callable[[Iterable[float]], float]
    ) -> tuple[float, str, tuple[Evidence, ...]] | None:
        """Return what the NICs in use carry by a line, GB/s; ``choose`` takes one of several."""
        facts = self.facts
        nics = max(1, len(facts.devices_used))
        rates, plans = facts.seen("nic-rate"), facts.seen("nccl.plan")
        if rates:
            rate = choose(float(value) for value in rates)
            reported = f"{nics} NIC(s) of {rate:g} Gbit/s carry"
            return rate / 8 * nics, reported, rates.evidence(1)
        if plans and self.transport.value in RDMA:
            planned = [value.split() for value in plans]
            bound = max(int(channels) * float(inter) for channels, inter, _ in planned)
            return bound, "NCCL's own search plans", plans.evidence(1)
        return None

    def _compared(self, row: Row) -> bool:
        """Return whether the result reaches half of a rate that some line tells, of all of them."""
        rate = self._line_rate(max)
        if rate is None or row.size < SOME or self.judge.several_nodes().value != "yes":
            return False
        return row.busbw >= (LOW if row.size >= BIG // 2 else VERY_LOW) * rate[0]

    def _ranks_of_a_host(self) -> int:
        """Return the most ranks on one host: those listed or, without a list, those connected."""
        facts = self.facts
        hosts = Counter(host for host, _, _ in facts.test_ranks.values())
        local = [count for comm in facts.comms.values() for count in comm.local.values()]
        return max([*hosts.values(), *local], default=len({rank for rank, _ in facts.routes}) or 8)

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
            if largest.busbw < TELLING and not self._compared(largest):
                return Claim(
                    value="measured",
                    why=f"{largest.busbw:g} GB/s busbw, and no line tells a rate to compare with",
                    evidence=(largest.at,),
                )
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
        if result := self.hits.evidence("ras.ok"):
            return Claim(
                value="ok",
                why="NCCL's own view is that all communicators run",
                evidence=result[:1],
                grade=WEAK,
            )
        if self.transport.value not in GOOD or not self._agreed():
            return None
        for sign, why in (
            ("nccl.destroy", "communicators were closed in order"),
            ("nccl.init-complete", "initialisation completed"),
        ):
            if result := self.hits.evidence(sign):
                return Claim(
                    value="ok",
                    why=f"{why}, and the transport is {self.transport.value}",
                    evidence=(*result[:1], *self.transport.evidence[:1]),
                    grade=WEAK,
                )
        return None

    def _agreed(self) -> bool:
        """Return whether several lines name the transport, which one line does not prove."""
        facts = self.facts
        if self.transport.value == "p2p/shm-only":
            return True
        if self.transport.grade not in ("connections", "choice"):
            return False
        named = (facts.channels, facts.networks, facts.seen("device-list"))
        kinds = {net_kind(name) for seen in named[:2] for name in seen}
        lines = sum(
            count
            for seen in named
            for name, count in seen.counts.items()
            if net_kind(name) in kinds
        )
        return lines >= AGREEING

    def _wired(self) -> Claim | None:
        """Claim that RDMA connections were made, both ways, where no line tells the end."""
        if self.transport.grade != "connections" or self.transport.value not in RDMA:
            return None
        if not self._agreed() or {way for _, way in self.facts.routes} != {"send", "receive"}:
            return None
        return Claim(
            value="wired",
            why=f"connections over {self.transport.value} are made, and no line tells the end",
            evidence=self.transport.evidence,
            grade=WEAK,
        )

    def _unfinished(self) -> Claim | None:
        """Claim a hang where every rank began and none ended: nothing else explains the silence."""
        for step in (self._host_unfinished, self._many_unfinished):
            if (waiting := step()) is not None:
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
            # The log of some of the job's hosts, each of them whole.
            if comm.here and all(len(own) == comm.local[on] for on, own in comm.here.items()):
                return Claim(
                    value="hang",
                    why=f"all ranks of {len(comm.here)} host(s) began initialisation and none "
                    "completed it",
                    evidence=tuple(comm.evidence[:2]),
                )
        return None

    def _many_unfinished(self) -> Claim | None:
        """Claim a hang where some ranks completed and too many did not to blame cut lines."""
        facts = self.facts
        if facts.counting or facts.row_count or self.hits.any("nccl.destroy"):
            return None
        for comm in facts.comms.values():
            waiting = comm.started - comm.completed
            if comm.completed and len(waiting) >= max(2, len(comm.started) / 2):
                return Claim(
                    value="hang",
                    why=f"{len(waiting)} of {len(comm.started)} ranks that began did not complete",
                    evidence=tuple(comm.evidence[:2]),
                )
        return None

    def _host_unfinished(self) -> Claim | None:
        """Claim a hang where some ranks completed, but none of a whole host that began."""
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


def _few(number: int) -> str:
    return "one" if number == 1 else str(number)


def _when(text: str | None) -> datetime | None:
    """Return a line's time, where it has a date; without its zone, which a log keeps."""
    if text is None or not re.match(r"\d{4}-\d\d-\d\d[ T]", text):
        return None
    return datetime.fromisoformat(text[:19].replace(" ", "T"))
