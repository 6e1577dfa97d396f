"""Figures that a researcher works out by hand, each with its formula, numbers and source.

Nothing here is measured. Memory counts weights, gradients and optimizer states, without
activations; times over the fabric are the least that its line rate allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from railhead.launch.job import SizingFile

ZERO = "Rajbhandari et al. 2020, ZeRO (arXiv 1910.02054), sections 3 and 5"
ZERO_VOLUME = "Rajbhandari et al. 2020, ZeRO (arXiv 1910.02054), section 7"
GOYAL = "Goyal et al. 2017 (arXiv 1706.02677), linear scaling rule; it needs a warm-up"
MALLADI = "Malladi et al. 2022 (arXiv 2205.10287), square root rule for Adam"
LEAST = "Patarasuk and Yuan 2009, Bandwidth optimal all-reduce (JPDC 69.2): what n must send"
KAPLAN = "Kaplan et al. 2020 (arXiv 2001.08361), section 2.1: 6 operations a parameter and token"
YOUNG = "Young 1974 (CACM 17.9)"
DALY = "Daly 2006 (FGCS 22.3), equation of the higher order"
# 419 unexpected interruptions in 54 days on 16,384 GPUs.
LLAMA = "The Llama 3 Herd of Models (arXiv 2407.21783), section 3.3.4"
LLAMA_INTERRUPTIONS, LLAMA_DAYS, LLAMA_GPUS = 419, 54, 16_384
GPU_MTBF_HOURS = LLAMA_DAYS * 24 * LLAMA_GPUS / LLAMA_INTERRUPTIONS

#: Bytes a parameter of weights and of gradients (the paper's 2 + 2), by what the model computes in.
BYTES = MappingProxyType({"bf16": 2, "fp16": 2, "fp32": 4})
#: Numbers in fp32 that an optimizer keeps a parameter: two moments, or the momentum.
MOMENTS = MappingProxyType({"adamw": 2, "sgd": 1})
# Seconds of writing for which an interval is shown where the claim's bandwidth is not known.
WRITES = (10.0, 60.0, 300.0)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The job's machines.

    Args:
        nodes: how many.
        gpus: GPUs of each that the job has; its processes where it asks for none.
        gbps: Gbit/s of the fabric that each node has for this job; 0 where there is no such rate.
    """

    nodes: int
    gpus: int
    gbps: float

    @property
    def world(self) -> int:
        """GPUs in the whole job."""
        return self.nodes * self.gpus


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, or the reason why it could not be calculated.

    Attributes:
        group: what it is about.
        name: what it is.
        value: the number, None where it could not be calculated.
        unit: of the number.
        formula: how it was calculated, with the numbers; or what is missing.
        source: where the formula was read; empty where it is arithmetic.
        wrong: whether it says that what was asked for does not work out.
    """

    group: str
    name: str
    value: float | None
    unit: str = ""
    formula: str = ""
    source: str = ""
    wrong: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the figure as ``--json`` prints it."""
        return {
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "formula": self.formula,
            "source": self.source,
            "wrong": self.wrong,
        }


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """One way to lay a model's states over replicas.

    Args:
        name: what frameworks call it.
        weights: over how many replicas the weights are cut, of all and of one node's.
        gradients: the same of the gradients.
        states: the same of the optimizer's.
        volume: how often the gradients' bytes are gathered or scattered over the fabric a step, of
            the number of micro batches.
        note: in words.
    """

    name: str
    weights: Callable[[int, int], int]
    gradients: Callable[[int, int], int]
    states: Callable[[int, int], int]
    volume: Callable[[int], int]
    note: str


def _whole(replicas: int, near: int) -> int:
    del replicas, near
    return 1


def _all(replicas: int, near: int) -> int:
    del near
    return replicas


def _near(replicas: int, near: int) -> int:
    del replicas
    return near


