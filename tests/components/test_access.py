"""Rights of each persona, as a real API server grants them.

Each request is sent as a lead, a researcher, a viewer and a stranger: what is allowed is done (as a
dry run), what is not is refused by name. Then every refusal is spoilt, one at a time: a role that
says a word more lets exactly that through, so no case passes because nobody asked.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from railhead.base.names import DELETE_ANNOTATION, JOBS_OWNER, KUEUE_API, QUEUE_LABEL
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.access_cases import JOB_SET, OTHER, OWN, REFUSED, TRAIN_JOB, WORK, Asked
from tests.components.acts import PEOPLE, absent_fields, acts, ask, decided
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.components.test_api_server import manifests
from tests.components.test_keepers import claim, cluster_queue, patch, pod, workload
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

LOGIN = "registry-login"
#: A second namespace of the other team, with a job in it.
BUSY = "speech"
#: Of the team whose namespace it is; a stranger is of none.
GROUPS = {
    "L": "railhead:leads",
    "R": "railhead:researchers",
    "V": "railhead:viewers",
    "S": "strangers",
}
NAMES = {"L": "lead", "R": "researcher", "V": "viewer", "S": "stranger"}


def _team(name: str, prefix: str, *more: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespaces": [name, *more],
        **{item: [f"{prefix}:{item}"] for item in ("leads", "researchers", "viewers")},
        "shares": [{"pool": "gpu", "nodes": 1}],
    }


def cluster() -> dict[str, Any]:
    """Return the lab with two teams; the personas are of the first."""
    lab = lab_cluster()
    (claim,) = lab["checkpoints"]
    return lab | {
        "namespaces": [],
        "queues": [],
        "teams": [_team(OWN, "railhead"), _team(OTHER, "vision", BUSY)],
        "checkpoints": [claim | {"namespace": name} for name in (OWN, OTHER, BUSY)],
        "access": {"image_pull_secrets": [{"name": LOGIN}]},
        # A fabric that needs more than a Pod Security level gives, so that the guards stand alone.
        "fabric": lab["fabric"] | {"lock_memory": True},
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
        self.clients = {item: server.be(NAMES[item], group) for item, group in GROUPS.items()}
        self.clients |= {
            "O": server.be("grace", f"{OTHER}:researchers"),
            "P": server.account(OWN, "default"),
            "C": server.account("kube-system", "job-controller"),
            "A": server.be("root", "system:masters"),
        }

    def uid_of_a_job(self) -> str:
        """Return the UID of the TrainJob that the acts are about."""
        path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{OWN}/trainjobs/mine"
        return str(self.server.client.request("GET", path).body["metadata"]["uid"])

    def ask(self, persona: str, asked: Asked) -> tuple[int, str]:
        """Return the status, and the server's words where it refused."""
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
    """Yield the objects that the requests are about."""
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
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": OWN, "name": "builder"},
    }
    yield {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
    }


def _definitions() -> Iterator[dict[str, Any]]:
    """Yield the lab's definitions; a JobSet has its claims of 0.11 (jobset_types.go), too."""
    for body in copy.deepcopy(lab_definitions()):
        if body["spec"]["names"]["kind"] == "JobSet":
            (version,) = body["spec"]["versions"]
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            policy = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            spec["properties"]["volumeClaimPolicies"] = {"type": "array", "items": policy}
        yield body


def _in_use(server: Server) -> None:
    """Have jobs in the other team's namespaces, and queues and claims that are in use."""
    ended = named(TRAIN_JOB, "ended", OTHER)
    ended["metadata"]["labels"] = {QUEUE_LABEL: OTHER}
    mounted, reader = claim("mounted", OWN), pod("reader", "mounted")
    mounted["metadata"]["annotations"] = {DELETE_ANNOTATION: "mounted"}
    reader["metadata"]["namespace"] = OWN
    busy = workload("busy", BUSY, queue=OTHER)
    # Of a flavor that no job has.
    free = cluster_queue("other", cohortName="any")
    for body in (ended, mounted, reader, busy, free):
        server.apply(body)
    queue = server.client.request("GET", server.path(_queue(OTHER))).body
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]
    pods = {"name": "main", "count": 1, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "1"}}
    complete = {
        "type": "Complete",
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch(server, ended, {"status": {"conditions": [complete]}}, "status")
    patch(
        server,
        busy,
        {"status": {"admission": {"clusterQueue": OTHER, "podSetAssignments": [pods]}}},
        "status",
    )
    patch(server, _queue(OWN), {"status": {"reservingWorkloads": 1}}, "status")
    patch(server, _queue(OTHER), {"spec": {"stopPolicy": "Hold"}})
    # As `railhead launch` makes it, so that nothing but its end is asked.
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": JOBS_OWNER, "namespace": OWN},
    }
    uid = server.client.request("GET", server.path(owner)).body["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": JOBS_OWNER, "uid": uid}
    patch(server, named(TRAIN_JOB, "mine"), {"metadata": {"ownerReferences": [reference]}})
    # So that the job alone keeps the namespace.
    patch(
        server,
        claim("checkpoints", BUSY),
        {"metadata": {"annotations": {DELETE_ANNOTATION: "checkpoints"}}},
    )


