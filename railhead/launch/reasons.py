"""Messages that say why a job has no pods yet or its pods do not run, in words and with a remedy.

Each row has the form of one message as its author writes it. Rows of one author stand together, and
the comment above them says where the form was read: Kueue v0.16.2, Kubernetes v1.35.8,
containerd 1.7. What no row knows is shown as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_PLATFORM = "ask the platform team"
_NOTHING = "nothing"
_RETRY = f"{_NOTHING}: Kueue tries again by itself"
_FEWER = "ask for fewer nodes or GPUs, or name another queue"
_CLOSE = "`topology: any` or a higher level lets it start sooner, and so do fewer nodes"
# A pull that failed, as the kubelet says it of the container that waits (pkg/kubelet/images,
# image_manager.go, EnsureImageExists): at once, and while it pauses before the next try.
_PULL = r'(?:ErrImagePull|ImagePullBackOff): .*?"(?P<image>[^"]+)".*'

_ROWS: tuple[tuple[str, str, str], ...] = (
    # Kueue, pkg/scheduler/scheduler.go: schedule. What it lacked until then is no reason any more.
    (
        r".*Pending the preemption of (?P<count>\d+) workload\(s\)",
        "jobs that yield to it are being ended: {count}",
        f"{_NOTHING}: it starts once their pods are gone",
    ),
    # Kueue, pkg/scheduler/flavorassigner/flavorassigner.go.
    (
        r"insufficient quota for (?P<what>\S+) in flavor (?P<flavor>[^\s,]+), previously "
        r"considered podsets requests \((?P<before>\S+)\) \+ current podset request "
        r"\((?P<asked>\S+)\) > maximum capacity \((?P<most>\S+)\)",
        "it needs {asked} {what} (its other pods {before}), and its queue can have {most} in "
        "flavor {flavor} at most: it would wait for ever",
        f"{_FEWER}; more quota is the platform team's",
    ),
    (
        r"insufficient unused quota for (?P<what>\S+) in flavor (?P<flavor>[^\s,]+), "
        r"(?P<more>\S+) more needed",
        "{more} {what} must become free in flavor {flavor}",
        f"wait for the jobs that hold the quota, or {_FEWER}; a higher `priority` goes first",
    ),
    (
        r"resource (?P<what>\S+) unavailable in ClusterQueue",
        "its queue has no quota of {what}",
        f"name a queue that has it, or {_PLATFORM} for quota of it",
    ),
    (
        r"untolerated taint \{(?P<taint>[^}]*?)(?: <nil>)?\} in flavor (?P<flavor>[^\s,;]+)",
        "its pods do not tolerate the taint {taint} of flavor {flavor}",
        "use a runtime of that pool",
    ),
    (
        r"flavor (?P<flavor>[^\s,;]+) doesn't match node affinity",
        "its runtime, or `avoid`, excludes the nodes of flavor {flavor}",
        "use a runtime of that pool, or name another queue",
    ),
    (
        r"flavor (?P<flavor>[^\s,;]+) not found",
        "flavor {flavor} of its queue does not exist",
        f"{_PLATFORM} to create the ResourceFlavor",
    ),
    # The same package, tas_flavorassigner.go: checkPodSetAndFlavorMatchForTAS.
    (
        r'Flavor "(?P<flavor>[^"]+)" (?:does not support TopologyAwareScheduling'
        r"|information missing in TAS cache)",
        "flavor {flavor} has no topology, and the job asks for one",
        f"`topology: any`, or {_PLATFORM} for a topology of that flavor",
    ),
    (
        r'Flavor "(?P<flavor>[^"]+)" does not contain the requested level',
        "the topology of flavor {flavor} does not have the level that `topology` names",
        "name a level that it has",
    ),
    (
        r'Flavor "(?P<flavor>[^"]+)" supports only TopologyAwareScheduling',
        "flavor {flavor} places jobs by its topology alone, and the job asks for none",
        "use the stack's own runtimes, which ask for one",
    ),
    # Kueue, pkg/cache/scheduler/tas_flavor_snapshot.go: notFitMessage, formatReasons, level checks.
    (
        r'topology "(?P<topology>[^"]+)" allows to fit only (?P<fit>\d+) out of (?P<all>\d+) '
        r"(?:pod|slice)\(s\)",
        "{fit} of its {all} pods have room on nodes as close together as `topology` wants",
        f"wait for nodes to be free or back; {_CLOSE}",
    ),
    (
        r'topology "(?P<topology>[^"]+)" doesn\'t allow to fit any of (?P<all>\d+) '
        r"(?:pod|slice)\(s\)",
        "none of its {all} pods has room on nodes as close together as `topology` wants",
        f"wait for nodes to be free or back; {_CLOSE}",
    ),
    (
        r"Total nodes: (?P<nodes>\d+); excluded: "
        r'(?P<why>[a-zA-Z]+(?: "[^"]+")?: \d+(?:, [a-zA-Z]+(?: "[^"]+")?: \d+)*)',
        "of {nodes} nodes these have no room for a pod, by the reason: {why}",
        "",
    ),
    (
        r"no (?:requested topology level|topology domains at level)(?: for slices)?: "
        r"(?P<level>[^\s;]+)",
        "no node has the label {level}, by which the job is placed",
        f"name another level with `topology`, or {_PLATFORM} to label the nodes",
    ),
    # Kueue, pkg/scheduler/scheduler.go: schedule.
    (
        r"Preempting (?P<count>\d+) workload\(s\) failed",
        "jobs that yield to it could not be ended: {count}",
        _RETRY,
    ),
    (
        r"Workload (?:has overlapping preemption targets with|no longer fits after processing) "
        r"another workload",
        "another job took the place in the same moment",
        _RETRY,
    ),
    (
        r"waiting for all admitted workloads to be in PodsReady condition",
        "not all pods of a job before it run yet, and the stack admits one job after the other",
        "wait for that job's pods",
    ),
    (r"Failed to admit workload: (?P<why>.*)", "Kueue could not admit it: {why}", _RETRY),
    # The same file: nominate. Its rows for queues are those of
    # pkg/controller/core/workload_controller.go: Reconcile, reconcileOnLocalQueueActiveState.
    (
        r"(?P<queue>(?:Local|Cluster)Queue \S+) is (?:inactive|stopped)\b",
        "{queue} admits no jobs",
        f"name another queue, or {_PLATFORM}",
    ),
    (
        r"The (?P<queue>LocalQueue|ClusterQueue) is stopped",
        "its {queue} was stopped, and with it the job",
        f"{_PLATFORM} when it goes on, or name another queue",
    ),
    (
        r"(?P<queue>(?:Local|Cluster)Queue \S+) (?:doesn't exist|not found"
        r"|is terminating or missing)",
        "{queue} does not exist",
        "name a queue of the contract: `railhead launch JOB.yaml --explain` shows the one it took",
    ),
    (
        r"Workload namespace doesn't match ClusterQueue selector",
        "its queue does not take jobs of this namespace",
        f"use the namespace of the queue's team, or {_PLATFORM}",
    ),
    (
        r"resources validation failed: (?P<why>.*)",
        "its pods request more than their limits: {why}",
        "request at most the limits",
    ),
    (
        r"resources didn't satisfy LimitRange constraints: (?P<why>.*)",
        "its pods request what the namespace's LimitRange forbids: {why}",
        f"request what it allows, or {_PLATFORM} to change it",
    ),
    (
        r"The workload has failed admission checks|At least one admission check is false",
        "a check of its queue did not let it in, and its quota was returned",
        _RETRY,
    ),
    # Kueue, pkg/cache/scheduler/clusterqueue.go: inactiveReason, of a queue's own condition Active;
    # pkg/controller/core/localqueue_controller.go.
    (
        r"Can't admit new workloads: is stopped|LocalQueue is stopped",
        "the platform team stopped it (`stopPolicy`)",
        f"{_PLATFORM} when it goes on",
    ),
    (
        r"references (?P<how>missing|inactive) "
        r"(?P<kind>ResourceFlavor|AdmissionCheck)\(s\): (?P<names>[^\s.,]+(?:,[^\s.,]+)*)",
        "it needs the {kind} {names}, which is {how}",
        f"{_PLATFORM} to restore it: `railhead drift` names it",
    ),
    (
        r'there is no Topology "(?P<topology>[^"]+)" for TAS flavor "(?P<flavor>[^"]+)"',
        "the Topology {topology} of its flavor {flavor} does not exist",
        f"{_PLATFORM} to restore it: `railhead drift` names it",
    ),
    # Kueue, pkg/scheduler/preemption/preemption.go: preemptionMessage; of a job that was evicted
    # pkg/controller/jobframework/reconciler.go makes the reason why it waits.
    (
        r"Preempted to accommodate a workload \(UID: \S+, JobUID: \S+\) due to (?P<why>[^;]+)",
        "its place went to another job: {why}",
        f"{_NOTHING}: it waits in its queue, and resumes from its newest checkpoint",
    ),
    (
        r"Exceeded the PodsReady timeout",
        "when it was admitted, not all of its pods ran in time",
        "`railhead describe NAME` shows what held up its pods",
    ),
    (
        r"no replacement for unhealthy node\(s\): (?P<nodes>[^\s;]+)",
        "its node {nodes} failed, and no other was free",
        f"{_NOTHING}: it starts when as many nodes are free again",
    ),
    # Kueue, pkg/controller/admissionchecks/provisioning/controller.go: syncCheckStates; the reasons
    # are cluster-autoscaler's, provisioningrequest/checkcapacity/provisioningclass.go.
    (
        r"the check is not active",
        "the check does not work",
        f"{_PLATFORM} to repair the AdmissionCheck",
    ),
    (
        r"Retrying after (?P<what>failure|booking expired): (?P<why>.*)",
        "nodes were asked for and did not come ({why}); they are asked for again",
        f"{_NOTHING}, or {_FEWER}",
    ),
    (
        r"Capacity is not found, CA will try to find it later",
        "the cloud has no such nodes at present, and is asked again",
        f"{_NOTHING}, or {_FEWER}",
    ),
    (
        r"CA could not find requested capacity",
        "the cloud has no such nodes, and is not asked again",
        f"launch it again later, or {_FEWER}",
    ),
    (
        r"Reset to Pending after eviction",
        "it was put back, and the check begins again",
        _NOTHING,
    ),
    # The scheduler, pkg/scheduler/framework/plugins: one file each. A message is "0/N nodes are
    # available: COUNT REASON, ..." (pkg/scheduler/framework/types.go, FitError).
    (
        r"(?P<count>\d+) Insufficient (?P<what>[\w./-]*\w)",
        "{count} node(s) have too little {what} free, though the queue has counted it as free",
        "a pod that ends or that no queue charges holds it, or a node has lost devices: "
        f"{_PLATFORM} which",
    ),
    (
        r"(?P<count>\d+) Too many pods",
        "{count} node(s) have as many pods as they can",
        _PLATFORM,
    ),
    (
        r"(?P<count>\d+) node\(s\) had untolerated taint(?:\(s\)| \{(?P<taint>[^}]*)\})",
        "{count} node(s) are tainted: they are for other pods, failed their check, or are drained",
        f"{_PLATFORM} which nodes of the pool are tainted, if there are enough otherwise",
    ),
    (
        r"(?P<count>\d+) node\(s\) were unschedulable",
        "{count} node(s) are cordoned",
        f"wait until they are back: {_PLATFORM} when",
    ),
    (
        r"(?P<count>\d+) node\(s\) didn't match Pod's node affinity/selector",
        "{count} node(s) are of another pool, or not those that Kueue chose, or in `avoid`",
        "",
    ),
    (
        r"no nodes available to schedule pods",
        "the cluster has no node",
        f"wait for the pool to grow, or {_PLATFORM}",
    ),
    (
        r"non-empty scheduling gates|waiting for scheduling gates",
        "Kueue has not named its node yet",
        f"{_NOTHING}; if it lasts for minutes, {_PLATFORM} whether Kueue runs",
    ),
    (
        r"pod has unbound immediate PersistentVolumeClaims",
        "a claim that it mounts has no volume yet",
        "wait for its provisioner; `railhead storage` tests claims",
    ),
    (
        r'persistentvolumeclaim "(?P<claim>[^"]+)" not found',
        "the claim {claim} does not exist in its namespace",
        f"mount a claim that exists (`mounts`), or {_PLATFORM} to create it",
    ),
    (
        r'persistentvolumeclaim "(?P<claim>[^"]+)" is being deleted',
        "the claim {claim} is being deleted, and takes no new pod",
        f"mount another (`mounts`), or {_PLATFORM} to recreate it",
    ),
    (
        r'persistentvolumeclaim "(?P<claim>[^"]+)" bound to non-existent persistentvolume'
        r"|pvc\(s\) bound to non-existent pv\(s\)",
        "the volume of a claim that it mounts is gone",
        f"{_PLATFORM} to restore the volume under its name",
    ),
    (
        r"(?P<count>\d+) node\(s\) (?:didn't find available persistent volumes to bind"
        r"|did not have enough free storage)",
        "{count} node(s) have no volume for a claim that it mounts",
        f"{_PLATFORM} for a volume of the claim's class and size",
    ),
    (
        r"(?P<count>\d+) node\(s\) (?:didn't match PersistentVolume's node affinity"
        r"|had volume node affinity conflict|had no available volume zone)",
        "{count} node(s) do not reach the volume of a claim that it mounts: it is on another node "
        "or in another zone",
        "mount a claim that all nodes reach; `railhead storage` names them",
    ),
    (
        r"(?P<driver>\S+) CSI driver is not installed on the node",
        "nodes lack the driver {driver} of a claim that it mounts",
        f"{_PLATFORM} whether the driver's DaemonSet runs there",
    ),
    (
        r"cannot allocate all claims|resourceclaim not available on the node|resourceclaim in use",
        "nodes have too few free devices for its ResourceClaim",
        f"wait for pods that end, or {_PLATFORM} whether a node has lost devices",
    ),
    (
        r"device class (?P<name>\S+) does not exist",
        "the DeviceClass {name} of its ResourceClaim does not exist",
        f"{_PLATFORM} to restore it: `railhead drift` names it",
    ),
    (
        r"ResourceClaim not created yet",
        "its ResourceClaim is being created",
        f"{_NOTHING}; if it lasts, {_PLATFORM}",
    ),
    # The kubelet, pkg/kubelet/images/types.go and image_manager.go; the ends of the messages are
    # containerd's (remotes/docker/resolver.go, images/image.go), and Go's net and crypto/x509.
    (
        r'InvalidImageName: .*?"(?P<image>[^"]+)".*',
        "{image} is not the name of an image",
        "correct `image`: REGISTRY/NAME:TAG, in lower-case letters",
    ),
    (
        r'ErrImageNeverPull: .*?"(?P<image>[^"]+)".*',
        "its node does not have the image {image}, and may not pull it",
        "name an image that the nodes have, or let the runtime's `imagePullPolicy` pull it",
    ),
    (
        _PULL + r"(?:unauthorized|authorization failed|access denied|insufficient_scope"
        r"|401 Unauthorized|403 Forbidden).*",
        "the registry does not give out the image {image}: it does not exist, or needs a login",
        f"correct `image`, or {_PLATFORM} for a pull secret",
    ),
    (
        _PULL + r"no match for platform.*",
        "the image {image} does not exist for the nodes' processors",
        "build it for them: `docker buildx build --platform linux/amd64,linux/arm64`",
    ),
    (
        _PULL + r"(?:: not found|manifest unknown|name unknown).*",
        "the registry has no image {image}",
        "correct `image`: its name, and its tag",
    ),
    (
        _PULL + r"(?:429 Too Many Requests|toomanyrequests).*",
        "the registry has had too many requests, and does not give out the image {image} now",
        f"wait, or name a copy in a registry of your own (`image`); {_PLATFORM} for a mirror",
    ),
    (
        _PULL + r"(?:x509: ).*",
        "the node does not trust the certificate of the registry of {image}",
        f"{_PLATFORM} to add the registry's authority to the nodes",
    ),
    (
        _PULL + r"(?:no such host|failure in name resolution|server misbehaving|i/o timeout"
        r"|connection refused|network is unreachable|no route to host|TLS handshake timeout"
        r"|context deadline exceeded).*",
        "the node does not reach the registry of {image}",
        f"correct the registry in `image`, or {_PLATFORM} whether nodes reach it",
    ),
    (
        _PULL + r"no space left on device.*",
        "the node's disk has no room for the image {image}",
        f"`avoid` that machine, or {_PLATFORM} to free its disk",
    ),
    (
        _PULL,
        "the image {image} could not be pulled",
        "correct `image`; the reason is in the message",
    ),
    # The kubelet, pkg/kubelet/cm/devicemanager/manager.go: devicesToAllocate, Allocate.
    (
        r"requested number of devices unavailable for (?P<what>\S+)\. Requested: (?P<asked>\d+), "
        r"Available: (?P<free>\d+)",
        "its machine has {free} of the {asked} {what} that it was given: one has failed, or "
        "another pod has it",
        f"`avoid` that machine, or {_PLATFORM} to look at it",
    ),
    # The kubelet, pkg/kubelet/cm/topologymanager/topology_manager.go: TopologyAffinityError.
    (
        r"Resources cannot be allocated with Topology locality",
        "its machine's kubelet takes no pod whose GPUs, NICs and CPUs are at several sockets",
        f"`avoid` that machine, or {_PLATFORM} for another topologyManagerPolicy",
    ),
    # The kubelet, pkg/kubelet/kubelet_pods.go: makeEnvironmentVariables; volumes by
    # pkg/volume/{secret,configmap} and pkg/kubelet/events/event.go.
    (
        r"(?:couldn't find key|references non-existent \w+ key:?) (?P<key>\S+)"
        r"(?: in (?P<kind>Secret|ConfigMap) (?P<where>\S+))?",
        "the Secret or ConfigMap that it names has no key {key}",
        "correct `secrets`: NAME: secret/key",
    ),
    (
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        "the {kind} {name} does not exist in its namespace",
        "correct `secrets`, or ask a lead of the namespace to create it",
    ),
    # csi-driver-nfs v4.13.4, pkg/nfs/nodeserver.go; its issue #1271: mounts that hung stay behind.
    (
        r"FailedMount: .*mount volume \S+ to \S+ timeout after \d+s.*",
        "its machine's NFS mounts hang, and go on hanging when the server is back",
        f"{_PLATFORM} to delete the machine's pod of csi-nfs-node: the next one mounts again",
    ),
    (
        r"(?:FailedMount|FailedAttachVolume): (?P<why>.*)",
        "its machine cannot mount a volume: {why}",
        "`railhead storage` tests claims; `avoid` the machine if others can mount it",
    ),
    # Multus v4.3.0, pkg/multus/multus.go: its token on the node has expired (gate/proofs/token.py).
    (
        r"FailedCreatePodSandBox: .*Multus: .*\bUnauthorized\b.*",
        "Multus on its machine has a token that expired",
        f"{_PLATFORM} to restart its DaemonSet, and to make pods' tokens last "
        "(docs/existing-clusters.md)",
    ),
    (
        r"(?:FailedCreatePodSandBox|NetworkNotReady): (?P<why>.*)",
        "its machine cannot set up the pod's network: {why}",
        "`avoid` the machine, and show this to the platform team",
    ),
    # Claims: events of pkg/controller/volume/persistentvolume/pv_controller.go, and of
    # external-provisioner, pkg/controller of sig-storage-lib-external-provisioner.
    (
        r"waiting for first consumer to be created before binding",
        "its volume is made when a pod has a node",
        f"{_NOTHING}: see why its pods have none",
    ),
    (
        r"no persistent volumes available for this claim and no storage class is set",
        "no volume fits it, and it names no storage class that would make one",
        f"mount another claim, or {_PLATFORM}",
    ),
    (
        r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found',
        "its storage class {name} does not exist",
        f"mount another claim, or {_PLATFORM}",
    ),
    (
        r"Waiting for a volume to be created either by the external provisioner '(?P<name>[^']+)'",
        "the provisioner {name} has not made its volume yet",
        f"wait; file systems of clouds take some minutes. If it lasts, {_PLATFORM} whether it runs",
    ),
    (
        r'failed to provision volume with StorageClass "(?P<name>[^"]+)": (?P<why>.*)',
        "the storage class {name} could not make its volume: {why}",
        _PLATFORM,
    ),
    (
        r'volume "(?P<name>[^"]+)" already bound to a different claim',
        "the volume {name} that it names belongs to another claim",
        _PLATFORM,
    ),
    # Guards and quotas: apiserver, pkg/admission/plugin/policy/validating/dispatcher.go,
    # pkg/admission/plugin/webhook/errors, pkg/util/webhook/error.go,
    # pkg/admission/plugin/resourcequota/controller.go; pod-security-admission, admission.go;
    # plugin/pkg/admission/{limitranger,serviceaccount,priority}.
    (
        r"ValidatingAdmissionPolicy '(?P<guard>[^']+)'(?: with binding '[^']+')? denied request: "
        r"(?P<why>.*)",
        "the guard {guard} refuses its pods: {why}",
        "change what the guard names, and launch it again",
    ),
    (
        r'admission webhook "(?P<guard>[^"]+)" denied the request: (?P<why>.*)',
        "the webhook {guard} refuses it: {why}",
        "change what the webhook names, and launch it again",
    ),
    (
        r'failed calling webhook "(?P<guard>[^"]+)"',
        "the webhook {guard} does not answer, and without it nothing is created",
        f"{_NOTHING}, if its controller is being restarted; else {_PLATFORM}",
    ),
    (
        r'violates PodSecurity "(?P<level>[^"]+)": (?P<why>.*)',
        "the namespace's Pod Security ({level}) refuses its pods: {why}",
        "leave out what it names",
    ),
    (
        r"exceeded quota: (?P<quota>[^\s,]+), requested: (?P<asked>\S+), used: (?P<used>\S+), "
        r"limited: (?P<most>\S+)",
        "the namespace's ResourceQuota {quota} has no room: {asked} needed, {used} used, {most} "
        "allowed",
        f"`railhead cancel` jobs that have ended, or {_PLATFORM} for more",
    ),
    (
        r'serviceaccount "(?P<name>[^"]+)" not found',
        "the service account {name} does not exist in its namespace",
        f"name one that exists, or {_PLATFORM}",
    ),
    (
        r"no PriorityClass with name (?P<name>\S+) was found",
        "the PriorityClass {name} does not exist",
        f"name a `priority` of the cluster, or {_PLATFORM}",
    ),
    (
        r"(?P<which>maximum|minimum) (?P<what>\S+) usage per (?P<kind>\w+) is (?P<most>[^,]*\w)",
        "the namespace's LimitRange allows {most} {what} a {kind} ({which})",
        f"request what it allows, or {_PLATFORM} to change it",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """The meaning of a message, and a remedy; "" where there is nothing to do about it."""

    text: str
    change: str


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    return tuple((re.compile(form, re.DOTALL), text, change) for form, text, change in _ROWS)


def meanings(message: str) -> list[Meaning]:
    """Return the meanings of a message, in its order; empty if no row knows it.

    The first of two rows that match the same words holds.

    >>> for item in meanings("0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) "
    ...                      "were unschedulable."):
    ...     print(item.text)
    1 node(s) have too little nvidia.com/gpu free, though the queue has counted it as free
    2 node(s) are cordoned
    """
    taken: list[tuple[int, int]] = []
    results: dict[int, Meaning] = {}
    for pattern, text, change in _compiled():
        for match in pattern.finditer(message):
            begin, end = match.span()
            if all(end <= other or begin >= last for other, last in taken):
                taken.append((begin, end))
                results[begin] = Meaning(text=text.format(**match.groupdict()), change=change)
    return list(dict.fromkeys(results[begin] for begin in sorted(results)))
