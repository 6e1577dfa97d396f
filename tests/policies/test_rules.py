"""Each rule fires where it should, is silent where not, and judges unknown values as violations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from pulumi_policy import EnforcementLevel

from railhead.config import parse
from railhead.policies import RULES
from railhead.resolve.cluster import resolve
from tests.components.recording import fake_lab, lab_cluster, run_program
from tests.policies.planning import UNKNOWN, judge

PRIVILEGE = "no-reach-into-nodes"
SHM = "training-has-shared-memory"
QUEUE = "queue-covers-devices"
RBAC, FLAVOR = "rbac.authorization.k8s.io", "ResourceFlavor"
# tests/policies/test_clouds.py
SEEN = {"plan-is-kept", "plan-is-seen"}
CLOUDS = {"cloud-is-closed", "no-capacity-bought", "protected-is-protected"}


def pod(**spec: Any) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": 1}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    return {
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    } | spec


def template(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": spec}


def wrapped(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the pod's spec in each kind's own place."""
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "Pod": ("v1", spec),
        "Job": ("batch/v1", {"template": template(spec)}),
        "CronJob": ("batch/v1", {"jobTemplate": {"spec": {"template": template(spec)}}}),
        "Deployment": ("apps/v1", {"template": template(spec)}),
        "DaemonSet": ("apps/v1", {"template": template(spec)}),
        "StatefulSet": ("apps/v1", {"template": template(spec)}),
        "JobSet": (
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template(spec)}}}]},
        ),
        "ClusterTrainingRuntime": (
            "trainer.kubeflow.org/v1alpha1",
            {
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {"name": "node", "template": {"spec": {"template": template(spec)}}}
                        ]
                    }
                }
            },
        ),
        "PyTorchJob": (
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": {"Worker": {"template": template(spec)}}},
        ),
        "MPIJob": (
            "kubeflow.org/v2beta1",
            {"mpiReplicaSpecs": {"Worker": {"template": template(spec)}}},
        ),
        "VolcanoJob": ("batch.volcano.sh/v1alpha1", {"tasks": [{"template": template(spec)}]}),
    }
    version, body = bodies[kind]
    name = "Job" if kind == "VolcanoJob" else kind
    return {"apiVersion": version, "kind": name, "metadata": {"name": "mine"}, "spec": body}


TRAINING = (
    "Pod",
    "Job",
    "CronJob",
    "JobSet",
    "ClusterTrainingRuntime",
    "PyTorchJob",
    "MPIJob",
    "VolcanoJob",
)
EVERY = (*TRAINING, "Deployment", "DaemonSet", "StatefulSet")


def test_every_rule_is_mandatory() -> None:
    assert {p.name for p in RULES} >= {PRIVILEGE, SHM, QUEUE, *SEEN, *CLOUDS}
    assert len({p.name for p in RULES}) == len(RULES)
    advisory = [p.name for p in RULES if p.enforcement_level is not EnforcementLevel.MANDATORY]
    assert advisory == ["versions-ran"]


@pytest.mark.slow
@pytest.mark.parametrize("rule", [PRIVILEGE, SHM, QUEUE])
def test_the_lab_stack_obeys(rule: str, tmp_path: Path) -> None:
    fake_lab(tmp_path)
    recording = run_program(lab_cluster(), tmp_path, known=False, preview=True)
    resources = [r for r in recording.resources.values() if r.custom]
    bodies = [dict(r.inputs) for r in resources]
    for body, resource in zip(bodies, resources, strict=True):
        body.setdefault("metadata", {"name": resource.name})
    types = {i: r.type for i, r in enumerate(resources)}
    assert judge(rule, *bodies, types=types) == []
    assert any(b.get("kind") == "ClusterQueue" for b in bodies)


