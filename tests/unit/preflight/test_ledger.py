"""The ledger, and the one way out: what is written down, and what nobody can ask."""

from __future__ import annotations

import ast
import importlib
import json
import re
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import botocore.session
import httpx
import pytest
from botocore.parsers import ResponseParserError
from typer.testing import CliRunner

from railhead import config
from railhead.base.data import load
from railhead.base.errors import ExitCode, PrerequisiteError, RailheadError, RefusedError
from railhead.base.finding import Finding
from railhead.cli import app
from railhead.platform.aws.model import AwsCluster
from railhead.platform.gcp.model import GcpCluster
from railhead.preflight import aws, gcp, reading
from railhead.preflight.check import Asker
from railhead.preflight.ledger import Row, data, ledger, platforms
from railhead.preflight.run import _summed
from tests.components.gcp_requests import KINDS
from tests.providers.aws_requests import TYPES

REPO = Path(__file__).resolve().parents[3]
PACKAGE = REPO / "railhead/preflight"
STACKS = {
    "aws": ("aws-p5-prod", "aws-p5en-block"),
    "gcp": ("gcp-a3-mega", "gcp-a3-ultra"),
    "existing": ("onprem-ib-sriov", "onprem-roce-shared"),
}


def test_there_is_a_ledger_of_every_platform_but_the_lab() -> None:
    assert set(platforms()) == set(STACKS)


@pytest.mark.parametrize("platform", platforms())
def test_rows_by_call_have_a_check_and_others_have_none(platform: str) -> None:
    rows = ledger(platform)
    assert len({row.id for row in rows}) == len(rows)
    asker = importlib.import_module(f"railhead.preflight.{platform}").ASKER
    asked = {row.id for row in rows if row.proof == "call"}
    assert asked == set(asker.checks)
    for row in rows:
        assert bool(row.calls) == bool(row.source) == (row.proof == "call"), row.id


@pytest.mark.parametrize("platform", platforms())
def test_what_rows_name_exists(platform: str) -> None:
    for row in ledger(platform):
        for path in re.findall(r"\b(?:docs|tests|railhead)/[\w/.-]+\w", f"{row.how} {row.source}"):
            assert (REPO / path).exists(), (row.id, path)


@pytest.mark.parametrize("stack", [name for names in STACKS.values() for name in names])
def test_offline_prints_the_ledger_and_asks_nobody(stack: str) -> None:
    """Ask nothing: there are neither credentials nor kubeconfigs here."""
    done = CliRunner().invoke(app, ["preflight", stack, "--offline", "--json"])
    assert done.exit_code == ExitCode.OK, done.output
    rows = json.loads(done.stdout)["rows"]
    assert {row["proof"] for row in rows} == {"call", "offline", "up"}
    assert {row["verdict"] for row in rows} == {"not asked"}


def test_the_page_names_every_row_that_is_asked() -> None:
    page = (REPO / "docs/preflight.md").read_text()
    sections = dict(zip(("aws", "gcp", "existing"), page.split("\n## ")[3:6], strict=True))
    assert list(sections) == list(STACKS)
    for platform, text in sections.items():
        asked = [row.id for row in ledger(platform) if row.proof == "call"]
        assert re.findall(r"^\| `([a-z]+)` \|", text, re.M) == asked, platform


def test_the_lab_has_no_ledger() -> None:
    done = CliRunner().invoke(app, ["preflight", "lab", "--offline"])
    assert isinstance(done.exception, PrerequisiteError)


# What can send anything, and the only file that may import it.
SENDERS = ("boto", "google", "http", "requests", "socket", "subprocess", "urllib.request", "pulumi")


@pytest.mark.slow
def test_one_file_alone_can_send() -> None:
    for path in PACKAGE.glob("*.py"):
        named = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        sends = {name for name in named if name.startswith(SENDERS)}
        assert bool(sends) == (path.name == "reading.py"), (path.name, sends)


def test_the_allowed_verbs_are_those_that_read() -> None:
    assert reading.AWS_VERBS == ("Describe", "Get", "Head", "List", "Simulate")
    assert (reading.METHOD, reading.GOOGLE_TEST) == ("GET", ":testIamPermissions")


