"""Every version in one place, and the combinations that belong together.

A combination is a set of controllers that were published, or read, or run together; a stack names
one. `production` takes charts from their publishers' registries; `lab` takes the newest versions
whose whole Go module graph verifies, with the charts that their modules carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class OciChart:
    """A chart in a publisher's OCI registry."""

    url: str


@dataclass(frozen=True, kw_only=True)
class ModuleChart:
    """A chart that travels inside a Go module; `railhead.lab` unpacks it into the cache."""

    module: str
    module_version: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Controller:
    """One controller as its chart installs it.

    Args:
        name: the chart's and the release's name.
        version: the chart's version, without a leading ``v``.
        namespace: where the release lives.
        image: repository without tag.
        tag: image tag.
        source: where the version and the image name were read.
    """

    name: str
    version: str
    namespace: str
    chart: OciChart | ModuleChart
    image: str
    tag: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Versions that belong together.

    Args:
        kubernetes: oldest and newest Kubernetes minor served, such as ``("1.33", "1.35")``.
        gang_charge: how Kueue charges a TrainJob's gang. ``job``: by the node count of the job.
            ``template``: by the runtime's template whatever the job asks (kueue PR #8135 mends it);
            the stack then publishes a guard that refuses any other node count.
        placement_field: the TrainJob field through which Kueue places the pods. Both sides must
            agree or the API server prunes it and flavors and topology are lost silently.
    """

    name: str
    kubernetes: tuple[str, str]
    kueue: Controller
    jobset: Controller
    trainer: Controller
    gang_charge: Literal["job", "template"]
    placement_field: Literal["podTemplateOverrides", "runtimePatches"]
    source: str


LAB = Combination(
    name="lab",
    kubernetes=("1.33", "1.35"),
    kueue=Controller(
        name="kueue",
        version="0.16.2",
        namespace="kueue-system",
        chart=ModuleChart(
            module="sigs.k8s.io/kueue", module_version="v0.16.2", path="charts/kueue"
        ),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.16.2",
        source="newest kueue whose module graph verifies; image name as in its release chart",
    ),
    jobset=Controller(
        name="jobset",
        version="0.10.1",
        namespace="jobset-system",
        chart=ModuleChart(
            module="sigs.k8s.io/jobset", module_version="v0.10.1", path="charts/jobset"
        ),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.10.1",
        source="required by the go.mod of kueue v0.16.2 and of trainer v2.1.0",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.1.0",
        namespace="kubeflow-system",
        chart=ModuleChart(
            module="github.com/kubeflow/trainer/v2",
            module_version="v2.1.0",
            path="charts/kubeflow-trainer",
        ),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.1.0",
        source="required by the go.mod of kueue v0.16.2, which places pods by "
        "podTemplateOverrides; trainer v2.2.0 dropped that field",
    ),
    gang_charge="job",
    placement_field="podTemplateOverrides",
    source="go.mod of kueue v0.16.2; charge measured in tests/lab",
)

PRODUCTION = Combination(
    name="production",
    kubernetes=("1.33", "1.36"),
    kueue=Controller(
        name="kueue",
        version="0.19.2",
        namespace="kueue-system",
        chart=OciChart(url="oci://registry.k8s.io/kueue/charts/kueue"),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.19.2",
        source="publisher's chart, newest tag seen 2026-09",
    ),
    jobset=Controller(
        name="jobset",
        version="0.12.0",
        namespace="jobset-system",
        chart=OciChart(url="oci://registry.k8s.io/jobset/charts/jobset"),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.12.0",
        source="publisher's chart, newest tag seen 2026-09",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.3.0",
        namespace="kubeflow-system",
        chart=OciChart(url="oci://ghcr.io/kubeflow/charts/kubeflow-trainer"),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.3.0",
        source="publisher's chart, newest tag seen 2026-09",
    ),
    gang_charge="job",
    placement_field="runtimePatches",
    source="charts' newest tags; not run here",
)

# A pair that is still in the field: it charges a gang by the runtime's template, so its stack
# gets the guard that refuses every other node count (components/guards.py).
TEMPLATE_CHARGE = Combination(
    name="kueue-0.15",
    kubernetes=("1.33", "1.34"),
    kueue=Controller(
        name="kueue",
        version="0.15.0",
        namespace="kueue-system",
        chart=OciChart(url="oci://registry.k8s.io/kueue/charts/kueue"),
        image="registry.k8s.io/kueue/kueue",
        tag="v0.15.0",
        source="charge measured by hand: no parallelism in the template, and a two-node job was "
        "charged one pod; parallelism 2, and a four-node job was charged two and ran half placed",
    ),
    jobset=Controller(
        name="jobset",
        version="0.10.1",
        namespace="jobset-system",
        chart=OciChart(url="oci://registry.k8s.io/jobset/charts/jobset"),
        image="registry.k8s.io/jobset/jobset",
        tag="v0.10.1",
        source="ran beside kueue 0.15.0 and trainer 2.1.0",
    ),
    trainer=Controller(
        name="kubeflow-trainer",
        version="2.1.0",
        namespace="kubeflow-system",
        chart=OciChart(url="oci://ghcr.io/kubeflow/charts/kubeflow-trainer"),
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager",
        tag="v2.1.0",
        source="ran beside kueue 0.15.0 and jobset 0.10.1",
    ),
    gang_charge="template",
    placement_field="podTemplateOverrides",
    source="the three ran together on Kubernetes 1.34; kueue PR #8135 mends the charge from 0.15.2",
)

COMBINATIONS: dict[str, Combination] = {c.name: c for c in (LAB, PRODUCTION, TEMPLATE_CHARGE)}
