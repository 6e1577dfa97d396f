"""Acts that the docs forbid, as requests: the rows of ``tests/data/forbidden_acts.yaml``."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import yaml

from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.lab.engine.provider.helm import merge_values
from tests.components.access_cases import JOB_SET, OWN, TRAIN_JOB

FILE = Path(__file__).resolve().parents[1] / "data" / "forbidden_acts.yaml"
PEOPLE = {
    "R": "researcher",
    "L": "team lead",
    "V": "viewer",
    "O": "researcher of another team",
    "P": "token of a job's pod",
    "A": "administrator",
    "C": "the controllers of jobs",
}
#: What each kind of object starts from, by the key of a row.
_STARTS: Mapping[str, Mapping[str, Any]] = {
    "jobset": JOB_SET,
    "trainjob": TRAIN_JOB,
    "configmap": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}},
    "secret": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}},
}
_PATHS = {
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "trainjobs": "/apis/trainer.kubeflow.org/v1alpha1",
    "configmaps": "/api/v1",
    "secrets": "/api/v1",
    "pods": "/api/v1",
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request; ``who`` is a letter of :data:`PEOPLE`."""

    who: str
    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Act:
    """One row: of the requests of anyone who tries it, one is refused.

    ``by`` is what refuses each request of a chain: a guard, RBAC, the API server itself, or
    nothing, ``-``.
    """

    row: Mapping[str, Any]
    default: str

    @property
    def name(self) -> str:
        return str(self.row["act"])

    @property
    def who(self) -> str:
        return str(self.row.get("who", self.default))

    @property
    def by(self) -> list[str]:
        return list(self.row.get("by", ["RBAC"]))

    def chains(self) -> Iterator[tuple[Request, ...]]:
        """Yield the requests of each person: an object, and the pod that it would make."""
        for person in self.who:
            yield tuple(self._requests(person))

    def _requests(self, person: str) -> Iterator[Request]:
        row = self.row
        if "impersonate" in row:
            yield Request(who=person, method="IMPERSONATE", path=row["impersonate"])
        elif "ask" in row:
            method, _, path = row["ask"].replace("/NS", f"/{OWN}").partition(" ")
            yield Request(who=person, method=method, path=path, body=row.get("body", {}))
        elif "patch" in row:
            resource, _, name = row["patch"].partition("/")
            path = f"{_path(resource)}/{name}"
            yield Request(who=person, method="PATCH", path=path, body=row["with"])
        else:
            job = self._object()
            yield _create(person, job, strict="field" in row)
            if job["kind"] == "JobSet" and "jobset" not in row:
                yield _create("C", _pod(job, admitted=not row.get("unlabelled")))

    def _object(self) -> dict[str, Any]:
        row = self.row
        for key, start in _STARTS.items():
            if key in row:
                return merge_values(start, row[key])
        if {"override", "overmeta"} & set(row):
            override = {"targetJobs": [{"name": "node"}], "spec": row.get("override", {})}
            if "overmeta" in row:
                override["metadata"] = row["overmeta"]
            return merge_values(TRAIN_JOB, {"spec": {"podTemplateOverrides": [override]}})
        return _job_set(row)


def _job_set(row: Mapping[str, Any]) -> dict[str, Any]:
    job_set: dict[str, Any] = copy.deepcopy(JOB_SET)
    if row.get("unlabelled"):
        del job_set["metadata"]["labels"]
    (job,) = job_set["spec"]["replicatedJobs"]
    job["replicas"] = row.get("replicas", 1)
    job["template"]["spec"] |= row.get("job", {})
    template = job["template"]["spec"]["template"]
    template["metadata"] = row.get("meta", {})
    (container,) = template["spec"]["containers"]
    template["spec"] |= {
        **row.get("pod", {}),
        "containers": [merge_values(container, row.get("container", {}))],
    }
    if "init" in row:
        template["spec"]["initContainers"] = [{"name": "i", "image": "x", **row["init"]}]
    return job_set


def _pod(job_set: Mapping[str, Any], *, admitted: bool) -> dict[str, Any]:
    """Return the pod that the job controller makes of a JobSet, as Kueue admitted it."""
    template = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "new-node-0", "uid": "u"}
    labels = {"jobset.sigs.k8s.io/jobset-name": "new"}
    labels |= {"kueue.x-k8s.io/podset": "node"} if admitted else {}
    metadata = {
        "name": "new-node-0-0",
        "labels": labels,
        "ownerReferences": [owner | {"controller": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": merge_values(metadata, template.get("metadata", {})),
        "spec": template["spec"],
    }


def _create(who: str, body: Mapping[str, Any], *, strict: bool = False) -> Request:
    """Return the creation of an object; ``strict`` refuses unknown fields instead of dropping."""
    path = _path(f"{body['kind'].lower()}s") + ("?fieldValidation=Strict" if strict else "")
    return Request(who=who, method="POST", path=path, body=body)


def _path(resource: str) -> str:
    return f"{_PATHS[resource]}/namespaces/{OWN}/{resource}"


#: Who tries the acts of each part of the file that names nobody.
_DEFAULTS = {
    "pods": "R",
    "jobs": "RL",
    "fields": "R",
    "objects": "RL",
    "asks": "RLVOP",
    "administrators": "A",
    "decided": "R",
}


def _rows(*parts: str) -> tuple[Act, ...]:
    listed = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple(Act(row=row, default=_DEFAULTS[part]) for part in parts for row in listed[part])


def acts() -> tuple[Act, ...]:
    """Return every act that is refused."""
    return _rows(*(part for part in _DEFAULTS if part != "decided"))


def decided() -> tuple[Act, ...]:
    """Return what is let through on purpose."""
    return _rows("decided")


def ask(client: KubeClient, request: Request, uid: str) -> str:
    """Return what refused a request, sent as a dry run: ``-`` if nothing did."""
    path, _, query = request.path.partition("?")
    asked = dict(parse_qsl(query))
    body: Any = json.loads(json.dumps(request.body).replace('"UID"', json.dumps(uid)))
    if request.method == "IMPERSONATE":
        return _impersonated(client, request.path)
    if request.method == "DELETE":
        # With a body, what the query says is not looked at.
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **body}
    elif request.method != "GET":
        asked["dryRun"] = "All"
    patch = "application/merge-patch+json"
    try:
        client.request(
            request.method,
            path,
            body=body or None,
            content_type=patch if request.method == "PATCH" else "application/json",
            query=asked,
        )
    except ApiError as error:
        if guard := re.search(r"ValidatingAdmissionPolicy '([\w-]+)'", error.message):
            return guard[1].removeprefix("railhead-")
        return "RBAC" if error.status == 403 and "cannot" in error.message else "API server"
    return "-"


def _impersonated(client: KubeClient, what: str) -> str:
    """Return the same of impersonation, which is a right like others (filters/impersonation.go)."""
    resource, _, name = what.partition("/")
    attributes = {"verb": "impersonate", "resource": resource, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = client.request("POST", path, body=review).body
    return "-" if answer["status"]["allowed"] else "RBAC"


def absent_fields() -> tuple[str, ...]:
    """Return the words, in a guard's message, for fields that Trainer's overrides do not have."""
    return tuple(act.row["field"] for act in acts() if "field" in act.row)
