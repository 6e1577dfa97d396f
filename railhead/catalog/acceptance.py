"""Limits that acceptance applies to figures, each with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A limit; ``value`` in ``unit``, or a ratio without a unit."""

    value: float
    source: str
    unit: str = ""


#: Of what the NICs of a node can carry, that large messages must reach, where nothing is published.
LINE_RATE = Threshold(
    value=0.4,
    source="below the lowest published run of one machine a NVLink domain and without SHARP: two "
    "a3-highgpu-8g, all_reduce, 41 % (the catalogue's row says where)",
)
#: Above this the NICs cannot have been the path, or a clock is wrong.
ABOVE = Threshold(value=1.03, source="rates are nominal, and tables round")
#: Of a NIC's rate, that one connection over verbs must reach, both directions busy.
VERBS = Threshold(
    value=0.85,
    source="Azure's node check asks 375 of 400 Gbit/s of one direction (azurehpc-health-checks, "
    "conf/nd96isr_h100_v5.conf at 06114325, check_ib_bw_gdr); a tenth is left to the other one",
)
#: Of a published figure of the same machine, collective, size and number of nodes.
PUBLISHED = Threshold(
    value=0.85,
    source="two published runs of one machine differ by less (`railhead nccl bench`, NEAR)",
)
#: From this size on a message shows what the network carries, and not what it takes to start one.
LARGE = Threshold(
    value=float(1 << 30),
    unit="bytes",
    source="published curves are flat from 1 GiB on (docs/nccl-bench.md)",
)
#: What goes over the kernel's interfaces while RDMA carries the data: rendezvous and control.
KERNEL = Threshold(
    value=0.1,
    source="a tenth of the least that must cross; of TCP it is all of it and its headers",
)
#: Of the least that must cross a node's ports, that their counters must show.
COUNTED = Threshold(
    value=0.9,
    source="every byte that a node lacks crosses its ports at least once",
)
#: Two ranks of one operation begin and end together: their times differ by no more than this.
CLOCKS = Threshold(
    value=2.0,
    source="an operation of a collective ends when the slowest rank has begun it",
)
#: Weak scaling: the time of a step on one node over that of the same step on all of them.
SCALING_EFFICIENCY = Threshold(
    value=0.9,
    source="Goyal et al., Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, 2017 "
    "(arXiv 1706.02677), abstract: about 90% from 8 to 256 GPUs on commodity hardware",
)
#: What two nodes exchange, of what each exchanges with itself, where the fabric has no line rate.
LOOPBACK_SHARE = Threshold(
    value=0.2,
    source="a lab's nodes are on one machine: what two of them exchange is near to what two "
    "processes of one do; a fifth leaves room for other work beside them",
)
#: Computing alone, of the fleet's own figure.
COMPUTE_SHARE = Threshold(
    value=0.75,
    source="equal machines compute equally fast; a quarter leaves room for other work beside them",
)
#: The same where nodes share one machine, whose other work may take a core from one of them.
SHARED_COMPUTE = Threshold(
    value=0.5,
    source="two stand-ins on two cores beside a load of six: 0.99 of the faster one, and 0.37 with "
    "a quota of 0.4 of a core (docs/accept-nodes.md)",
)
