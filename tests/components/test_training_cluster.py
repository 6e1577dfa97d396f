"""The stack as the program registers it: children, order, providers and inputs."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from railhead.base.names import JOBS_OWNER
from railhead.catalog.versions import LAB, NEWEST_READ, PROVEN, TEMPLATE_CHARGE, OciChart
from railhead.contract import ClusterContract
from tests.components.recording import (
    Recording,
    Registered,
    fake_lab,
    lab_cluster,
    recorded,
    run_program,
    run_stack,
    stack_cluster,
)
from tests.components.variants import VARIANTS, variant

URNS = Path(__file__).with_name("urns") / "lab.txt"
STACK = "pulumi:pulumi:Stack"
PROVIDER = "pulumi:providers:kubernetes"
RELEASE = "kubernetes:helm.sh/v3:Release"
DRIVER = "dra-driver-nvidia-gpu"
# What serves each API group that is not Kubernetes' own; the network CRD is part of the node.
OPERATORS = {
    "kueue.x-k8s.io": "kueue",
    "trainer.kubeflow.org": "kubeflow-trainer",
    "jobset.x-k8s.io": "jobset",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return cache


@pytest.fixture(scope="module")
def recording(cache: Path) -> Recording:
    return run_program(lab_cluster(), cache)


def changed(**parts: Any) -> dict[str, Any]:
    return copy.deepcopy(lab_cluster()) | parts


def inputs(recording: Recording) -> dict[str, Any]:
    return {
        urn: json.loads(json.dumps(r.inputs, sort_keys=True, default=repr))
        for urn, r in recording.resources.items()
    }


def _inside(recording: Recording, namespace: str) -> list[Registered]:
    return [
        r
        for r in recording.resources.values()
        if r.inputs.get("metadata", {}).get("namespace") == namespace
    ]


def _kept(recording: Recording) -> set[str]:
    """Names of what Pulumi takes no part of away."""
    return {r.inputs["metadata"]["name"] for r in recording.resources.values() if r.retain}


class TestGraph:
    def test_only_the_stack_and_its_cluster_have_no_other_parent(
        self, recording: Recording
    ) -> None:
        orphans = {r.type for r in recording.resources.values() if not r.parent}
        assert orphans == {STACK}
        roots = [r for r in recording.resources.values() if r.parent.endswith("::railhead-lab")]
        assert [r.type for r in roots] == ["railhead:index:TrainingCluster"]

    def test_children_carry_their_parents_name(self, recording: Recording) -> None:
        for resource in recording.resources.values():
            parent = recording.resources.get(resource.parent)
            if parent and parent.type != STACK:
                assert resource.name.startswith(f"{parent.name}-"), resource.urn

    def test_every_resource_has_the_one_explicit_provider(self, recording: Recording) -> None:
        (provider,) = recording.of_type(PROVIDER)
        resources = [r for r in recording.resources.values() if r.type.startswith("kubernetes:")]
        assert len(resources) > 25
        for resource in resources:
            assert resource.provider.startswith(f"{provider.urn}::"), resource.urn

    def test_the_provider_has_a_path_and_an_identity_and_no_secret(
        self, recording: Recording, cache: Path
    ) -> None:
        (provider,) = recording.of_type(PROVIDER)
        assert provider.inputs["kubeconfig"] == str(cache / "labs" / "lab" / "kubeconfig")
        assert provider.inputs["clusterIdentifier"] == "5d1d7a3e-3b0e-4c57-9d3c-6f6b3d1f0c11"

    def test_custom_resources_wait_for_their_operator(self, recording: Recording) -> None:
        releases = {r.inputs["name"]: r.urn for r in recording.of_type(RELEASE)}
        judged = 0
        for resource in recording.resources.values():
            group = str(resource.inputs.get("apiVersion", "")).partition("/")[0]
            if group in OPERATORS:
                judged += 1
                assert releases[OPERATORS[group]] in recording.before(resource.urn), resource.urn
        assert judged >= 5

    def test_custom_resources_wait_for_webhooks_that_answer(self, recording: Recording) -> None:
        webhooks = {r.inputs["metadata"]["name"]: r.urn for r in self.patches(recording, "Service")}
        needed = {
            "kueue": "kueue-webhook-service",
            "trainer": "kubeflow-trainer-controller-manager",
        }
        for resource in recording.resources.values():
            group = str(resource.inputs.get("apiVersion", "")).partition(".")[0]
            if group in needed:
                assert webhooks[needed[group]] in recording.before(resource.urn), resource.urn

    @staticmethod
    def patches(recording: Recording, kind: str) -> list[Registered]:
        return [r for r in recording.resources.values() if r.type.endswith(f":{kind}Patch")]

    def test_the_aggregated_api_is_waited_for_and_goes_last(self, recording: Recording) -> None:
        (patch,) = self.patches(recording, "APIService")
        assert patch.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == (
            "condition=Available"
        )
        for namespace in ("training", "railhead-system"):
            urn = recording.one("Namespace", namespace).urn
            assert patch.urn in recording.before(urn), "it would wedge the namespace's deletion"

    def test_training_namespaces_follow_controllers_with_finalizers(
        self, recording: Recording
    ) -> None:
        before = recording.before(recording.one("Namespace", "training").urn)
        for resource in recording.of_type(RELEASE):
            assert resource.urn in before
        for kind in ("ClusterQueue", "ClusterTrainingRuntime", "ResourceFlavor", "Topology"):
            assert recording.one(kind).urn in before
        for binding in recording.kind("ValidatingAdmissionPolicyBinding"):
            # What holds the stack while jobs run is made last.
            ending = binding.inputs["metadata"]["name"].endswith("-ended")
            assert (binding.urn in before) != ending

    def test_what_lies_in_a_namespace_waits_for_it(self, recording: Recording) -> None:
        namespaces = {r.inputs["metadata"]["name"]: r.urn for r in recording.kind("Namespace")}
        for resource in recording.resources.values():
            metadata = resource.inputs.get("metadata", {})
            if name := metadata.get("namespace") or (
                resource.type == RELEASE and resource.inputs["namespace"]
            ):
                assert namespaces[name] in recording.before(resource.urn), resource.urn

    def test_destroy_keeps_claims_and_their_namespace(self, recording: Recording) -> None:
        assert _kept(recording) == {"checkpoints", "training"}
        assert {recording.deleted_with(r) for r in _inside(recording, "training")} == {""}

    @pytest.mark.slow
    def test_namespace_without_claims_takes_all_but_its_queues(self, cache: Path) -> None:
        """A queue is deleted for itself: the API server refuses that while it has jobs."""
        cluster = changed(checkpoints=[])
        del cluster["runtimes"][0]["checkpoint"]
        recording = run_program(cluster, cache)
        assert _kept(recording) == set()
        for name in ("training", "railhead-system"):
            namespace = recording.one("Namespace", name).urn
            inside = [
                r
                for r in _inside(recording, name)
                if r.inputs["kind"] != "LocalQueue" and r.inputs["metadata"]["name"] != JOBS_OWNER
            ]
            assert len(inside) >= 3
            assert {recording.deleted_with(r) for r in inside} == {namespace}
        assert recording.deleted_with(recording.one("LocalQueue")) == ""

    @pytest.mark.slow
    def test_retention_job_comes_last_and_only_when_configured(
        self, recording: Recording, cache: Path
    ) -> None:
        assert not recording.kind("CronJob")
        cluster = changed()
        cluster["checkpoints"][0] |= {"claim": "kept", "retention": {"days": 30, "keep": 3}}
        recording = run_program(cluster, cache)
        job = recording.one("CronJob")
        assert job.inputs["metadata"] == {"name": "kept-retention", "namespace": "training"}
        before = recording.before(job.urn)
        assert {
            recording.one(kind).urn for kind in ("PersistentVolumeClaim", "LocalQueue")
        } <= before
        pod = job.inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["volumes"] == [{"name": "claim", "persistentVolumeClaim": {"claimName": "kept"}}]
        assert pod["containers"][0]["args"] == ["/claim", "--days", "30", "--keep", "3"]

    def test_a_queue_closes_before_anything_that_its_jobs_need(self, recording: Recording) -> None:
        queue = recording.one("LocalQueue")
        for resource in _inside(recording, "training"):
            if resource.urn != queue.urn and resource.inputs["metadata"]["name"] != JOBS_OWNER:
                assert resource.urn in recording.before(queue.urn), resource.urn

    def test_destroy_begins_with_the_owner_of_jobs(self, recording: Recording) -> None:
        owner = recording.one("ConfigMap", JOBS_OWNER)
        others = {r.urn for r in recording.resources.values() if r.custom} - {owner.urn}
        assert others <= recording.before(owner.urn)
        assert recording.deleted_with(owner) == ""

    @pytest.mark.slow
    def test_order_holds_where_an_edit_removes_a_namespace(self) -> None:
        """The engine heeds edges of what goes alone (step_generator.go, ScheduleDeletes)."""
        stack = recorded("onprem-ib-sriov")
        runtimes = {r.urn for r in stack.kind("ClusterTrainingRuntime")}
        for namespace in stack_cluster("onprem-ib-sriov")["namespaces"]:
            assert runtimes <= stack.one("Namespace", namespace).dependencies
            inside = {r.inputs["metadata"]["name"]: r.urn for r in _inside(stack, namespace)}
            owner = stack.resources[inside.pop(JOBS_OWNER)]
            assert runtimes | set(inside.values()) <= owner.dependencies

    @pytest.mark.slow
    def test_nvlink_domains_go_before_the_driver_that_holds_them(self, tmp_path: Path) -> None:
        """Dra-driver-nvidia-gpu v0.4.1, computedomain.go: it alone takes its finalizer off."""
        stack = run_stack(VARIANTS["dranet"], tmp_path, cluster=variant("dranet"))
        (driver,) = [r for r in stack.of_type(RELEASE) if r.inputs["name"] == DRIVER]
        domains = stack.kind("ComputeDomain")
        assert domains
        assert all(driver.urn in domain.dependencies for domain in domains)

    @pytest.mark.slow
    def test_volcanos_pods_run_where_the_default_is_restricted(self, tmp_path: Path) -> None:
        """Volcano v1.15.1 adds DAC_OVERRIDE (values.yaml: default_csc), which the level refuses."""
        stack = run_stack(VARIANTS["volcano"], tmp_path, cluster=variant("volcano"))
        labels = stack.one("Namespace", "volcano-system").inputs["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "baseline"

    @pytest.mark.slow
    def test_volcanos_critical_pods_have_a_quota_before(self, tmp_path: Path) -> None:
        """GKE refuses such pods in a namespace without one (volcano-sh/volcano #2379)."""
        stack = run_stack(VARIANTS["volcano"], tmp_path, cluster=variant("volcano"))
        quota = stack.one("ResourceQuota", "railhead-critical-pods")
        assert quota.inputs["metadata"]["namespace"] == "volcano-system"
        (scope,) = quota.inputs["spec"]["scopeSelector"]["matchExpressions"]
        assert "system-cluster-critical" in scope["values"]
        (release,) = [r for r in stack.of_type(RELEASE) if r.inputs["name"] == "volcano"]
        assert quota.urn in release.dependencies

    def test_the_contract_comes_after_the_namespaces(self, recording: Recording) -> None:
        before = recording.before(recording.one("ConfigMap", "railhead-contract").urn)
        for kind in ("LocalQueue", "NetworkAttachmentDefinition", "PersistentVolumeClaim"):
            assert recording.one(kind).urn in before

    def test_every_component_registers_its_outputs_once(self, recording: Recording) -> None:
        components = {r.urn for r in recording.resources.values() if not r.custom}
        assert components == set(recording.outputs)

    def test_names_in_the_cluster_are_given_never_made_up(self, recording: Recording) -> None:
        for resource in recording.resources.values():
            if resource.type.startswith("kubernetes:") and resource.type != RELEASE:
                assert resource.inputs["metadata"]["name"], resource.urn

    def test_urns_are_those_of_the_snapshot(self, cache: Path) -> None:
        """A changed URN replaces a live object: give it an alias, then update the snapshot."""
        whole = run_program(stack_cluster("lab"), cache)
        assert URNS.read_text().splitlines() == sorted(whole.resources)


class TestUnknowns:
    @pytest.mark.slow
    def test_a_first_preview_sends_the_same_inputs(self, recording: Recording, cache: Path) -> None:
        preview = run_program(lab_cluster(), cache, known=False, preview=True)
        assert inputs(preview) == inputs(recording)

    @pytest.mark.slow
    def test_program_is_deterministic(self, recording: Recording, cache: Path) -> None:
        again = run_program(lab_cluster(), cache)
        assert inputs(again) == inputs(recording)
        assert again.outputs == recording.outputs


class TestReleases:
    def test_charts_of_modules_come_from_the_cache(self, recording: Recording, cache: Path) -> None:
        charts = {r.inputs["name"]: r.inputs["chart"] for r in recording.of_type(RELEASE)}
        assert charts == {
            "kueue": str(cache / "charts" / "kueue-0.16.2"),
            "jobset": str(cache / "charts" / "jobset-0.10.1"),
            "kubeflow-trainer": str(cache / "charts" / "kubeflow-trainer-2.1.0"),
        }

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "combination", [PROVEN, NEWEST_READ, TEMPLATE_CHARGE], ids=lambda c: c.name
    )
    def test_charts_of_publishers_come_by_url(self, combination: Any, cache: Path) -> None:
        recording = run_program(changed(versions=combination.name), cache)
        for controller in (combination.kueue, combination.jobset, combination.trainer):
            (release,) = [
                r for r in recording.of_type(RELEASE) if r.inputs["name"] == controller.name
            ]
            assert isinstance(controller.chart, OciChart)
            assert release.inputs["chart"] == controller.chart.url
            assert release.inputs["version"] == controller.version

    def test_images_are_pinned(self, recording: Recording) -> None:
        values = {r.inputs["name"]: r.inputs["values"] for r in recording.of_type(RELEASE)}
        manager = values["kueue"]["controllerManager"]["manager"]["image"]
        trainer = values["kubeflow-trainer"]["image"]
        assert f"{manager['repository']}:{manager['tag']}" == f"{LAB.kueue.image}:v0.16.2"
        assert values["jobset"]["image"]["tag"] == LAB.jobset.tag
        assert f"{trainer['registry']}/{trainer['repository']}" == LAB.trainer.image
        policies = {
            manager["pullPolicy"],
            trainer["pullPolicy"],
            values["jobset"]["image"]["pullPolicy"],
        }
        assert policies == {"IfNotPresent"}
        assert values["kubeflow-trainer"]["jobset"]["install"] is False

    def test_kueue_manages_queueless_jobs_in_training_namespaces(
        self, recording: Recording
    ) -> None:
        (release,) = [r for r in recording.of_type(RELEASE) if r.inputs["name"] == "kueue"]
        text = release.inputs["values"]["managerConfig"]["controllerManagerConfigYaml"]
        configuration = yaml.safe_load(text)
        assert configuration["manageJobsWithoutQueueName"] is True
        assert configuration["managedJobsNamespaceSelector"] == {
            "matchLabels": {"railhead.dev/training": "true"}
        }
        assert {"trainer.kubeflow.org/trainjob", "jobset.x-k8s.io/jobset", "batch/job"} <= set(
            configuration["integrations"]["frameworks"]
        )

    @pytest.mark.slow
    def test_without_controller_sizes_the_charts_own_stand(self, cache: Path) -> None:
        cluster = changed()
        del cluster["controllers"]
        for release in run_program(cluster, cache).of_type(RELEASE):
            assert "resources" not in json.dumps(release.inputs["values"])