# An all-reduce is a scatter and a gather, so 2. Gradients that are cut are scattered after every
# micro batch, weights that are cut gathered before every forward and every backward pass.
SHARDINGS = (
    Sharding(
        name="DDP",
        weights=_whole,
        gradients=_whole,
        states=_whole,
        volume=lambda _: 2,
        note="one all-reduce a step (no_sync before the last micro batch)",
    ),
    Sharding(
        name="ZeRO-1",
        weights=_whole,
        gradients=_whole,
        states=_all,
        volume=lambda _: 2,
        note="one scatter and one gather a step",
    ),
    Sharding(
        name="ZeRO-2",
        weights=_whole,
        gradients=_all,
        states=_all,
        volume=lambda micro: micro + 1,
        note="a scatter each micro batch, a gather a step",
    ),
    Sharding(
        name="ZeRO-3, FSDP full shard",
        weights=_all,
        gradients=_all,
        states=_all,
        volume=lambda micro: 3 * micro,
        note="two gathers and a scatter each micro batch",
    ),
    Sharding(
        name="FSDP hybrid shard",
        weights=_near,
        gradients=_near,
        states=_near,
        volume=lambda micro: 2 * micro,
        note="cut within a node; an all-reduce between nodes each micro batch",
    ),
)


def state_bytes(sizing: SizingFile) -> tuple[int, int, int]:
    """Return the bytes of weights, gradients and optimizer a parameter: the paper's 2, 2 and K."""
    own = BYTES[sizing.dtype]
    copy = 4 if own < 4 else 0
    return own, own, copy + 4 * MOMENTS[sizing.optimizer]


def replicas_of(sizing: SizingFile, shape: Shape) -> int | None:
    """Return the number of copies of the model; None where its cuts do not divide the GPUs."""
    cut = sizing.tensor * sizing.pipeline
    return None if shape.world % cut else shape.world // cut


