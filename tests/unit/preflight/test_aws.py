"""Every row of the ledger of AWS, asked of moto's server over HTTP, and failed once at least."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from typer.testing import CliRunner

from railhead import config
from railhead.base.errors import ExitCode
from railhead.cli import app
from railhead.platform.aws import facts
from railhead.platform.aws.model import AwsCluster
from railhead.preflight import aws as checks
from railhead.preflight.ledger import ledger
from railhead.preflight.reading import Aws, UnaskedError
from tests.shipped import stack as read
from tests.unit.preflight.moto_more import ANSWERS, serving

pytestmark = pytest.mark.slow
REPO = Path(__file__).resolve().parents[3]
ROWS = {row.id: row for row in ledger("aws") if row.proof == "call"}
REGION, ACCOUNT = "us-east-2", "123456789012"
PROD, BLOCK = "aws-p5-prod", "aws-p5en-block"
Raw = dict[str, Any]


def section(stack: str) -> Raw:
    # One region, so that one world is enough.
    cluster: Raw = json.loads(json.dumps(read(stack)).replace("us-west-2", REGION))
    return cluster


def reserved(kind: str, count: int, **more: Any) -> Raw:
    return {
        "CapacityReservations": [
            {
                "State": "active",
                "InstanceType": kind,
                "AvailabilityZone": f"{REGION}a",
                "TotalInstanceCount": count,
                "AvailableInstanceCount": count,
                **more,
            }
        ]
    }


WINDOW = {
    "StartDate": datetime.fromisoformat("2026-12-07T11:30:00+00:00"),
    "EndDate": datetime.fromisoformat("2026-12-21T11:30:00+00:00"),
}


def public_access(mode: str, **more: str) -> Raw:
    return {"VpcBlockPublicAccessOptions": {"InternetGatewayBlockMode": mode, **more}}


def closed() -> None:
    ANSWERS["public access"] = public_access("block-bidirectional")


def excluded(*resources: str, state: str = "create-complete") -> None:
    arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:"
    rows = [{"ResourceArn": arn + resource, "State": state} for resource in resources]
    ANSWERS["exclusions"] = {"VpcBlockPublicAccessExclusions": rows}


def endpoint_services(zones: str) -> Raw:
    places = [f"{REGION}{zone}" for zone in zones]
    return {
        "ServiceDetails": [
            {"ServiceName": name, "AvailabilityZones": places}
            for name in facts.endpoint_services(REGION)
        ]
    }


def good() -> Raw:
    """Return the answers of an account in which everything is as both stacks take it to be."""

    def block_or_reservation(request: Any) -> Raw:
        [name] = request._get_param("CapacityReservationIds")
        if name.startswith("cr-0b"):
            return reserved("p5en.48xlarge", 4, State="scheduled", **WINDOW)
        return reserved("p5.48xlarge", 16)

    return {
        "reservations": block_or_reservation,
        "image": IDS.get("image"),
        "placement groups": {"PlacementGroups": []},
        "public access": public_access("block-ingress"),
        "endpoint services": endpoint_services("abc"),
        "volume key": {"KmsKeyId": f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/aws/ebs"},
        "exclusions": {"VpcBlockPublicAccessExclusions": []},
        "cluster versions": {
            "clusterVersions": [{"clusterVersion": "1.35", "versionStatus": "STANDARD_SUPPORT"}]
        },
        "addon versions": lambda request: {
            "addons": [
                {
                    "addonName": request._get_param("addonName"),
                    "addonVersions": [
                        {"addonVersion": version}
                        for addon in facts.ADDONS.values()
                        for version in {"newest", *addon.versions.values()}
                    ],
                }
            ]
        },
        "cache rules": {"pullThroughCacheRules": []},
        "simulation": lambda request: {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": "allowed"}
                for action in request._get_param("ActionNames", [])
            ]
        },
        "quotas": {
            "L-417A185B": 4000.0,
            "L-1216C47A": 48.0,
            "L-7212CCBC": 4000.0,
            "L-C4BD4855": 4000.0,
            "L-0263D0A3": 5.0,
            "L-F678F1CE": 5.0,
            "L-DF5E4CA3": 5000.0,
            "L-7A658B76": 50.0,
        },
        "parameters": ("recommended/image_id",),
    }


@dataclass
class World:
    """An account, and the clients by which a test changes it."""

    session: Any
    url: str

    def client(self, service: str) -> Any:
        return self.session.create_client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="made",
            aws_secret_access_key="up",
        )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """An account with what both stacks name, and credentials of one of their administrators."""
    patch = pytest.MonkeyPatch()
    with serving() as url:
        made = World(botocore.session.Session(), url)
        ec2, iam, s3 = (made.client(service) for service in ("ec2", "iam", "s3"))
        for name in ("platform-engineers", "railhead-deploy", "ml-researchers"):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        for bucket in ("acme-datasets", "acme-checkpoints"):
            s3.create_bucket(
                Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        IDS["tgw"] = ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
        IDS["vpc"] = vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        for at, zone in enumerate("ab"):
            IDS[zone] = ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{at * 16}.0/20", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
        gateway = ec2.create_nat_gateway(SubnetId=IDS["b"], ConnectivityType="private")
        [table] = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])[
            "RouteTables"
        ]
        IDS["table"] = table["RouteTableId"]
        ec2.create_route(
            RouteTableId=IDS["table"],
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=gateway["NatGateway"]["NatGatewayId"],
        )
        options = ec2.create_dhcp_options(
            DhcpConfigurations=[
                {"Key": "domain-name-servers", "Values": ["10.9.0.2", "AmazonProvidedDNS"]}
            ]
        )["DhcpOptions"]["DhcpOptionsId"]
        ec2.associate_dhcp_options(DhcpOptionsId=options, VpcId=vpc)
        IDS["image"] = ec2.register_image(Name="amazon-eks-node")["ImageId"]
        keys = made.client("sts").assume_role(
            RoleArn=f"arn:aws:iam::{ACCOUNT}:role/platform-engineers", RoleSessionName="ada"
        )["Credentials"]
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
        patch.setenv("AWS_SESSION_TOKEN", keys["SessionToken"])
        yield made
    patch.undo()


#: What the account calls things.
IDS: dict[str, str] = {}


@pytest.fixture(scope="module")
def reader(world: World) -> Aws:
    return Aws(REGION)


@pytest.fixture(autouse=True)
def answers() -> None:
    ANSWERS.clear()
    ANSWERS.update(good())


def fitted(raw: Raw) -> Raw:
    """Return a stack with the ids that the account has."""
    network = raw["platform"]["network"]
    if network["kind"] == "existing":
        network["vpc_id"] = IDS["vpc"]
        network["private_subnets"] = {f"{REGION}{zone}": IDS[zone] for zone in "ab"}
    else:
        network["transit_gateway"]["id"] = IDS["tgw"]
    return raw


def cluster(raw: Raw) -> AwsCluster:
    parsed = config.parse(raw, where="test")
    assert isinstance(parsed, AwsCluster)
    return parsed


def shipped(stack: str) -> AwsCluster:
    loaded = config.load(REPO / f"stacks/Pulumi.{stack}.yaml")
    assert isinstance(loaded, AwsCluster)
    return loaded


@dataclass
class Case:
    """One way in which a row does not hold."""

    row: str
    text: str
    stack: str = PROD
    edit: Callable[[Raw], object] = lambda raw: None
    answers: Callable[[], object] = lambda: None
    change: Callable[[World], object] = lambda world: None


def purchase(kind: str) -> Callable[[Raw], object]:
    return lambda raw: raw["pools"][0].update(purchase={"kind": kind})


def platform(**fields: Any) -> Callable[[Raw], object]:
    return lambda raw: raw["platform"].update(fields)


def more_on_demand(raw: Raw) -> None:
    selector = {"node_selector": {"railhead.dev/pool": "more"}}
    raw["pools"].append(raw["pools"][0] | selector | {"name": "more"})
    raw["pools"][1]["purchase"] = {"kind": "on-demand"}


def grouped(raw: Raw) -> None:
    raw["pools"][0]["placement_group"] = {"kind": "existing", "name": "p5"}


CACHE = {
    "registry": "docker.io",
    "prefix": "p5-prod/hub",
    "secret_arn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:ecr-pullthroughcache/hub",
}


def cached(raw: Raw, secret: str = "hub") -> None:
    arn = CACHE["secret_arn"].replace("/hub", f"/{secret}")
    raw["platform"]["image_caches"] = [{**CACHE, "secret_arn": arn}]
    raw["registry_mirrors"] = {"docker.io": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/p5-prod/hub"}


def denied() -> None:
    ANSWERS["simulation"] = {
        "EvaluationResults": [
            {"EvalActionName": "eks:CreateCluster", "EvalDecision": "implicitDeny"}
        ]
    }


def quota(**values: float) -> Callable[[], object]:
    return lambda: ANSWERS["quotas"].update({k.replace("_", "-"): v for k, v in values.items()})


def reservations(answer: Raw) -> Callable[[], object]:
    return lambda: ANSWERS.update(reservations=answer)


def versions(status: str) -> Callable[[], object]:
    row = {"clusterVersion": "1.35", "versionStatus": status}
    return lambda: ANSWERS.update({"cluster versions": {"clusterVersions": [row]}})


def addons(*offered: str) -> Callable[[], object]:
    rows = [{"addonVersion": version} for version in offered]
    answer = {"addons": [{"addonName": "any", "addonVersions": rows}] if offered else []}
    return lambda: ANSWERS.update({"addon versions": answer})


def no_names(world: World) -> None:
    world.client("ec2").modify_vpc_attribute(VpcId=IDS["vpc"], EnableDnsHostnames={"Value": False})


def no_route(world: World) -> None:
    world.client("ec2").delete_route(RouteTableId=IDS["table"], DestinationCidrBlock="0.0.0.0/0")


def log_group(world: World) -> None:
    world.client("logs").create_log_group(logGroupName="/aws/eks/p5-prod/cluster")


def efs_token(world: World) -> None:
    world.client("efs").create_file_system(CreationToken="p5-prod-shared")


def secret(world: World, name: str, key: str) -> None:
    world.client("secretsmanager").create_secret(
        Name=f"ecr-pullthroughcache/{name}", SecretString="{}", KmsKeyId=key
    )


def own_key(world: World, *, enabled: bool = True, **policy: Any) -> str:
    """Have the account encrypt volumes with a key of its own, whose policy is KMS' default."""
    kms = world.client("kms")
    made = kms.create_key(**policy)["KeyMetadata"]
    if not enabled:
        kms.disable_key(KeyId=made["KeyId"])
    ANSWERS["volume key"] = {"KmsKeyId": made["Arn"]}
    return str(made["KeyId"])


