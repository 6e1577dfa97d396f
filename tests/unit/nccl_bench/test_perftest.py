"""perftest's output: what was published is read, and what is cut, mixed or edited is refused."""

from __future__ import annotations

import pytest

from railhead.nccl.bench.perftest import read
from tests.unit.accept import perftests


def swapped(text: str, head: str, row: str) -> str:
    """Return a bandwidth test's output with another head and row of its table."""
    lines = text.splitlines()
    return "\n".join([*lines[:-3], head, row, lines[-1]])


@pytest.mark.parametrize(
    ("head", "row", "gbps"),
    [
        # Releases of 2023 and before write MB/sec, with lines about the CPU between head and row.
        (
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
            " 65536      1000             10402.09            10401.68                  0.166427",
            87.26,
        ),
        # Two DGX Sparks with four queue pairs.
        (
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            " 65536      20000            111.72             111.71             0.213070",
            111.71,
        ),
        # By duration: perftest measures no peak then.
        (
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            " 65536      4159603          0.00               363.47             0.693268",
            363.47,
        ),
        # A virtual network of 10 Gbit/s.
        (
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            " 65536      1000             9.81               9.81               0.018715",
            9.81,
        ),
    ],
)
def test_published_rows_are_read(head: str, row: str, gbps: float) -> None:
    result = read(swapped(perftests.bandwidth("mlx5_0"), head, row))
    assert result.gbps == pytest.approx(gbps, rel=1e-3)
    assert (result.test, result.device, result.link) == ("RDMA_Write BW", "mlx5_0", "IB")
    assert result.usec is None


def test_a_latency_is_read_behind_a_warning() -> None:
    result = read(perftests.latency("mlx5_bond_0", 1.91, link="Ethernet"))
    assert (result.test, result.device, result.link) == (
        "RDMA_Read Latency",
        "mlx5_bond_0",
        "Ethernet",
    )
    assert (result.usec, result.size, result.iterations) == (1.91, 2, 1000)


BANDWIDTH = perftests.bandwidth("mlx5_0")
LATENCY = perftests.latency("mlx5_0")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Couldn't connect to 10.0.0.2:18515\n", id="an error"),
        pytest.param(BANDWIDTH * 2, id="two tests"),
        pytest.param(BANDWIDTH + LATENCY, id="two kinds"),
        pytest.param(BANDWIDTH.replace("MsgRate[Mpps]", ""), id="a column gone"),
        pytest.param(BANDWIDTH.replace("392.00 \t", "492.00 \t"), id="an average that is edited"),
        pytest.param(BANDWIDTH.replace("Device ", "Davice "), id="no device"),
        pytest.param(BANDWIDTH.replace("392.00", "-nan  "), id="no figures"),
        pytest.param(BANDWIDTH.replace("392.00", "-39.20"), id="less than nothing"),
        pytest.param(LATENCY.replace(" 7.40", " 0.40"), id="an average above the most"),
    ],
)
def test_incomplete_test_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(text)


@pytest.mark.parametrize("text", [BANDWIDTH, LATENCY])
def test_no_beginning_of_an_output_is_read(text: str) -> None:
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        with pytest.raises(ValueError, match=r"\w"):
            read("".join(lines[:end]))
