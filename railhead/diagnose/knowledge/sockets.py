"""Causes on the TCP side: bootstrap, interfaces, policies, firewalls, names, ports."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "Bootstrap, sockets and rendezvous"


def _connect(error: bytes) -> bytes:
    """A connection that was given up for ``error``; NCCL's `retrying` lines are no failure."""
    return (
        rb"[Cc]onnect.*(?:failed|timeout) ?:.*"
        + error
        + rb"|[Cc]onnect.*returned \d+ ?\("
        + error
        + rb"|[Cc]onnect.*returned "
        + error
        + rb", exceeded|[Cc]onnect.*failed with error.*"
        + error
    )


CLUES = (
    Clue(
        id="bootstrap-no-interface",
        pattern=rb"Bootstrap ?: no socket interface found|no device found (?:matching|after "
        rb"excluding) .*NCCL_OOB_NET_IFNAME|NET/Socket : no interface found|"
        rb"NET/IB : No IP interface found",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/bootstrap.cc, src/transport/net_socket.cc",
        example="bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
    ),
    Clue(
        id="socket-family-zero",
        pattern=rb"Socket creation failed ?: Address family not supported",
        seen="NCCL to 2.11",
        source="NVIDIA/nccl src/include/socket.h; #210; nccl-tests #14",
        example="include/socket.h:311 NCCL WARN Socket creation failed : Address family not "
        "supported by protocol",
    ),
    Clue(
        id="bootstrap-odd-interface",
        pattern=rb"(?:Bootstrap ?: Using|NET : Using interface) "
        rb"\[?0?\]?(?:lo|docker\d+|virbr\d+|br-[0-9a-f]+|lxcbr\d+|"
        rb"lxdbr\d+|cni\d+|flannel\.\d+|tunl0|ip6tnl0|veth\w+|cali\w+|kube-ipvs0|nodelocaldns|usb\d+|"
        rb"enx[0-9a-f]{12}|idrac|tailscale\d+|wg\d+|zt\w+):",
        seen="NCCL, all versions",
        source="NVIDIA/nccl env.rst: lo and docker only where nothing else exists; field logs",
        example="NCCL INFO Bootstrap : Using virbr0:192.168.122.1<0>",
    ),
    Clue(
        id="socket-odd-interface",
        pattern=rb"NET/Socket ?: Using "
        rb".*\[\d+\](?:lo:127|docker\d|virbr\d|veth|br-[0-9a-f]|lxcbr|lxdbr|cni\d|"
        rb"flannel|tunl0|ip6tnl|cali|tailscale|zt\w)",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/transport/net_socket.cc; oneflow #3586",
        example="NCCL INFO NET/Socket : Using [0]eno1:172.18.40.41<0> [1]veth25f2e72:fe80::1<0>",
    ),
    Clue(
        id="connect-refused",
        pattern=_connect(rb"Connection refused"),
        seen="NCCL: `Connect to X failed :` to 2.11, `socketStartConnect:` to 2.23, `exceeded "
        "error "
        "retry count` from 2.24",
        source="NVIDIA/nccl src/misc/socket.cc, src/os/linux.cc",
        example="include/socket.h:403 NCCL WARN Connect to 10.148.3.247<56821> failed : Connection "
        "refused",
    ),
    Clue(
        id="connect-no-route",
        pattern=_connect(rb"No route to host"),
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/socket.cc, src/os/linux.cc",
        example="include/socket.h:409 NCCL WARN Net : Connect to 192.0.2.9<54263> failed : No "
        "route "
        "to host",
    ),
    Clue(
        id="connect-timed-out",
        pattern=_connect(rb"(?:Connection|Operation) timed out"),
        # In every rank's "Connected all rings" is the pattern's own choice.
        literal=b" timed out",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/socket.cc, src/os/linux.cc",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> "
        "failed "
        ": Connection timed out",
    ),
    Clue(
        id="connect-timed-out-address",
        pattern=rb"[Cc]onnect to (?P<address>[\d.]+)<\d+> (?:failed|returned).*timed out",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/socket.cc, src/os/linux.cc",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> "
        "failed "
        ": Connection timed out",
    ),
    Clue(
        id="connect-unreachable",
        pattern=_connect(rb"Network is unreachable"),
        seen="NCCL, gloo",
        source="NVIDIA/nccl src/misc/socket.cc, errno 101",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.2<45763> "
        "failed : Network is unreachable",
    ),
    Clue(
        id="connect-aborted",
        pattern=_connect(rb"Software caused connection abort"),
        seen="NCCL",
        source="NVIDIA/nccl-tests #166",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> "
        "failed "
        ": Software caused connection abort",
    ),
    Clue(
        id="connect-odd-address",
        pattern=rb"[Cc]onnect to (?:127\.\d+\.\d+\.\d+|172\.17\.\d+\.\d+|192\.168\.122\.\d+|"
        rb"169\.254\.\d+\.\d+|\S+%(?:veth|docker|virbr|br-|cali|ip6tnl)\w*)<\d+> ?"
        rb"(?:failed|returned)",
        seen="NCCL",
        source="loopback, docker's and libvirt's default bridges, link-local: never routed",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> "
        "failed : Connection refused",
    ),
    Clue(
        id="policy-denied",
        pattern=rb"(?i)policy denied|denied by network ?policy|\[UFW BLOCK\]|calico-packet: |"
        rb"administratively prohibited|FINAL_REJECT|security group .{0,40}(?:denied|blocked)",
        seen="Cilium and Hubble, Calico, ufw, firewalld, tcpdump",
        source="cilium monitor drop reasons; kernel log of ufw and firewalld",
        example="xx drop (Policy denied) flow 0x0 to endpoint 1234, 10.0.1.5:45763 -> "
        "10.0.1.9:39001 "
        "tcp SYN",
    ),
    Clue(
        id="mesh-sidecar",
        pattern=rb"istio-proxy|istio-init|linkerd-proxy|[Ee]nvoy proxy is|envoy (?:info|warning|"
        rb"critical|debug|error)|pilot-agent",
        seen="kubectl logs --all-containers, kubectl describe",
        source="istio and linkerd injectors; NVIDIA/nccl #1638",
        example="2026-01-01T00:00:00.000000Z info Envoy proxy is ready",
    ),
    Clue(
        id="closed-by-peer",
        pattern=rb"Connection closed by remote peer|"
        rb"Connection closed by peer \[|"
        rb"remote process exited or there was a network error|"
        rb"ncclRemoteError|NCCL error: remote process has exited",
        seen="NCCL from 2.12, PyTorch, gloo",
        source="NVIDIA/nccl src/misc/socket.cc; pytorch NCCLUtils.cpp",
        example="misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
        "worker-1<57557>",
    ),
    Clue(
        id="reset-by-peer",
        pattern=rb"Connection reset by peer",
        seen="any",
        source="errno 104",
        example="misc/socket.cc:538 NCCL WARN Net : Call to recv from 10.0.0.1<38000> failed : "
        "Connection reset by peer",
    ),
    Clue(
        id="store-port-in-use",
        pattern=rb"EADDRINUSE|errno: 98\b|[Aa]ddress already in use",
        seen="PyTorch, gloo, MPI, NCCL_COMM_ID, Python",
        source="pytorch torch/csrc/distributed/c10d/socket.cpp",
        example="[E socket.cpp:922] [c10d] The server socket has failed to bind to [::]:29500 "
        "(errno: 98 - Address already in use).",
    ),
    Clue(
        id="store-clients-missing",
        pattern=rb"Timed out after \d+ ?(?:seconds|ms) waiting for (?:clients|workers)\. "
        rb"(?P<joined>\d+)/"
        rb"(?P<wanted>\d+) (?:clients|workers) joined",
        seen="PyTorch",
        source="pytorch torch/csrc/distributed/c10d/TCPStore.cpp",
        example="torch.distributed.DistStoreError: Timed out after 601 seconds waiting for "
        "clients. "
        "1/2 clients joined.",
    ),
    Clue(
        id="store-connect-timeout",
        pattern=rb"client socket has timed out (?:after|while)|"
        rb"client socket has failed to connect to any network address of",
        seen="PyTorch",
        source="pytorch torch/csrc/distributed/c10d/socket.cpp",
        example="torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
        "while trying to connect to (10.0.0.1, 29500).",
    ),
    Clue(
        id="store-odd-address",
        pattern=rb"client socket has .*connect(?: to| to any network address of)? ?[(\[]"
        rb"(?:172\.17\.|169\.254\.|192\.168\.122\.)",
        seen="PyTorch",
        source="docker's and libvirt's default bridges, link-local: never routed",
        example="[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while "
        "trying "
        "to connect to (172.17.0.2, 44737).",
    ),
    Clue(
        id="store-connect-refused",
        pattern=rb"client socket has failed to connect to .*Connection refused|"
        rb"failed to connect to .*errno: 111",
        seen="PyTorch",
        source="pytorch torch/csrc/distributed/c10d/socket.cpp",
        example="[W socket.cpp:663] [c10d] The client socket has failed to connect to "
        "[worker-0]:29500 (errno: 111 - Connection refused).",
    ),
    Clue(
        id="store-localhost",
        pattern=rb"(?:timed out|failed to connect|retrying|cannot be).*(?:\(|\[|to |://)"
        rb"(?:localhost|127\.0\.0\.1|::1|localhost\.localdomain)[\]),: ]",
        seen="PyTorch",
        source="pytorch torch/csrc/distributed/c10d/socket.cpp",
        example="torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
        "while trying to connect to (localhost, 29500).",
    ),
    Clue(
        id="store-get-failed",
        pattern=rb"store->get\(.*got error|wait timeout after \d+ms, keys: |"
        rb"\[c10d\] recvValue(?:WithTimeout)? failed|"
        rb"TCPStore.*(?:Broken pipe|Connection reset|recvValue failed)",
        seen="PyTorch",
        source="pytorch ProcessGroupNCCL.cpp, TCPStore.cpp",
        example="RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from "
        "[0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset "
        "by peer",
    ),
    Clue(
        id="rendezvous-failed",
        pattern=rb"RendezvousTimeoutError|RendezvousConnectionError|RendezvousClosedError|"
        rb"connection to the C10d store has failed",
        seen="torchrun",
        source="pytorch torch/distributed/elastic/rendezvous",
        example="torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The "
        "connection "
        "to the C10d store has failed. See inner exception for details.",
    ),
    Clue(
        id="dns-failed",
        pattern=rb"Name or service not known|Temporary failure in name resolution|"
        rb"No address associated with hostname|nodename nor servname provided|"
        rb"Could not resolve host(?:name)?|can't resolve '[^(]|"
        rb"NXDOMAIN|EAI_NONAME|EAI_AGAIN|unable to find address for: \S+|"
        rb"Net : error encountered when getting address info",
        seen="glibc, PyTorch, ssh, mpirun, curl, NCCL",
        source="glibc gai_strerror; pytorch socket.cpp; NVIDIA/nccl src/misc/socket.cc",
        example="socket.gaierror: [Errno -2] Name or service not known",
    ),
    Clue(
        id="dns-elsewhere",
        pattern=rb"(?:huggingface|hf-mirror|wandb|github|googleapis|amazonaws|modelscope|"
        rb"HTTPSConnectionPool|HTTPConnectionPool).*(?:Name or service not known|resolve|"
        rb"Temporary failure in name resolution)|Could not resolve host: (?:huggingface|github)",
        seen="downloads of models and reports of metrics",
        source="urllib3, curl: a name outside of the job",
        example="HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded: "
        "Failed "
        "to resolve 'huggingface.co' ([Errno -2] Name or service not known)",
    ),
    Clue(
        id="gai-warning",
        pattern=rb"The IPv6 network addresses of .* cannot be retrieved|"
        rb"The hostname of the client socket cannot be retrieved",
        seen="PyTorch, also in runs that work",
        source="pytorch socket.cpp: a warning, the other family is tried next",
        example="[W socket.cpp:436] [c10d] The IPv6 network addresses of (worker-0, 29500) cannot "
        "be "
        "retrieved (gai error: -2 - Name or service not known).",
    ),
    Clue(
        id="gloo-interface",
        pattern=rb"Unable to find (?:address|interface) for: ?\S+|"
        rb"GLOO_SOCKET_IFNAME.*(?:not found|no such|invalid)",
        seen="gloo",
        source="pytorch/gloo gloo/transport/tcp/device.cc",
        example="RuntimeError: [enforce fail at "
        "../third_party/gloo/gloo/transport/tcp/device.cc:80] "
        "ifa != nullptr. Unable to find interface for: eth7",
    ),
    Clue(
        id="gloo-localhost",
        pattern=rb"[Gg]loo.{0,120}connect.{0,200}127\.0\.\d+\.\d+|"
        rb"connect \[(?:127\.0\.\d+\.\d+|::1)\]:\d+: Connection refused|"
        rb"GLOO_SOCKET_IFNAME=lo\b|Using the loopback address as fallback.*GLOO_SOCKET_IFNAME|"
        rb"Gloo connectFullMesh failed .*remote=\[127\.|"
        rb"SO_ERROR: Connection refused, remote=\[127\.",
        seen="gloo",
        source="pytorch/gloo gloo/transport/tcp/pair.cc; Debian's 127.0.1.1 in /etc/hosts",
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
        "[127.0.1.1]:27486: Connection refused",
    ),
    Clue(
        id="gloo-failed",
        pattern=rb"Gloo connectFullMesh failed|gloo/transport/tcp/\w+\.cc:\d+\] (?:connect|"
        rb"Connection|Read error|Timed out)",
        seen="gloo",
        source="pytorch/gloo gloo/transport/tcp/pair.cc",
        example="RuntimeError: Gloo connectFullMesh failed with "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
    ),
    Clue(
        id="bootstrap-link-local",
        pattern=rb"(?:Bootstrap ?: Using|OOB) \S*fe80:",
        seen="NCCL with IPv6",
        source="NVIDIA/nccl src/misc/socket.cc",
        example="NCCL INFO Bootstrap : Using eth0:fe80::a00:27ff:fe4e:66a1%eth0<0>",
    ),
    Clue(
        id="connect-ipv6-failed",
        pattern=rb"[Cc]onnect to (?:\[?[0-9a-f]{1,4}:[0-9a-f:]+)\S*<\d+>.*(?:failed|returned)|"
        rb"connect \[fe80:\S+ .*failed",
        seen="NCCL with IPv6",
        source="NVIDIA/nccl src/misc/socket.cc",
        example="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to fe80::1%eth0<45763> "
        "failed : Invalid argument",
    ),
    Clue(
        id="ipv6-literal-as-name",
        pattern=rb"network addresses of \(\[[0-9a-f]+:[0-9a-f:]+\], \d+\) cannot be retrieved",
        seen="PyTorch, when MASTER_ADDR is an IPv6 address in brackets",
        source="pytorch socket.cpp",
        example="[W socket.cpp:752] [c10d] The IPv6 network addresses of ([2001:db8::1540], 59699) "
        "cannot be retrieved (gai error: -2 - Name or service not known)",
    ),
    Clue(
        id="ipv6-unsupported",
        pattern=rb"errno: 97\b.*Address family not supported|"
        rb"EAFNOSUPPORT|Address family for hostname not supported|"
        rb"IPv6.*(?:is disabled|not supported|unavailable)",
        seen="PyTorch (a warning on hosts without IPv6), Python",
        source="pytorch socket.cpp",
        example="[W socket.cpp:697] [c10d] The client socket cannot be initialized to connect to "
        "[worker-0]:29500 (errno: 97 - Address family not supported by protocol).",
    ),
    Clue(
        id="store-port-mismatch",
        pattern=rb"Bootstrap Root ?: (?:mismatch in (?:rank count|info) from procs|rank \d+ of \d+ "
        rb"ranks has already checked in)",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/bootstrap.cc",
        example="bootstrap.cc:127 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : "
        "16",
    ),
    Clue(
        id="rank-out-of-range",
        pattern=rb"Invalid rank requested ?: ?\d+/\d+",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/init.cc",
        example="init.cc:981 NCCL WARN Invalid rank requested : 2/2",
    ),
    Clue(
        id="orte-failed",
        pattern=rb"ORTE (?:was unable to reliably start one or more daemons|has lost communication "
        rb"with a remote daemon|does not know how to route a message)|"
        rb"PRTE has lost communication with a remote daemon",
        seen="Open MPI",
        source="open-mpi help-errmgr-base.txt",
        example="ORTE was unable to reliably start one or more daemons.",
    ),
    Clue(
        id="ssh-failed",
        pattern=rb"ssh: connect to host \S+ port \d+: |Host key verification failed|"
        rb"Permission denied \(publickey",
        seen="mpirun over ssh",
        source="open-mpi help-errmgr-base.txt; OpenSSH",
        example="ssh: connect to host worker-1 port 22: Connection refused",
    ),
)