def gone(world: World) -> None:
    world.client("iam").delete_role(RoleName="ml-researchers")


def in_a_path(world: World) -> None:
    world.client("iam").create_role(RoleName="people", Path="/ml/", AssumeRolePolicyDocument="{}")


def _zone(raw: Raw, zone: str) -> None:
    raw["platform"]["network"]["availability_zones"].append(zone)


def _placed(raw: Raw) -> None:
    raw["pools"][0].update(purchase={"kind": "on-demand"}, placement_group={"kind": "new"})


def _bucket(raw: Raw, name: str) -> None:
    raw["platform"]["s3_access"][0]["buckets"][0]["name"] = name


CASES = [
    Case("account", "are of account 123456789012", edit=platform(account="999999999999")),
    Case(
        "account",
        "is not in platform.administrators",
        edit=platform(administrators=[f"arn:aws:iam::{ACCOUNT}:role/railhead-deploy"]),
    ),
    Case("permissions", "may not call eks:CreateCluster", answers=denied),
    Case(
        "quota",
        "Running On-Demand P instances: 768 vCPUs, 0 in use, 3072 to come",
        edit=purchase("on-demand"),
        answers=quota(L_417A185B=768.0),
    ),
    Case(
        "quota",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances: 5 vCPUs, 0 in use, 48",
        answers=quota(L_1216C47A=5.0),
    ),
    Case(
        "quota",
        "All P5 Spot Instance Requests: 0 vCPUs, 0 in use, 3072 to come",
        edit=purchase("spot"),
        answers=quota(L_C4BD4855=0.0),
    ),
    Case(
        "quota",
        "Storage for General Purpose SSD (gp3) volumes, in TiB: 8 TiB, 0 in use, 9 to come",
        answers=quota(L_7A658B76=8.0),
    ),
    Case("networks", "EC2-VPC Elastic IPs: 2 addresses, 0 in use, 3", answers=quota(L_0263D0A3=2)),
    Case("networks", "VPCs per Region: 1 VPCs, 2 in use", answers=quota(L_F678F1CE=1)),
    Case(
        "networks",
        "per Region: 100 interfaces in us-east-2a, 0 in use",
        answers=quota(L_DF5E4CA3=100),
    ),
    Case(
        "networks",
        "bidirectional, which closes the new VPC",
        answers=closed,
    ),
    Case(
        "zones",
        "p6-b300.48xlarge is not offered in us-east-2a, but in no zone",
        edit=lambda raw: raw["pools"][0].update(instance_type="p6-b300.48xlarge"),
    ),
    Case("zones", "no zone us-east-2z", edit=lambda raw: _zone(raw, f"{REGION}z")),
    Case("reservation", "is not in this account", answers=reservations({})),
    Case(
        "reservation",
        "is cancelled",
        answers=reservations(reserved("p5.48xlarge", 16, State="cancelled")),
    ),
    Case("reservation", "is for 8 instances", answers=reservations(reserved("p5.48xlarge", 8))),
    Case(
        "reservation",
        "is a capacity block: the pool's purchase says 'reservation'",
        answers=reservations(reserved("p5.48xlarge", 16, ReservationType="capacity-block")),
    ),
    Case(
        "reservation",
        "has 3 of 16 instances free",
        answers=reservations(reserved("p5.48xlarge", 16, AvailableInstanceCount=3)),
    ),
    Case(
        "reservation",
        "is scheduled, from 2026-12-07T11:30:00+00:00: EC2 starts no node before",
        answers=reservations(reserved("p5.48xlarge", 16, State="scheduled", **WINDOW)),
    ),
    Case(
        "reservation",
        "has instance_platform 'Red Hat Enterprise Linux'",
        answers=reservations(
            reserved("p5.48xlarge", 16, InstancePlatform="Red Hat Enterprise Linux")
        ),
    ),
    Case(
        "reservation",
        "has start_date 2026-12-14",
        stack=BLOCK,
        answers=reservations(
            reserved(
                "p5en.48xlarge",
                4,
                State="scheduled",
                StartDate=datetime.fromisoformat("2026-12-14T11:30:00+00:00"),
            )
        ),
    ),
    Case(
        "reservation",
        "is open, and EC2 starts the nodes on demand of pool more in it",
        edit=more_on_demand,
        answers=reservations(
            reserved("p5.48xlarge", 16, InstanceMatchCriteria="open", CapacityReservationId="cr-1")
        ),
    ),
    Case("placement", "there is no cluster placement group p5", edit=grouped),
    Case(
        "subnets",
        "is not in this account",
        stack=BLOCK,
        edit=lambda raw: raw["platform"]["network"]["private_subnets"].update(
            {f"{REGION}b": "subnet-0123456789abcdef0"}
        ),
    ),
    Case(
        "subnets",
        "addresses free, 4141 are needed",
        stack=BLOCK,
        edit=lambda raw: raw["pools"][0].update(nodes=122, purchase={"kind": "on-demand"}),
    ),
    Case(
        "subnets",
        "has VpcId vpc-",
        stack=BLOCK,
        edit=lambda raw: raw["platform"]["network"].update(vpc_id="vpc-0123456789abcdef0"),
    ),
    Case("subnets", "enableDnsHostnames off: no node finds", stack=BLOCK, change=no_names),
    Case("subnets", "is not excluded from it: nodes reach no", stack=BLOCK, answers=closed),
    Case("subnets", "no active route to 0.0.0.0/0", stack=BLOCK, change=no_route),
    Case(
        "gateway",
        "neither in this account nor shared",
        edit=lambda raw: raw["platform"]["network"]["transit_gateway"].update(
            id="tgw-0123456789abcdef0"
        ),
    ),
    Case(
        "image",
        "EKS has no image nvidia x86_64 of 1.35, release 1.35.3-20261015",
        edit=lambda raw: raw["pools"][0].update(ami_release="1.35.3-20261015"),
    ),
    Case(
        "image",
        "the image standard x86_64 of 1.35, is not to be seen in this account",
        answers=lambda: ANSWERS.update(image="ami-0123456789abcdef0"),
    ),
    Case("kubernetes", "does not offer Kubernetes 1.35", answers=versions("UNSUPPORTED")),
    Case("kubernetes", "extended support alone", answers=versions("EXTENDED_SUPPORT")),
    Case("kubernetes", "newest: v9", answers=addons("v9")),
    Case("kubernetes", "does not offer the add-on coredns", answers=addons()),
    Case("names", "log group /aws/eks/p5-prod/cluster", change=log_group),
    Case("names", "EFS creation token p5-prod-shared", change=efs_token),
    Case(
        "names",
        "placement group p5-prod-h100",
        edit=_placed,
        answers=lambda: ANSWERS.update(
            {"placement groups": {"PlacementGroups": [{"GroupName": "p5-prod-h100"}]}}
        ),
    ),
    Case(
        "names",
        "pull-through prefix p5-prod/hub",
        edit=cached,
        answers=lambda: ANSWERS.update(
            {"cache rules": {"pullThroughCacheRules": [{"ecrRepositoryPrefix": "p5-prod/hub"}]}}
        ),
    ),
    Case("buckets", "there is no bucket acme-none", edit=lambda raw: _bucket(raw, "acme-none")),
    Case("secrets", "docker.io: there is no secret", edit=cached),
    Case(
        "secrets",
        "is encrypted with alias/ours, and ECR reads none but those of AWS' own key",
        edit=lambda raw: cached(raw, "ours"),
        change=lambda world: secret(world, "ours", "alias/ours"),
    ),
    Case(
        "endpoints",
        "no interface endpoint of com.amazonaws.us-east-2.ec2 in us-east-2c, com",
        answers=lambda: ANSWERS.update({"endpoint services": endpoint_services("ab")}),
    ),
    Case("volumes", "lets AWSServiceRoleForAutoScaling use it: instances end", change=own_key),
    Case(
        "volumes",
        "which encrypts EBS volumes by default, is Disabled",
        change=lambda world: own_key(world, enabled=False),
    ),
    Case("principals", "role/ml-researchers does not exist", change=gone),
    Case(
        "principals",
        f"role/people is arn:aws:iam::{ACCOUNT}:role/ml/people in full",
        edit=platform(researchers=[f"arn:aws:iam::{ACCOUNT}:role/people"]),
        change=in_a_path,
    ),
    Case(
        "principals",
        "user/nobody does not exist",
        edit=platform(researchers=[f"arn:aws:iam::{ACCOUNT}:user/nobody"]),
    ),
]


