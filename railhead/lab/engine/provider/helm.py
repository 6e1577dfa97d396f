"""``helm.sh/v3:Release``: Helm releases, installed by Helm itself.

Interrupted runs. A release carries a label with a hash of its URN. When `pulumi up` was killed in
the middle of an install or an upgrade, Helm's record of that revision stays ``pending-*`` and
blocks every further operation; for a release of this very resource the record of the dead revision
is deleted, and the operation done again. Helm adopts the objects that the dead revision had made,
because they carry the release's name.
"""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import provider_pb2

from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab.engine.provider import (
    awaiting,
    diffing,
    manifests,
    naming,
    properties,
    readiness,
)
from railhead.lab.engine.provider.client import METADATA_LIST, KubeClient, load_kubeconfig
from railhead.lab.engine.provider.config import ProviderConfig
from railhead.lab.engine.provider.helm_process import (
    HelmError,
    HelmRunner,
    PrivateFiles,
    private_files,
)
from railhead.lab.engine.provider.objects import OperationError
from railhead.lab.engine.provider.patience import AWAY_S, is_away, patiently
from railhead.lab.engine.provider.properties import UNKNOWN, Asset, Secret
from railhead.lab.engine.provider.state import (
    INPUTS,
    InitFailedError,
    detailed_diff,
    diff_response,
)

DEFAULT_TIMEOUT_S = 300
# How long images may be refused: a kubelet asks about three times within it. Helm itself waits on.
PULL_SECONDS = 60
URN_LABEL = "railhead.dev/urn"
# The inputs that the official provider keeps (type Release of helm_release.go).
FIELDS = (
    "allowNullValues atomic chart cleanupOnFail createNamespace dependencyUpdate description devel"
    " disableCRDHooks disableOpenapiValidation disableWebhooks forceUpdate keyring lint maxHistory"
    " name namespace postrender recreatePods renderSubchartNotes replace repositoryOpts resetValues"
    " reuseValues values skipCrds timeout verify version skipAwait waitForJobs"
).split()
_PENDING = ("pending-install", "pending-upgrade", "pending-rollback")


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One revision of a release, as Helm recorded it.

    Args:
        number: the revision.
        status: Helm's status, such as ``deployed``.
        owner: our URN label; empty for releases of others.
        path: the record's URL path.
        body: the decoded record; empty when it cannot be read.
    """

    number: int
    status: str
    owner: str
    path: str
    body: Mapping[str, Any]


def urn_hash(urn: str) -> str:
    """Return a label value for a URN."""
    return hashlib.sha256(urn.encode()).hexdigest()[:32]


def merge_values(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``over`` on top of ``base``, objects merged member by member, as Helm does."""
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            result[key] = merge_values(inner, value)
        else:
            result[key] = value
    return result


def resource_names(manifest: str) -> dict[str, list[str]]:
    """Return names by ``Kind.group/apiVersion``, as the official provider lists them."""
    results: dict[str, set[str]] = {}
    try:
        objects = manifests.decode(manifest)
    except ValueError:
        return {}
    for obj in objects:
        group, _ = diffing.split_api_version(str(obj.get("apiVersion", "")))
        kind = f"{obj['kind']}.{group}" if group else str(obj["kind"])
        results.setdefault(f"{kind}/{obj['apiVersion']}", set()).add(naming.object_id(obj))
    return {key: sorted(names) for key, names in sorted(results.items())}


@dataclass
class Pulls:
    """The time since which an image of a namespace cannot be pulled, if any."""

    since: float | None = None

    def hopeless(self, pods: Sequence[Mapping[str, Any]], seconds: float) -> str:
        """Return why waiting is no use, or nothing; ``seconds`` is the time of this look."""
        if not any(readiness.lacks_image(pod) for pod in pods):
            self.since = None
            return ""
        self.since = seconds if self.since is None else self.since
        if seconds - self.since < PULL_SECONDS:
            return ""
        return f"given up after {seconds:.0f} s: an image cannot be pulled"