class TestQueues:
    @pytest.mark.slow
    def test_quota_is_what_the_pools_have(self, cache: Path) -> None:
        cluster = changed()
        cluster["pools"][0]["nodes"] = 3
        queue = run_program(cluster, cache).one("ClusterQueue")
        (group,) = queue.inputs["spec"]["resourceGroups"]
        quotas = {r["name"]: r["nominalQuota"] for r in group["flavors"][0]["resources"]}
        assert quotas == {
            "cpu": "6",
            "memory": "12Gi",
            "nvidia.com/gpu": "24",
            "rdma/rdma_shared_device_a": "189",
        }
        assert group["coveredResources"] == list(quotas)

    def test_every_request_of_a_runtime_is_covered(self, recording: Recording) -> None:
        (group,) = recording.one("ClusterQueue").inputs["spec"]["resourceGroups"]
        resources = container(recording)["resources"]
        assert set(resources["requests"]) | set(resources["limits"]) <= set(
            group["coveredResources"]
        )

    @pytest.mark.slow
    def test_a_changed_flavor_or_topology_gets_a_new_name(
        self, recording: Recording, cache: Path
    ) -> None:
        cluster = changed(topology=["topology.railhead.dev/block", "kubernetes.io/hostname"])
        other = run_program(cluster, cache)
        for kind in ("Topology", "ResourceFlavor"):
            before, after = (r.one(kind).inputs["metadata"]["name"] for r in (recording, other))
            assert before != after
            assert recording.one(kind).urn == other.one(kind).urn
        flavor = other.one("ResourceFlavor").inputs
        assert flavor["spec"]["topologyName"] == other.one("Topology").inputs["metadata"]["name"]
        queue = json.dumps(other.one("ClusterQueue").inputs)
        assert flavor["metadata"]["name"] in queue

    @pytest.mark.slow
    def test_a_pools_tolerations_reach_its_flavor(self, cache: Path) -> None:
        cluster = changed()
        cluster["pools"][0]["tolerations"] = [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "llm"},
        ]
        flavor = run_program(cluster, cache).one("ResourceFlavor")
        assert flavor.inputs["spec"]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "llm"},
        ]