def test_every_row_is_failed_once() -> None:
    assert {case.row for case in CASES} == set(ROWS)


@pytest.mark.parametrize("stack", [PROD, BLOCK])
def test_rows_hold_where_the_account_is_as_it_should(reader: Aws, stack: str) -> None:
    asked = cluster(fitted(section(stack)))
    for name, check in checks.ASKER.checks.items():
        findings = list(check(reader, asked))
        assert [f.text for f in findings if not f.passed] == [], name
        # A stack may lack a part, and then there is nothing to ask for; the row says which.
        assert findings or ROWS[name].of, name


@pytest.mark.parametrize(
    ("count", "more"), [(32, {}), (16, {"PlacementGroupArn": "arn:aws:ec2:::placement-group/p5"})]
)
def test_an_open_reservation_has_room_or_a_group(reader: Aws, count: int, more: Raw) -> None:
    """Nodes on demand of another pool fit beside, or are in no group and do not match."""
    there = {"InstanceMatchCriteria": "open", "CapacityReservationId": "cr-1"} | more
    reservations(reserved("p5.48xlarge", count, **there))()
    raw = fitted(section(PROD))
    more_on_demand(raw)
    grouped(raw)
    findings = checks.reservation(reader, cluster(raw))
    assert [f.text for f in findings if not f.passed] == []


