"""Objects through the real engine on a real API server."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from tests import crds
from tests.engine.conftest import Stack

pytestmark = pytest.mark.controlplane

CONFIG_MAP = "/api/v1/namespaces/NS/configmaps"


def test_life_of_objects(stack: Stack) -> None:
    """Preview, up, second up, refresh, drift, destroy."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        named = k8s.core.v1.ConfigMap(
            "named", metadata={"name": "named", "namespace": ns.metadata["name"]},
            data={"a": config.get("a") or "1"}, opts=o,
        )
        auto = k8s.core.v1.ConfigMap(
            "auto", metadata={"namespace": ns.metadata["name"]}, data={"b": "2"}, opts=o
        )
        web = k8s.apps.v1.Deployment(
            "web", metadata={"name": "web", "namespace": ns.metadata["name"]},
            spec={
                "replicas": 0,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{
                        "name": "c", "image": "x",
                        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
                    }]},
                },
            },
            opts=o,
        )
        pulumi.export("auto", auto.metadata["name"])
        pulumi.export("replicas", web.spec["replicas"])
        """
    )
    preview = stack.preview().ok()
    assert "+ 6 to create" in preview.text
    assert "unreachable" not in preview.text
    assert stack.get("/api/v1/namespaces/NS") is None

    stack.up().ok()
    state = stack.resources()
    auto = state["auto"]["outputs"]
    assert json.loads(stack.run("stack", "output", "--json").ok().text) == {
        "auto": auto["metadata"]["name"],
        "replicas": 0,
    }
    assert auto["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert auto["metadata"]["name"].startswith("auto-")
    assert state["auto"]["id"] == f"{stack.namespace}/{auto['metadata']['name']}"
    assert state["ns"]["id"] == stack.namespace
    assert auto["__initialApiVersion"] == "v1"
    manager = auto["__fieldManager"]
    live = stack.get(f"{CONFIG_MAP}/{auto['metadata']['name']}")
    assert live is not None
    owners = {(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]}
    assert owners == {(manager, "Apply")}

    second = stack.up("--expect-no-changes").ok()
    assert "6 unchanged" in second.text
    # cpu 0.5 became 500m on the server: no drift.
    assert "6 unchanged" in stack.refresh("--expect-no-changes").ok().text

    # Fields of another manager are no drift.
    stack.patch(f"{CONFIG_MAP}/named", {"data": {"other": "x"}, "metadata": {"labels": {"l": "m"}}})
    assert "6 unchanged" in stack.refresh("--expect-no-changes").ok().text

    # A managed field is.
    stack.patch(f"{CONFIG_MAP}/named", {"data": {"a": "drifted"}})
    refreshed = stack.refresh("--diff").ok()
    assert "1 updated" in refreshed.text
    assert "drifted" in refreshed.text
    # Replacing is what the official provider does for ConfigMap data.
    assert "1 replaced" in stack.up().ok().text
    live = stack.get(f"{CONFIG_MAP}/named")
    assert live is not None
    assert live["data"] == {"a": "1"}

    stack.destroy().ok()
    assert stack.get("/api/v1/namespaces/NS") is None


@pytest.mark.exhaustive
def test_a_clusters_config_map_is_updated_in_place(stack: Stack) -> None:
    """Pods that start during an upgrade find the programs: nothing is deleted."""
    stack.program(
        """
        from railhead.components.cluster_access import ClusterAccess, provider

        access = ClusterAccess(
            kubeconfig=os.environ["TEST_KUBECONFIG"], context=None, identity="test"
        )
        of_stack = ResourceOptions(provider=provider("of-stack", access, ResourceOptions()))
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=of_stack)
        k8s.core.v1.ConfigMap(
            "programs", metadata={"name": "named", "namespace": NS},
            data={config.require("file"): "new", "common": config.require("file")},
            opts=ResourceOptions.merge(of_stack, ResourceOptions(depends_on=[ns])),
        )
        """
    )
    stack.set("file", "first.py")
    stack.up().ok()
    before = stack.get(f"{CONFIG_MAP}/named")
    stack.set("file", "second.py")
    assert "1 updated" in stack.up().ok().text
    after = stack.get(f"{CONFIG_MAP}/named")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"] == {"second.py": "new", "common": "second.py"}


@pytest.mark.exhaustive
def test_update_rename_and_replacement(stack: Stack) -> None:
    """In-place updates, replacement by name, and delete-before-replace under an explicit name."""
    body = """
        ns = k8s.core.v1.Namespace(
            "ns", metadata={"name": NS, "labels": {"v": config.get("v") or "1"}}, opts=o
        )
        cm = k8s.core.v1.ConfigMap(
            "cm", metadata={"name": config.get("name") or "first", "namespace": NS},
            data={"a": "1"}, opts=opts(depends_on=[ns]),
        )
        job = k8s.batch.v1.Job(
            "job",
            metadata={
                "name": "job", "namespace": NS, "annotations": {"pulumi.com/skipAwait": "true"}
            },
            spec={
                "suspend": True,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": config.get("image") or "x"}],
                }},
            },
            opts=opts(depends_on=[ns]),
        )
    """
    stack.program(body)
    stack.up().ok()
    first = stack.resources()
    stack.set("v", "2")
    stack.set("name", "second")
    stack.set("image", "y")
    result = stack.up("--diff").ok()
    assert "1 updated" in result.text
    assert "2 replaced" in result.text
    second = stack.resources()
    assert second["ns"]["outputs"]["metadata"]["labels"]["v"] == "2"
    assert first["ns"]["outputs"]["metadata"]["uid"] == second["ns"]["outputs"]["metadata"]["uid"]
    assert second["cm"]["id"].endswith("/second")
    assert stack.get(f"{CONFIG_MAP}/first") is None
    assert first["job"]["outputs"]["metadata"]["uid"] != second["job"]["outputs"]["metadata"]["uid"]
    stack.up("--expect-no-changes").ok()


@pytest.mark.exhaustive
def test_existing_object_is_not_taken(stack: Stack) -> None:
    """A create never touches an object of others; the preview says so."""
    stack.kube.request("POST", "/api/v1/namespaces", body={"metadata": {"name": stack.namespace}})
    stack.kube.request(
        "POST",
        CONFIG_MAP.replace("NS", stack.namespace),
        body={"metadata": {"name": "theirs"}, "data": {"a": "theirs"}},
    )
    stack.program(
        """
        k8s.core.v1.ConfigMap(
            "cm", metadata={"name": "theirs", "namespace": NS}, data={"a": "ours"}, opts=o
        )
        """
    )
    assert "exists already and is not managed by this resource" in stack.preview().ok().text
    failed = stack.up()
    assert failed.status != 0
    assert "already exists" in failed.text
    assert "pulumi import" in failed.text
    live = stack.get(f"{CONFIG_MAP}/theirs")
    assert live is not None
    assert live["data"] == {"a": "theirs"}


def test_field_conflict_and_force(stack: Stack) -> None:
    """A conflict names the field and its manager; the annotation takes the field over."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        k8s.apps.v1.Deployment(
            "web",
            metadata={
                "name": "web", "namespace": NS,
                "annotations": {"pulumi.com/patchForce": config.get("force") or "false"},
            },
            spec={
                "replicas": int(config.get("replicas") or 0),
                "minReadySeconds": int(config.get("ready") or 1),
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "x"}]},
                },
            },
            opts=opts(depends_on=[ns]),
        )
        """
    )
    stack.up().ok()
    path = "/apis/apps/v1/namespaces/NS/deployments/web"
    stack.patch(path, {"spec": {"minReadySeconds": 7}}, manager="kubectl-edit")
    stack.set("ready", "3")
    failed = stack.up()
    assert failed.status != 0
    assert ".spec.minReadySeconds" in failed.text
    assert "kubectl-edit" in failed.text
    assert "pulumi.com/patchForce" in failed.text
    stack.set("force", "true")
    stack.up().ok()
    live = stack.get(path)
    assert live is not None
    assert live["spec"]["minReadySeconds"] == 3


@pytest.mark.exhaustive
def test_patch_kinds_give_their_fields_back(stack: Stack) -> None:
    """A Patch owns its fields only, and deleting it never deletes the object."""
    stack.kube.request(
        "POST",
        "/api/v1/namespaces",
        body={"metadata": {"name": stack.namespace, "labels": {"theirs": "1"}}},
        query={"fieldManager": "someone"},
    )
    stack.program(
        """
        k8s.core.v1.NamespacePatch(
            "patch", metadata={"name": NS, "labels": {"ours": config.get("v") or "1"}}, opts=o
        )
        """
    )
    stack.up().ok()
    live = stack.get("/api/v1/namespaces/NS")
    assert live is not None
    assert live["metadata"]["labels"]["ours"] == "1"
    assert live["metadata"]["labels"]["theirs"] == "1"
    stack.up("--expect-no-changes").ok()
    stack.set("v", "2")
    assert "1 updated" in stack.up().ok().text
    stack.refresh("--expect-no-changes").ok()
    stack.destroy().ok()
    live = stack.get("/api/v1/namespaces/NS")
    assert live is not None
    assert "ours" not in live["metadata"]["labels"]
    assert live["metadata"]["labels"]["theirs"] == "1"


def test_secrets_stay_secret(stack: Stack) -> None:
    """The state and the output show no secret, however it was passed."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        k8s.core.v1.Secret(
            "secret", metadata={"name": "s", "namespace": NS},
            string_data={"password": "hunter2"}, opts=opts(depends_on=[ns]),
        )
        k8s.core.v1.ConfigMap(
            "cm", metadata={"name": "c", "namespace": NS},
            data={"plain": "visible", "hidden": pulumi.Output.secret("tell-nobody")},
            opts=opts(depends_on=[ns]),
        )
        """
    )
    result = stack.up("--diff").ok()
    shown = result.text + stack.preview("--diff").ok().text + stack.refresh().ok().text
    state = stack.state_text()
    for hidden in ("hunter2", "aHVudGVyMg", "tell-nobody"):
        assert hidden not in shown
        assert hidden not in state
    assert "visible" in state
    live = stack.get("/api/v1/namespaces/NS/secrets/s")
    assert live is not None
    assert live["data"] == {"password": "aHVudGVyMg=="}
    stack.up("--expect-no-changes").ok()


def test_custom_resources_and_unknowns(stack: Stack) -> None:
    """A CRD and its object in one run; previews cope with kinds and values not known yet."""
    stack.program(
        """
        group = NS + ".example.com"
        crd = k8s.apiextensions.v1.CustomResourceDefinition(
            "crd", metadata={"name": "foos." + group},
            spec={
                "group": group, "scope": "Namespaced",
                "names": {"kind": "Foo", "plural": "foos", "singular": "foo"},
                "versions": [{
                    "name": "v1", "served": True, "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x_kubernetes_preserve_unknown_fields": True,
                    }},
                }],
            },
            opts=o,
        )
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        # The uid is not known in the first preview of anything that waits for a real creation.
        foo = k8s.apiextensions.CustomResource(
            "foo", api_version=group + "/v1", kind="Foo",
            metadata={"name": "foo", "namespace": NS},
            spec={"list": [1, 2.5, "x"], "status": crd.status.apply(lambda s: "seen")},
            opts=opts(depends_on=[crd, ns]),
        )
        pulumi.export("spec", foo.spec)
        """
    )
    assert "+ 5 to create" in stack.preview().ok().text
    stack.up().ok()
    live = stack.get("/apis/NS.example.com/v1/namespaces/NS/foos/foo")
    assert live is not None
    assert live["spec"] == {"list": [1, 2.5, "x"], "status": "seen"}
    stack.up("--expect-no-changes").ok()
    stack.refresh("--expect-no-changes").ok()
    stack.destroy().ok()
    assert stack.get("/apis/NS.example.com/v1/namespaces/NS/foos/foo") is None


@pytest.mark.exhaustive
def test_published_custom_resources(stack: Stack, tmp_path: Path) -> None:
    """Kueue's real CRDs: lists with merge keys, defaults of the server, refresh without drift."""
    files = []
    for body in crds.every():
        if body["spec"]["names"]["kind"] in ("ClusterQueue", "LocalQueue"):
            files.append(tmp_path / f"{body['metadata']['name']}.yaml")
            files[-1].write_text(yaml.safe_dump(body))
    assert len(files) == 2
    stack.environment["CRDS"] = ":".join(str(path) for path in files)
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        crds = [
            k8s.yaml.ConfigFile(os.path.basename(path), file=path, opts=o)
            for path in os.environ["CRDS"].split(":")
        ]
        queue = k8s.apiextensions.CustomResource(
            "queue", api_version="kueue.x-k8s.io/v1beta2", kind="ClusterQueue",
            metadata={"name": NS},
            spec={
                "namespaceSelector": {},
                "resourceGroups": [{
                    "coveredResources": ["cpu", "nvidia.com/gpu"],
                    "flavors": [{"name": "default", "resources": [
                        {"name": "cpu", "nominalQuota": "1000m"},
                        {"name": "nvidia.com/gpu", "nominalQuota": config.get("gpus") or 16},
                    ]}],
                }],
            },
            opts=opts(depends_on=crds),
        )
        k8s.apiextensions.CustomResource(
            "local", api_version="kueue.x-k8s.io/v1beta2", kind="LocalQueue",
            metadata={"name": "q", "namespace": NS}, spec={"clusterQueue": queue.metadata["name"]},
            opts=opts(depends_on=[queue, ns]),
        )
        """
    )
    stack.preview().ok()
    stack.up().ok()
    stack.up("--expect-no-changes").ok()
    stack.refresh("--expect-no-changes").ok()
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/NS"
    live = stack.get(path)
    assert live is not None
    groups = live["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][1]["nominalQuota"] = "99"
    stack.patch(path, {"spec": {"resourceGroups": groups}})
    assert "99" in stack.refresh("--diff").ok().text
    # The list now belongs to another manager: the conflict names it.
    conflict = stack.up()
    assert conflict.status != 0
    assert "someone" in conflict.text


@pytest.mark.exhaustive
def test_import_and_get(stack: Stack) -> None:
    """`pulumi import`, the import option and `.get` read the live object."""
    stack.kube.request("POST", "/api/v1/namespaces", body={"metadata": {"name": stack.namespace}})
    stack.kube.request(
        "POST",
        CONFIG_MAP.replace("NS", stack.namespace),
        body={"metadata": {"name": "old"}, "data": {"a": "1"}},
        query={"fieldManager": "kubectl-create"},
    )
    stack.program(
        """
        k8s.core.v1.ConfigMap(
            "adopted", metadata={"name": "old", "namespace": NS}, data={"a": "1"},
            opts=opts(import_=f"{NS}/old"),
        )
        read = k8s.core.v1.Namespace.get("read", NS, opts=o)
        pulumi.export("phase", read.status["phase"])
        """
    )
    result = stack.up().ok()
    assert "1 imported" in result.text
    assert "Active" in result.text
    stack.up("--expect-no-changes").ok()
    assert stack.resources()["adopted"]["outputs"]["data"] == {"a": "1"}


@pytest.mark.exhaustive
def test_object_deleted_outside_is_recreated(stack: Stack) -> None:
    """A refresh notices the deletion; a destroy of a deleted object is no error."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        k8s.core.v1.ConfigMap(
            "cm", metadata={"name": "c", "namespace": NS}, data={"a": "1"},
            opts=opts(depends_on=[ns]),
        )
        """
    )
    stack.up().ok()
    stack.kube.request("DELETE", f"{CONFIG_MAP}/c".replace("NS", stack.namespace))
    assert "1 deleted" in stack.refresh().ok().text
    assert "1 created" in stack.up().ok().text
    stack.kube.request("DELETE", f"{CONFIG_MAP}/c".replace("NS", stack.namespace))
    stack.destroy().ok()


@pytest.mark.exhaustive
def test_an_old_object_on_its_way_out_is_waited_for(stack: Stack) -> None:
    """A replacement whose predecessor's deletion was not awaited does not fail on its name."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        k8s.core.v1.Pod(
            "pod",
            metadata={
                "name": "pod", "namespace": NS, "finalizers": ["example.com/hold"],
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "nodeName": "nowhere",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": config.get("image") or "x"}],
            },
            opts=opts(depends_on=[ns]),
        )
        """
    )
    stack.up().ok()
    path = "/api/v1/namespaces/NS/pods/pod"
    stack.set("image", "y")
    process = stack.start_up()
    stack.wait_for(lambda: (stack.get(path) or {})["metadata"].get("deletionTimestamp"), 60)
    time.sleep(1.5)
    assert process.poll() is None
    stack.patch(path, {"metadata": {"finalizers": None}})
    stack.wait_for(lambda: process.poll() is not None, 60)
    assert process.returncode == 0, (stack.folder / "up.log").read_text()
    live = stack.get(path)
    assert live is not None
    assert live["spec"]["containers"][0]["image"] == "y"
    stack.patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.exhaustive
def test_unreachable_cluster(stack: Stack) -> None:
    """A preview falls back to the program and says so; an up fails; a destroy can be let off."""
    stack.program(
        """
        k8s.core.v1.ConfigMap("cm", metadata={"name": "c"}, data={"a": "1"}, opts=o)
        """
    )
    stack.up().ok()
    text = Path(stack.environment["TEST_KUBECONFIG"]).read_text()
    port = text.split("127.0.0.1:")[1].split("\n")[0].strip()
    dead = stack.folder / "dead.kubeconfig"
    dead.write_text(text.replace(f":{port}", ":1"))
    stack.environment["TEST_KUBECONFIG"] = str(dead)
    stack.program(
        """
        k8s.core.v1.ConfigMap("cm", metadata={"name": "c"}, data={"a": "2"}, opts=o)
        k8s.core.v1.ConfigMap("new", metadata={"name": "d"}, data={"a": "2"}, opts=o)
        """
    )
    preview = stack.preview().ok()
    assert "unreachable" in preview.text
    assert "127.0.0.1:1" in preview.text
    failed = stack.up()
    assert failed.status != 0
    assert "127.0.0.1:1" in failed.text
    assert "Traceback" not in failed.text
    stuck = stack.destroy()
    assert stuck.status != 0
    assert "PULUMI_K8S_DELETE_UNREACHABLE" in stuck.text
    stack.environment["PULUMI_K8S_DELETE_UNREACHABLE"] = "true"
    stack.destroy().ok()
    assert stack.get("/api/v1/namespaces/default/configmaps/c") is not None
    stack.kube.request("DELETE", "/api/v1/namespaces/default/configmaps/c")


def test_parallel_objects_are_quick(stack: Stack) -> None:
    """Fifty objects take seconds: the engine sends many operations at once."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        for number in range(50):
            k8s.core.v1.ConfigMap(
                f"c{number}", metadata={"name": f"c{number}", "namespace": ns.metadata["name"]},
                data={"a": "1"}, opts=o,
            )
        """
    )
    started = time.monotonic()
    stack.up().ok()
    assert time.monotonic() - started < 60