def _queue(name: str) -> dict[str, Any]:
    return {"apiVersion": KUEUE_API, "kind": "ClusterQueue", "metadata": {"name": name}}


@pytest.fixture(scope="module")
def people(judging_plane: ControlPlane, recording: Recording) -> Iterator[People]:
    with Server(judging_plane) as server:
        server.define([*_definitions(), *crds.operators("k8s.cni.cncf.io")])
        for body in manifests(recording):
            server.apply(body)
        server.policies_settled()
        for body in _things():
            server.apply(body)
        result = People(server)
        # Trainer's own, which its author may not take from it.
        owner = {"apiVersion": TRAIN_JOB["apiVersion"], "kind": "TrainJob", "name": "mine"}
        owned = named(JOB_SET, "owned")
        owned["metadata"]["ownerReferences"] = [
            owner | {"uid": result.uid_of_a_job(), "controller": True}
        ]
        trainer = server.account("kubeflow-system", "trainer", GROUPS["R"])
        # A binding takes effect a moment after it was made.
        deadline = time.monotonic() + 60
        while not all(result.lets(p, WORK[6]) for p in "LRV"):
            assert time.monotonic() < deadline, "the roles do not take effect"
            time.sleep(0.1)
        trainer.request("POST", server.path(owned, collection=True), body=owned)
        _in_use(server)
        tried = [r for act in acts() if act.who == "A" for chain in act.chains() for r in chain]
        while any(ask(result.clients["A"], request, "") == "-" for request in tried):
            assert time.monotonic() < deadline, "what is in use is not kept"
            time.sleep(0.5)
        yield result
        patch(server, _queue(OWN), {"status": {"reservingWorkloads": 0}}, "status")


def test_each_may_do_what_the_table_says_and_no_more(people: People) -> None:
    for asked in (*WORK, *REFUSED):
        for persona in GROUPS:
            status, words = people.ask(persona, asked)
            case = f"{NAMES[persona]}: {asked.what}: {status} {words}"
            if persona not in asked.may:
                assert status == 403, case
                # By name: who, what, and of which kind.
                assert f"cannot {asked.verb} resource" in words, case
                assert f'"{asked.in_rbac}"' in words or asked.review, case
            elif asked.served:
                assert status == 200, case
            else:
                assert not (status == 403 and "cannot" in words), case


def test_no_forbidden_act_passes(people: People) -> None:
    """Each act of ``tests/data/forbidden_acts.yaml`` is refused, and by what it says."""
    uid = people.uid_of_a_job()
    wrong = [
        f"{PEOPLE[chain[0].who]}: {act.name}: {refused} and not {act.by}"
        for act in acts()
        for chain in act.chains()
        if (refused := [ask(people.clients[r.who], r, uid) for r in chain]) != act.by
        or set(refused) == {"-"}
    ]
    assert not wrong, "\n".join(wrong)


def test_what_was_decided_otherwise_passes(people: People) -> None:
    uid = people.uid_of_a_job()
    for act in decided():
        for chain in act.chains():
            assert {ask(people.clients[r.who], r, uid) for r in chain} == {"-"}, act.name


def test_refused_requests_are_many_and_distinct() -> None:
    assert len(REFUSED) >= 60
    names = [asked.what for asked in (*WORK, *REFUSED)]
    assert len(set(names)) == len(names)
    asked = [(a.verb, a.resource, a.namespace, a.name) for a in (*WORK, *REFUSED)]
    assert len(set(asked)) == len(asked)


def test_other_team_has_access_to_its_own_namespace(people: People) -> None:
    """Members of a team may enter its namespace, so a refusal depends on who asks."""
    theirs = people.server.be("grace", "vision:researchers")
    for path in ("api/v1", "apis/trainer.kubeflow.org/v1alpha1"):
        kind = "pods" if path == "api/v1" else "trainjobs"
        assert theirs.request("GET", f"/{path}/namespaces/{OTHER}/{kind}").body["items"] is not None
        with pytest.raises(ApiError, match="cannot list resource"):
            theirs.request("GET", f"/{path}/namespaces/{OWN}/{kind}")