def test_rights_on_the_stacks_own_resources_are_enough(reader: Aws) -> None:
    """A policy that names the cluster allows nothing on any resource."""

    def simulate(request: Any) -> Raw:
        own = any(":cluster/p5-prod" in arn for arn in request._get_param("ResourceArns", []))
        result = {"EvalActionName": "eks:CreateCluster", "EvalDecision": "implicitDeny"}
        specific = [{"EvalResourceName": "arn:x", "EvalResourceDecision": "allowed"}]
        more = {"ResourceSpecificResults": specific} if own else {}
        return {"EvaluationResults": [result | more]}

    ANSWERS["simulation"] = simulate
    findings = checks.permissions(reader, cluster(fitted(section(PROD))))
    assert [f.passed for f in findings] == [True]


def test_a_condition_that_is_not_known_is_no_refusal(reader: Aws) -> None:
    """Policies that pass roles by service, in an organization of one region."""
    conditional = "iam:PassRole"

    def simulate(request: Any) -> Raw:
        [entry] = request._get_param("ContextEntries")
        known = (entry["ContextKeyName"], entry["ContextKeyValues"])
        elsewhere = known != ("aws:RequestedRegion", [REGION])
        return {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": "explicitDeny"}
                if elsewhere
                else {
                    "EvalActionName": action,
                    "EvalDecision": "implicitDeny" if action == conditional else "allowed",
                    "MissingContextValues": ["iam:PassedToService"] * (action == conditional),
                }
                for action in request._get_param("ActionNames")
            ]
        }

    ANSWERS["simulation"] = simulate
    [finding] = checks.permissions(reader, cluster(fitted(section(PROD))))
    assert finding.passed is None
    assert "iam:PassRole: its policies ask for iam:PassedToService" in finding.text