class HelmReleases:
    """The operations on Helm releases for one configured provider."""

    def __init__(
        self, *, settings: ProviderConfig, report: awaiting.StatusLog, cancel: threading.Event
    ) -> None:
        self._settings = settings
        self._report = report
        self._cancel = cancel
        self._lock = threading.Lock()
        self._client: KubeClient | None = None
        self._runner = HelmRunner(cancel, self._environment())

    def stop(self) -> None:
        """End running Helm processes."""
        self._runner.stop()

    # Inputs

    def check(
        self, urn: str, olds: dict[str, Any], news: dict[str, Any]
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Return the inputs with defaults and the chart's true version, and failures."""
        failures: list[tuple[str, str]] = []
        inputs = dict(news)
        if not inputs.get("name"):
            old = properties.plain(olds).get("name")
            inputs["name"] = old or naming.autoname(urn)
        if not inputs.get("namespace"):
            inputs["namespace"] = self._default_namespace()
        if properties.plain(inputs.get("skipAwait")) is not True and "timeout" not in inputs:
            inputs["timeout"] = DEFAULT_TIMEOUT_S
        if properties.plain(inputs.get("verify")) is True and not inputs.get("keyring"):
            inputs["keyring"] = str(Path.home() / ".gnupg" / "pubring.gpg")
        try:
            inputs = self._merge_value_files(inputs)
        except (OSError, ValueError) as error:
            return inputs, [("valueYamlFiles", str(error))]
        relevant = {key: inputs.get(key) for key in FIELDS if key != "values"}
        if not properties.has_unknown(relevant):
            try:
                version = self._chart_version(properties.plain(inputs))
            except (HelmError, OSError, ValueError) as error:
                failures.append(
                    ("chart", f"{error}; check the chart name and repository configuration.")
                )
            else:
                if version:
                    inputs["version"] = version
        kept = {
            key: value
            for key, value in inputs.items()
            if key in FIELDS and not _is_zero(properties.plain(value))
        }
        return kept, failures

    def _merge_value_files(self, inputs: dict[str, Any]) -> dict[str, Any]:
        files = inputs.pop("valueYamlFiles", None)
        assets = properties.plain(files)
        if not assets or properties.has_unknown(assets):
            return inputs
        import yaml

        merged: dict[str, Any] = {}
        for asset in assets if isinstance(assets, list) else [assets]:
            if not isinstance(asset, Asset):
                raise ValueError(f"unsupported type for 'valueYamlFiles' arg: {type(asset)}")
            try:
                document = yaml.safe_load(asset.text())
            except yaml.YAMLError as error:
                raise ValueError(f"a values file is not valid YAML: {error}") from error
            if document is not None and not isinstance(document, dict):
                raise ValueError("a values file is not a YAML mapping")
            merged = merge_values(merged, document or {})
        given = inputs.get("values")
        secret = isinstance(given, Secret) or properties.has_secret(files)
        values = given.value if isinstance(given, Secret) else given or {}
        if isinstance(values, Mapping):
            combined = merge_values(merged, values)
            inputs["values"] = Secret(properties.plain(combined)) if secret else combined
        return inputs

    def _default_namespace(self) -> str:
        if self._settings.namespace:
            return self._settings.namespace
        try:
            return load_kubeconfig(self._settings.client).namespace or "default"
        except UnreachableError:
            return "default"

    def _chart_version(self, release: Mapping[str, Any]) -> str:
        import yaml

        chart = str(release.get("chart") or "")
        if not chart:
            raise ValueError("no chart is named")
        folder = Path(chart)
        if not release.get("repositoryOpts") and folder.is_dir():
            file = folder / "Chart.yaml"
            if not file.is_file():
                raise ValueError(f"{chart} has no Chart.yaml, so it is no chart")
            metadata = yaml.safe_load(file.read_text())
            version = metadata.get("version") if isinstance(metadata, dict) else None
            if not version:
                raise ValueError(f"{file} names no version")
            return str(version)
        with private_files() as files:
            located, environment = self._chart_arguments(release, files)
            text = self._runner.run(["show", "chart", *located], files, environment=environment)
        metadata = yaml.safe_load(text)
        return str(metadata.get("version", "")) if isinstance(metadata, dict) else ""

    def diff(
        self, olds: dict[str, Any], news: dict[str, Any], ignore: list[str]
    ) -> provider_pb2.DiffResponse:
        """Compare the inputs; another name or namespace is another release."""
        old = properties.plain(olds.get(INPUTS)) or {
            key: value for key, value in properties.plain(olds).items() if key in FIELDS
        }
        new = properties.plain(news)
        for key in ("checksum", "resourceNames"):
            old.pop(key, None)
        changes, replaces = detailed_diff(old, new, forced=(".name", ".namespace"), ignored=ignore)
        return diff_response(changes, replaces)

    # Operations

    def create(
        self, urn: str, news: dict[str, Any], *, preview: bool, timeout_s: float
    ) -> tuple[str, dict[str, Any]]:
        """Install the release, or carry on with what an interrupted run left of it."""
        if preview:
            return "", self._preview_state(news)
        release = properties.plain(news)
        identifier = f"{release['namespace']}/{release['name']}"

        def attempt() -> dict[str, Any]:
            last = self._last_revision(release)
            if last is not None and last.owner == urn_hash(urn):
                self._report.warning(
                    f"carrying on with the release that an interrupted run left {last.status}", urn
                )
                self._bring_up(urn, identifier, news, timeout_s)
            else:
                install = partial(self._install, urn, release, timeout_s)
                self._run_and_report(urn, identifier, news, install, created=True)
            return self._state(news)

        return identifier, self._patiently(urn, timeout_s, attempt)

    def update(
        self,
        urn: str,
        olds: dict[str, Any],
        news: dict[str, Any],
        *,
        preview: bool,
        timeout_s: float,
    ) -> dict[str, Any]:
        """Upgrade the release."""
        if preview:
            return self._preview_state(news)
        release = properties.plain(news)
        identifier = f"{release['namespace']}/{release['name']}"

        def attempt() -> dict[str, Any]:
            self._bring_up(urn, identifier, news, timeout_s)
            return self._state(news)

        return self._patiently(urn, timeout_s, attempt)

    def _patiently(
        self, urn: str, timeout_s: float, attempt: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        def away(error: Exception) -> bool:
            helm = error.__cause__
            if not isinstance(helm, HelmError):
                return is_away(error)
            # Helm's words for a request without an answer hold its URL.
            return any(
                word in str(helm) for word in (self._kube().server, "failed calling webhook")
            )

        return patiently(
            attempt,
            report=self._report,
            cancel=self._cancel,
            urn=urn,
            limit_s=timeout_s or AWAY_S,
            away=away,
        )

    def _bring_up(self, urn: str, identifier: str, news: dict[str, Any], timeout_s: float) -> None:
        release = properties.plain(news)
        last = self._last_revision(release)
        while last is not None and last.status in _PENDING:
            self._report.warning(
                f"revision {last.number} of release {identifier} was interrupted ({last.status}); "
                "deleting Helm's record of it",
                urn,
            )
            self._forget(last)
            last = self._last_revision(release)
        if last is not None and last.status == "uninstalling":
            self._uninstall(release, timeout_s)
            last = self._last_revision(release)
        missing = last is None or last.status == "uninstalled"

        def action() -> None:
            if missing:
                self._install(urn, release, timeout_s)
            else:
                self._upgrade(urn, release, timeout_s)

        self._run_and_report(urn, identifier, news, action, created=False)

    def _run_and_report(
        self,
        urn: str,
        identifier: str,
        news: dict[str, Any],
        action: Callable[[], None],
        *,
        created: bool,
    ) -> None:
        release = properties.plain(news)
        before = self._last_revision(release)
        try:
            action()
        except HelmError as error:
            after = self._last_revision(release)
            moved = after is not None and (before is None or after.number != before.number)
            if not moved:
                raise OperationError(f"Helm release {identifier!r}: {error}") from error
            what = "was created, but failed" if created else "failed"
            reasons = self._pod_problems(str(release["namespace"]))
            raise InitFailedError(
                f"Helm release {identifier!r} {what} to initialize completely. Use Helm CLI to "
                f"investigate: {error}",
                reasons,
                identifier,
                self._state(news),
            ) from error
        self._report.status("", urn)

    def _install(self, urn: str, release: Mapping[str, Any], timeout_s: float) -> None:
        arguments = self._common(urn, release, timeout_s)
        flags = (
            ("createNamespace", "--create-namespace"),
            ("skipCrds", "--skip-crds"),
            ("disableOpenapiValidation", "--disable-openapi-validation"),
            ("replace", "--replace"),
            ("disableWebhooks", "--no-hooks"),
        )
        arguments += [flag for key, flag in flags if release.get(key)]
        self._helm("install", urn, release, arguments)

    def _upgrade(self, urn: str, release: Mapping[str, Any], timeout_s: float) -> None:
        arguments = self._common(urn, release, timeout_s)
        flags = (
            ("forceUpdate", "--force"),
            ("resetValues", "--reset-values"),
            ("reuseValues", "--reuse-values"),
            ("cleanupOnFail", "--cleanup-on-fail"),
            ("disableOpenapiValidation", "--disable-openapi-validation"),
        )
        arguments += [flag for key, flag in flags if release.get(key)]
        if release.get("disableWebhooks") or release.get("disableCRDHooks"):
            arguments.append("--no-hooks")
        if release.get("skipCrds"):
            arguments.append("--skip-crds")
        # As the official provider: no limit unless one is given; Helm's own default is 10.
        arguments.append(f"--history-max={int(release.get('maxHistory') or 0)}")
        if release.get("lint"):
            with private_files() as files:
                values = files.add("values.yaml", json.dumps(release.get("values") or {}))
                self._runner.run(["lint", str(release["chart"]), "--values", values], files)
        self._helm("upgrade", urn, release, arguments)

    def _common(self, urn: str, release: Mapping[str, Any], timeout_s: float) -> list[str]:
        arguments = [f"--timeout={_seconds(release, timeout_s)}s"]
        if not release.get("skipAwait"):
            arguments.append("--wait")
            if release.get("waitForJobs"):
                arguments.append("--wait-for-jobs")
        flags = (
            ("atomic", "--atomic"),
            ("renderSubchartNotes", "--render-subchart-notes"),
            ("dependencyUpdate", "--dependency-update"),
        )
        arguments += [flag for key, flag in flags if release.get(key)]
        if release.get("description"):
            arguments.append(f"--description={release['description']}")
        if release.get("postrender"):
            program, *rest = str(release["postrender"]).split()
            arguments.append(f"--post-renderer={program}")
            arguments += [f"--post-renderer-args={word}" for word in rest]
        arguments.append(f"--labels={URN_LABEL}={urn_hash(urn)}")
        return arguments

    def _helm(
        self, verb: str, urn: str, release: Mapping[str, Any], arguments: Sequence[str]
    ) -> None:
        namespace = str(release["namespace"])
        pulls = Pulls()

        def progress(seconds: float) -> str:
            return pulls.hopeless(self._progress(verb, urn, namespace, seconds), seconds)

        with private_files() as files:
            located, environment = self._chart_arguments(release, files)
            values = files.add("values.yaml", json.dumps(release.get("values") or {}))
            self._runner.run(
                [
                    verb,
                    str(release["name"]),
                    *located,
                    *self._connection(files, namespace),
                    f"--values={values}",
                    *arguments,
                ],
                files,
                environment=environment,
                progress=progress,
            )

    def _uninstall(self, release: Mapping[str, Any], timeout_s: float, urn: str = "") -> None:
        arguments = ["uninstall", str(release["name"]), "--ignore-not-found"]
        if release.get("atomic") or not release.get("skipAwait"):
            arguments += ["--wait", f"--timeout={_seconds(release, timeout_s)}s"]
        namespace = str(release["namespace"])

        def progress(seconds: float) -> str:
            self._progress("uninstall", urn, namespace, seconds)
            return ""

        with private_files() as files:
            self._runner.run(
                [*arguments, *self._connection(files, namespace)], files, progress=progress
            )

    def delete(self, urn: str, state: dict[str, Any], timeout_s: float) -> None:
        """Uninstall the release and wait for its objects to go, unless it was not awaited."""
        release = properties.plain(state)
        try:
            self._uninstall(release, timeout_s, urn)
        except HelmError as error:
            raise OperationError(
                f"Helm release {release['namespace']}/{release['name']}: {error}"
            ) from error
        self._report.status("", urn)

    def read(
        self, urn: str, identifier: str, state: dict[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Return the live release, with values and a version that were changed outside Pulumi."""
        namespace, name = naming.parse_id(identifier)
        kept = state.get(INPUTS)
        marked: dict[str, Any] = dict(kept.value if isinstance(kept, Secret) else kept or {})
        probe = {"namespace": namespace or self._default_namespace(), "name": name}
        last = self._last_revision(probe)
        if last is None or last.status == "uninstalled":
            return None
        chart = (last.body.get("chart") or {}).get("metadata") or {}
        live_values = last.body.get("config") or {}
        if not marked:
            marked = {
                **probe,
                "chart": str(chart.get("name", "")),
                "version": str(chart.get("version", "")),
                "timeout": DEFAULT_TIMEOUT_S,
            }
            if live_values:
                marked["values"] = live_values
            return identifier, self._state(marked), marked
        inputs = copy.deepcopy(marked)
        if chart.get("version") and chart["version"] != properties.plain(marked.get("version")):
            inputs["version"] = chart["version"]
        expected = properties.plain(marked.get("values") or {})
        if not marked.get("reuseValues") and _trim(live_values) != _trim(expected):
            secret = properties.has_secret(marked.get("values"))
            inputs["values"] = Secret(live_values) if secret else live_values
        return identifier, self._state(inputs), inputs

    def render_chart(self, values: Mapping[str, Any]) -> str:
        """Return the manifest of a ``helm.sh/v4:Chart``'s inputs, hooks left out.

        Raises:
            OperationError: Helm cannot render it.
        """
        try:
            release = self._merge_value_files(dict(values))
        except (OSError, ValueError) as error:
            raise OperationError(f"valueYamlFiles: {error}") from error
        arguments = [f"--namespace={values.get('namespace') or self._default_namespace()}"]
        arguments.append("--no-hooks")
        if not values.get("skipCrds"):
            arguments.append("--include-crds")
        if values.get("dependencyUpdate"):
            arguments.append("--dependency-update")
        return self._template(str(values["name"]), release, release.get("values") or {}, arguments)

    def template(self, options: Mapping[str, Any]) -> str:
        """Return the manifest of a chart, for ``helm.v3.Chart`` of the SDK.

        Args:
            options: the SDK's ``jsonOpts``: chart, path, version, namespace, release_name, values,
                fetch_opts and the like.

        Raises:
            OperationError: Helm cannot render it.
        """
        fetch = options.get("fetch_opts") or {}
        repository = str(fetch.get("repo") or "")
        chart = str(options.get("chart") or "")
        if options.get("path"):
            chart, repository = str(Path(str(options["path"])) / chart.rpartition("/")[2]), ""
        elif options.get("repo") and not repository and "://" not in chart:
            chart = f"{str(options['repo']).rstrip('/')}/{chart.rpartition('/')[2]}"
        release = {
            "chart": chart,
            "version": options.get("version") or fetch.get("version"),
            "devel": fetch.get("devel"),
            "verify": fetch.get("verify"),
            "keyring": fetch.get("keyring"),
            "repositoryOpts": {
                "repo": repository,
                "username": fetch.get("username"),
                "password": fetch.get("password"),
                "caFile": fetch.get("ca_file"),
                "certFile": fetch.get("cert_file"),
                "keyFile": fetch.get("key_file"),
            },
        }
        arguments = [f"--namespace={options.get('namespace') or 'default'}"]
        if not options.get("skip_crd_rendering"):
            arguments.append("--include-crds")
        if not options.get("include_test_hook_resources"):
            arguments.append("--skip-tests")
        if options.get("kube_version"):
            arguments.append(f"--kube-version={options['kube_version']}")
        arguments += [f"--api-versions={name}" for name in options.get("api_versions") or []]
        name = str(options.get("release_name") or "release")
        return self._template(name, release, options.get("values") or {}, arguments)

    def _template(
        self,
        name: str,
        release: Mapping[str, Any],
        values: Mapping[str, Any],
        arguments: Sequence[str],
    ) -> str:
        more = []
        if not any(argument.startswith("--kube-version") for argument in arguments):
            try:
                more.append(f"--kube-version={self._kube().version()}")
            except (UnreachableError, ApiError):
                more = []
        try:
            with private_files() as files:
                located, environment = self._chart_arguments(release, files)
                path = files.add("values.yaml", json.dumps(values))
                return self._runner.run(
                    ["template", name, *located, f"--values={path}", *arguments, *more],
                    files,
                    environment=environment,
                )
        except HelmError as error:
            raise OperationError(
                f"failed to generate YAML for specified Helm chart: {error}"
            ) from error

    # State

    def _state(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        release = properties.plain(dict(inputs))
        state: dict[str, Any] = dict(release)
        last = self._last_revision(release)
        if last is not None:
            chart = (last.body.get("chart") or {}).get("metadata") or {}
            state["resourceNames"] = resource_names(str(last.body.get("manifest") or ""))
            state["status"] = {
                "appVersion": str(chart.get("appVersion") or ""),
                "chart": str(chart.get("name") or ""),
                "name": str(release["name"]),
                "namespace": str(release["namespace"]),
                "revision": last.number,
                "status": last.status,
                "version": str(chart.get("version") or ""),
            }
        properties.mark_secrets(state, inputs)
        state[INPUTS] = Secret(dict(inputs))
        return state

    def _preview_state(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        state = dict(inputs)
        state["resourceNames"] = UNKNOWN
        state["status"] = UNKNOWN
        state[INPUTS] = Secret(dict(inputs))
        return state

    # Helm's records

    def _kube(self) -> KubeClient:
        with self._lock:
            if self._client is None:
                config = load_kubeconfig(self._settings.client)
                self._client = KubeClient(config, self._settings.client)
            return self._client

    def _driver(self) -> str:
        named = self._settings.helm.get("driver") or os.environ.get("PULUMI_K8S_HELM_DRIVER")
        return str(named or "secret")

    def _last_revision(self, release: Mapping[str, Any]) -> Revision | None:
        plural = "configmaps" if self._driver().startswith("configmap") else "secrets"
        path = f"/api/v1/namespaces/{release['namespace']}/{plural}"
        selector = f"owner=helm,name={release['name']}"
        # Labels first: every revision is kept, and each holds its whole chart.
        listed = (
            self._kube()
            .request("GET", path, query={"labelSelector": selector}, accept=METADATA_LIST)
            .body
        )
        revisions = []
        for item in listed.get("items") or []:
            version = str((item["metadata"].get("labels") or {}).get("version", ""))
            if version.isdigit():
                revisions.append((int(version), str(item["metadata"]["name"])))
        if not revisions:
            return None
        number, name = max(revisions)
        try:
            record = self._kube().request("GET", f"{path}/{name}").body
        except ApiError as error:
            if error.not_found:
                return None
            raise
        labels = record["metadata"].get("labels") or {}
        return Revision(
            number=number,
            status=str(labels.get("status", "")),
            owner=str(labels.get(URN_LABEL, "")),
            path=f"{path}/{name}",
            body=_decode_record(record, plural),
        )

    def _forget(self, revision: Revision) -> None:
        try:
            self._kube().request("DELETE", revision.path)
        except ApiError as error:
            if not error.not_found:
                raise

    # What Helm needs to run

    def _environment(self) -> dict[str, str]:
        names = {
            "driver": ("HELM_DRIVER", "PULUMI_K8S_HELM_DRIVER"),
            "pluginsPath": ("HELM_PLUGINS", "PULUMI_K8S_HELM_PLUGINS_PATH"),
            "registryConfigPath": ("HELM_REGISTRY_CONFIG", "PULUMI_K8S_HELM_REGISTRY_CONFIG_PATH"),
            "repositoryConfigPath": (
                "HELM_REPOSITORY_CONFIG",
                "PULUMI_K8S_HELM_REPOSITORY_CONFIG_PATH",
            ),
            "repositoryCache": ("HELM_REPOSITORY_CACHE", "PULUMI_K8S_HELM_REPOSITORY_CACHE"),
        }
        environment = {}
        for option, (variable, fallback) in names.items():
            if value := self._settings.helm.get(option) or os.environ.get(fallback):
                environment[variable] = str(value)
        return environment

    def _connection(self, files: PrivateFiles, namespace: str) -> list[str]:
        config = load_kubeconfig(self._settings.client)
        path = files.add("kubeconfig", json.dumps(config.document))
        return [f"--kubeconfig={path}", f"--namespace={namespace}"]

    def _chart_arguments(
        self, release: Mapping[str, Any], files: PrivateFiles
    ) -> tuple[list[str], dict[str, str]]:
        chart = str(release.get("chart") or "")
        options = release.get("repositoryOpts") or {}
        repository = str(options.get("repo") or "")
        arguments = []
        environment: dict[str, str] = {}
        if repository.startswith("oci://"):
            chart = f"{repository.rstrip('/')}/{chart}"
            repository = ""
        if options.get("username") and options.get("password"):
            repository, chart, environment = self._log_in(options, repository, chart, files)
        if repository:
            arguments.append(f"--repo={repository}")
        for key, flag in (
            ("caFile", "ca-file"),
            ("certFile", "cert-file"),
            ("keyFile", "key-file"),
        ):
            if options.get(key):
                arguments.append(f"--{flag}={options[key]}")
        local = not repository and Path(chart).exists()
        if release.get("version") and not local:
            arguments.append(f"--version={release['version']}")
        elif release.get("devel"):
            arguments.append("--devel")
        if release.get("verify"):
            arguments += ["--verify", f"--keyring={release.get('keyring') or ''}"]
        return [chart, *arguments], environment

    def _log_in(
        self, options: Mapping[str, Any], repository: str, chart: str, files: PrivateFiles
    ) -> tuple[str, str, dict[str, str]]:
        # Helm takes a password as an argument or from a login that it keeps; the login goes into a
        # private directory, because arguments are for everyone to read.
        folder = files.folder()
        user = [f"--username={options['username']}", "--password-stdin"]
        if chart.startswith("oci://"):
            environment = {"HELM_REGISTRY_CONFIG": f"{folder}/registry.json"}
            host = chart.removeprefix("oci://").split("/", 1)[0]
            self._runner.run(
                ["registry", "login", host, *user],
                files,
                stdin=str(options["password"]),
                environment=environment,
            )
            return repository, chart, environment
        environment = {
            "HELM_REPOSITORY_CONFIG": f"{folder}/repositories.yaml",
            "HELM_REPOSITORY_CACHE": f"{folder}/cache",
        }
        self._runner.run(
            ["repo", "add", "railhead", repository, *user],
            files,
            stdin=str(options["password"]),
            environment=environment,
        )
        return "", f"railhead/{chart}", environment

    # Progress

    def _pods(self, namespace: str) -> list[dict[str, Any]]:
        try:
            body = self._kube().request("GET", f"/api/v1/namespaces/{namespace}/pods").body
        except (ApiError, UnreachableError):
            return []
        items: list[dict[str, Any]] = body.get("items") or []
        return items

    def _progress(
        self, verb: str, urn: str, namespace: str, seconds: float
    ) -> list[dict[str, Any]]:
        """Report the progress; return the release's pods."""
        pods = self._pods(namespace)
        ready = sum(
            1
            for pod in pods
            for condition in (pod.get("status") or {}).get("conditions") or []
            if condition.get("type") == "Ready" and condition.get("status") == "True"
        )
        text = f"helm {verb}: {seconds:.0f} s, {ready} of {len(pods)} pods ready in {namespace}"
        self._report.status(text, urn)
        return pods

    def _pod_problems(self, namespace: str) -> list[str]:
        problems = [
            problem for pod in self._pods(namespace) for problem in readiness.pod_problems(pod)
        ]
        return problems[:10]


def _decode_record(item: Mapping[str, Any], plural: str) -> dict[str, Any]:
    text = (item.get("data") or {}).get("release") or ""
    try:
        packed = base64.b64decode(text)
        if plural == "secrets":
            packed = base64.b64decode(packed)
        decoded: dict[str, Any] = json.loads(gzip.decompress(packed))
    except (ValueError, OSError):
        return {}
    return decoded


def _seconds(release: Mapping[str, Any], timeout_s: float) -> int:
    return int(timeout_s or release.get("timeout") or DEFAULT_TIMEOUT_S)


def _is_zero(value: Any) -> bool:
    # The official provider drops what Go calls empty; a timeout of zero and false flags with it.
    return value is None or value is False or value == "" or value == {} or value == 0


def _trim(value: Any) -> Any:
    if isinstance(value, Mapping):
        trimmed = {key: _trim(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in trimmed.items() if item != {}}
    if isinstance(value, list):
        return [_trim(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
