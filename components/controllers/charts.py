"""Controllers as Helm releases, from the chart source that the catalogue names.

A release rather than rendered objects: hooks run, the namespaces' resources are what the chart's
own documentation says, and a preview needs no cluster-side templates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base import paths
from railhead.base.errors import PrerequisiteError
from railhead.catalog.versions import Controller, HttpChart, ModuleChart, OciChart

# Image pulls and certificate rotation included; Helm's own 300 s is short on a slow machine.
RELEASE_SECONDS = 600
WEBHOOK_SECONDS = 120
Level = Literal["privileged", "baseline"]
# Operators keep every node of the cluster in memory: 141 took one of controller-runtime to 156 MiB,
# and beyond its limit it restarted for ever (maintenance-operator #225). A limit reserves nothing.
OPERATOR_LIMITS = {"limits": {"memory": "2Gi"}}


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a controller's container.

    Args:
        cpu: CPU that it requests, a Kubernetes quantity such as ``500m``.
        memory: memory that it requests, such as ``512Mi``.
        memory_limit: the most memory that it may take, such as ``1Gi``.
    """

    cpu: str
    memory: str
    memory_limit: str

    def rendered(self) -> dict[str, dict[str, str]]:
        """Return a container's ``resources``."""
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory},
            "limits": {"memory": self.memory_limit},
        }


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Helm chart, and the release that it is installed as.

    :meth:`of` takes one from the catalogue.

    Args:
        name: the release's name, which is the chart's own: its objects are named after it.
        version: the chart's version, as its registry spells it.
        namespace: the namespace that the release lives in.
        source: the registry, repository or Go module that has the chart.
        overrides: dotted path of a value -> what stands there instead of the chart's default, such
            as an image of a mirror.
    """

    name: str
    version: str
    namespace: str
    source: OciChart | HttpChart | ModuleChart
    overrides: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Controller) -> Chart:
        """Return the chart of a row of the catalogue (:mod:`railhead.catalog.versions`)."""
        return cls(
            name=row.name,
            version=row.version,
            namespace=row.namespace,
            source=row.chart,
            overrides=row.moved,
        )


@dataclass(frozen=True, kw_only=True)
class ChartSource:
    """The place of a chart, as a Release takes it.

    Args:
        chart: a reference, a name or a directory.
        version: the chart's version; None for a directory, whose Chart.yaml says it.
        repository: URL of an HTTP repository; None for any other place.
    """

    chart: str
    version: str | None
    repository: str | None = None


def chart_source(chart: Chart) -> ChartSource:
    """Return the place in which Helm finds a chart.

    Raises:
        PrerequisiteError: the chart of a Go module is not in the cache.
    """
    if isinstance(chart.source, OciChart):
        return ChartSource(chart=chart.source.url, version=chart.version)
    if isinstance(chart.source, HttpChart):
        return ChartSource(
            chart=chart.source.chart, version=chart.version, repository=chart.source.repository
        )
    directory = paths.charts_dir() / f"{chart.name}-{chart.version}"
    if not (directory / "Chart.yaml").is_file():
        raise PrerequisiteError(
            f"chart {chart.name} {chart.version} is not in the cache: {directory}",
            remedy="run `railhead lab build`; it takes the chart from module "
            f"{chart.source.module} {chart.source.module_version}",
        )
    return ChartSource(chart=str(directory), version=None)


def namespace(
    name: str, metadata_name: str, opts: pulumi.ResourceOptions, *, level: Level | None = None
) -> kubernetes.core.v1.Namespace:
    """Return a namespace of its own for a controller, so that destroying takes it away as well.

    ``level`` is the Pod Security Standard that pods in it need, where that is not ``restricted``:
    some clusters have it as default, such as RKE2's with ``profile: cis`` (rke2, pkg/rke2/psa.go).
    """
    labels = {"railhead.dev/managed": "true"}
    if level is not None:
        labels["pod-security.kubernetes.io/enforce"] = level
    return kubernetes.core.v1.Namespace(
        name, metadata={"name": metadata_name, "labels": labels}, opts=opts
    )


def critical_pods(
    name: str, in_namespace: str, opts: pulumi.ResourceOptions
) -> kubernetes.core.v1.ResourceQuota:
    """Return a quota for pods of the system's priority classes.

    GKE refuses them in a namespace without one, unless it is kube-system: "insufficient quota to
    match these scopes" (volcano-sh/volcano #2379; NVIDIA, gpu-operator/google-gke.rst).
    """
    return kubernetes.core.v1.ResourceQuota(
        name,
        metadata={"name": "railhead-critical-pods", "namespace": in_namespace},
        spec={
            "hard": {"pods": "100"},
            "scope_selector": {
                "match_expressions": [
                    {
                        "scope_name": "PriorityClass",
                        "operator": "In",
                        "values": ["system-cluster-critical", "system-node-critical"],
                    }
                ]
            },
        },
        opts=opts,
    )


def release(
    name: str,
    chart: Chart,
    values: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    timeout: int = RELEASE_SECONDS,
    wait: bool = True,
) -> kubernetes.helm.v3.Release:
    """Install a chart and wait until its pods are ready.

    ``wait`` is False where some of them are on every node: Helm waits for all but one of a
    DaemonSet's, and three dead nodes of a thousand would hold it up for good.

    The readiness checks of Kueue, JobSet and Trainer hold until certificates are in place and the
    webhook server listens.
    """
    source = chart_source(chart)
    return kubernetes.helm.v3.Release(
        name,
        name=chart.name,
        namespace=chart.namespace,
        values=_overridden(values, chart.overrides),
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


def _overridden(values: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the values with the overrides that they do not set already."""
    result = copy.deepcopy(dict(values))
    for path, value in overrides.items():
        *parents, last = path.split(".")
        at = result
        for key in parents:
            at = at.setdefault(key, {})
        at.setdefault(last, value)
    return result