def test_interfaces_of_other_zones_take_no_room(
    reader: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VPC user guide, amazon-vpc-limits: the quota is enforced in each Availability Zone."""
    require = reader.require
    there = {"NetworkInterfaces": [{"AvailabilityZone": f"{REGION}b"}] * 5000}

    def answer(call: str, **asked: Any) -> Any:
        return there if call == "ec2:DescribeNetworkInterfaces" else require(call, **asked)

    monkeypatch.setattr(reader, "require", answer)
    [*_, finding] = checks.networks(reader, cluster(fitted(section(PROD))))
    assert finding.passed, finding.text


@pytest.mark.parametrize(
    ("exclusion", "state", "passed"),
    [
        ("vpc", "create-complete", []),
        ("vpc", "delete-complete", [False]),
        ("subnet", "create-complete", [None]),
    ],
)
def test_vpc_that_is_excluded_stays_open(
    reader: Aws, exclusion: str, state: str, passed: list[bool | None]
) -> None:
    """VPC user guide, security-vpc-bpa: an exclusion is of a VPC or of a subnet."""
    closed()
    names = {"vpc": f"vpc/{IDS['vpc']}", "subnet": "subnet/subnet-0123456789abcdef0"}
    excluded(names[exclusion], state=state)
    findings = checks.subnets(reader, cluster(fitted(section(BLOCK))))
    assert [f.passed for f in findings if f.passed is not True] == passed


@pytest.mark.parametrize(
    ("zone", "addressed", "refused"), [("a", True, True), ("b", False, True), ("b", True, False)]
)
def test_public_subnet_without_addresses_is_refused(
    reader: Aws, monkeypatch: pytest.MonkeyPatch, zone: str, addressed: bool, refused: bool
) -> None:
    """Nodes of the pool, in zone a, have several interfaces, and so no public address."""
    ask, require = reader.ask, reader.require
    way = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-0", "State": "active"}

    def subnet(call: str, **asked: Any) -> Any:
        given: Any = ask(call, **asked)
        if call == "ec2:DescribeSubnets":
            given["Subnets"][0]["MapPublicIpOnLaunch"] = addressed
        return given

    def routes(call: str, **asked: Any) -> Any:
        own = call == "ec2:DescribeRouteTables" and IDS[zone] in str(asked)
        return {"RouteTables": [{"Routes": [way]}]} if own else require(call, **asked)

    monkeypatch.setattr(reader, "ask", subnet)
    monkeypatch.setattr(reader, "require", routes)
    wrong = [
        f.text for f in checks.subnets(reader, cluster(fitted(section(BLOCK)))) if not f.passed
    ]
    assert [f"{IDS[zone]} is a public subnet" in text for text in wrong] == [True] * refused


@pytest.mark.parametrize("allowed", ["allowed", "not-allowed"])
def test_new_vpc_is_excluded_where_that_is_allowed(reader: Aws, allowed: str) -> None:
    """An organization's policy may forbid exclusions (EC2 API, VpcBlockPublicAccessOptions)."""
    access = public_access("block-bidirectional", ExclusionsAllowed=allowed)
    ANSWERS["public access"] = access
    [*_, finding] = checks.networks(reader, cluster(fitted(section(PROD))))
    assert finding.passed is False
    assert ("create-vpc-block-public-access-exclusion" in finding.remedy) is (allowed == "allowed")


@pytest.mark.parametrize(
    ("servers", "passed"),
    [
        (["AmazonProvidedDNS"], []),
        (["10.0.0.2"], []),
        (["169.254.169.253", "10.9.0.2"], []),
        (["10.9.0.2", "10.9.1.2"], [None]),
        ([], [None]),
    ],
)
def test_name_servers_of_others_are_doubted(
    reader: Aws, monkeypatch: pytest.MonkeyPatch, servers: list[str], passed: list[None]
) -> None:
    """EKS user guide, cluster-endpoint; 10.0.0.2 is the VPC's own resolver."""
    ask = reader.ask
    values = [{"Value": server} for server in servers]
    row = {"Key": "domain-name-servers", "Values": values}
    there = {"DhcpOptions": [{"DhcpConfigurations": [row]}]} if servers else None

    def answer(call: str, **asked: Any) -> Any:
        return there if call == "ec2:DescribeDhcpOptions" else ask(call, **asked)

    monkeypatch.setattr(reader, "ask", answer)
    findings = checks.subnets(reader, cluster(fitted(section(BLOCK))))
    assert [f.passed for f in findings if f.passed is not True] == passed


_SCALER = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/"
    "AWSServiceRoleForAutoScaling"
)


