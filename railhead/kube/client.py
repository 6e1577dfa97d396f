"""A cluster: a kubeconfig in, JSON objects and log lines out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from railhead.kube import kubeconfig as kubeconfigs
from railhead.kube.connection import MERGE_PATCH, TRANSIENT, Connection
from railhead.kube.errors import ApiError
from railhead.kube.target import Target, choose_target

__all__ = ["TRANSIENT", "ApiError", "Cluster", "Object", "Target", "choose_target", "opened"]

Object = dict[str, Any]


class Cluster(Connection):
    """The cluster that a target names. Safe to use from several threads.

    Args:
        target: the cluster, and the account that sends requests.
        user: another user to act as, with ``groups``; it takes the right to impersonate them
            (Kubernetes documentation, User impersonation).
        groups: of that user, all of them.
    """

    def __init__(self, target: Target, *, user: str = "", groups: tuple[str, ...] = ()) -> None:
        self.target = target
        credentials = (
            kubeconfigs.credentials(kubeconfigs.load(target.kubeconfig, context=target.context))
            if target.kubeconfig
            else kubeconfigs.of_service_account()
        )
        if user:
            headers = [("Impersonate-User", user), *(("Impersonate-Group", g) for g in groups)]
            credentials = replace(credentials, impersonate=tuple(headers))
        super().__init__(credentials, why=target.why)

    def get(self, path: str) -> Object:
        """Read one object."""
        result: Object = self.request("GET", path).body
        return result

    def find(self, path: str) -> Object | None:
        """Read one object; return None when it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if not error.not_found:
                raise
            return None

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[Object]:
        """Read all objects of a collection that match the label and the field selector."""
        items: list[Object] = []
        params = {"limit": "500"} | ({"labelSelector": selector} if selector else {})
        if fields:
            params["fieldSelector"] = fields
        while True:
            page = self.request("GET", path, query=params).body
            items.extend(page.get("items") or [])
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            params["continue"] = token

    def create(self, path: str, body: Object, *, dry_run: bool = False) -> Object:
        """Create an object; a field that the server does not know is an error."""
        params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        created: Object = self.request("POST", path, query=params, body=body).body
        return created

    def patch(self, path: str, body: Object) -> Object:
        """Merge ``body`` into an object (JSON merge patch)."""
        merged: Object = self.request("PATCH", path, body=body, content_type=MERGE_PATCH).body
        return merged

    def delete(self, path: str, *, propagation: str = "Background") -> bool:
        """Delete an object; return False when it did not exist."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        try:
            self.request("DELETE", path, body=body)
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    def log_lines(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        follow: bool,
        since_time: str | None = None,
        tail: int | None = None,
        most_bytes: int | None = None,
        previous: bool = False,
        quiet_seconds: float = 10.0,
    ) -> AbstractContextManager[Iterator[str]]:
        """Return the lines of a container's log, each with its timestamp in front.

        ``previous`` reads the log of the container before its last restart, ``most_bytes`` so many
        from its beginning.

        Raises:
            TimeoutError: from the iterator, after ``quiet_seconds`` without a byte; call again.
        """
        query = {
            "container": container,
            "timestamps": "true",
            "follow": "true" if follow else "false",
        }
        if previous:
            query["previous"] = "true"
        if since_time:
            query["sinceTime"] = since_time
        if tail is not None:
            query["tailLines"] = str(tail)
        if most_bytes is not None:
            query["limitBytes"] = str(most_bytes)
        path = core(namespace, "pods", pod) + "/log"
        return self.lines(path, query=query, quiet_seconds=quiet_seconds)


@contextmanager
def opened(kubeconfig: Path | None, context: str | None, lab: str | None) -> Iterator[Cluster]:
    """Yield the cluster that a command's options name; close it at the end."""
    cluster = Cluster(choose_target(kubeconfig=kubeconfig, context=context, lab=lab))
    try:
        yield cluster
    finally:
        cluster.close()


def _join(base: str, *names: str) -> str:
    # A name comes from a command line; quoted, it can never reach another path.
    return "/".join([base, *(quote(name, safe="") for name in names if name)])


def trainjobs(namespace: str, name: str = "") -> str:
    """Return the path of a namespace's TrainJobs, or of one of them."""
    base = _join("/apis/trainer.kubeflow.org/v1alpha1/namespaces", namespace)
    return _join(f"{base}/trainjobs", name)


def core(namespace: str, kind: str, name: str = "") -> str:
    """Return the path of a core object, such as ``core("training", "configmaps", "x")``."""
    return _join(_join("/api/v1/namespaces", namespace) + f"/{kind}", name)


def kueue(namespace: str, kind: str, name: str = "") -> str:
    """Return the path of one of Kueue's objects; an empty namespace for those that have none."""
    base = "/apis/kueue.x-k8s.io/v1beta2"
    if namespace:
        base = _join(f"{base}/namespaces", namespace)
    return _join(f"{base}/{kind}", name)


def training_runtime(name: str) -> str:
    """Return the path of a ClusterTrainingRuntime."""
    return _join("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", name)


def jobset(namespace: str, name: str) -> str:
    """Return the path of a JobSet."""
    base = _join("/apis/jobset.x-k8s.io/v1alpha2/namespaces", namespace)
    return _join(f"{base}/jobsets", name)