class TestPrivilege:
    @pytest.mark.parametrize("kind", EVERY)
    def test_silent_on_a_plain_pod(self, kind: str) -> None:
        assert judge(PRIVILEGE, wrapped(kind, pod())) == []

    @pytest.mark.parametrize("kind", EVERY)
    def test_a_privileged_container(self, kind: str) -> None:
        spec = pod()
        spec["containers"][0]["securityContext"] = {"privileged": True}
        (message,) = judge(PRIVILEGE, wrapped(kind, spec))
        assert "mine" in message
        assert "containers[0].securityContext.privileged" in message
        assert "remove it" in message

    @pytest.mark.parametrize("key", ["initContainers", "ephemeralContainers"])
    def test_containers_of_the_other_kinds(self, key: str) -> None:
        spec = pod(**{key: [{"name": "x", "securityContext": {"privileged": True}}]})
        assert len(judge(PRIVILEGE, wrapped("Job", spec))) == 1

    @pytest.mark.parametrize("kind", EVERY)
    def test_a_host_path(self, kind: str) -> None:
        spec = pod()
        spec["volumes"].append({"name": "host", "hostPath": {"path": "/dev/infiniband"}})
        (message,) = judge(PRIVILEGE, wrapped(kind, spec))
        assert "volumes[1].hostPath mounts '/dev/infiniband'" in message

    @pytest.mark.parametrize("flag", ["hostNetwork", "hostPID", "hostIPC"])
    def test_host_namespaces(self, flag: str) -> None:
        assert flag in judge(PRIVILEGE, wrapped("Pod", pod(**{flag: True})))[0]
        assert judge(PRIVILEGE, wrapped("Pod", pod(**{flag: False}))) == []

    @staticmethod
    def gate(name: str = "gate-gpu", namespace: str = "railhead-gate", **mount: Any) -> Any:
        spec = pod(hostNetwork=True)
        spec["volumes"] += [{"name": n, "hostPath": {"path": f"/{n}"}} for n in ("sys", "dev")]
        spec["containers"][0]["volumeMounts"] += [
            {"name": n, "mountPath": f"/host/{n}", "readOnly": True} | mount for n in ("sys", "dev")
        ]
        return wrapped("DaemonSet", spec) | {"metadata": {"name": name, "namespace": namespace}}

    def test_the_node_gate_looks_and_no_more(self) -> None:
        assert judge(PRIVILEGE, self.gate()) == []
        assert len(judge(PRIVILEGE, self.gate(readOnly=False))) == 2
        assert len(judge(PRIVILEGE, self.gate(readOnly=UNKNOWN))) == 2
        assert len(judge(PRIVILEGE, self.gate(name="other"))) == 3
        assert len(judge(PRIVILEGE, self.gate(namespace="training"))) == 3
        more = self.gate()
        spec = more["spec"]["template"]["spec"]
        spec["containers"][0]["securityContext"] = {"privileged": True}
        spec["hostPID"] = True
        spec["volumes"].append({"name": "etc", "hostPath": {"path": "/etc"}})
        assert len(judge(PRIVILEGE, more)) == 3

    def test_a_runtime_mounts_what_its_fabrics_mode_says(self) -> None:
        def runtime(path: str, container: str, **mount: Any) -> Any:
            spec = pod()
            spec["volumes"].append({"name": "h", "hostPath": {"path": path}})
            own = {"name": "h", "mountPath": "/h", **mount}
            spec["containers"].append({"name": container, "image": "x", "volumeMounts": [own]})
            return wrapped("ClusterTrainingRuntime", spec)

        libraries = "/home/kubernetes/bin/nvidia/lib64"
        assert judge(PRIVILEGE, runtime(libraries, "any", readOnly=True)) == []
        assert judge(PRIVILEGE, runtime("/sys", "tcpxo-daemon")) == []
        for refused in (
            runtime(libraries, "any"),
            runtime("/sys", "any"),
            runtime("/", "tcpxo-daemon"),
            runtime("/dev/infiniband", "any", readOnly=True),
        ):
            assert len(judge(PRIVILEGE, refused)) == 1

    def test_false_is_not_privileged(self) -> None:
        spec = pod()
        spec["containers"][0]["securityContext"] = {
            "privileged": False,
            "capabilities": {"add": ["IPC_LOCK"]},
        }
        assert judge(PRIVILEGE, wrapped("Job", spec)) == []

    @pytest.mark.parametrize(
        "damage",
        [
            lambda s: s["containers"][0].update(securityContext={"privileged": UNKNOWN}),
            lambda s: s["containers"][0].update(securityContext=UNKNOWN),
            lambda s: s.update(containers=UNKNOWN),
            lambda s: s.update(volumes=UNKNOWN),
            lambda s: s["volumes"].append(UNKNOWN),
            lambda s: s.update(hostNetwork=UNKNOWN),
        ],
    )
    def test_what_is_not_known_is_reported_not_skipped(self, damage: Any) -> None:
        spec = pod()
        damage(spec)
        assert "not known before the update" in judge(PRIVILEGE, wrapped("JobSet", spec))[0]

    @pytest.mark.parametrize("kind", EVERY)
    def test_an_unknown_spec_is_reported(self, kind: str) -> None:
        body = wrapped(kind, pod()) | {"spec": UNKNOWN}
        assert "spec is not known" in judge(PRIVILEGE, body)[0]

    def test_unknown_values_elsewhere_do_not_matter(self) -> None:
        spec = pod()
        spec["containers"][0] |= {"image": UNKNOWN, "env": [{"name": "A", "value": UNKNOWN}]}
        body = wrapped("Job", spec)
        body["spec"]["parallelism"] = UNKNOWN
        body["metadata"] = UNKNOWN
        assert judge(PRIVILEGE, body) == []

    def test_other_resources_are_left_alone(self) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": UNKNOWN}}
        assert judge(PRIVILEGE, config_map) == []
        bucket = {"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": True}}
        assert judge(PRIVILEGE, bucket, types={0: "aws:s3/bucket:Bucket"}) == []