@pytest.mark.parametrize("principal", ["*", {"AWS": "*"}, {"AWS": ["arn:aws:x", _SCALER]}, None])
def test_key_of_volumes_by_its_policy_or_a_grant(
    world: World, reader: Aws, principal: object
) -> None:
    """Auto Scaling user guide, key-policy-requirements-EBS-encryption: both ways are shown."""
    allowed = {"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*"}
    policy: Raw = {"Policy": json.dumps({"Statement": [allowed]})} if principal else {}
    key = own_key(world, **policy)
    if not principal:
        world.client("kms").create_grant(
            KeyId=key, GranteePrincipal=_SCALER, Operations=["Decrypt", "CreateGrant"]
        )
    [finding] = checks.volumes(reader, cluster(fitted(section(PROD))))
    assert finding.passed, finding.text


def test_interfaces_that_are_hidden_are_asked_for(reader: Aws) -> None:
    """An account may hide what AWS' services manage (EC2 API, ModifyManagedResourceVisibility)."""
    asked: dict[str, Any] = {}

    def heard(params: Raw, model: Any, **_: Any) -> None:
        asked[model.name] = params["body"].get("IncludeManagedResources")

    events = reader._client("ec2").meta.events
    events.register("before-call.ec2", heard)
    list(checks.networks(reader, cluster(fitted(section(PROD)))))
    events.unregister("before-call.ec2", heard)
    assert asked["DescribeNetworkInterfaces"] == "true"
    assert asked["DescribeVpcs"] is None


