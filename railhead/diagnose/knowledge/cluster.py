"""Causes that Kubernetes itself reports, in events or in the words of a log."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "Kubernetes"

CLUES = (
    Clue(
        id="k8s-unschedulable",
        pattern=rb"FailedScheduling|\d+/\d+ nodes are available: |"
        rb"Insufficient (?:rdma|nvidia\.com|vpc\.amazonaws\.com|cpu|memory)\b",
        seen="kubectl describe, events",
        source="kubernetes pkg/scheduler",
        example="0/4 nodes are available: 4 Insufficient rdma/rdma_shared_device_a.",
    ),
    Clue(
        id="k8s-mount-failed",
        pattern=rb"FailedMount\b|FailedAttachVolume|MountVolume\.\w+ failed for volume|"
        rb"Unable to attach or mount volumes",
        seen="kubectl describe, events",
        source="kubernetes pkg/kubelet/volumemanager",
        example='Warning  FailedMount  MountVolume.SetUp failed for volume "data"',
    ),
    Clue(
        id="file-system-full",
        pattern=rb"OSError: \[Errno (?:28|122)\] (?:No space left on device|Disk quota exceeded)|"
        rb"PytorchStreamWriter failed writing file|"
        rb"railhead: claim \S+ at \S+ has no space left since ",
        seen="Python, PyTorch writing a checkpoint; what Railhead starts a job's command with",
        source="errno(3); pytorch/pytorch caffe2/serialize/inline_container.cc; "
        "railhead.launch.programs.keep",
        example="OSError: [Errno 28] No space left on device: '/checkpoints/run/epoch-0003'",
    ),
    Clue(
        id="file-system-gone",
        pattern=rb"OSError: \[Errno 116\] Stale file handle|"
        rb"OSError: \[Errno 108\] Cannot send after transport endpoint shutdown|"
        rb"OSError: \[Errno 5\] Input/output error: |"
        rb"railhead: claim \S+ at \S+ cannot be used since ",
        seen="Python, on a mount whose server took the files away or the client out",
        source="errno(3): ESTALE of NFS, ESHUTDOWN of an evicted Lustre client, EIO; "
        "railhead.launch.programs.keep",
        example="OSError: [Errno 116] Stale file handle: '/checkpoints/run'",
    ),
    Clue(
        id="file-system-hangs",
        pattern=rb"railhead: claim \S+ at \S+ does not answer since ",
        seen="what Railhead starts a job's command with, once a mount has not answered for 20 s",
        source="railhead.launch.programs.keep",
        example="railhead: claim checkpoints at /checkpoints does not answer since "
        "2026-01-02T03:04:05Z: whatever uses it waits, and no checkpoint arrives",
    ),
    Clue(
        id="k8s-network-not-ready",
        pattern=rb"NetworkNotReady|cni plugin not initialized|network plugin is not ready|"
        rb"FailedCreatePodSandBox|failed to setup network for sandbox|"
        rb"cannot find a network-attachment-definition",
        seen="kubectl describe, events",
        source="kubernetes pkg/kubelet; multus",
        example="Warning  FailedCreatePodSandBox  Failed to create pod sandbox: plugin type="
        '"multus" failed (add): cannot find a network-attachment-definition (rail-0)',
    ),
    Clue(
        id="k8s-image-pull",
        pattern=rb"ImagePullBackOff|ErrImagePull|Failed to pull image",
        seen="kubectl get, events",
        source="kubernetes pkg/kubelet/images",
        example='Back-off pulling image "registry.example/train:1": ImagePullBackOff',
    ),
    Clue(
        id="k8s-crash-loop",
        pattern=rb"CrashLoopBackOff|Back-off restarting failed container",
        seen="kubectl get, events",
        source="kubernetes pkg/kubelet",
        example="Warning  BackOff  Back-off restarting failed container node in pod job-node-0-0",
    ),
    Clue(
        id="k8s-evicted",
        pattern=rb"The node was low on resource|\bEvicted\b|NodeNotReady|"
        rb"Taint manager .*deleting pod|node\.kubernetes\.io/(?:unreachable|not-ready):NoExecute",
        seen="kubectl describe, events",
        source="kubernetes pkg/kubelet/eviction, node lifecycle controller",
        example="Warning  Evicted  The node was low on resource: ephemeral-storage.",
    ),
    Clue(
        id="k8s-quota",
        pattern=rb"couldn't assign flavors to pod set|insufficient (?:unused )?quota|"
        rb"exceeded quota|insufficient quota for",
        seen="Kueue workload conditions, ResourceQuota",
        source="kubernetes-sigs/kueue pkg/scheduler; kubernetes resourcequota",
        example="couldn't assign flavors to pod set node: insufficient unused quota for "
        "nvidia.com/gpu in flavor gpu, 8 more needed",
    ),
)

OBSERVATIONS = (
    Observation(id="event-failed-scheduling", title="the scheduler finds no node for a pod"),
    Observation(id="event-failed-mount", title="a volume of a pod does not mount"),
    Observation(id="event-network", title="a pod's network could not be set up"),
    Observation(id="event-image-pull", title="an image could not be pulled"),
    Observation(id="event-crash-loop", title="a container fails and is started again"),
    Observation(id="event-evicted", title="a pod was evicted or its node went away"),
    Observation(id="node-not-ready", title="a node of the job is not Ready"),
    Observation(id="node-tainted", title="a node of the job is tainted against new pods"),
    Observation(id="kueue-not-admitted", title="Kueue has not admitted the job's workload"),
    Observation(id="pod-host-network", title="the pods use the host's network"),
    Observation(id="pod-no-rail-networks", title="the pods carry no rail networks annotation"),
)

CAUSES = (
    Cause(
        id="gang-not-placed",
        title="Not all pods of the gang could be placed",
        family=FAMILY,
        rules=(
            Rule(
                needs=("event-failed-scheduling",),
                confidence=0.9,
                because="the scheduler's own event",
            ),
            Rule(
                needs=("k8s-unschedulable",),
                confidence=0.8,
                because="the scheduler's own words in the log",
            ),
            Rule(
                needs=("node-tainted", "pods-missing"),
                confidence=0.75,
                because="fewer pods run than the job has nodes, and a node takes no new pods",
            ),
            Rule(
                needs=("pods-missing",),
                confidence=0.55,
                because="fewer pods run than the job has nodes",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="pools[].nodes",
            text="enough nodes that advertise the devices; the message says what is insufficient",
        ),
        by_hand="`kubectl describe pod` names the resource, taint or affinity that no node meets",
        confirm="`kubectl describe node | grep -A12 Allocatable`",
        apart={"quota-not-available": "the pods do not exist yet: Kueue holds the job back"},
        source="kubernetes pkg/scheduler",
        explains=("rendezvous-timeout", "name-resolution"),
    ),
    Cause(
        id="quota-not-available",
        title="The queue has no quota for the job",
        family=FAMILY,
        rules=(
            Rule(
                needs=("kueue-not-admitted",),
                confidence=0.9,
                because="Kueue's own condition on the workload",
            ),
            Rule(needs=("k8s-quota",), confidence=0.8, because="Kueue's or the API server's words"),
        ),
        verdict="other",
        fix=Setting(
            where="stack",
            path="queues",
            text="quotas follow from the pools; wait, or add nodes to the pool behind the queue",
        ),
        by_hand="`kubectl describe workload` says how much more is needed",
        confirm="`railhead status JOB`",
        source="kubernetes-sigs/kueue",
    ),
    Cause(
        id="volume-not-mounted",
        title="A volume of the job does not mount",
        family=FAMILY,
        rules=(
            Rule(needs=("event-failed-mount",), confidence=0.9, because="the kubelet's event"),
            Rule(needs=("k8s-mount-failed",), confidence=0.8, because="the kubelet's words"),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="checkpoints",
            text="a claim of that name in every training namespace, of a class that is "
            "ReadWriteMany",
        ),
        by_hand="`kubectl describe pod` names the volume; the claim must exist, be Bound and allow "
        "many nodes",
        confirm="`kubectl get pvc`",
        source="kubernetes pkg/kubelet/volumemanager",
        explains=("rendezvous-timeout",),
    ),
    Cause(
        id="file-system-full",
        title="A file system that the job writes to is full, or a quota on it",
        family=FAMILY,
        rules=(
            Rule(
                needs=("file-system-full",),
                unless=("shm-nccl-enospc", "shm-torch"),
                confidence=0.75,
                because="a write fails for want of room",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="stack",
            path="checkpoints[].retention",
            text="what may go by age; or more room behind the claim, whose `size` not every class "
            "enforces",
        ),
        by_hand="the path in the message says which: the claim, scratch or a log's directory; "
        "`df -h PATH` in a pod that mounts it",
        confirm="`railhead storage --prove` says what room is left on the claim",
        apart={"dev-shm-too-small": "the path is below /dev/shm"},
        source="errno(3): ENOSPC, EDQUOT",
        explains=("a-rank-died-first", "pytorch-watchdog-timeout", "rendezvous-timeout"),
    ),
    Cause(
        id="file-system-gone",
        title="The server of a mounted file system took it away, or cut the node off",
        family=FAMILY,
        rules=(
            Rule(
                needs=("file-system-gone",),
                confidence=0.75,
                because="files of a mount are no longer there for this node",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="none", path="", text="the gang starts again on a fresh mount once the server is"
        ),
        by_hand="the file server's own log, and the node's (`dmesg`): an export that was removed "
        "or moved, a client that was evicted",
        confirm="`railhead storage --prove` mounts, writes and reads the claim on two nodes",
        source="nfs(5), errno(3): ESTALE, ESHUTDOWN, EIO",
        explains=("a-rank-died-first", "pytorch-watchdog-timeout", "rendezvous-timeout"),
    ),
    Cause(
        id="file-system-hangs",
        title="A claim that the job mounts does not answer",
        family=FAMILY,
        rules=(
            Rule(
                needs=("file-system-hangs",),
                confidence=0.8,
                because="the job's pods ask it every half minute, and got no answer",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="none", path="", text="the job goes on by itself once the file server answers"
        ),
        by_hand="the file server and the network to it; the node's `dmesg` names the server that "
        "does not respond",
        confirm="`railhead logs` says when it is as it should be again; `railhead storage --prove` "
        "mounts, writes and reads the claim on two nodes",
        source="nfs(5), of hard mounts: a request is tried again for ever",
        explains=("a-rank-died-first", "pytorch-watchdog-timeout", "rendezvous-timeout"),
    ),
    Cause(
        id="pod-network-not-set-up",
        title="The pod's network (CNI, rails) could not be set up",
        family=FAMILY,
        rules=(
            Rule(needs=("event-network",), confidence=0.9, because="the kubelet's event"),
            Rule(needs=("k8s-network-not-ready",), confidence=0.8, because="the kubelet's words"),
            Rule(
                needs=("pod-no-rail-networks",),
                any_of=("ib-no-device", "transport-socket"),
                confidence=0.65,
                because="the pods have no rail network",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="each rail's network is made in every training namespace; its interface must "
            "exist "
            "on the nodes",
        ),
        by_hand="`kubectl get network-attachment-definitions`; the CNI's log on the node",
        confirm="`kubectl describe pod` shows the event gone",
        source="kubernetes pkg/kubelet; multus",
        explains=("rendezvous-timeout",),
    ),
    Cause(
        id="image-not-pulled",
        title="The image cannot be pulled",
        family=FAMILY,
        rules=(
            Rule(needs=("event-image-pull",), confidence=0.92, because="the kubelet's event"),
            Rule(needs=("k8s-image-pull",), confidence=0.85, because="the kubelet's words"),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack", path="runtimes[].image", text="a name and tag that the nodes can pull"
        ),
        by_hand="`kubectl describe pod` has the registry's answer: the name, the tag, the secret",
        confirm="`crictl pull IMAGE` on the node",
        source="kubernetes pkg/kubelet/images",
        explains=("rendezvous-timeout",),
    ),
    Cause(
        id="container-keeps-failing",
        title="A container fails again and again",
        family=FAMILY,
        rules=(
            Rule(needs=("event-crash-loop",), confidence=0.65, because="the kubelet's event"),
            Rule(needs=("k8s-crash-loop",), confidence=0.6, because="the kubelet's words"),
        ),
        verdict="other",
        fix=Setting(where="job", path="command", text="what the log of the last attempt says"),
        by_hand="`kubectl logs --previous`",
        confirm="the last attempt's log ends with its reason",
        source="kubernetes pkg/kubelet",
        explains=("rendezvous-timeout",),
    ),
    Cause(
        id="node-lost",
        title="A node went away or evicted the pod",
        family=FAMILY,
        rules=(
            Rule(
                needs=("node-not-ready",),
                confidence=0.85,
                because="a node of the job is not Ready",
            ),
            Rule(needs=("event-evicted",), confidence=0.85, because="Kubernetes' own event"),
            Rule(needs=("k8s-evicted",), confidence=0.75, because="Kubernetes' own words"),
        ),
        verdict="other",
        fix=Setting(
            where="none", path="", text="the gang is put back whole and placed on other nodes"
        ),
        by_hand="`kubectl describe node`; the machine's own console",
        confirm="`kubectl get node`",
        source="kubernetes node lifecycle controller, kubelet eviction",
        explains=("a-rank-died-first", "pytorch-watchdog-timeout", "rdma-retry-exceeded"),
    ),
)