class TestSharedMemory:
    @pytest.mark.parametrize("kind", TRAINING)
    def test_silent_with_it(self, kind: str) -> None:
        assert judge(SHM, wrapped(kind, pod())) == []

    @pytest.mark.parametrize("kind", TRAINING)
    def test_no_mount(self, kind: str) -> None:
        spec = pod()
        spec["containers"][0]["volumeMounts"] = []
        (message,) = judge(SHM, wrapped(kind, spec))
        assert "requests nvidia.com/gpu, rdma/rdma_shared_device_a" in message
        assert "medium: Memory" in message

    @pytest.mark.parametrize("kind", TRAINING)
    def test_on_disk(self, kind: str) -> None:
        (message,) = judge(SHM, wrapped(kind, pod(volumes=[{"name": "shm", "emptyDir": {}}])))
        assert "is not memory" in message

    def test_no_volumes_at_all(self) -> None:
        spec = pod()
        del spec["volumes"]
        assert "no volume is called 'shm'" in judge(SHM, wrapped("Job", spec))[0]

    def test_read_only(self) -> None:
        spec = pod()
        spec["containers"][0]["volumeMounts"][0]["readOnly"] = True
        assert "read-only" in judge(SHM, wrapped("Job", spec))[0]

    def test_trailing_slash_is_the_same_place(self) -> None:
        spec = pod()
        spec["containers"][0]["volumeMounts"][0]["mountPath"] = "/dev/shm/"
        assert judge(SHM, wrapped("Job", spec)) == []

    @pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "StatefulSet"])
    def test_services_are_not_training(self, kind: str) -> None:
        spec = pod()
        spec["containers"][0]["volumeMounts"] = []
        assert judge(SHM, wrapped(kind, spec)) == []

    def test_containers_without_devices_need_none(self) -> None:
        spec = pod()
        spec["containers"].append({"name": "logs", "resources": {"limits": {"cpu": "1"}}})
        assert judge(SHM, wrapped("Job", spec)) == []

    def test_trainer_of_a_runtime_always_needs_shared_memory(self) -> None:
        spec = pod()
        del spec["containers"][0]["resources"]
        spec["containers"][0]["volumeMounts"] = []
        assert judge(SHM, wrapped("Job", spec)) == []
        assert "is the trainer" in judge(SHM, wrapped("ClusterTrainingRuntime", spec))[0]

    def test_zero_devices_count_as_no_devices(self) -> None:
        spec = pod()
        spec["containers"][0] |= {"resources": {"limits": {"nvidia.com/gpu": 0}}}
        spec["containers"][0]["volumeMounts"] = []
        assert judge(SHM, wrapped("Job", spec)) == []

    @pytest.mark.parametrize(
        "damage",
        [
            lambda s: s["containers"][0].update(resources=UNKNOWN),
            lambda s: s["containers"][0].update(resources={"limits": UNKNOWN}),
            lambda s: s["containers"][0].update(volumeMounts=UNKNOWN),
            lambda s: s.update(volumes=UNKNOWN),
            lambda s: s["volumes"][0].update(emptyDir=UNKNOWN),
            lambda s: s["volumes"][0].update(emptyDir={"medium": UNKNOWN}),
            lambda s: s.update(containers=[UNKNOWN]),
        ],
    )
    def test_what_is_not_known_is_reported_not_skipped(self, damage: Any) -> None:
        spec = pod()
        damage(spec)
        assert "not known before the update" in judge(SHM, wrapped("JobSet", spec))[0]

    def test_an_unknown_count_is_still_a_request(self) -> None:
        spec = pod()
        spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": UNKNOWN}}
        assert judge(SHM, wrapped("Job", spec)) == []
        spec["containers"][0]["volumeMounts"] = []
        assert len(judge(SHM, wrapped("Job", spec))) == 1