def test_administrator_may_make_every_request(people: People) -> None:
    """Every request is valid, so none is refused for being malformed."""
    for asked in (*WORK, *REFUSED):
        assert people.lets("A", asked), asked.what


@contextlib.contextmanager
def widened(people: People, asked: Asked) -> Iterator[None]:
    """Let the viewers' role allow this request, too."""
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


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@contextlib.contextmanager
def shortened(
    people: People, guards: Mapping[str, list[dict[str, Any]]], number: int
) -> Iterator[dict[str, str]]:
    """Take the validation of that number from each guard that has it; yields guard -> message."""
    client = people.server.client
    taken = {name: rows[number] for name, rows in guards.items() if number < len(rows)}

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        body = {"spec": {"validations": rows or [{"expression": "true"}]}}
        path = f"{POLICIES}/railhead-{name}"
        client.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    for name, row in taken.items():
        write(name, [other for other in guards[name] if other is not row])
    people.server.policies_settled()
    try:
        yield {name: row.get("message") or row["messageExpression"] for name, row in taken.items()}
    finally:
        for name in taken:
            write(name, guards[name])


#: What no act can notice: what the node gate's own accounts ask, and what RayJobs say, which
#: test_node_gate and test_job_guards try; an annotation that the API server writes into its field,
#: which another validation reads; a pod of Windows that the API server itself refuses off the
#: node's network; and what Trainer's overrides do not have, as the acts of `fields` show.
NOT_BY_ACTS = re.compile(
    r"gate-"
    r"|job-template: spec.entrypoint"
    r"|node-reach: (the annotation unconfined|windowsOptions)"
    rf"|train-job-(author|pods): spec.podTemplateOverrides: .*({'|'.join(absent_fields())})"
)


@pytest.mark.exhaustive
def test_a_guard_that_says_less_is_found_out(people: People) -> None:
    """Each guard loses one validation at a time, and an act that it refused notices."""
    uid = people.uid_of_a_job()
    items = people.server.client.request("GET", POLICIES).body["items"]
    guards = {
        item["metadata"]["name"].removeprefix("railhead-"): item["spec"]["validations"]
        for item in items
        if item["metadata"]["name"].startswith("railhead-")
    }
    requests = [
        (guard, request)
        for act in acts()
        for chain in act.chains()
        for request, guard in zip(chain, act.by, strict=True)
        if guard in guards
    ]
    unnoticed = []
    for number in range(max(map(len, guards.values()))):
        with shortened(people, guards, number) as taken:
            noticed = {
                guard
                for guard, request in requests
                if guard in taken and ask(people.clients[request.who], request, uid) != guard
            }
        unnoticed += [f"{name}: {taken[name]}" for name in sorted(taken.keys() - noticed)]
    people.server.policies_settled()
    assert not [row for row in unnoticed if not NOT_BY_ACTS.match(row)]


PRIORITY = "kueue.x-k8s.io/priority-class"


def labelled(body: Mapping[str, Any], priority: str) -> dict[str, Any]:
    made = named(body, "new")
    made["metadata"]["labels"] = {**made["metadata"]["labels"], PRIORITY: priority}
    return made


def submitted(client: KubeClient, server: Server, body: Mapping[str, Any]) -> str:
    """Empty when it was taken (as a dry run), else the server's words."""
    try:
        client.request(
            "POST", server.path(body, collection=True), body=body, query={"dryRun": "All"}
        )
    except ApiError as error:
        return error.message
    return ""