OBSERVATIONS = (
    Observation(
        id="netpol-blocks-peers",
        title="a NetworkPolicy selects the job's pods and does not allow them to reach each other "
        "on every port",
    ),
    Observation(id="pod-mesh-sidecar", title="a service mesh's proxy runs in the job's pods"),
    Observation(id="pods-missing", title="fewer of the job's pods run than the job has nodes"),
)

CAUSES = (
    Cause(
        id="network-policy-or-firewall",
        title="A network policy, a security group or a firewall blocks the ports between the pods",
        family=FAMILY,
        rules=(
            Rule(
                needs=("netpol-blocks-peers",),
                any_of=(
                    "connect-timed-out",
                    "connect-no-route",
                    "connect-refused",
                    "store-connect-timeout",
                    "store-clients-missing",
                    "bootstrap-then-silence",
                ),
                confidence=0.92,
                because="connections fail and a NetworkPolicy does not allow the pods to reach "
                "each "
                "other on every port",
            ),
            Rule(
                needs=("policy-denied",),
                confidence=0.85,
                because="the packet filter reports the drop",
            ),
            Rule(
                needs=("connect-no-route", "bootstrap-using"),
                unless=("connect-odd-address", "connect-ipv6-failed", "bootstrap-odd-interface"),
                confidence=0.55,
                because="the address is on the network that bootstrap uses, yet a rejected packet "
                "says No route to host, as firewalld's default does",
            ),
            Rule(
                needs=("connect-timed-out", "connect-same-network"),
                unless=(
                    "connect-odd-address",
                    "bootstrap-odd-interface",
                    "socket-odd-interface",
                    "wc-any",
                ),
                confidence=0.62,
                because="an address of the very network that bootstrap uses does not answer: "
                "packets are dropped",
            ),
            Rule(
                needs=("connect-timed-out",),
                unless=("connect-odd-address", "closed-by-peer", "bootstrap-odd-interface"),
                confidence=0.5,
                because="connections between the ranks time out",
            ),
            Rule(
                needs=("connect-no-route",),
                unless=("connect-odd-address",),
                confidence=0.5,
                because="a rejected packet says No route to host, as firewalld's default does",
            ),
            Rule(
                needs=("connect-aborted",),
                confidence=0.45,
                because="connections between the ranks are aborted",
            ),
            Rule(
                needs=("store-connect-timeout",),
                unless=("store-localhost", "dns-failed", "nccl-lines"),
                confidence=0.45,
                because="the worker cannot reach the rendezvous port",
            ),
            Rule(
                needs=("bootstrap-then-silence",),
                unless=("one-node", "bootstrap-odd-interface", "mesh-sidecar"),
                confidence=0.4,
                because="bootstrap starts and nothing follows, as when the ranks cannot connect",
            ),
            Rule(
                needs=("netpol-blocks-peers",),
                confidence=0.5,
                because="a NetworkPolicy does not allow the pods to reach each other on every port",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="namespaces",
            text="training namespaces carry Railhead's network policy, which lets a job's pods "
            "reach each other on every port; take away the stricter one",
        ),
        by_hand="allow every TCP port between the pods of a job (bootstrap and data use ephemeral "
        "ports of net.ipv4.ip_local_port_range), not MASTER_PORT alone; a security group must name "
        "itself as source",
        confirm="from one pod to another: `nc -zv PEER 45000` while the peer runs `nc -l 45000`",
        apart={
            "service-mesh-sidecar": "the pods have a proxy's container",
            "wrong-socket-interface": "the address that fails is on another network than the one "
            "the pods share",
            "peer-refused-connection": "refused means that the packet arrived and nobody listened",
        },
        source="NVIDIA/nccl troubleshooting page, networking; #1105",
    ),
    Cause(
        id="no-usable-socket-interface",
        title="NCCL finds no network interface to bootstrap on",
        family=FAMILY,
        rules=(
            Rule(
                needs=("bootstrap-no-interface",),
                confidence=0.95,
                because="NCCL says that no interface is left",
            ),
            Rule(
                needs=("socket-family-zero",),
                unless=("bootstrap-using",),
                confidence=0.7,
                because="the address to connect to has no family: no usable IP interface",
            ),
            Rule(
                needs=("gloo-interface",),
                confidence=0.9,
                because="gloo does not find the interface that it was told to use",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="the rails name the interfaces; NCCL_SOCKET_IFNAME follows from them, and a job "
            "must not set another in its env",
        ),
        by_hand="NCCL_SOCKET_IFNAME to an interface that exists in the pod (a prefix list; `=` "
        "makes "
        "it exact, `^` excludes); docker run --net=host when the container has none",
        confirm="in the pod: `ip -brief address`",
        apart={"wrong-socket-interface": "an interface is found, but the peers cannot reach it"},
        source="NVIDIA/nccl src/bootstrap.cc; nccl-tests #14",
    ),
    Cause(
        id="wrong-socket-interface",
        title="Bootstrap uses an interface that the other nodes cannot reach",
        family=FAMILY,
        rules=(
            Rule(
                needs=("connect-odd-address",),
                confidence=0.8,
                because="a rank tries to reach a loopback, bridge or link-local address of another "
                "host",
            ),
            Rule(
                needs=("store-odd-address",),
                confidence=0.68,
                because="the store's address is that of a container bridge, which other hosts "
                "cannot "
                "reach",
            ),
            Rule(
                needs=("bootstrap-odd-interface",),
                any_of=(
                    "connect-refused",
                    "connect-timed-out",
                    "connect-no-route",
                    "connect-unreachable",
                    "watchdog-timeout",
                    "bootstrap-then-silence",
                ),
                unless=("one-node",),
                confidence=0.8,
                because="bootstrap is on a bridge, tunnel or loopback interface and connecting "
                "fails",
            ),
            Rule(
                needs=("socket-odd-interface",),
                any_of=(
                    "connect-refused",
                    "connect-timed-out",
                    "connect-no-route",
                    "connect-unreachable",
                ),
                confidence=0.66,
                because="data sockets also use a bridge or a container's own interface, and "
                "connecting fails",
            ),
            Rule(
                needs=("connect-unreachable",),
                unless=("connect-ipv6-failed",),
                confidence=0.65,
                because="the network of the address is not reachable from here",
            ),
            Rule(
                needs=("bootstrap-networks-differ",),
                any_of=("connect-refused", "connect-timed-out", "connect-no-route"),
                confidence=0.65,
                because="ranks bootstrap on different networks and connecting fails",
            ),
            Rule(
                needs=("bootstrap-interfaces-differ",),
                unless=("init-complete",),
                confidence=0.68,
                because="ranks bootstrap on different interfaces, some on IPv6 and others on IPv4",
            ),
            Rule(
                needs=("bootstrap-networks-differ",),
                unless=("init-complete",),
                confidence=0.45,
                because="ranks bootstrap on different networks",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="the rails name the interfaces; NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME follow "
            "from them",
        ),
        by_hand="NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface that every node can "
        "reach, the same on all of them",
        confirm="ping the `Bootstrap: Using` address of one node from another",
        apart={
            "service-mesh-sidecar": "the pods have a proxy's container",
            "network-policy-or-firewall": "the address is the right one and still times out",
            "no-usable-socket-interface": "NCCL finds no interface at all",
        },
        source="NVIDIA/nccl troubleshooting page, networking",
    ),
    Cause(
        id="peer-refused-connection",
        title="A peer refuses the connection: nobody listens at the address that it gave out",
        family=FAMILY,
        rules=(
            Rule(
                needs=("connect-refused",),
                unless=(
                    "connect-odd-address",
                    "bootstrap-odd-interface",
                    "gloo-localhost",
                    "store-connect-refused",
                ),
                confidence=0.62,
                because="the peer's host answers that nobody listens: its rank died first, or the "
                "node is at fault",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="none",
            path="",
            text="`railhead status JOB` names the pod that ended first; nothing to set",
        ),
        by_hand="look at the log of the rank at the address of the message first; when it is one "
        "node each time, take it out and test it",
        confirm="`railhead logs JOB --node N` of that address: it ended or never started",
        apart={
            "wrong-socket-interface": "the address is not one that the pods share",
            "a-rank-died-first": "the peer's own log shows why it ended",
        },
        source="errno 111; stas00/ml-engineering slurm notes",
    ),
    Cause(
        id="service-mesh-sidecar",
        title="A service mesh's proxy sits in the pods and takes NCCL's connections",
        family=FAMILY,
        rules=(
            Rule(
                needs=("pod-mesh-sidecar",),
                confidence=0.85,
                because="the pods run a mesh proxy",
            ),
            Rule(
                needs=("mesh-sidecar", "bootstrap-using"),
                unless=("init-complete",),
                confidence=0.7,
                because="a mesh proxy runs beside the ranks and bootstrap does not finish",
            ),
            Rule(
                needs=("bootstrap-then-silence",),
                unless=("one-node",),
                confidence=0.32,
                because="bootstrap starts and nothing follows",
            ),
            Rule(
                needs=("mesh-sidecar",),
                unless=("init-complete",),
                confidence=0.4,
                because="a mesh proxy runs beside the ranks",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="stack",
            path="namespaces",
            text="keep injection off in training namespaces (label istio-injection: disabled)",
        ),
        by_hand='annotation sidecar.istio.io/inject: "false" on the pods',
        confirm="`kubectl get pod -o jsonpath={.spec.containers[*].name}` shows no proxy",
        apart={
            "network-policy-or-firewall": "the pods have no proxy; connections time out",
            "wrong-socket-interface": "the address of `Bootstrap: Using` is on no shared network",
        },
        source="NVIDIA/nccl #1638",
    ),
    Cause(
        id="rendezvous-timeout",
        title="Not every worker reaches the rendezvous",
        family=FAMILY,
        rules=(
            Rule(
                needs=("store-clients-missing", "pods-missing"),
                confidence=0.9,
                because="clients are missing and so are pods",
            ),
            Rule(
                needs=("store-clients-missing",),
                unless=("store-localhost", "dns-failed"),
                confidence=0.7,
                because="the store says how many clients never came",
            ),
            Rule(
                needs=("store-connect-timeout",),
                unless=("store-localhost", "dns-failed", "store-port-in-use"),
                confidence=0.55,
                because="a worker cannot reach the rendezvous address",
            ),
            Rule(
                needs=("rendezvous-failed",),
                unless=("store-port-in-use", "dns-failed", "store-localhost"),
                confidence=0.55,
                because="the rendezvous failed before NCCL started",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="stack",
            path="ready_timeout_seconds",
            text="a gang is placed whole or put back; a job launched with `railhead launch` starts "
            "no worker without the others",
        ),
        by_hand="see that every worker runs and that MASTER_ADDR:MASTER_PORT answers from each: "
        "policies, the port, workers restarted out of step",
        confirm="from every worker: `nc -zv $MASTER_ADDR $MASTER_PORT`",
        apart={
            "name-resolution": "the error is about a name, not a time",
            "network-policy-or-firewall": "all workers run and only connecting fails",
            "master-address-is-localhost": "the address is localhost",
        },
        source="pytorch TCPStore.cpp",
    ),
    Cause(
        id="master-address-is-localhost",
        title="Workers look for the rendezvous on their own host",
        family=FAMILY,
        rules=(
            Rule(
                needs=("store-localhost",),
                any_of=(
                    "store-connect-timeout",
                    "store-clients-missing",
                    "store-connect-refused",
                    "rendezvous-failed",
                ),
                confidence=0.72,
                because="a client tries to reach the store at localhost",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="job",
            path="env",
            text="take MASTER_ADDR and MASTER_PORT out: the runtime sets them",
        ),
        by_hand="MASTER_ADDR must be rank 0's address on every node; use init_method env:// and "
        "let "
        "nothing overwrite MASTER_PORT",
        confirm="`env | grep MASTER_` in each pod",
        apart={"rendezvous-timeout": "the address is that of another host"},
        source="pytorch/pytorch issues on env://",
    ),
    Cause(
        id="name-resolution",
        title="A host name does not resolve",
        family=FAMILY,
        rules=(
            Rule(
                needs=("dns-failed",),
                unless=("only-gai-warning", "init-complete"),
                confidence=0.85,
                because="the resolver says so",
            ),
            Rule(
                needs=("dns-failed", "store-connect-timeout"),
                confidence=0.85,
                because="the rendezvous host's name does not resolve and connecting times out",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="none",
            path="",
            text="`railhead launch` renders the headless Service that gives pods their names",
        ),
        by_hand="a headless Service with publishNotReadyAddresses, hostname and subdomain in the "
        "pods, and cluster DNS that works; on bare hosts the name in /etc/hosts or DNS",
        confirm="in the pod: `getent hosts $MASTER_ADDR`",
        apart={"rendezvous-timeout": "the name resolves, but nobody answers"},
        source="glibc gai_strerror",
    ),
    Cause(
        id="port-in-use",
        title="The rendezvous port is taken already",
        family=FAMILY,
        rules=(
            Rule(
                needs=("store-port-in-use", "pod-host-network"),
                confidence=0.95,
                because="binding failed with EADDRINUSE, and the pods share their host's ports",
            ),
            Rule(
                needs=("store-port-in-use",),
                unless=("init-complete",),
                confidence=0.9,
                because="binding failed with EADDRINUSE",
            ),
            Rule(
                needs=("store-port-in-use",),
                confidence=0.5,
                because="binding failed with EADDRINUSE, though communicators came up",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="take MASTER_PORT out: each pod has its own network namespace, so the default is "
            "free unless hostNetwork is on",
        ),
        by_hand="another --master_port per job on one host, or port 0; kill what an earlier run "
        "left",
        confirm="`ss -ltnp` on rank 0's host",
        source="pytorch socket.cpp",
    ),
    Cause(
        id="gloo-advertises-loopback",
        title="Gloo gives out a loopback address, so other hosts cannot connect",
        family=FAMILY,
        rules=(
            Rule(
                needs=("gloo-localhost",),
                confidence=0.85,
                because="gloo tries to connect to a loopback address",
            ),
            Rule(
                needs=("gloo-failed",),
                unless=("gloo-localhost", "closed-by-peer", "gloo-interface"),
                confidence=0.4,
                because="gloo's full mesh does not come up",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="GLOO_SOCKET_IFNAME follows from the rails; a job must not set another",
        ),
        by_hand="GLOO_SOCKET_IFNAME to the interface that the hosts share, or the host's name in "
        "/etc/hosts not to 127.0.1.1",
        confirm="`getent hosts $(hostname)` gives no 127.* address",
        source="pytorch/gloo gloo/transport/tcp/pair.cc",
    ),
    Cause(
        id="ipv6-address-family",
        title="IPv6 and IPv4 are mixed, or a link-local IPv6 address is given out",
        family=FAMILY,
        rules=(
            Rule(
                needs=("bootstrap-link-local",),
                any_of=(
                    "connect-ipv6-failed",
                    "connect-timed-out",
                    "connect-no-route",
                    "connect-unreachable",
                    "watchdog-timeout",
                ),
                confidence=0.8,
                because="bootstrap is on a link-local IPv6 address and connecting fails",
            ),
            Rule(
                needs=("ipv6-literal-as-name",),
                confidence=0.75,
                because="an IPv6 address in brackets is taken for a host's name",
            ),
            Rule(
                needs=("connect-ipv6-failed",),
                confidence=0.55,
                because="connecting to an IPv6 address fails",
            ),
            Rule(
                needs=("ipv6-unsupported",),
                any_of=("store-connect-timeout",),
                confidence=0.5,
                because="the store's address is IPv6 and this host has no IPv6",
            ),
            Rule(
                needs=("bootstrap-interfaces-differ",),
                unless=("init-complete",),
                confidence=0.55,
                because="some ranks bootstrap on IPv4, others on IPv6",
            ),
            Rule(
                needs=("bootstrap-link-local",),
                unless=("init-complete",),
                confidence=0.5,
                because="bootstrap is on a link-local IPv6 address",
            ),
            Rule(
                needs=("bootstrap-families-differ",),
                unless=("init-complete",),
                confidence=0.7,
                because="some ranks bootstrap on IPv4, others on IPv6",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="NCCL_SOCKET_FAMILY: AF_INET (or AF_INET6 everywhere); for RoCE "
            "NCCL_IB_ADDR_FAMILY",
        ),
        by_hand="NCCL_SOCKET_FAMILY=AF_INET on all ranks, or routable IPv6 addresses on all",
        confirm="every rank's `Bootstrap: Using` line shows the same family and no fe80::",
        source="NVIDIA/nccl env.rst, NCCL_SOCKET_FAMILY, NCCL_IB_ADDR_FAMILY",
    ),
    Cause(
        id="rank-count-disagrees",
        title="Processes disagree about the number of ranks, or two claim the same rank",
        family=FAMILY,
        rules=(
            Rule(
                needs=("store-port-mismatch",),
                confidence=0.85,
                because="NCCL's root says so",
            ),
            Rule(
                needs=("rank-out-of-range",),
                confidence=0.7,
                because="a rank's number is not below the number of ranks that it was given",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="processes_per_node",
            text="the same on every node; take RANK and WORLD_SIZE out of env",
        ),
        by_hand="WORLD_SIZE and RANK consistent on all nodes; no process left over from an earlier "
        "run on the same NCCL_COMM_ID or port",
        confirm="`env | grep -E 'RANK|WORLD_SIZE'` in each process",
        source="NVIDIA/nccl src/bootstrap.cc",
    ),
    Cause(
        id="ssh-launcher-failed",
        title="mpirun cannot start its daemons on the workers",
        family=FAMILY,
        rules=(
            Rule(
                needs=("ssh-failed",),
                confidence=0.7,
                because="ssh says so",
            ),
            Rule(
                needs=("orte-failed",),
                confidence=0.5,
                because="mpirun says so, and not why",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="command",
            text="torchrun needs no ssh; for MPI jobs wait until the workers run",
        ),
        by_hand="sshd in the workers, keys and known_hosts, and a launcher that waits for it",
        confirm="from the launcher: `ssh WORKER true`",
        source="open-mpi help-errmgr-base.txt",
    ),
)
