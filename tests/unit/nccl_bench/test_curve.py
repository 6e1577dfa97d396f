"""Latency end, ramp, plateau, dips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.nccl.bench.curve import Curve, curve_of
from railhead.nccl.bench.model import Row
from railhead.nccl.bench.parse import read_runs
from tests.unit.nccl_bench import tables
from tests.unit.nccl_bench.tables import GIB, MIB, ramp

KIB = 1024


def rows(tmp_path: Path, shape: Callable[[int], float] = ramp, high: int = 8 * GIB) -> list[Row]:
    path = tmp_path / "run.log"
    path.write_text(tables.log(rows=tables.points(8, high, shape=shape), started=True))
    (run,) = read_runs([path])
    return list(run.rows)


def curve(tmp_path: Path, shape: Callable[[int], float] = ramp, high: int = 8 * GIB) -> Curve:
    return curve_of(rows(tmp_path, shape, high))


def slow(at: Callable[[int], bool], by: float) -> Callable[[int], float]:
    return lambda size: ramp(size) * (by if at(size) else 1)


def test_a_smooth_curve(tmp_path: Path) -> None:
    result = curve(tmp_path)
    assert result.latency == pytest.approx(20, rel=0.2)
    assert result.peak == pytest.approx(450, rel=0.01)
    assert result.half_size == 8 * MIB
    assert result.plateau_from == 64 * MIB
    assert not result.rising
    assert result.dips == ()
    assert result.halves == pytest.approx(1.0)
    assert result.slow_start is None


def test_a_curve_that_still_rises_has_no_plateau(tmp_path: Path) -> None:
    result = curve(tmp_path, high=8 * MIB)
    assert result.rising
    assert result.plateau_from is None


def test_a_curve_past_its_peak_does_not_rise(tmp_path: Path) -> None:
    falls = curve(tmp_path, slow(lambda size: size == 4 * GIB, 0.5))
    assert not falls.rising
    late = slow(lambda size: size >= 4 * GIB, 0.5)
    again = curve(tmp_path, lambda size: late(size) * (1.3 if size == 8 * GIB else 1))
    assert not again.rising
    assert again.peak_size == 2 * GIB


@pytest.mark.parametrize(
    ("where", "by", "said"),
    [
        (lambda size: size == 512 * KIB, 0.3, "LL"),
        (lambda size: size == 16 * MIB, 0.5, "Tree"),
        (lambda size: size == 512 * MIB, 0.7, "NCCL_BUFFSIZE"),
    ],
)
def test_a_dip_and_what_it_suggests(
    tmp_path: Path, where: Callable[[int], bool], by: float, said: str
) -> None:
    (dip,) = curve(tmp_path, slow(where, by)).dips
    assert where(dip.first)
    assert dip.first == dip.last
    assert dip.recovers
    assert dip.halves == "both"
    assert said in dip.suggests
    assert dip.confirm


def test_falling_off_at_the_large_end(tmp_path: Path) -> None:
    """NVIDIA/nccl#1453: 29 GB/s up to 32 MiB, 5 from 64 MiB on."""
    result = curve(tmp_path, lambda s: 3.0 if s >= 64 * MIB else ramp(s))
    (dip,) = result.dips
    assert (dip.first, dip.last, dip.recovers) == (64 * MIB, 8 * GIB, False)
    assert "GPUDirect" in dip.suggests
    assert result.peak_size == 32 * MIB


def test_a_mild_fall_at_the_large_end(tmp_path: Path) -> None:
    (dip,) = curve(tmp_path, slow(lambda size: size >= 4 * GIB, 0.8)).dips
    assert not dip.recovers
    assert "GPUDirect" not in dip.suggests


def test_noise_of_one_half(tmp_path: Path) -> None:
    measured = rows(tmp_path)
    index = next(i for i, row in enumerate(measured) if row.size == 64 * MIB)
    half = measured[index].out_of_place
    assert half is not None
    measured[index] = replace(measured[index], out_of_place=replace(half, busbw=half.busbw / 3))
    (dip,) = curve_of(measured).dips
    assert dip.halves == "out-of-place"
    assert "noise" in dip.suggests


def test_small_sizes_are_latency_and_never_a_dip(tmp_path: Path) -> None:
    result = curve(tmp_path, slow(lambda size: size == 8 * KIB, 0.2))
    assert result.dips == ()


def test_the_first_size_may_still_make_connections(tmp_path: Path) -> None:
    measured = rows(tmp_path)
    half = measured[0].out_of_place
    assert half is not None
    measured[0] = replace(measured[0], out_of_place=replace(half, time=half.time * 6))
    assert curve_of(measured).slow_start == pytest.approx(6, rel=0.1)


def test_nothing_measured() -> None:
    assert curve_of([]) == Curve()


def test_order_does_not_matter(tmp_path: Path) -> None:
    measured = rows(tmp_path, slow(lambda size: size == 16 * MIB, 0.5))
    assert curve_of(measured[::-1]).dips == curve_of(measured).dips
