"""Who may do what, asked of a real API server as each of them.

Each request is sent as a lead, a researcher, a viewer and a stranger: what is allowed is done (as a
dry run), what is not is refused by name. Then every refusal is spoilt, one at a time: a role that
says a word more lets exactly that through, so no case passes because nobody asked.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import ClientSettings, KubeClient, load_kubeconfig
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.access_cases import JOB_SET, OTHER, OWN, REFUSED, TRAIN_JOB, WORK, Asked
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.components.test_api_server import manifests
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

#: Of the team whose namespace it is; a stranger is of none.
GROUPS = {
    "L": "railhead:leads",
    "R": "railhead:researchers",
    "V": "railhead:viewers",
    "S": "somebody",
}
NAMES = {"L": "lead", "R": "researcher", "V": "viewer", "S": "stranger"}


def _team(name: str, prefix: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespaces": [name],
        **{one: [f"{prefix}:{one}"] for one in ("leads", "researchers", "viewers")},
        "shares": [{"pool": "gpu", "nodes": 1}],
    }


def cluster() -> dict[str, Any]:
    """The lab with two teams; the personas are of the first."""
    lab = lab_cluster()
    (claim,) = lab["checkpoints"]
    return lab | {
        "namespaces": [],
        "queues": [],
        "teams": [_team(OWN, "railhead"), _team(OTHER, "vision")],
        "checkpoints": [claim, claim | {"namespace": OTHER}],
    }


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(cluster(), cache)


class People:
    """One client for each persona, all of them the administrator's in disguise."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients = {one: self.be(NAMES[one], group) for one, group in GROUPS.items()}

    def be(self, user: str, *groups: str) -> KubeClient:
        config = yaml.safe_load(self.server.plane.kubeconfig.read_text())
        config["users"][0]["user"] |= {"as": user, "as-groups": [*groups, "system:authenticated"]}
        settings = ClientSettings(kubeconfig=yaml.safe_dump(config))
        return KubeClient(load_kubeconfig(settings), settings)

    def ask(self, persona: str, asked: Asked) -> tuple[int, str]:
        """The status, and the server's words where it refused."""
        client = self.clients[persona]
        if asked.review:
            return _reviewed(client, asked)
        try:
            client.request(
                asked.method,
                asked.path,
                body=_sent(asked),
                content_type="application/merge-patch+json"
                if asked.verb == "patch"
                else "application/json",
                query={"dryRun": "All"} if asked.verb in ("create", "patch") else {},
            )
        except ApiError as error:
            return error.status, error.message
        return 200, ""

    def lets(self, persona: str, asked: Asked) -> bool:
        status, words = self.ask(persona, asked)
        return not (status == 403 and "cannot" in words)


def _sent(asked: Asked) -> dict[str, Any] | None:
    if asked.verb in ("get", "list"):
        return None
    if asked.verb.startswith("delete"):
        # With a body, what the query says is not looked at.
        return {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    return dict(asked.body) or {"metadata": {"name": asked.name or "x"}}


def _reviewed(client: KubeClient, asked: Asked) -> tuple[int, str]:
    attributes = {
        "verb": asked.verb,
        "group": asked.group,
        "resource": asked.plural,
        "namespace": asked.namespace,
        "name": asked.name,
    }
    answer = client.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    )
    allowed = answer.body["status"]["allowed"]
    words = f'User "{client}" cannot {asked.verb} resource "{asked.plural}"'
    return (200, "") if allowed else (403, words)


def named(body: Mapping[str, Any], name: str, namespace: str = OWN) -> dict[str, Any]:
    made = copy.deepcopy(dict(body))
    made["metadata"] = {**made["metadata"], "name": name, "namespace": namespace}
    return made


def _things() -> Iterator[dict[str, Any]]:
    """What the requests are about."""
    yield named(TRAIN_JOB, "mine")
    yield named(JOB_SET, "mine")
    for namespace in (OWN, OTHER):
        meta = {"namespace": namespace}
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**meta, "name": "key"},
            "stringData": {"token": "not-one"},
        }
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "files"}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "name": "rank"},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }


@pytest.fixture(scope="module")
def people(control_plane: ControlPlane, recording: Recording) -> Iterator[People]:
    with Server(control_plane) as server:
        server.define([*lab_definitions(), *crds.operators("k8s.cni.cncf.io")])
        for body in manifests(recording):
            server.apply(body)
        for body in _things():
            server.apply(body)
        found = People(server)
        # A binding takes effect a moment after it was made.
        deadline = time.monotonic() + 30
        while not all(found.lets(p, WORK[6]) for p in "LRV"):
            assert time.monotonic() < deadline, "the roles do not take effect"
            time.sleep(0.1)
        yield found


EVERY = [(asked, persona) for asked in (*WORK, *REFUSED) for persona in GROUPS]


@pytest.mark.parametrize(
    ("asked", "persona"), EVERY, ids=[f"{NAMES[p]}: {a.what}" for a, p in EVERY]
)
def test_each_may_do_what_the_table_says_and_no_more(
    people: People, asked: Asked, persona: str
) -> None:
    status, words = people.ask(persona, asked)
    if persona not in asked.may:
        assert status == 403, (status, words)
        # By name: who, what, and of which kind.
        assert f"cannot {asked.verb} resource" in words
        assert f'"{asked.in_rbac}"' in words or asked.review
    elif asked.served:
        assert status == 200, words
    else:
        assert not (status == 403 and "cannot" in words), words


def test_there_are_enough_of_them_and_no_two_are_one() -> None:
    assert len(REFUSED) >= 60
    names = [asked.what for asked in (*WORK, *REFUSED)]
    assert len(set(names)) == len(names)
    asked = [(a.verb, a.resource, a.namespace, a.name) for a in (*WORK, *REFUSED)]
    assert len(set(asked)) == len(asked)


def test_the_other_team_is_a_team_too(people: People) -> None:
    """Its own people are let in: what keeps the personas out is not that nobody is."""
    theirs = people.be("grace", "vision:researchers")
    for path in ("api/v1", "apis/trainer.kubeflow.org/v1alpha1"):
        kind = "pods" if path == "api/v1" else "trainjobs"
        assert theirs.request("GET", f"/{path}/namespaces/{OTHER}/{kind}").body["items"] is not None
        with pytest.raises(ApiError, match="cannot list resource"):
            theirs.request("GET", f"/{path}/namespaces/{OWN}/{kind}")


def test_an_administrator_may_do_all_of_it(people: People) -> None:
    """So no request is refused because it is no request."""
    admin = people.be("root", "system:masters")
    people.clients["A"] = admin
    for asked in (*WORK, *REFUSED):
        assert people.lets("A", asked), asked.what


@contextlib.contextmanager
def widened(people: People, asked: Asked) -> Iterator[None]:
    """The viewers' role says this, too."""
    rule = {"apiGroups": [asked.group], "resources": [asked.in_rbac], "verbs": [asked.verb]}
    path = (
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles/railhead-viewers"
        if asked.namespace == OWN
        else "/apis/rbac.authorization.k8s.io/v1/clusterroles/railhead-viewers"
    )
    client = people.server.client
    rules = client.request("GET", path).body["rules"]

    def write(value: list[Any]) -> None:
        client.request(
            "PATCH", path, body={"rules": value}, content_type="application/merge-patch+json"
        )

    write([*rules, rule])
    try:
        yield
    finally:
        write(rules)


def test_a_role_that_says_a_word_more_is_found_out(people: People) -> None:
    """Every refusal of a viewer is spoilt by one rule, and that case alone notices."""
    refused = [asked for asked in (*WORK, *REFUSED) if "V" not in asked.may]
    for index, asked in enumerate(refused):
        bystander = refused[(index + len(refused) // 2) % len(refused)]
        with widened(people, asked):
            deadline = time.monotonic() + 10
            while not people.lets("V", asked):
                assert time.monotonic() < deadline, f"no rule lets this through: {asked.what}"
                time.sleep(0.01)
            same = (bystander.verb, bystander.group, bystander.in_rbac) == (
                asked.verb,
                asked.group,
                asked.in_rbac,
            )
            assert same or not people.lets("V", bystander), bystander.what
            assert not people.lets("S", asked), asked.what
        deadline = time.monotonic() + 10
        while people.lets("V", asked):
            assert time.monotonic() < deadline, f"still let through: {asked.what}"
            time.sleep(0.01)
