"""Outputs of perftest as published, with the devices and figures that a test needs.

Bandwidth: the form of linux-rdma/perftest issue #240 (ConnectX on Ethernet), its row as v4.5-0.20's
REPORT_FMT has it. Latency: a run of ib_read_lat in two pods that spiderpool's documentation shows,
with the line about CPU frequencies that comes between head and row.
"""

from __future__ import annotations

RULE = "-" * 87
_HEAD = """\
{rule}
                    {test} Test
 Dual-port       : OFF\t\tDevice         : {device}
 Number of qps   : {pairs}\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON
 ibv_wr* API     : ON
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 4096[B]
 Link type       : {link}
 GID index       : 3
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
{rule}
 local address: LID 0000 QPN 0x2da6 PSN 0x38f9aa RKey 0x201200 VAddr 0x007f67c0644240
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:11:00:00:72
 remote address: LID 0000 QPN 0x3606 PSN 0xf0086a RKey 0x201600 VAddr 0x007f0a53d57240
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:11:00:00:88
{rule}
"""


def bandwidth(device: str, gbps: float = 392.0, *, count: int = 320000, link: str = "IB") -> str:
    """Return a client's of `ib_write_bw --report_gbits -s 65536 -q 4 -n 80000`; all are counted."""
    rate = gbps * 1000 / 8 / 65536
    return (
        _HEAD.format(rule=RULE, test="RDMA_Write BW", device=device, link=link, pairs=4)
        + " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        + f" 65536      {count:<10}       {gbps:<7.2f}            {gbps:<7.2f}\t\t     "
        + f"{rate:<7.6f}\n"
        + f"{RULE}\n"
    )


def latency(device: str, usec: float = 3.4, *, link: str = "IB") -> str:
    """Return a client's of `ib_read_lat`."""
    figures = (usec - 0.2, usec + 4, usec, usec, 0.1, usec + 0.3, usec + 1)
    return (
        _HEAD.format(rule=RULE, test="RDMA_Read Latency", device=device, link=link, pairs=1)
        + " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
        "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
        "Conflicting CPU frequency values detected: 1000.000000 != 1259.399000. CPU Frequency is "
        "not max.\n"
        + " 2       1000          "
        + "        ".join(f"{figure:<7.2f}" for figure in figures)
        + f"\n{RULE}\n"
    )