def test_aws_is_asked_by_reading_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation of every service that a row asks: the gate is before the client."""
    services = {call.partition(":")[0] for row in ledger("aws") for call in row.calls}
    asker = reading.Aws("us-east-2")

    def reached(service: str) -> None:
        raise PrerequisiteError(service)

    monkeypatch.setattr(asker, "_client", reached)
    session = botocore.session.get_session()
    refused = allowed = 0
    for service in sorted(services):
        for operation in session.get_service_model(service).operation_names:
            with pytest.raises(RailheadError) as caught:
                asker.ask(f"{service}:{operation}")
            reads = re.match("Describe|Get|Head|List|Simulate", operation)
            assert isinstance(caught.value, PrerequisiteError if reads else RefusedError)
            refused, allowed = refused + (not reads), allowed + bool(reads)
    assert refused > 700
    assert allowed > 500


class Sent(Exception):  # noqa: N818 - it is how a test sees that something was sent
    pass


@pytest.mark.parametrize(
    ("method", "path", "goes"),
    [
        ("GET", "v3/projects/p", True),
        ("POST", "v3/projects/p:testIamPermissions", True),
        ("POST", "v3/projects/p:setIamPolicy", False),
        ("POST", "v1/projects/p/locations/z/clusters", False),
        ("PUT", "v3/projects/p:testIamPermissions", False),
        ("DELETE", "compute/v1/projects/p/global/networks/n", False),
        ("PATCH", "v1/projects/p/locations/z/clusters/c", False),
    ],
)
def test_google_is_asked_by_get_and_by_a_test_of_rights(method: str, path: str, goes: bool) -> None:
    google = object.__new__(reading.Google)
    google.__dict__.update(_base="", asked=set(), over=threading.Event(), headers=dict)

    def sent(*_: object, **__: object) -> None:
        raise Sent

    google.__dict__["_http"] = type("Client", (), {"request": staticmethod(sent)})
    with pytest.raises(Sent if goes else RefusedError):
        google._send(method, "cloudresourcemanager", path)


@pytest.mark.parametrize("method", ["create", "patch", "delete"])
def test_clusters_are_only_read(method: str) -> None:
    client = object.__new__(reading.Kubernetes)
    client.over = threading.Event()
    body: tuple[dict[str, str], ...] = () if method == "delete" else ({},)
    with pytest.raises(RefusedError):
        getattr(client, method)("/api/v1/namespaces", *body)


def test_what_a_proxy_answers_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(*_: object, **__: object) -> None:
        raise ResponseParserError("Unable to parse response")

    model = SimpleNamespace(operation_model=lambda _: SimpleNamespace(input_shape=None))
    client = SimpleNamespace(
        can_paginate=lambda _: False,
        get_caller_identity=page,
        meta=SimpleNamespace(service_model=model),
    )
    asker = reading.Aws("us-east-2")
    monkeypatch.setattr(asker, "_client", lambda _: client)
    with pytest.raises(reading.UnaskedError, match="no answer"):
        asker.ask("sts:GetCallerIdentity")

    google = object.__new__(reading.Google)
    html = SimpleNamespace(request=lambda *_, **__: httpx.Response(200, text="<html>"))
    google.__dict__.update(_base="", _http=html, asked=set(), over=threading.Event(), headers=dict)
    with pytest.raises(reading.UnaskedError, match="not JSON"):
        google.get("compute", "compute/v1/projects/p")


def test_nothing_is_asked_once_it_is_over() -> None:
    client = object.__new__(reading.Kubernetes)
    client.over = threading.Event()
    client.over.set()
    with pytest.raises(reading.UnaskedError, match="not asked any more"):
        client.get("/version")


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("UnauthorizedOperation", reading.UnaskedError),
        ("AccessDeniedException", reading.UnaskedError),
        ("ExpiredToken", PrerequisiteError),
        ("Throttling", reading.UnaskedError),
        ("NoSuchEntity", None),
        ("InvalidSubnetID.NotFound", None),
    ],
)
def test_errors_of_aws(code: str, raised: type[RailheadError] | None) -> None:
    response = {"Error": {"Code": code, "Message": "m"}}
    error = reading._aws_error("ec2:DescribeSubnets", response)
    assert (type(error) if error else None) is raised
    assert error is None or code in str(error) or "ec2:DescribeSubnets" in str(error)


@pytest.mark.parametrize(
    ("status", "raised"),
    [(401, PrerequisiteError), (403, reading.UnaskedError), (500, reading.UnaskedError)],
)
def test_errors_of_google(status: int, raised: type[RailheadError]) -> None:
    response = httpx.Response(status, json={"error": {"message": "because"}})
    error = reading._google_error("GET compute.googleapis.com/x", response)
    assert type(error) is raised
    assert "because" in str(error)


def test_a_row_fails_by_one_finding_and_is_unproven_by_one() -> None:
    row = Row(id="r", assumes="a", proof="call", how="h", calls=("c",), remedy="mend", of="pools")
    good, bad, open_ = (Finding(name="", passed=p, text=str(p)) for p in (True, False, None))
    assert _summed(row, [good, open_, bad], 0).verdict == "failed"
    assert _summed(row, [good, open_, bad], 0).remedy == "mend"
    assert _summed(row, [good, open_], 0).unproven
    assert _summed(row, [good], 0).verdict == "ok"
    assert (_summed(row, [], 0).verdict, _summed(row, [], 0).unproven) == ("not asked", False)


@pytest.mark.parametrize(
    ("passed", "code"),
    [(True, ExitCode.OK), (None, ExitCode.UNPROVEN), (False, ExitCode.REFUSED)],
)
def test_exit_codes(passed: bool | None, code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker(
        opened=lambda _: nullcontext(SimpleNamespace(over=threading.Event())),
        checks=dict(aws.ASKER.checks),
    )
    for name in asker.checks:
        asker.checks[name] = lambda *_: iter([Finding(name="", passed=True, text="fine")])
    asker.checks["zones"] = lambda *_: iter([Finding(name="", passed=passed, text="so it is")])
    monkeypatch.setattr(aws, "ASKER", asker)
    done = CliRunner().invoke(app, ["preflight", "aws-p5-prod"])
    assert done.exit_code == code
    assert "so it is" in done.stdout
    assert "zones" in done.stderr


def made(stack: str) -> set[str]:
    urns = (REPO / f"tests/components/urns/{stack}.txt").read_text().split()
    return {urn.split("::")[2].rpartition("$")[2] for urn in urns}


#: IAM calls a service otherwise than botocore does.
PREFIXES = {"efs": "elasticfilesystem"}


@pytest.mark.parametrize("stack", STACKS["aws"])
def test_rights_hold_what_makes_each_resource_of_aws(stack: str) -> None:
    """Compare with the calls that the requests' own tests make of the recorded inputs."""
    source = (REPO / "tests/providers/aws_requests.py").read_text()
    bodies = {
        node.name: ast.unparse(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }
    cluster = config.load(REPO / f"stacks/Pulumi.{stack}.yaml")
    assert isinstance(cluster, AwsCluster)
    rights = aws.rights(cluster)
    for kind in sorted(made(stack) & TYPES.keys()):
        body = bodies.get(TYPES[kind].__name__, "")
        for service, call in re.findall(r"'([a-z0-9-]+)', '((?:Create|Put)[A-Za-z]+)'", body):
            assert f"{PREFIXES.get(service, service)}:{call}" in rights, (kind, call)


@pytest.mark.parametrize("stack", STACKS["gcp"])
def test_rights_hold_what_makes_each_resource_of_gcp(stack: str) -> None:
    cluster = config.load(REPO / f"stacks/Pulumi.{stack}.yaml")
    assert isinstance(cluster, GcpCluster)
    rights = gcp.rights(cluster)
    # A part of another resource, or a right that has another name.
    otherwise = {
        "gcp:compute/routerNat:RouterNat": "compute.routers.update",
        "gcp:compute/globalAddress:GlobalAddress": "compute.globalAddresses.createInternal",
        "gcp:servicenetworking/connection:Connection": "servicenetworking.services.addPeering",
        "gcp:dns/recordSet:RecordSet": "dns.resourceRecordSets.create",
        "gcp:container/nodePool:NodePool": "container.clusters.update",
        "gcp:serviceaccount/account:Account": "iam.serviceAccounts.create",
        "gcp:filestore/instance:Instance": "file.instances.create",
        "gcp:compute/resourcePolicy:ResourcePolicy": "compute.resourcePolicies.create",
    }
    for kind in sorted(made(stack) & KINDS.keys()):
        service, name = kind.split(":")[1].partition("/")[0], kind.rpartition(":")[2]
        usual = f"{service}.{name[0].lower()}{name[1:]}s.create"
        assert otherwise.get(kind, usual) in rights, kind


def test_rights_hold_what_calls_ask_beside_their_own() -> None:
    """EFS: its calls say in botocore what else their caller needs of EC2."""
    model = botocore.session.get_session().get_service_model("efs")
    table = data("aws.rights")
    for call in ("CreateMountTarget", "DeleteMountTarget"):
        text = model.operation_model(call).documentation
        changing = set(re.findall(r"ec2:(?!Describe)\w+", text))
        assert changing, call
        assert changing <= set(table["efs"]), call
    # The Service Authorization Reference has these as dependent actions, and botocore has none.
    prod = config.load(REPO / "stacks/Pulumi.aws-p5-prod.yaml")
    assert isinstance(prod, AwsCluster)
    rights = aws.rights(prod)
    assert {"fsx:CreateBackup", "ec2:GetSecurityGroupsForVpc"} <= set(rights)
    assert "route53:AssociateVPCWithHostedZone" in rights
    # What may make the cluster makes nothing in it.
    assert "container.clusterRoleBindings.create" in data("gcp.rights")["always"]
    # It reaches the API server by DNS if IAM lets it, and makes its objects there.
    ultra = config.load(REPO / "stacks/Pulumi.gcp-a3-ultra.yaml")
    mega = config.load(REPO / "stacks/Pulumi.gcp-a3-mega.yaml")
    assert isinstance(ultra, GcpCluster)
    assert isinstance(mega, GcpCluster)
    assert "container.clusters.connect" in gcp.rights(ultra)
    assert "container.clusters.connect" not in gcp.rights(mega)
    # The provider lists connections to read one, and deletes it before it removes the peering.
    for right in ("deleteConnection", "get"):
        assert f"servicenetworking.services.{right}" in data("gcp.rights")["service-access"]
    # It makes an address, and then calls again for its labels.
    assert "compute.globalAddresses.setLabels" in data("gcp.rights")["service-access"]


def test_rights_hold_what_edits_call() -> None:
    """A tag that goes, another group of researchers, a zone that is appended, another NAT."""
    for part, rights in data("aws.rights").items():
        for right in rights:
            service, _, call = right.partition(":")
            takes = {"CreateTags": "DeleteTags", "CreateOrUpdateTags": "DeleteTags"}.get(call)
            if takes or call.startswith("Tag"):
                assert f"{service}:{takes or f'Un{call[0].lower()}{call[1:]}'}" in rights, part
    prod = config.load(REPO / "stacks/Pulumi.aws-p5-prod.yaml")
    assert isinstance(prod, AwsCluster)
    # terraform-provider-aws: access_entry.go, vpc_endpoint.go, transitgateway_vpc_attachment.go,
    # vpc_route.go; pull_through_cache_rule.go, for another secret.
    assert "ecr:UpdatePullThroughCacheRule" in data("aws.rights")["image-caches"]
    assert {
        "eks:UpdateAccessEntry",
        "ec2:ReplaceRoute",
        "ec2:ModifyVpcEndpoint",
        "ec2:ModifyTransitGatewayVpcAttachment",
    } <= set(aws.rights(prod))


@pytest.mark.parametrize("name", ["aws.rights", "gcp.rights"])
def test_rights_are_sorted_and_said_once(name: str) -> None:
    for part, rights in data(name).items():
        assert rights == sorted(set(rights)), part


def test_names_are_those_of_what_the_stacks_on_gcp_make() -> None:
    looked = {
        "Cluster": "GKE cluster",
        "Account": "service account",
        "Network": "network",
        "Subnetwork": "subnetwork",
        "Firewall": "firewall rule",
        "Router": "router",
        "GlobalAddress": "address range",
        "ResourcePolicy": "placement policy",
        "ManagedZone": "DNS zone",
        "Bucket": "bucket",
        "Instance": "instance",
    }
    for stack in STACKS["gcp"]:
        resources = load(REPO / f"tests/components/made/{stack}.yaml")
        names: dict[str, set[str]] = {what: set() for what in looked.values()}
        for key, resource in resources.items():
            kind, inputs = key.rpartition("(")[2].rstrip(")"), resource.get("inputs") or {}
            fields = ("name", "accountId", "instanceId")
            name = next((inputs[f] for f in fields if f in inputs), None)
            if kind in looked and name:
                names[looked[kind]].add(name)
        cluster = config.load(REPO / f"stacks/Pulumi.{stack}.yaml")
        assert isinstance(cluster, GcpCluster)
        expected: dict[str, set[str]] = {what: set() for what in looked.values()}
        for what, every in gcp.wanted_names(cluster).items():
            is_instance = what.endswith(("Filestore", "Lustre instance"))
            expected["instance" if is_instance else what] |= set(every)
        assert names == expected
