"""`railhead nccl bench`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.errors import ExitCode, InputError, did_you_mean
from railhead.base.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.nccl.bench.judge import Judged
    from railhead.nccl.bench.model import BenchRun
    from railhead.nccl.bench.report import Gate


def register(app: typer.Typer, *, program: str = "railhead nccl") -> None:
    """Add the command to the group of ``program``."""
    text = cleandoc(bench.__doc__ or "").replace("railhead nccl", program)
    app.command(name="bench", help=text)(bench)


def bench(
    files: Annotated[
        list[str],
        typer.Argument(
            help="nccl-tests output, its JSON (-J), or a whole job's log; files, folders, "
            "patterns, `-` for standard input; gzip and zstd too.",
            metavar="FILE",
        ),
    ],
    instance_type: Annotated[
        str | None,
        typer.Option(help="Machine type of the catalogue: its line rate and published figures."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Number of nodes, if the log does not show it.")
    ] = None,
    collective: Annotated[
        str | None, typer.Option(help="The collective, if the log does not name it.")
    ] = None,
    min_busbw: Annotated[
        float | None,
        typer.Option(help="Exit 1 unless the largest size reaches this bus bandwidth in GB/s."),
    ] = None,
    min_fraction: Annotated[
        float | None,
        typer.Option(
            help="Exit 1 unless the largest size reaches this fraction (0-1) of the line rate."
        ),
    ] = None,
    min_size: Annotated[
        str, typer.Option(help="Smallest message size that the gates accept, such as 256M or 1G.")
    ] = "1G",
    svg: Annotated[
        Path | None, typer.Option(help="Write the curves to this file, as SVG.", metavar="FILE")
    ] = None,
    plot: Annotated[bool, typer.Option(help="Draw the curves in the terminal.")] = True,
    as_json: Json = False,
) -> None:
    """Report how fast the collectives are: check nccl-tests tables, compare with the line rate.

    Exits 1 when a run had wrong values, only one rank or no rows, or fails a gate. A gate that
    cannot be judged (no large size, a truncated table, an unknown line rate) fails. Exits 3 when
    there is no nccl-tests output at all.

    Example: railhead nccl bench all_reduce.log --instance-type p5.48xlarge --min-fraction 0.5
    """
    from railhead.machines import MACHINES
    from railhead.nccl.bench.judge import judge, machine
    from railhead.nccl.bench.parse import read_runs
    from railhead.nccl.bench.report import Gate, status

    gate = Gate(
        min_busbw=_positive("--min-busbw", min_busbw),
        min_fraction=_positive("--min-fraction", min_fraction, most=1.0),
        min_size=_bytes(min_size),
    )
    if instance_type is not None:
        machine(instance_type)
    runs = read_runs(files, MACHINES)
    if collective is not None:
        runs = [_as(run, collective) for run in runs]
    if not runs:
        raise InputError(
            f"no nccl-tests output in {', '.join(files)}",
            remedy="give the output of a *_perf program of nccl-tests, or the JSON of its -J",
        )
    judged = [judge(run, instance_type=instance_type, nodes=nodes) for run in runs]
    if svg is not None:
        _write(svg, judged)
    _print(judged, gate, as_json=as_json, plot=plot)
    if any(status(item, gate)[0] == "fail" for item in judged):
        raise typer.Exit(ExitCode.FAILED)


def _print(judged: Sequence[Judged], gate: Gate, *, as_json: bool, plot: bool) -> None:
    from railhead.nccl.bench.report import show, to_json

    if as_json:
        typer.echo(json.dumps(to_json(judged, gate), indent=2, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    for item in judged:
        show(console, item, gate, plot=plot)


def _write(target: Path, judged: Sequence[Judged]) -> None:
    from railhead.nccl.bench.plot import svg

    try:
        target.write_text(svg(judged), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--svg {str(target)!r}: cannot be written: {error.strerror or error}",
            remedy="name a file in a folder that exists and that you may write",
        ) from error


def _as(run: BenchRun, name: str) -> BenchRun:
    from railhead.nccl.bench.collectives import COLLECTIVES
    from railhead.nccl.bench.parse import named

    if name not in COLLECTIVES:
        raise InputError(
            f"--collective {name!r}: unknown{did_you_mean(name, COLLECTIVES)}",
            remedy=f"one of: {', '.join(sorted(COLLECTIVES))}",
        )
    if run.collective_from == "named" and run.collective != name:
        return run
    fresh = replace(run, ranks=None, ranks_from="") if run.ranks_from == "factor" else run
    return named(replace(fresh, collective=name, collective_from="given"))


def _positive(option: str, value: float | None, most: float = math.inf) -> float | None:
    if value is None:
        return None
    if not math.isfinite(value) or not 0 < value <= most:
        limits = f"above 0 and at most {most:g}" if most < math.inf else "above 0"
        raise InputError(f"{option} {value}: not usable", remedy=f"a number {limits}")
    return value


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    """Parse ``256M``, ``1G`` or a number of bytes; suffixes are powers of two, as in nccl-tests."""
    plain = text.strip().upper().removesuffix("IB").removesuffix("B")
    digits = plain.rstrip("KMG")
    unit = plain[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15 or unit not in _UNITS:
        raise InputError(f"--min-size {text!r}: not a size", remedy="such as 268435456, 256M or 1G")
    return int(digits) * _UNITS[unit]