def cluster_queue(*covered: str, quota: Any = "16", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "training"},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": list(covered),
                    "flavors": [
                        {
                            "name": "gpu",
                            "resources": [{"name": n, "nominalQuota": quota} for n in covered],
                        }
                    ],
                }
            ]
        }
        | spec,
    }


ALL = ("cpu", "memory", "nvidia.com/gpu", "rdma/rdma_shared_device_a")


class TestQueueCoverage:
    @pytest.mark.parametrize("kind", TRAINING)
    def test_silent_when_all_is_covered(self, kind: str) -> None:
        assert judge(QUEUE, cluster_queue(*ALL), wrapped(kind, pod())) == []

    @pytest.mark.parametrize("kind", TRAINING)
    @pytest.mark.parametrize("missing", ["nvidia.com/gpu", "rdma/rdma_shared_device_a"])
    def test_a_device_is_omitted(self, kind: str, missing: str) -> None:
        queue = cluster_queue(*(name for name in ALL if name != missing))
        (message,) = judge(QUEUE, queue, wrapped(kind, pod()))
        assert "ClusterQueue training" in message
        assert f"not {missing!r}" in message
        assert "coveredResources" in message

    def test_order_of_registration_does_not_matter(self) -> None:
        queue = cluster_queue("cpu")
        assert judge(QUEUE, wrapped("Job", pod()), queue) == judge(
            QUEUE, queue, wrapped("Job", pod())
        )

    def test_several_groups_add_up(self) -> None:
        queue = cluster_queue("cpu", "memory")
        other = cluster_queue("nvidia.com/gpu", "rdma/rdma_shared_device_a")
        queue["spec"]["resourceGroups"] += other["spec"]["resourceGroups"]
        assert judge(QUEUE, queue, wrapped("Job", pod())) == []

    def test_train_job_with_its_own_requests(self) -> None:
        job = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "mine"},
            "spec": {"trainer": {"resourcesPerNode": {"limits": {"amd.com/gpu": 8}}}},
        }
        assert "'amd.com/gpu', which TrainJob mine" in judge(QUEUE, cluster_queue(*ALL), job)[0]

    def test_the_contract_counts(self) -> None:
        published = resolve(parse(lab_cluster(), where="lab")).contract.to_json()
        contract = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "railhead-contract"},
            "data": {"contract.json": published.replace("rdma/rdma_shared_device_a", "rdma/ib")},
        }
        assert "'rdma/ib'" in judge(QUEUE, cluster_queue(*ALL), contract)[0]

    def test_no_quota_is_no_cover(self) -> None:
        queue = cluster_queue(*ALL, quota="0")
        assert "nominalQuota" in judge(QUEUE, queue, wrapped("Job", pod()))[0]
        borrowing = cluster_queue(*ALL, quota="0", cohortName="all")
        assert judge(QUEUE, borrowing, wrapped("Job", pod())) == []

    def test_a_queue_for_jobs_without_devices_says_so(self) -> None:
        queue = copy.deepcopy(cluster_queue("cpu"))
        queue["metadata"]["annotations"] = {"railhead.dev/device-free": "true"}
        assert judge(QUEUE, queue, wrapped("Job", pod())) == []

    def test_without_devices_nothing_is_asked(self) -> None:
        spec = pod()
        del spec["containers"][0]["resources"]
        assert judge(QUEUE, cluster_queue("cpu"), wrapped("Job", spec)) == []
        assert judge(QUEUE, cluster_queue("cpu")) == []

    @pytest.mark.parametrize(
        "damage",
        [
            lambda q: q.update(spec=UNKNOWN),
            lambda q: q["spec"].update(resourceGroups=UNKNOWN),
            lambda q: q["spec"]["resourceGroups"][0].update(coveredResources=UNKNOWN),
            lambda q: q["spec"]["resourceGroups"][0]["coveredResources"].append(UNKNOWN),
        ],
    )
    def test_what_is_not_known_is_reported_not_skipped(self, damage: Any) -> None:
        queue = cluster_queue(*ALL)
        damage(queue)
        assert "not known before the update" in judge(QUEUE, queue, wrapped("Job", pod()))[0]


