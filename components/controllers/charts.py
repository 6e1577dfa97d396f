"""Controllers as Helm releases, from the chart source that the catalogue names.

A release rather than rendered objects: hooks run, the namespaces' resources are what the chart's
own documentation says, and a preview needs no cluster-side templates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base import paths
from railhead.base.errors import PrerequisiteError
from railhead.catalog.versions import Controller, HttpChart, OciChart

# Image pulls and certificate rotation included; Helm's own 300 s is short on a slow machine.
RELEASE_SECONDS = 600
WEBHOOK_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a controller requests, and its memory limit; quantities."""

    cpu: str
    memory: str
    memory_limit: str

    def rendered(self) -> dict[str, dict[str, str]]:
        """As a container's ``resources``."""
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory},
            "limits": {"memory": self.memory_limit},
        }


@dataclass(frozen=True, kw_only=True)
class ChartSource:
    """``chart``, ``version`` and ``repository`` of a Release.

    A directory's Chart.yaml says its own version; only a chart of an HTTP repository names one.
    """

    chart: str
    version: str | None
    repository: str | None = None


def chart_source(controller: Controller) -> ChartSource:
    """Where Helm finds a controller's chart.

    Raises:
        PrerequisiteError: the chart of a Go module is not in the cache.
    """
    if isinstance(controller.chart, OciChart):
        return ChartSource(chart=controller.chart.url, version=controller.version)
    if isinstance(controller.chart, HttpChart):
        return ChartSource(
            chart=controller.chart.chart,
            version=controller.version,
            repository=controller.chart.repository,
        )
    directory = paths.charts_dir() / f"{controller.name}-{controller.version}"
    if not (directory / "Chart.yaml").is_file():
        raise PrerequisiteError(
            f"chart {controller.name} {controller.version} is not in the cache: {directory}",
            remedy="run `railhead lab build`; it takes the chart from module "
            f"{controller.chart.module} {controller.chart.module_version}",
        )
    return ChartSource(chart=str(directory), version=None)


def namespace(
    name: str, metadata_name: str, opts: pulumi.ResourceOptions, *, privileged: bool = False
) -> kubernetes.core.v1.Namespace:
    """A namespace of its own for a controller, so that destroying takes it away as well.

    ``privileged``: whether pods in it load drivers or place CNI plugins, which they do with the
    node's own rights whatever the cluster's default Pod Security Standard is.
    """
    labels = {"railhead.dev/managed": "true"}
    if privileged:
        labels["pod-security.kubernetes.io/enforce"] = "privileged"
    return kubernetes.core.v1.Namespace(
        name, metadata={"name": metadata_name, "labels": labels}, opts=opts
    )


def release(
    name: str,
    controller: Controller,
    values: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    timeout: int = RELEASE_SECONDS,
    wait: bool = True,
) -> kubernetes.helm.v3.Release:
    """Install a controller and wait until its pods are ready.

    ``wait`` is False where some of them are on every node: Helm waits for all but one of a
    DaemonSet's, and three dead nodes of a thousand would hold it up for good.

    The readiness checks of Kueue, JobSet and Trainer hold until certificates are in place and the
    webhook server listens.
    """
    source = chart_source(controller)
    return kubernetes.helm.v3.Release(
        name,
        name=controller.name,
        namespace=controller.namespace,
        values=_moved(values, controller.moved),
        timeout=timeout,
        # Not atomic: a first install that fails for lack of an image would be rolled back and
        # installed again for ever; left in place, the next `up` upgrades it.
        atomic=False,
        skip_await=None if wait else True,
        opts=opts,
        chart=source.chart,
        version=source.version,
        repository_opts={"repo": source.repository} if source.repository else None,
    )


