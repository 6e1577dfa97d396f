"""Tests of the transport and of GPUDirect RDMA: every rule from both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from railhead.nccl.build import build
from railhead.nccl.reading import Reading
from tests.unit.nccl import logs
from tests.unit.nccl.logs import comm, info, init, local, net, row, warn

Read = Callable[[Iterable[str]], Reading]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(lines: Iterable[str]) -> Reading:
        return build([logs.write(tmp_path / "run.log", lines)])

    return reading


@pytest.mark.parametrize(
    ("network", "transport"),
    [
        ("IB/0", "verbs"),
        ("IBext_v8/3", "verbs"),
        ("Socket/0", "socket"),
        ("FastSocket/0", "socket"),
        # The plugin serves Slingshot and TCP as well.
        ("AWS Libfabric/1", "unknown"),
        ("Libfabric/1", "unknown"),
        ("FasTrak/0", "tcpx"),
        ("GPUDirectTCPX_v7/2", "tcpx"),
        ("gIB/0", "gib"),
        ("SomethingElse/0", "unknown"),
    ],
)
def test_connections_name_the_transport(read: Read, network: str, transport: str) -> None:
    lines = [line for line in logs.healthy(network=network, gdr=False) if "NET/IB :" not in line]
    reading = read(lines)
    assert reading.transport == transport
    if transport != "unknown":
        assert reading.claims["transport"].grade == "connections"
        evidence = reading.claims["transport"].evidence[0]
        assert f"via NET/{network}" in evidence.text
        assert f"via NET/{network}" in lines[evidence.line - 1]


@pytest.mark.parametrize(
    "line",
    [
        "Ring 00 : 7 -> 8 [send] via NET/IB/0/GDRDMA",  # 2.4
        "Channel 00 : 7[41000] -> 8[1b000] [send] via NET/IB/0/GDRDMA",  # 2.5
        "Channel 00/0 : 7[41000] -> 8[1b000] [send] via NET/IB/0/GDRDMA",  # 2.12
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",  # 2.18
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3(5)/GDRDMA/Shared",  # PXN
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA(PCI)",  # 2.26
        "Channel 00 : 7 -> 8 [send] via NET/IB/0/GDRDMA comm 0x22fcfb0 nRanks 16",  # RCCL
    ],
)
def test_connections_of_every_version_are_read(read: Read, line: str) -> None:
    reading = read([info(line)])
    assert (reading.transport, reading.gdr) == ("verbs", "yes")


def test_ring_order_is_not_a_connection(read: Read) -> None:
    assert read([info("Channel 00/02 :    0   1   2   3")]).transport == "unknown"


def test_no_connection_outweighs_what_nccl_chose(read: Read) -> None:
    chosen = [info("Using network Socket")]
    reading = read(chosen)
    assert (reading.transport, reading.claims["transport"].grade) == ("socket", "choice")
    both = read([*chosen, *logs.healthy()])
    assert (both.transport, both.claims["transport"].grade) == ("unknown", "contradiction")
    assert both.verdict == "other"


def test_gpudirect_line_of_tcp_is_no_verbs(read: Read) -> None:
    """NCCL prints it of each device of the network that it chose (src/graph/topo.cc)."""
    line = info("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'")
    assert read([line]).transport == "socket"
    local_too = [info("Using network Socket"), logs.local(0, 1), logs.CONNECTED]
    verbs = info("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    for spliced in (line, verbs):
        reading = read([*local_too, init(0, 2, "Init COMPLETE"), spliced])
        assert reading.transport in ("socket", "unknown"), spliced
        assert reading.verdict != "ok", spliced


def test_one_node_does_not_use_the_network_that_it_chose(read: Read) -> None:
    lines = [info("Using network Socket")]
    lines += [comm(rank, 8, 1) for rank in range(8)]
    lines += [local(rank, (rank + 1) % 8) for rank in range(8)]
    lines += [init(rank, 8, "Init COMPLETE") for rank in range(8)]
    reading = read(lines)
    assert (reading.transport, reading.gdr, reading.verdict) == ("p2p/shm-only", "no", "ok")
    more = [line.replace("nNodes 1", "nNodes 2").replace("nRanks 8", "nRanks 16") for line in lines]
    assert read(more).transport == "socket"


def test_ranks_joined_within_a_host_are_all_of_the_job_or_not(read: Read) -> None:
    lines = [local(0, 1, "SHM/direct/direct"), init(0, 2, "Init COMPLETE")]
    assert read(lines).transport == "p2p/shm-only"
    lines = [local(0, 1, "SHM/direct/direct"), init(0, 16, "Init COMPLETE")]
    assert read(lines).transport == "unknown"


def test_a_ring_that_closes_within_a_host_is_all_there_is(read: Read) -> None:
    closed = [local(src, (src + 1) % 4, "direct shared memory") for src in range(4)]
    assert read(closed).transport == "p2p/shm-only"
    # The chain of a ring over several nodes, and the trees' way back.
    chain = [local(src, src + 1) for src in range(3)] + [local(src + 1, src) for src in range(3)]
    assert read(chain).transport == "unknown"


def test_rack_of_nvlink_is_not_a_network(read: Read) -> None:
    rack = [comm(rank, 8, 2, mnnvl=1) for rank in range(8)]
    rack += [local(rank, (rank + 1) % 8, "P2P/MNNVL") for rank in range(8)]
    rack += [info("Connected all rings, use ring PXN 0 GDR 1")]
    assert read(rack).transport == "p2p/shm-only"
    assert read([*rack, net(0, 8, "send")]).transport == "verbs"


@pytest.mark.parametrize(
    ("lines", "transport"),
    [
        ([logs.IB_LIST], "ib"),
        ([logs.ROCE_LIST], "roce"),
        (
            [info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_4:1/RoCE [RO]; OOB eth0:1<0>")],
            "verbs",
        ),
        ([info("NET/IB: [0] mlx5_1:1/RoCE ")], "roce"),
        ([info("NET/OFI Selected Provider is efa (found 4 nics)")], "efa"),
        ([info("NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)")], "efa"),
        ([info("NET/OFI Selected provider is tcp;ofi_rxm, fabric is x (found 1 nics)")], "socket"),
        ([info("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)")], "unknown"),
        (["INFO: NET/FasTrak is what the job ran with"], "tcpx"),
        ([info("NET/Socket : Using [0]eth0:10.0.0.1<0>")], "socket"),
        ([info("NET/IB : No device found.")], "unknown"),
        ([warn("NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129")], "verbs"),
        (
            [
                warn(
                    "NET/IB: Got completion from peer 10.0.0.1<5> with status=12 opcode=0 len=0 "
                    "vendor err 129 (Recv) localGid ::ffff:10.1.0.3 remoteGids::ffff:10.1.0.5"
                )
            ],
            "roce",
        ),
        ([warn("Call to ibv_modify_qp failed with error No such device")], "roce"),
        ([warn("Call to ibv_open_device failed")], "unknown"),
        ([warn("Net : Connect to 10.0.0.2<5> failed : No route to host")], "unknown"),
    ],
)
def test_short_excerpts(read: Read, lines: list[str], transport: str) -> None:
    assert read(lines).transport == transport


def test_the_ports_in_use_decide_between_infiniband_and_ethernet(read: Read) -> None:
    mixed = info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0:1<0>")
    assert read([mixed, net(0, 8, "send", "IB/1")]).transport == "roce"
    assert read([mixed, net(0, 8, "send", "IB/0")]).transport == "ib"


def test_gdr_of_both_directions(read: Read) -> None:
    both = [net(0, 8, "send"), net(8, 0, "receive")]
    assert read(both).gdr == "yes"
    none = [net(0, 8, "send", gdr=False), net(8, 0, "receive", gdr=False)]
    assert read(none).gdr == "no"
    some = read([net(0, 8, "send"), net(0, 8, "receive", gdr=False)])
    assert some.gdr == "no"
    assert some.claims["gdr-detail"].value.startswith("partly")


def test_receiving_with_gdr_and_sending_without_is_a_default(read: Read) -> None:
    lines = [net(0, 8, "receive"), net(8, 0, "receive"), net(0, 8, "send", gdr=False)]
    reading = read(lines)
    assert (reading.gdr, reading.verdict) == ("yes", "wired")
    done = [*lines, *(init(rank, 16, "Init COMPLETE") for rank in range(16))]
    assert read(done).verdict == "ok"
    assert "receive-only" in reading.claims["gdr-detail"].value


def test_an_efa_device_without_rdma_has_no_gdr(read: Read) -> None:
    efa = [info("NET/OFI Selected Provider is efa"), info("Using network AWS Libfabric")]
    lacks = "libfabric:4:1:efa:core:f():5<warn> FI_HMEM capability requires RDMA, which this "
    assert read(efa).gdr == "unknown"
    assert read([lacks + "device does not support.", *efa]).gdr == "no"


def test_support_for_gdr_is_not_its_use(read: Read) -> None:
    assert read([info("DMA-BUF is available on GPU device 0"), logs.IB_LIST]).gdr == "unknown"
    assert read([info("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'")]).gdr == "unknown"
    off = info("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    assert read([off]).gdr == "no"
    used = read([info("DMA-BUF is available on GPU device 0"), net(0, 8, "send")])
    assert used.claims["gdr-mechanism"].value == "dma-buf"


@pytest.mark.parametrize(
    "text",
    [
        "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)",
        "GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)",
        "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 7 > 4), read 0 mode Default",
    ],
)
def test_distant_nic_has_no_gdr(read: Read, text: str) -> None:
    assert read([info(text)]).gdr == "no"
    assert read([info(text.replace("Disabled", "Enabled"))]).gdr == "yes"


def test_table_alone_proves_only_speeds_above_any_nic(read: Read) -> None:
    assert read([row(1 << 33, 230.0, 430.0)]).transport == "unknown"
    assert read([row(1 << 33, 900.0, 1750.0)]).transport == "p2p/shm-only"


def test_one_process_with_all_gpus_is_one_node(read: Read) -> None:
    start = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor)"
    assert read([start, row(1 << 33, 240.0, 420.0)]).transport == "p2p/shm-only"
    assert read([start, row(1 << 33, 240.0, 450.0)]).transport == "unknown"


def test_versions_devices_and_settings_are_claims_with_lines(read: Read) -> None:
    lines = [
        *logs.healthy(),
        info("NCCL_ALGO set by environment to Ring"),
        info("NCCL_IB_GID_INDEX set by environment to 3."),
        info("cudaDriverVersion 12060"),
        info("Bootstrap : Using eth0:10.0.0.1<0>"),
        info("16 coll channels, 16 collnet channels, 8 nvls channels, 16 p2p channels, "
             "2 p2p channels per peer"),
        info("NVLS multicast support is available on dev 0"),
    ]  # fmt: skip
    reading = read(lines)
    values = {name: claim.value for name, claim in reading.claims.items()}
    assert values["nccl"] == "2.27.3"
    assert values["cuda"] == "12.8"
    assert values["driver"] == "12.6"
    assert values["bootstrap"] == "eth0"
    assert values["algorithms"] == "Ring"
    assert values["nvls"] == "available"
    assert values["hcas"] == "1 present: mlx5_0/IB; used: mlx5_0/IB"
    assert all(claim.evidence for claim in reading.claims.values() if claim.value != "unknown")
    assert "gid-index-set" in {note.id for note in reading.notes}
    assert reading.ranks == 16


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        (info("NET/OFI Selected provider is efa, fabric is efa (found 4 nics)"), "efa"),
        (info("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)"), "unknown"),
        ("libfabric:4:1:efa:cq:rxr_cq_write_tx_error():243<warn> err: 20", "efa"),
        (
            warn("NET/OFI Request 0x7f completed with error. RC: 113. Error: 4123 (Unresponsive"),
            "efa",
        ),
        ("instance type p5.48xlarge", "efa"),
        ("the [default0] of it", "libfabric"),
    ],
)
def test_the_aws_plugin_is_efa_where_efa_is_named(read: Read, line: str, transport: str) -> None:
    lines = [net(0, 8, "send", "AWS Libfabric/0"), net(8, 0, "receive", "AWS Libfabric/0")]
    assert read([line, *lines]).transport == transport


VERBS_USED = [net(0, 8, "send")]


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        (info("NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 4711 mtu 5 LID 17 subnet-prefix 1"), "ib"),
        (info("NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 9 mtu 3 GID 3 (80FE/0) fifoRkey=0x1"), "roce"),
        (
            info("NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 9 mtu 3 query_ece={supported=1, "
                 "vendor_id=0x15b3, options=0x1, comp_mask=0x0} GID 3 (80FE/0) fifoRkey=0x1"),
            "roce",
        ),
        (info("NCCL_IB_HCA set by environment to ibp12s0"), "ib"),
        (info("NCCL_IB_HCA set by environment to rocep12s0"), "roce"),
        (info("NCCL_IB_HCA set by environment to mlx5_ib0,mlx5_ib1"), "ib"),
        (info("NCCL_IB_HCA set by environment to mlx5_0"), "verbs"),
        (info("Bootstrap : Using ib0:10.0.0.1<0>"), "ib"),
        (info("Bootstrap : Using bond0:10.0.0.1<0>"), "verbs"),
        ("\tLink layer: InfiniBand", "ib"),
        ("\t\tlink_layer:\t\tEthernet", "roce"),
        (" Link type       : IB", "ib"),
        # A user may set it on InfiniBand, and many do.
        (info("NCCL_IB_GID_INDEX set by environment to 3."), "verbs"),
    ],
)  # fmt: skip
def test_link_layer_is_reported_if_a_line_has_it(read: Read, line: str, transport: str) -> None:
    reading = read([line, *VERBS_USED])
    claim = reading.claims["transport"]
    assert (reading.transport, claim.grade) == (transport, "connections")
    if transport != "verbs":
        assert line.strip().endswith(claim.evidence[-1].text.strip())


def test_both_link_layers_named_is_neither(read: Read) -> None:
    lines = [info("NCCL_IB_HCA set to ibp1s0,rocep2s0"), *VERBS_USED]
    assert read(lines).transport == "verbs"
    assert "both are named" in read(lines).claims["transport"].why


@pytest.mark.parametrize("network", ["IB", "Socket", "gIB"])
def test_a_network_chosen_on_the_only_host_is_not_its_transport(read: Read, network: str) -> None:
    chosen = [logs.IB_LIST, info(f"Using network {network}")]
    assert read(chosen).transport != "unknown"
    alone = [*chosen, *(comm(rank, 8, 1) for rank in range(8))]
    assert read(alone).transport == "unknown"
    # An error of that network's own library shows that it was used after all.
    error = warn("NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129")
    assert read([*alone, error]).transport == ("ib" if network == "IB" else "unknown")


@pytest.mark.parametrize(
    "line",
    [
        "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:41353",
        "torchrun --standalone --nproc-per-node 2 train.py",
        "torchrun --nnodes=1 train.py",
        "MASTER_ADDR=localhost",
        info("Bootstrap : Using lo:127.0.0.1<0>"),
    ],
)
def test_a_job_started_on_one_host_did_not_use_its_network(read: Read, line: str) -> None:
    # `init` writes as rank 0 of node-0.
    chosen = [line.replace("node-a:10:11", "node-0:100:101")]
    chosen.append(info("Using network Socket", host="node-0", pid=100))
    assert read(chosen).transport == "unknown"
    assert read([*chosen, init(0, 2, "Init COMPLETE")]).transport == "p2p/shm-only"
    other = info("Using network Socket", host="node-z", pid=999)
    assert read([*chosen, init(0, 2, "Init COMPLETE"), other]).transport == "socket"


def test_all_ranks_on_one_host_are_the_whole_job(read: Read) -> None:
    chosen = [info("Using network Socket", pid=rank, gpu=rank) for rank in range(4)]
    texts = ("Channel 00/02 :    0   1   2   3", "Connected all rings")
    rings = [info(text, pid=0) for text in texts]
    assert read([*chosen, *rings]).transport == "p2p/shm-only"
    assert read([*chosen[:3], *rings]).transport == "socket"


def test_differing_settings_and_versions_of_ranks_are_noted(read: Read) -> None:
    setting = "NCCL_IB_HCA set by environment to "
    lines = [info(setting + "mlx5_0", host="a"), info(setting + "mlx5_1", host="b")]
    lines += [info("NCCL version 2.20.5+cuda12.4"), info("NCCL version 2.21.5+cuda12.4")]
    notes = {note.id: note.text for note in read(lines).notes}
    assert notes["settings-differ"] == "NCCL_IB_HCA differs: mlx5_0 on a; mlx5_1 on b"
    assert "2.20.5, 2.21.5" in notes["versions-differ"]
    same = [info(setting + "mlx5_0", host="a"), info(setting + "mlx5_0", host="b")]
    assert read(same).notes == ()


def test_communicators_have_their_own_transport(read: Read) -> None:
    lines = [init(0, 16, "Init START"), comm(0, 16, 2), net(8, 0, "receive")]
    inner = init(0, 8, "Init START", identity="0xdef").replace("comm 0x55", "comm 0x77")
    lines += [inner, comm(0, 8, 1).replace("comm 0x55", "comm 0x77"), local(0, 1)]
    results = {communicator.id: communicator for communicator in read(lines).communicators}
    ours = results["0xabc"]
    assert (ours.transport, ours.gdr, ours.nodes) == ("verbs", "yes", 2)
    assert (results["0xdef"].transport, results["0xdef"].nodes) == ("p2p/shm-only", 1)
    assert results["0xabc"].started == {0}
    assert results["0xabc"].completed == set()


def test_ranks_that_did_not_complete_are_named(read: Read) -> None:
    lines = [init(rank, 4, "Init START") for rank in range(4)]
    lines += [init(rank, 4, "Init COMPLETE") for rank in range(3)]
    notes = {note.id: note.text for note in read(lines).notes}
    assert notes["ranks-incomplete"].endswith("1 ranks began and did not complete: 3")
    assert "ranks-absent" not in notes
    absent = {note.id: note.text for note in read(lines[:3]).notes}
    assert absent["ranks-absent"].endswith("1 of 4 ranks wrote nothing: 3")