#: Row -> the calls that its checks made.
MADE: dict[str, set[str]] = {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.text}")
def test_a_row_fails(world: World, reader: Aws, case: Case) -> None:
    raw = copy.deepcopy(fitted(section(case.stack)))
    case.edit(raw)
    case.answers()
    case.change(world)
    reader.asked.clear()
    failed = [f for f in checks.ASKER.checks[case.row](reader, cluster(raw)) if not f.passed]
    MADE.setdefault(case.row, set()).update(reader.asked)
    assert any(case.text in finding.text for finding in failed), [f.text for f in failed]
    assert all(f.passed is False for f in failed)
    assert all(f.remedy or ROWS[case.row].remedy for f in failed)


def test_a_reservation_that_begins_later_may_wait(world: World, reader: Aws) -> None:
    """Pass a group that is made with no node."""
    raw = copy.deepcopy(fitted(section(PROD)))
    raw["pools"][0]["initial_nodes"] = 0
    reservations(reserved("p5.48xlarge", 16, State="scheduled", **WINDOW))()
    [finding] = checks.ASKER.checks["reservation"](reader, cluster(raw))
    assert finding.passed, finding.text


@pytest.mark.parametrize("by_id", [False, True])
def test_a_secret_under_aws_own_key_is_right(world: World, reader: Aws, by_id: bool) -> None:
    """ECR user guide, pull-through-cache-creating-secret: it supports no key of the customer's.

    The console makes secrets with its id (Secrets Manager API reference, DescribeSecret).
    """
    raw, alias = fitted(section(PROD)), "alias/aws/secretsmanager"
    cached(raw, f"theirs-{by_id}")
    key = world.client("kms").describe_key(KeyId=alias)["KeyMetadata"]
    secret(world, f"theirs-{by_id}", key["KeyId"] if by_id else alias)
    assert [f.text for f in checks.secrets(reader, cluster(raw))] == [
        "docker.io: its secret is there"
    ]