def pod_template(recording: Recording, runtime: str = "torch") -> dict[str, Any]:
    spec = recording.one("ClusterTrainingRuntime", runtime).inputs["spec"]
    (job,) = spec["template"]["spec"]["replicatedJobs"]
    template: dict[str, Any] = job["template"]["spec"]["template"]
    return template


def container(recording: Recording, runtime: str = "torch") -> dict[str, Any]:
    (only,) = pod_template(recording, runtime)["spec"]["containers"]
    assert isinstance(only, dict)
    return only


class TestRuntime:
    def test_pod_template_carries_the_fabric(self, recording: Recording) -> None:
        template = pod_template(recording)
        networks = template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
        assert json.loads(networks) == [{"name": "rail-0", "interface": "net1"}]
        env = {e["name"]: e["value"] for e in container(recording)["env"]}
        assert env["GLOO_SOCKET_IFNAME"] == "net1"
        assert env["NCCL_SOCKET_IFNAME"] == "=net1"
        assert env["NCCL_NET"] == "IB"
        assert "NCCL_IB_GID_INDEX" not in env
        assert env["PET_REDIRECTS"] == env["PET_TEE"] == "1"
        assert env["PET_NNODES"] == "0"
        limits = container(recording)["resources"]["limits"]
        assert limits == {
            "memory": "3Gi",
            "nvidia.com/gpu": "8",
            "rdma/rdma_shared_device_a": "1",
        }

    def test_shared_memory_and_checkpoints_are_mounted(self, recording: Recording) -> None:
        template = pod_template(recording)
        volumes = {v["name"]: v for v in template["spec"]["volumes"]}
        mounts = {m["mountPath"]: m["name"] for m in container(recording)["volumeMounts"]}
        assert volumes[mounts["/dev/shm"]]["emptyDir"] == {
            "medium": "Memory",
            "sizeLimit": "256Mi",
        }
        claim = volumes[mounts["/checkpoints"]]["persistentVolumeClaim"]["claimName"]
        claims = recording.one("PersistentVolumeClaim", claim).inputs
        assert claims["spec"]["accessModes"] == ["ReadWriteMany"]

    @pytest.mark.slow
    def test_memory_is_locked_only_where_the_stack_says(
        self, recording: Recording, cache: Path
    ) -> None:
        assert "capabilities" not in container(recording)["securityContext"]
        cluster = changed()
        del cluster["fabric"]["lock_memory"]
        locking = container(run_program(cluster, cache))["securityContext"]
        assert locking["capabilities"] == {"add": ["IPC_LOCK"]}

    @pytest.mark.slow
    def test_every_rail_becomes_an_interface(self, cache: Path) -> None:
        cluster = changed()
        first = cluster["fabric"]["rails"][0]
        cluster["fabric"]["rails"] = [
            first,
            {"name": "rail-1", "master": "rail1", "subnet": "192.168.112.0/20"},
        ]
        recording = run_program(cluster, cache)
        env = {e["name"]: e["value"] for e in container(recording)["env"]}
        assert env["NCCL_SOCKET_IFNAME"] == "=net1,net2"
        assert len(recording.kind("NetworkAttachmentDefinition")) == 2

    @pytest.mark.slow
    def test_the_stacks_own_environment_wins(self, cache: Path) -> None:
        cluster = changed()
        cluster["runtimes"][0]["environment"] = {"NCCL_DEBUG": "INFO", "NCCL_BUFFSIZE": "1"}
        env = {e["name"]: e["value"] for e in container(run_program(cluster, cache))["env"]}
        assert (env["NCCL_DEBUG"], env["NCCL_BUFFSIZE"]) == ("INFO", "1")

    @pytest.mark.slow
    def test_processes_a_node_are_said_where_trainer_reads_them(
        self, recording: Recording, cache: Path
    ) -> None:
        policy = recording.one("ClusterTrainingRuntime").inputs["spec"]["mlPolicy"]
        assert policy == {"numNodes": 1, "torch": {"numProcPerNode": 8}}
        newer = run_program(changed(versions="newest-read"), cache)
        assert newer.one("ClusterTrainingRuntime").inputs["spec"]["mlPolicy"]["torch"] == {}

    @pytest.mark.slow
    def test_gang_size_is_in_the_template_only_if_charged_there(
        self, recording: Recording, cache: Path
    ) -> None:
        def job(of: Recording) -> Any:
            spec = of.one("ClusterTrainingRuntime").inputs["spec"]
            return spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]

        assert "parallelism" not in job(recording)
        cluster = changed(versions="kueue-0.15")
        cluster["runtimes"][0]["nodes"] = 2
        older = run_program(cluster, cache)
        assert (job(older)["parallelism"], job(older)["completions"]) == (2, 2)

        def guards(of: Recording) -> set[str]:
            return {p.inputs["metadata"]["name"] for p in of.kind("ValidatingAdmissionPolicy")}

        more = {"railhead-gang-charge", "railhead-published-runtime"}
        assert guards(older) - guards(recording) == more