def patched(client: KubeClient, body: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    try:
        client.request(
            "PATCH",
            f"/apis/{body['apiVersion']}/namespaces/{OWN}/{body['kind'].lower()}s/mine",
            body=change,
            content_type="application/merge-patch+json",
            query={"dryRun": "All"},
        )
    except ApiError as error:
        return error.message
    return ""


def test_who_may_say_which_priority(people: People) -> None:
    may = {"R": ("research", "spare"), "L": ("research", "spare", "production")}
    for body, persona in itertools.product((TRAIN_JOB, JOB_SET), may):
        for priority in ("research", "spare", "production", "made-up"):
            client, label = people.clients[persona], {"metadata": {"labels": {PRIORITY: priority}}}
            for words in (
                submitted(client, people.server, labelled(body, priority)),
                patched(client, body, label),
            ):
                refused = "railhead-priority" in words and f"{PRIORITY}: {priority} is not" in words
                assert words == "" if priority in may[persona] else refused, (persona, words)


def test_owner_may_suspend_a_job_that_a_lead_prioritized(people: People) -> None:
    ahead = labelled(TRAIN_JOB, "production")
    ahead["metadata"]["name"] = "ahead"
    people.server.apply(ahead)
    try:
        path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{OWN}/trainjobs/ahead"
        for change in ({"spec": {"suspend": True}}, {"metadata": {"labels": {PRIORITY: "spare"}}}):
            people.clients["R"].request(
                "PATCH",
                path,
                body=change,
                content_type="application/merge-patch+json",
                query={"dryRun": "All"},
            )
    finally:
        people.server.delete([ahead])


def test_only_controllers_may_pass_a_priority_on(people: People) -> None:
    """Trainer's objects carry the lead's label; a job's own account may set no priority."""
    body = labelled(JOB_SET, "production")
    trainer = people.server.account("kubeflow-system", "trainer", GROUPS["R"])
    mine = people.server.account(OWN, "default", GROUPS["R"])
    assert submitted(trainer, people.server, body) == ""
    assert "railhead-priority" in submitted(mine, people.server, body)


def test_the_api_server_may_label_a_token_that_was_there(people: People) -> None:
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "older",
            "namespace": OWN,
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    collection = people.server.path(token, collection=True)
    people.server.controller("kube-system", "tokens").request("POST", collection, body=token)
    try:
        people.server.be("system:apiserver", "system:masters").request(
            "PATCH",
            people.server.path(token),
            body={"metadata": {"labels": {"kubernetes.io/legacy-token-last-used": "2026-11-26"}}},
            content_type="application/merge-patch+json",
        )
    finally:
        people.server.delete([token])


def test_labels_of_a_job_older_than_a_guard_may_change(people: People) -> None:
    older = named(JOB_SET, "older")
    older["spec"]["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "a"}}]}]
    collection = people.server.path(older, collection=True)
    people.server.controller("jobset-system", "before").request("POST", collection, body=older)

    def change(body: dict[str, Any]) -> None:
        people.clients["R"].request(
            "PATCH",
            people.server.path(older),
            body=body,
            content_type="application/merge-patch+json",
            query={"dryRun": "All"},
        )

    try:
        change({"metadata": {"labels": {"note": "kept"}}})
        with pytest.raises(ApiError, match="volumeClaimPolicies has claims made"):
            change({"spec": {"volumeClaimPolicies": [{"templates": []}]}})
    finally:
        people.server.delete([older])


def _pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": OWN},
        "spec": {"containers": [{"name": "c", "image": "x"}]} | spec,
    }


def _container(**fields: Any) -> dict[str, Any]:
    return _pod(containers=[{"name": "c", "image": "x"} | fields])


def test_job_of_any_persona_is_accepted(people: People) -> None:
    for body in (
        _pod(),
        _pod(imagePullSecrets=[{"name": LOGIN}]),
        _pod(volumes=[{"name": "v", "secret": {"secretName": "key"}}]),
        _container(envFrom=[{"secretRef": {"name": "key"}}]),
    ):
        assert submitted(people.clients["C"], people.server, body) == ""


def test_a_jobs_pod_has_no_token_and_the_registrys_login(
    people: People, recording: Recording
) -> None:
    inputs = next(
        r.inputs
        for r in recording.resources.values()
        if r.type.endswith("ServiceAccountPatch") and r.inputs["metadata"]["namespace"] == OWN
    )
    path = f"/api/v1/namespaces/{OWN}/serviceaccounts/default"
    server, controller = people.server.client, people.clients["C"]

    def volumes() -> tuple[list[str], Any]:
        made = controller.request(
            "POST", f"/api/v1/namespaces/{OWN}/pods", body=_pod(), query={"dryRun": "All"}
        ).body["spec"]
        return [v["name"] for v in made.get("volumes", [])], made.get("imagePullSecrets")

    (token,), logins = volumes()
    assert token.startswith("kube-api-access"), "so without the patch there is one"
    assert not logins
    server.request(
        "PATCH",
        path,
        body={**inputs, "apiVersion": "v1", "kind": "ServiceAccount"},
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "test"},
    )
    deadline = time.monotonic() + 10
    while volumes() != ([], [{"name": LOGIN}]):
        assert time.monotonic() < deadline, volumes()
        time.sleep(0.05)


def test_no_service_opens_the_namespace(people: People) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "open", "namespace": OWN},
    }
    for kind in ("LoadBalancer", "NodePort"):
        body["spec"] = {"type": kind, "ports": [{"port": 1}]}
        assert "exceeded quota: railhead-objects" in people.server.verdict(body)
    body["spec"] = {"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 1}]}
    assert people.server.verdict(body) == "", "a JobSet's own is one"