def test_rows_list_the_calls_that_they_make() -> None:
    if set(MADE) != set(ROWS):
        pytest.skip("the tests of all rows run before it")
    default = {"service-quotas:GetAWSDefaultServiceQuota"}
    for name, row in ROWS.items():
        assert set(row.calls) - default == MADE[name] - default, name


def test_the_command_reports_rows_and_exit_code(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log group of an earlier test is left over, and the route is gone."""
    raw = {"config": {"railhead:cluster": fitted(section(BLOCK))}}
    file = tmp_path / "Pulumi.block.yaml"
    file.write_text(yaml.safe_dump(raw))
    report = tmp_path / "junit.xml"
    done = CliRunner().invoke(app, ["preflight", str(file), "--json", "--junit", str(report)])
    assert done.exit_code == ExitCode.REFUSED, done.output
    whole = json.loads(done.stdout)
    failed = [row["id"] for row in whole["rows"] if row["verdict"] == "failed"]
    assert "subnets" in failed
    assert "reservation" not in failed
    assert whole["seconds"] < 60
    assert f'failures="{len(failed)}"' in report.read_text()
    assert "subnets" in done.stderr

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    lost = CliRunner().invoke(app, ["preflight", str(file)])
    assert isinstance(lost.exception, UnaskedError)

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    unknown = CliRunner().invoke(app, ["preflight", str(file)])
    assert "there are no credentials of AWS here" in str(unknown.exception)


def test_names_are_those_of_what_the_stacks_make() -> None:
    """Compare with the recorded plans: what is not looked for would be found by `up` alone."""
    looked = {
        "Cluster": ("name", "EKS cluster"),
        "LogGroup": ("name", "log group"),
        "Alias": ("name", "key alias"),
        "LaunchTemplate": ("name", "launch template"),
        "PlacementGroup": ("name", "placement group"),
        "FileSystem": ("creationToken", "EFS creation token"),
        "PullThroughCacheRule": ("ecrRepositoryPrefix", "pull-through prefix"),
        "Role": ("name", "role"),
    }
    for stack in (PROD, BLOCK):
        made = yaml.safe_load((REPO / f"tests/components/made/{stack}.yaml").read_text())
        names: dict[str, set[str]] = {what: set() for _, what in looked.values()}
        for key, resource in made.items():
            kind = key.rpartition("(")[2].rstrip(")")
            inputs = resource.get("inputs") or {}
            if kind in looked and looked[kind][0] in inputs:
                names[looked[kind][1]].add(inputs[looked[kind][0]])
        expected = checks.wanted_names(shipped(stack))
        assert names == {what: set(every) for what, every in expected.items()}