def memory(sizing: SizingFile, shape: Shape, replicas: int, way: Sharding) -> float:
    """Return the bytes of weights, gradients and optimizer on one GPU."""
    params = (sizing.params or 0.0) / (sizing.tensor * sizing.pipeline)
    # Copies of one part of the model that lie on one node.
    near = max(1, shape.gpus // (sizing.tensor * sizing.pipeline))
    cuts = (way.weights, way.gradients, way.states)
    parts = zip(state_bytes(sizing), cuts, strict=True)
    return sum(params * each / cut(replicas, near) for each, cut in parts)


def crossing(sizing: SizingFile, shape: Shape, way: Sharding, micro: int) -> float | None:
    """Return the bytes that a node sends over the fabric a step; None for cuts that fit no node.

    A part of the model that has copies on n nodes: each of these sends (n-1)/n of the part's bytes
    for a scatter and as much for a gather, whatever the algorithm.
    """
    cut = sizing.tensor * sizing.pipeline
    if shape.gpus % cut and cut % shape.gpus:
        return None
    on_a_node = min(1.0, shape.gpus / cut)
    spread = shape.nodes if cut <= shape.gpus else shape.world // cut
    size = (sizing.params or 0.0) * BYTES[sizing.dtype] * on_a_node
    return way.volume(micro) * size * (spread - 1) / spread


def young(write: float, mtbf: float) -> float:
    """Return the interval between checkpoints, in the unit of both, to the first order."""
    return math.sqrt(2 * write * mtbf)


def daly(write: float, mtbf: float) -> float:
    """Return the same to a higher order; what is written takes longer than it is worth from 2 M on.

    >>> round(daly(5, 24 * 60)), round(daly(5, 6 * 60)), round(daly(5, 15), 1)
    (117, 57, 9.1)
    """
    if write >= 2 * mtbf:
        return mtbf
    ratio = write / (2 * mtbf)
    return young(write, mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write


def figures(sizing: SizingFile, shape: Shape) -> list[Figure]:
    """Return all that the given numbers allow, and what of the others is missing."""
    replicas = replicas_of(sizing, shape)
    if replicas is None:
        cut = sizing.tensor * sizing.pipeline
        text = f"{cut} = {sizing.tensor} tensor x {sizing.pipeline} pipeline does not divide "
        return [
            Figure(
                group="replicas",
                name="replicas",
                value=None,
                formula=f"{text}{shape.world} GPUs",
                wrong=True,
            )
        ]
    results = [
        Figure(
            group="replicas",
            name="replicas of the model",
            value=replicas,
            formula=f"{shape.nodes} nodes x {shape.gpus} GPUs / {sizing.tensor} tensor / "
            f"{sizing.pipeline} pipeline",
        )
    ]
    batch = list(_batch(sizing, shape, replicas))
    results += batch
    numbers = {figure.name: figure.value for figure in batch if not figure.wrong}
    micro = int(numbers.get("micro batches a step") or 1)
    results += _rate(sizing, numbers.get("global batch"))
    results += _memory(sizing, shape, replicas)
    results += _fabric(sizing, shape, micro, numbers.get("global batch"))
    results += _checkpoints(sizing, shape)
    return results


def _missing(group: str, *fields: str) -> Figure:
    needed = " and ".join(f"sizing.{field}" for field in fields)
    return Figure(group=group, name=group, value=None, formula=f"needs {needed}")


def _batch(sizing: SizingFile, shape: Shape, replicas: int) -> Iterator[Figure]:
    wanted, micro, steps = sizing.global_batch, sizing.micro_batch, sizing.accumulation
    group = "batch"
    if micro is not None and (wanted is None or steps is not None):
        item, many = micro, steps or 1
        made = item * many * replicas
        if wanted not in (None, made):
            yield Figure(
                group=group,
                name="global batch",
                value=made,
                unit="samples",
                formula=f"{item} micro x {many} accumulation x {replicas} replicas, and not the "
                f"{wanted} that were asked for",
                wrong=True,
            )
            return
    elif wanted is None:
        yield _missing(group, "global_batch", "micro_batch")
        return
    elif micro is None:
        many = steps or 1
        if wanted % (many * replicas):
            yield _uneven(sizing, shape, wanted, many, "accumulation")
            return
        item = wanted // (many * replicas)
    else:
        item = micro
        if wanted % (item * replicas):
            yield _uneven(sizing, shape, wanted, item, "micro")
            return
        many = wanted // (item * replicas)
    made = item * many * replicas
    yield Figure(
        group=group,
        name="global batch",
        value=made,
        unit="samples",
        formula=f"{item} micro x {many} accumulation x {replicas} replicas",
    )
    yield Figure(
        group=group,
        name="micro batch",
        value=item,
        unit="samples",
        formula=f"{made} / {many} accumulation / {replicas} replicas",
    )
    yield Figure(
        group=group,
        name="micro batches a step",
        value=many,
        formula=f"{made} / {item} micro / {replicas} replicas (gradient accumulation)",
    )
    if sizing.seq_len is not None:
        yield Figure(
            group=group,
            name="tokens a step",
            value=made * sizing.seq_len,
            unit="tokens",
            formula=f"{made} samples x {sizing.seq_len}",
        )


def _uneven(sizing: SizingFile, shape: Shape, wanted: int, count: int, what: str) -> Figure:
    """Return a global batch that no whole number makes, with what would."""
    cut = sizing.tensor * sizing.pipeline
    replicas = shape.world // cut
    each = count * replicas
    below = wanted // each * each
    near = " or ".join(str(n) for n in (below, below + each) if n)
    nodes = [
        n
        for n in range(1, 2 * shape.nodes)
        if n * shape.gpus % cut == 0 and wanted % (count * (n * shape.gpus // cut)) == 0
    ]
    closest = sorted(sorted(nodes, key=lambda n: abs(n - shape.nodes))[:3])
    others = f"; {wanted} goes on {', '.join(map(str, closest))} nodes" if closest else ""
    return Figure(
        group="batch",
        name="global batch",
        value=None,
        formula=f"{wanted} is no multiple of {each} = {count} {what} x {replicas} replicas; "
        f"{near} is{others}",
        wrong=True,
    )


def _rate(sizing: SizingFile, batch: float | None) -> Iterator[Figure]:
    group = "learning rate"
    if sizing.base_lr is None or sizing.base_batch is None:
        yield _missing(group, "base_lr", "base_batch")
        return
    if batch is None:
        yield _missing(group, "global_batch")
        return
    factor = batch / sizing.base_batch
    yield Figure(
        group=group,
        name="linear rule",
        value=sizing.base_lr * factor,
        formula=f"{sizing.base_lr:g} x {batch:g} / {sizing.base_batch}",
        source=GOYAL,
    )
    if sizing.optimizer == "adamw":
        yield Figure(
            group=group,
            name="square root rule",
            value=sizing.base_lr * math.sqrt(factor),
            formula=f"{sizing.base_lr:g} x sqrt({batch:g} / {sizing.base_batch})",
            source=MALLADI,
        )


def _memory(sizing: SizingFile, shape: Shape, replicas: int) -> Iterator[Figure]:
    group = "memory a GPU"
    if sizing.params is None:
        yield _missing(group, "params")
        return
    weights, gradients, states = state_bytes(sizing)
    part = sizing.params / (sizing.tensor * sizing.pipeline)
    near = max(1, shape.gpus // (sizing.tensor * sizing.pipeline))
    for way in SHARDINGS:
        cuts = [cut(replicas, near) for cut in (way.weights, way.gradients, way.states)]
        value = memory(sizing, shape, replicas, way) / 1e9
        terms = (
            f"{each}/{cut}" if cut > 1 else f"{each}"
            for each, cut in zip((weights, gradients, states), cuts, strict=True)
        )
        room = sizing.gpu_memory_gb
        fits = "" if room is None else f"; {'fits' if value < room else 'more than'} {room:g} GB"
        yield Figure(
            group=group,
            name=way.name,
            value=value,
            unit="GB",
            formula=f"({' + '.join(terms)}) bytes x {part:.4g} parameters, without "
            f"activations{fits}",
            source=ZERO,
            wrong=room is not None and value >= room,
        )


def _fabric(sizing: SizingFile, shape: Shape, micro: int, batch: float | None) -> Iterator[Figure]:
    group = "fabric"
    if sizing.params is None:
        yield _missing(group, "params")
        return
    size = sizing.params * BYTES[sizing.dtype]
    yield Figure(
        group=group,
        name="gradients",
        value=size / 1e9,
        unit="GB",
        formula=f"{sizing.params:.4g} parameters x {BYTES[sizing.dtype]} bytes ({sizing.dtype})",
    )
    if shape.nodes == 1:
        yield Figure(
            group=group, name="sent a step", value=0.0, unit="GB", formula="one node sends nothing"
        )
        return
    work = _work(sizing, shape, batch)
    if work is not None:
        yield work
    for way in SHARDINGS:
        sent = crossing(sizing, shape, way, micro)
        if sent is None:
            text = "tensor x pipeline neither divides a node's GPUs nor is a multiple of them"
            yield Figure(group=group, name="sent a step", value=None, formula=text)
            return
        yield from _way(way, sent, micro=micro, shape=shape, work=work)
    if not shape.gbps:
        text = "the contract says no line rate of this job's fabric"
        yield Figure(group=group, name="time on the fabric", value=None, formula=text)
    elif work is None:
        yield _missing("scaling", "step_seconds (or tflops, with the batch and seq_len)")


def _way(
    way: Sharding, sent: float, *, micro: int, shape: Shape, work: Figure | None
) -> Iterator[Figure]:
    yield Figure(
        group="fabric",
        name=f"{way.name}: a node sends",
        value=sent / 1e9,
        unit="GB",
        formula=f"{way.volume(micro)} x the gradients' bytes x (n-1)/n; {way.note}",
        source=f"{ZERO_VOLUME}; {LEAST}",
    )
    if not shape.gbps:
        return
    seconds = sent * 8 / (shape.gbps * 1e9)
    yield Figure(
        group="fabric",
        name=f"{way.name}: at least",
        value=seconds,
        unit="s",
        formula=f"{sent / 1e9:.4g} GB x 8 / {shape.gbps:g} Gbit/s of a node",
        source="the contract's line rate; nothing reaches all of it",
    )
    if work is None or work.value is None:
        return
    apart, hidden = work.value / (work.value + seconds), work.value / max(work.value, seconds)
    yield Figure(
        group="scaling",
        name=f"{way.name}: at best",
        value=100 * hidden,
        unit="%",
        formula=f"{work.value:.4g} s / max({work.value:.4g} s, {seconds:.4g} s), all of it hidden "
        f"behind calculation; {100 * apart:.1f} % if none is",
    )


def _work(sizing: SizingFile, shape: Shape, batch: float | None) -> Figure | None:
    """Return the seconds that a step computes; None where it is not known."""
    if sizing.step_seconds is not None:
        text = "as measured (sizing.step_seconds)"
        return Figure(
            group="fabric", name="calculation a step", value=sizing.step_seconds, unit="s",
            formula=text,
        )  # fmt: skip
    params, tflops, length = sizing.params, sizing.tflops, sizing.seq_len
    if params is None or tflops is None or length is None or batch is None:
        return None
    tokens = batch * length
    return Figure(
        group="fabric",
        name="calculation a step",
        value=6 * params * tokens / (shape.world * tflops * 1e12),
        unit="s",
        formula=f"6 x {params:.4g} parameters x {tokens:.4g} tokens / ({shape.world} GPUs x "
        f"{tflops:g} TFLOPS)",
        source=KAPLAN,
    )


def _checkpoints(sizing: SizingFile, shape: Shape) -> Iterator[Figure]:
    group = "checkpoints"
    each, reported = sizing.gpu_mtbf_hours or GPU_MTBF_HOURS, "sizing.gpu_mtbf_hours"
    if sizing.gpu_mtbf_hours is None:
        reported = (
            f"{LLAMA_INTERRUPTIONS} interruptions in {LLAMA_DAYS} days on {LLAMA_GPUS} GPUs of "
            f"{LLAMA}; other machines fail at other rates"
        )
    mtbf = each / shape.world
    yield Figure(
        group=group,
        name="between interruptions",
        value=mtbf,
        unit="h",
        formula=f"{each:.5g} h a GPU / {shape.world} GPUs",
        source=reported,
    )
    writes: tuple[float, ...] = WRITES
    if sizing.params is not None:
        weights, _, states = state_bytes(sizing)
        size = sizing.params * (weights + states)
        yield Figure(
            group=group,
            name="size",
            value=size / 1e9,
            unit="GB",
            formula=f"{sizing.params:.4g} parameters x ({weights} + {states}) bytes of weights and "
            "optimizer",
            source=ZERO,
        )
        if sizing.checkpoint_gbs is not None:
            writes = (size / 1e9 / sizing.checkpoint_gbs,)
            yield Figure(
                group=group,
                name="writing one",
                value=writes[0],
                unit="s",
                formula=f"{size / 1e9:.4g} GB / {sizing.checkpoint_gbs:g} GB/s, all else waiting",
            )
    if writes is WRITES:
        yield _missing("checkpoints", "params", "checkpoint_gbs")
    for write in writes:
        yield from _interval(write, mtbf * 3600)


def _interval(write: float, mtbf: float) -> Iterator[Figure]:
    first, better = young(write, mtbf), daly(write, mtbf)
    lost = write / better + better / (2 * mtbf)
    yield Figure(
        group="checkpoints",
        name=f"one every, if it takes {write:.4g} s",
        value=better / 60,
        unit="min",
        formula=f"sqrt(2 x {write:.4g} s x {mtbf:.4g} s) = {first / 60:.4g} min, corrected; about "
        f"{100 * lost:.2g} % of the time is lost to writing and to what is done again",
        source=f"{YOUNG}; {DALY}",
    )