class TestContract:
    def test_output_and_config_map_say_the_same(self, recording: Recording) -> None:
        config_map = recording.one("ConfigMap", "railhead-contract").inputs
        text = config_map["data"]["contract.json"]
        published = ClusterContract.from_json(text, where="the ConfigMap")
        (stack,) = recording.of_type(STACK)
        exported = ClusterContract.model_validate(recording.outputs[stack.urn]["contract"])
        assert exported == published
        assert text == published.to_json()

    def test_it_says_what_the_stack_made(self, recording: Recording) -> None:
        text = recording.one("ConfigMap", "railhead-contract").inputs["data"]["contract.json"]
        contract = ClusterContract.from_json(text, where="the ConfigMap")
        network = recording.one("NetworkAttachmentDefinition").inputs["metadata"]
        (published,) = contract.fabric.networks
        assert (published.name, published.namespace) == (network["name"], network["namespace"])
        (queue,) = contract.queues
        assert queue.name == recording.one("LocalQueue").inputs["metadata"]["name"]
        assert queue.flavors == (recording.one("ResourceFlavor").inputs["metadata"]["name"],)
        (runtime,) = contract.runtimes
        assert runtime.gpus_per_node == 8
        assert runtime.container == container(recording)["name"]
        (pool,) = contract.node_pools
        assert pool.capacity == {
            "cpu": "2",
            "memory": "4Gi",
            "nvidia.com/gpu": "8",
            "rdma/rdma_shared_device_a": "63",
        }
        assert contract.versions["kueue"] == "0.16.2"

    def test_it_holds_no_path_and_no_credential(self, recording: Recording, cache: Path) -> None:
        text = recording.one("ConfigMap", "railhead-contract").inputs["data"]["contract.json"]
        assert str(cache) not in text
        assert "kubeconfig" not in text


