"""Components that the provider serves, and charts that the SDK renders through it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railhead.lab.engine.provider import components
from tests.engine.conftest import Stack
from tests.engine.controlplane import locate

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-file, namespace: NS}
data: {a: b}
---
apiVersion: v1
kind: Namespace
metadata: {name: NS}
"""


@pytest.mark.controlplane
def test_groups_files_and_charts(stack: Stack) -> None:
    """One resource an object, in the order that the objects need."""
    if locate("helm") is None:
        pytest.skip("no helm: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    (stack.folder / "objects.yaml").write_text(MANIFEST.replace("NS", stack.namespace))
    chart = stack.folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
        '  name: "{{ .Release.Name }}"\n  namespace: "{{ .Release.Namespace }}"\n'
        'data: {word: "{{ .Values.word }}"}\n'
    )
    stack.program(
        """
        file = k8s.yaml.v2.ConfigFile("file", file="objects.yaml", opts=o)
        after = opts(depends_on=[file])
        group = k8s.yaml.v2.ConfigGroup(
            "group",
            objs=[{
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "inline", "namespace": NS}, "data": {"a": "b"},
            }],
            yaml=f"{{apiVersion: v1, kind: Secret, metadata: {{name: text, namespace: {NS}}}}}",
            opts=after,
        )
        k8s.helm.v4.Chart(
            "four", chart="./chart", namespace=NS, values={"word": "x"}, opts=after
        )
        k8s.helm.v3.Chart(
            "three",
            k8s.helm.v3.LocalChartOpts(path="./chart", namespace=NS, values={"word": "y"}),
            opts=after,
        )
        pulumi.export("count", file.resources.apply(len))
        """
    )
    stack.preview().ok()
    stack.up().ok()
    assert json.loads(stack.run("stack", "output", "--json").ok().text) == {"count": 2}
    for name in ("from-file", "inline", "four", "three"):
        assert stack.get(f"/api/v1/namespaces/NS/configmaps/{name}") is not None
    assert stack.get("/api/v1/namespaces/NS/secrets/text") is not None
    types = {item["urn"].split("::")[2] for item in stack.resources().values()}
    assert "kubernetes:yaml/v2:ConfigFile$kubernetes:core/v1:ConfigMap" in types
    stack.up("--expect-no-changes").ok()


@pytest.mark.controlplane
def test_a_broken_manifest_is_named(stack: Stack) -> None:
    """The error says what is wrong with it, without the machinery."""
    (stack.folder / "objects.yaml").write_text("kind: Pod\n")
    stack.program('k8s.yaml.v2.ConfigFile("file", file="objects.yaml", opts=o)')
    failed = stack.preview()
    assert failed.status != 0
    assert "has no apiVersion" in failed.text
    assert "components.py" not in failed.text


OBJECTS = [
    {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f", "namespace": "n"}},
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Foo"}},
    },
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "first",
            "annotations": {
                "config.kubernetes.io/depends-on": "example.com/namespaces/n/Foo/f",
            },
        },
    },
]


def test_order_of_objects() -> None:
    order = components.in_order(OBJECTS)
    assert order.index(1) < order.index(0)
    assert order.index(2) < order.index(0)
    assert order.index(0) < order.index(3)


def test_a_circle_is_named() -> None:
    def depending(name: str, other: str) -> dict[str, object]:
        annotations = {"config.kubernetes.io/depends-on": f"/ConfigMap/{other}"}
        metadata = {"name": name, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    with pytest.raises(ValueError, match="depends on itself"):
        components.in_order([depending("a", "b"), depending("b", "a")])


def test_files_by_pattern(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml"):
        text = f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name[0]}}}}}"
        (tmp_path / name).write_text(text)
    result = components.read_files([f"{tmp_path}/*.yaml"])
    assert [item["metadata"]["name"] for item in result] == ["a", "b"]
    with pytest.raises(FileNotFoundError):
        components.read_files([str(tmp_path / "none.yaml")])
    with pytest.raises(ValueError, match="not served"):
        components.read_files(["https://example.com/x.yaml"])


def test_tokens() -> None:
    assert components.resource_token(OBJECTS[2]) == "kubernetes:core/v1:Namespace"
    assert components.resource_token(OBJECTS[0]) == "kubernetes:example.com/v1:Foo"