def _moved(values: Mapping[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """Values with those of the images that come from a mirror, below what is said already."""
    found = copy.deepcopy(dict(values))
    for path, value in moved.items():
        *parents, last = path.split(".")
        at = found
        for key in parents:
            at = at.setdefault(key, {})
        at.setdefault(last, value)
    return found


def installed(
    name: str,
    controller: Controller,
    values: Mapping[str, Any],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
    *,
    on_every_node: bool = False,
    timeout: int = RELEASE_SECONDS,
    hooks: pulumi.ResourceHookBinding | None = None,
) -> tuple[kubernetes.core.v1.Namespace, kubernetes.helm.v3.Release]:
    """A controller's namespace and its release, ``<name>-namespace`` and ``<name>-release``.

    ``on_every_node``: its pods load drivers or serve devices, so they are privileged whatever the
    cluster's default, and not waited for.
    """
    space = namespace(
        f"{name}-namespace",
        controller.namespace,
        pulumi.ResourceOptions(parent=parent, depends_on=list(after)),
        privileged=on_every_node,
    )
    opts = pulumi.ResourceOptions(parent=parent, depends_on=[*after, space], hooks=hooks)
    return space, release(
        f"{name}-release", controller, values, opts, timeout=timeout, wait=not on_every_node
    )


def image(controller: Controller) -> dict[str, Any]:
    """A chart's ``image`` with the catalogue's repository and tag."""
    return {
        "repository": controller.image,
        "tag": controller.tag,
        "pullPolicy": "IfNotPresent",
    }


@dataclass(frozen=True, kw_only=True)
class ControllerArgs:
    """Arguments of :class:`ControllerRelease`; ``resources`` None leaves the chart's own."""

    controller: Controller
    resources: Resources | None
    after: Sequence[pulumi.Resource] = ()


class ControllerRelease(pulumi.ComponentResource):
    """A controller's release; depend on it to have its webhooks answer.

    ``webhooks`` is the end of its Service's name, after the controller's own.
    """

    namespace: kubernetes.core.v1.Namespace
    release: kubernetes.helm.v3.Release

    def __init__(
        self,
        kind: str,
        name: str,
        args: ControllerArgs,
        values: Mapping[str, Any],
        *,
        webhooks: str = "webhook-service",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"railhead:index:{kind}", name, None, opts)
        controller = args.controller
        hook = pulumi.ErrorHook(f"{name}-way-out", lambda failed: tell_way_out(controller, failed))
        self.namespace, self.release = installed(
            name,
            controller,
            values,
            self,
            args.after,
            hooks=pulumi.ResourceHookBinding(on_error=[hook]),
        )
        webhooks_answer(
            f"{name}-webhooks",
            f"{controller.name}-{webhooks}",
            controller.namespace,
            pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
        )


def tell_way_out(controller: Controller, failed: pulumi.ErrorHookArgs) -> bool:
    """Say after an upgrade that failed what goes on and what to do; it is not tried again.

    The provider's own error ends at "context deadline exceeded" (pulumi-kubernetes,
    provider/pkg/provider/helm_release.go, releaseFailedError).
    """
    if failed.failed_operation == "update":
        pulumi.log.warn(way_out(controller))
    return False


def way_out(controller: Controller) -> str:
    """What an upgrade that failed leaves, and the two ways on."""
    space = controller.namespace
    return (
        f"{controller.name} {controller.version} did not come up. Jobs that run go on, and so does "
        f"the older controller until the new one is ready. `kubectl -n {space} get pods` and "
        f"`kubectl -n {space} get events` say what is lacking: mend it and run `pulumi up` again, "
        "or put the stack's file back as it was and run `pulumi up` (docs/upgrading.md)"
    )


def webhooks_answer(
    name: str, service: str, in_namespace: str, opts: pulumi.ResourceOptions
) -> kubernetes.core.v1.ServicePatch:
    """Hold what depends on it until the webhook's Service has an endpoint that is ready.

    A ready Deployment is not enough: the API server calls the Service, whose endpoints follow a
    moment later, and a custom resource created in between is refused (kueue #3794). The provider
    waits for a Service's endpoints whenever it writes one, so one annotation of our own does it.
    """
    return kubernetes.core.v1.ServicePatch(
        name,
        metadata={
            "name": service,
            "namespace": in_namespace,
            "annotations": {
                "railhead.dev/webhook": "ready",
                "pulumi.com/timeoutSeconds": str(WEBHOOK_SECONDS),
            },
        },
        opts=opts,
    )