class TestRefusals:
    def test_bad_configuration_ends_before_anything_is_registered(self, cache: Path) -> None:
        cluster = changed()
        cluster["pools"][0]["instance_type"] = "lab.8gpuu"
        cluster["fabric"]["mode"] = "sriov"
        with pytest.raises(pulumi.RunError) as caught:
            run_program(cluster, cache)
        text = str(caught.value)
        assert re.search(
            r"stacks/Pulumi\.lab\.yaml:\d+: pools\[0\]\.instance_type: 'lab\.8gpuu' is not in the "
            r"catalogue; did you mean 'lab\.8gpu'\?",
            text,
        )
        assert "fabric.mode" in text

    def test_no_configuration_at_all(self, cache: Path) -> None:
        with pytest.raises(pulumi.RunError, match="railhead:cluster is missing"):
            run_program(None, cache)

    def test_missing_lab_names_lab_up(self, tmp_path: Path) -> None:
        with pytest.raises(pulumi.RunError, match="railhead lab up"):
            run_program(lab_cluster(), tmp_path)

    def test_missing_chart_names_lab_build(self, tmp_path: Path) -> None:
        fake_lab(tmp_path)
        (tmp_path / "charts" / "kueue-0.16.2" / "Chart.yaml").unlink()
        with pytest.raises(pulumi.RunError, match="railhead lab build"):
            run_program(lab_cluster(), tmp_path)

    def test_no_kubeconfig(self, cache: Path, tmp_path: Path) -> None:
        missing = str(tmp_path / "none")
        cluster = changed(platform={"kind": "existing", "kubeconfig": missing})
        cluster["fabric"]["cluster_ranges"] = ["10.0.0.0/8"]
        with pytest.raises(pulumi.RunError, match=r"platform\.kubeconfig"):
            run_program(cluster, cache)

    @pytest.mark.slow
    def test_existing_cluster_is_reached_by_its_kubeconfig(
        self, cache: Path, tmp_path: Path
    ) -> None:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text("{}")
        platform = {"kind": "existing", "kubeconfig": str(kubeconfig), "context": "metal"}
        cluster = changed(platform=platform)
        cluster["fabric"]["cluster_ranges"] = ["10.0.0.0/8"]
        recording = run_program(cluster, cache)
        (provider,) = recording.of_type(PROVIDER)
        assert provider.inputs["context"] == "metal"
        assert provider.inputs["clusterIdentifier"] == "lab"

    def test_the_labs_environment_names_another_lab(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAILHEAD_LAB", "second")
        with pytest.raises(pulumi.RunError, match="railhead lab up --name second"):
            run_program(lab_cluster(), cache)


@pytest.mark.slow
def test_several_namespaces_each_get_all_of_it(cache: Path) -> None:
    cluster = changed(namespaces=["training", "research"])
    for key in ("queues", "checkpoints"):
        cluster[key].append(cluster[key][0] | {"namespace": "research"})
    recording = run_program(cluster, cache)
    for kind in ("LocalQueue", "NetworkAttachmentDefinition", "PersistentVolumeClaim"):
        results = {r.inputs["metadata"]["namespace"] for r in recording.kind(kind)}
        assert results == {"training", "research"}
    assert len(recording.kind("ClusterQueue")) == 1
