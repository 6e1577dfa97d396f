"""The verdict on perftest's figures, from node to node over verbs. Pure.

The port's own counters must tell the same as the program that drove it, and the other ports
nothing: a rail is by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railhead.accept import remedies
from railhead.accept.check import Statement
from railhead.accept.model import Measured, Verdict
from railhead.accept.traffic import Pair, Traffic
from railhead.catalog import acceptance as limits
from railhead.nccl.bench.perftest import Perftest, read

#: Of linux-rdma/perftest, and what each prints of itself.
TOOLS: Mapping[str, str] = {
    "ib_write_bw": "RDMA_Write BW",
    "ib_read_lat": "RDMA_Read Latency",
}
_AGAIN = (
    "run the same between these two nodes by hand (`ib_write_bw -d DEVICE` on one, `ib_write_bw "
    "-d DEVICE ADDRESS` on the other); where it works, run the check again"
)


def lacking(traffic: Traffic) -> str:
    """Return why verbs cannot be tested; empty where every pod can."""
    if not any(verb.devices for verb in traffic.verbs):
        return "no pod sees a port of InfiniBand or Ethernet that it may use: there are no verbs"
    for tool in TOOLS:
        without = [verb.node for verb in traffic.verbs if tool not in verb.tools]
        if len(without) == len(traffic.verbs):
            return f"{tool} is not in the image: the rails are shown by NCCL alone"
    return ""


def verdicts(traffic: Traffic, rate: float | None) -> Iterator[Statement]:
    """Yield the faults of the pairs; nothing where verbs cannot be tested.

    Args:
        traffic: what the job brought.
        rate: of one NIC, Gbit/s; None where nothing says it.
    """
    if text := _incomplete(traffic):
        yield _unproven(text)
        return
    for pair in traffic.pairs:
        try:
            reported = _told(pair)
        except ValueError as error:
            yield _unproven(f"{_named(traffic, pair)}: {error}")
            continue
        yield from _counters(traffic, pair, reported)
        yield from _rate(traffic, pair, reported, rate)


def figures(traffic: Traffic, rate: float | None) -> Iterator[Measured]:
    """Yield the slowest rail by each tool, where all could be read."""
    reported = list(readable(traffic))
    bandwidths = [test.gbps for _, test in reported if test.gbps is not None]
    latencies = [test.usec for _, test in reported if test.usec is not None]
    if bandwidths:
        yield Measured(
            name="ib_write_bw, the slowest rail between two nodes",
            value=min(bandwidths),
            unit="Gbit/s",
            limit=None if rate is None else limits.VERBS.value * rate,
            source="" if rate is None else limits.VERBS.source,
        )
    if latencies:
        yield Measured(
            name="ib_read_lat, the slowest rail between two nodes, on average",
            value=max(latencies),
            unit="us",
        )


def readable(traffic: Traffic) -> Iterator[tuple[Pair, Perftest]]:
    """Yield the pairs whose output can be read."""
    for pair in traffic.pairs:
        try:
            yield pair, _told(pair)
        except ValueError:
            continue


def _incomplete(traffic: Traffic) -> str:
    nodes = list(range(traffic.pods))
    if sorted(verb.node for verb in traffic.verbs) != nodes:
        return "not every pod has told what it has for verbs"
    counts = {len(verb.devices) for verb in traffic.verbs}
    if len(counts) > 1:
        return f"pods see {min(counts)} to {max(counts)} ports over which they could be asked"
    if counts == {0}:
        return ""
    tools = {tool for tool in TOOLS for verb in traffic.verbs if tool in verb.tools}
    if short := [verb.node for verb in traffic.verbs if not tools <= set(verb.tools)]:
        return f"pod {short[0]} has not what others have: {', '.join(sorted(tools))}"
    wanted = [(node, rail, tool) for node in nodes for rail in range(*counts) for tool in tools]
    if sorted((pair.node, pair.rail, pair.tool) for pair in traffic.pairs) != sorted(wanted):
        return "not every rail of every pair of nodes was measured over verbs"
    return ""


def _told(one: Pair) -> Perftest:
    """Return the client's figures, if they are of the test that was asked for.

    Raises:
        ValueError: it is not.
    """
    if one.status or one.served:
        last = next((x for x in reversed(one.output.splitlines()) if x.strip("- ")), "no output")
        raise ValueError(f"ended with {one.status}, its server with {one.served}: {last.strip()}")
    test = read(one.output)
    if (test.test, test.device) != (TOOLS[one.tool], one.device):
        raise ValueError(f"it tells of {test.test} over {test.device}, not of {one.device}")
    return test


def _counters(traffic: Traffic, one: Pair, test: Perftest) -> Iterator[Statement]:
    if test.gbps is None or not one.sent:
        return
    moved = test.size * test.iterations
    own = sum(sent for name, sent in one.sent.items() if name.partition("/")[0] == one.device)
    if own < limits.COUNTED.value * moved:
        yield _unproven(
            f"{_named(traffic, one)}: {moved} bytes are said to have gone, and that device's "
            f"ports have sent {own}"
        )
    if (others := sum(one.sent.values()) - own) > limits.KERNEL.value * moved:
        yield _unproven(
            f"{_named(traffic, one)}: the node's other ports have sent {others} bytes meanwhile: "
            "the rail is not by itself"
        )


def _rate(traffic: Traffic, one: Pair, test: Perftest, rate: float | None) -> Iterator[Statement]:
    if test.gbps is None or rate is None:
        return
    text = f"{_named(traffic, one)} carries {test.gbps:.3g} Gbit/s of {rate:.3g}"
    if test.gbps < limits.VERBS.value * rate:
        yield Statement(
            verdict=Verdict.FAILED,
            text=text,
            remedy="look at that rail's port, cable and switch on both nodes, and at what PCIe "
            "gives the NIC (`lspci -vv`, LnkSta)",
        )
    elif test.gbps > limits.ABOVE.value * rate:
        yield Statement(
            verdict=Verdict.NOT_PROVEN,
            text=f"{text}, more than a NIC can: a clock lies, or it is another NIC",
            remedy=remedies.CLOCK,
        )


def _named(traffic: Traffic, one: Pair) -> str:
    at, to = traffic.machines[one.node], traffic.machines[one.to]
    return f"{one.tool} over rail {one.rail} ({one.device}) of {at} to {to}"


def _unproven(text: str) -> Statement:
    return Statement(verdict=Verdict.NOT_PROVEN, text=text, remedy=_AGAIN)