def releases(**versions: Any) -> list[dict[str, Any]]:
    proven = {"kueue": "0.16.2", "jobset": "0.10.1", "kubeflow-trainer": "2.1.0"}
    given = proven | {name.replace("_", "-"): version for name, version in versions.items()}
    return [{"name": name, "chart": "c", "version": version} for name, version in given.items()]


RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (releases(), ""),
        (releases(kueue="0.19.2", jobset="0.12.0", kubeflow_trainer="2.3.0"), "never run together"),
        (releases(kueue="0.19.2"), "Kueue 0.19.2, JobSet 0.10.1 and Trainer 2.1.0 were read"),
        (releases(kueue=UNKNOWN), "not known before the update"),
        ([{"name": UNKNOWN, "chart": "c"}], "name is not known before the update"),
        # A chart of a directory, as the lab's are.
        (
            [r | {"chart": f"/x/{r['name']}-{r['version']}", "version": None} for r in releases()],
            "",
        ),
        ([{"name": "kueue", "chart": "/x/kueue-0.19.2"}, *releases()[1:]], "Kueue 0.19.2"),
        ([{"name": "other", "chart": "c", "version": "1"}], ""),
    ],
)
def test_versions_that_never_ran_are_named(plan: list[dict[str, Any]], said: str) -> None:
    result = judge("versions-ran", *plan, types=dict.fromkeys(range(len(plan)), RELEASE))
    assert len(result) == (1 if said else 0)
    assert said in "".join(result)


@pytest.mark.parametrize("odd", ["x", 5, [None], [[1]], {"a": None}], ids=repr)
@pytest.mark.parametrize(
    ("rule", "key", "props"),
    [
        ("nobody-has-everything", "rules", {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole"}),
        (QUEUE, "spec", {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}),
        ("pools-are-apart", "spec", {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": FLAVOR}),
    ],
)
def test_input_of_another_form_is_no_traceback(
    rule: str, key: str, props: dict[str, Any], odd: object
) -> None:
    judge(rule, {**props, "metadata": {"name": "a"}, key: odd})


def test_form_that_no_rule_reads_is_a_violation() -> None:
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "rules": [None]}
    (message,) = judge("nobody-has-everything", role)
    assert "could not be judged" in message