def installed(
    name: str,
    chart: Chart,
    values: Mapping[str, Any],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
    *,
    on_every_node: bool = False,
    level: Level | None = None,
    critical: bool = False,
    timeout: int = RELEASE_SECONDS,
    hooks: pulumi.ResourceHookBinding | None = None,
) -> tuple[kubernetes.core.v1.Namespace, kubernetes.helm.v3.Release]:
    """Return a chart's namespace and its release, ``<name>-namespace`` and ``<name>-release``.

    ``on_every_node``: its pods load drivers or serve devices, so they are privileged whatever the
    cluster's default, and not waited for. ``level``: as :func:`namespace` has it. ``critical``:
    they have one of the system's priority classes, whatever the chart's values say.
    """
    space = namespace(
        f"{name}-namespace",
        chart.namespace,
        pulumi.ResourceOptions(parent=parent, depends_on=list(after)),
        level="privileged" if on_every_node else level,
    )
    before = [*after, space]
    if critical:
        quota = pulumi.ResourceOptions(parent=parent, depends_on=[space])
        before.append(critical_pods(f"{name}-critical-pods", chart.namespace, quota))
    opts = pulumi.ResourceOptions(parent=parent, depends_on=before, hooks=hooks)
    return space, release(
        f"{name}-release", chart, values, opts, timeout=timeout, wait=not on_every_node
    )


def image(args: ControllerArgs) -> dict[str, Any]:
    """Return a chart's ``image`` with the controller's repository and tag."""
    return {
        "repository": args.image,
        "tag": args.tag,
        "pullPolicy": "IfNotPresent",
    }


@dataclass(frozen=True, kw_only=True)
class ControllerArgs:
    """Arguments of :class:`ControllerRelease`.

    Args:
        chart: the chart, and the release that it is installed as.
        image: the controller's image, without its tag.
        tag: the image's tag.
        resources: what each container of the controller requests; None leaves the chart's own.
        after: resources that must exist before the controller is installed.
    """

    chart: Chart
    image: str
    tag: str
    resources: Resources | None = None
    after: Sequence[pulumi.Resource] = ()


class ControllerRelease(pulumi.ComponentResource):
    """A controller's release, in a namespace of its own; depend on it to have its webhooks answer.

    ``webhooks`` is the end of its Service's name, after the release's own; ``level`` what its pods
    need, and ``critical`` what they have, as :func:`installed` has them.

    Attributes:
        namespace: the controller's namespace.
        release: the Helm release.
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
        level: Level | None = None,
        critical: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"railhead:index:{kind}", name, None, opts)
        chart = args.chart
        hook = pulumi.ErrorHook(f"{name}-way-out", lambda failed: tell_way_out(chart, failed))
        self.namespace, self.release = installed(
            name,
            chart,
            values,
            self,
            args.after,
            level=level,
            critical=critical,
            hooks=pulumi.ResourceHookBinding(on_error=[hook]),
        )
        webhooks_answer(
            f"{name}-webhooks",
            f"{chart.name}-{webhooks}",
            chart.namespace,
            pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
        )


def tell_way_out(chart: Chart, failed: pulumi.ErrorHookArgs) -> bool:
    """Say after an upgrade that failed what goes on and what to do; it is not tried again.

    The provider's own error ends at "context deadline exceeded" (pulumi-kubernetes,
    provider/pkg/provider/helm_release.go, releaseFailedError).
    """
    if failed.failed_operation == "update":
        pulumi.log.warn(way_out(chart))
    return False


def way_out(chart: Chart) -> str:
    """Return what an upgrade that failed leaves, and the two ways on."""
    space = chart.namespace
    return (
        f"{chart.name} {chart.version} did not come up. Jobs that run go on, and so does "
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
