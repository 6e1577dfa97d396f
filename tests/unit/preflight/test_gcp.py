"""Every row of the ledger of GCP, asked of a local server, and failed once at least.

The server's answers, and the requests, are compared with Google's discovery documents.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from railhead import config
from railhead.base.errors import PrerequisiteError
from railhead.platform.gcp.model import GcpCluster
from railhead.preflight import gcp as checks
from railhead.preflight import reading, run
from railhead.preflight.ledger import ledger
from railhead.preflight.reading import Google
from tests.components import discovery
from tests.shipped import GCP_NETWORK
from tests.shipped import stack as section

pytestmark = pytest.mark.slow
REPO = Path(__file__).resolve().parents[3]
ROWS = {row.id: row for row in ledger("gcp") if row.proof == "call"}
MEGA, ULTRA = "gcp-a3-mega", "gcp-a3-ultra"
PROJECT, NUMBER = "railhead-training", "481516234200"
COMPUTE = f"compute/v1/projects/{PROJECT}"
# Managed Lustre has no document in google-api-python-client.
DOCUMENTS = {
    "cloudresourcemanager": ("cloudresourcemanager.v3",),
    "compute": ("compute.v1",),
    "container": ("container.v1",),
    "dns": ("dns.v1",),
    "file": ("file.v1",),
    "iam": ("iam.v1",),
    "serviceusage": ("serviceusage.v1", "serviceusage.v1beta1"),
    "storage": ("storage.v1",),
}
Raw = dict[str, Any]


def methods(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from document.get("methods", {}).values()
    for resource in document.get("resources", {}).values():
        yield from methods(resource)


@functools.cache
def paths(service: str) -> list[tuple[str, str, re.Pattern[str], Mapping[str, Any]]]:
    """Return document, HTTP's method, path and method of all that a service has."""
    rows = []
    for name in DOCUMENTS[service]:
        document = discovery.document(name)
        for method in methods(document):
            path = re.escape(document["servicePath"] + (method.get("flatPath") or method["path"]))
            pattern = re.compile(re.sub(r"\\\{[^/]*?\\\}", "[^/:]+", path))
            rows.append((name, method["httpMethod"], pattern, method))
    return rows


def method_of(verb: str, service: str, path: str) -> tuple[str, Mapping[str, Any]]:
    hits = [
        (name, method)
        for name, http, pattern, method in paths(service)
        if http == verb and pattern.fullmatch(path)
    ]
    assert len(hits) == 1, f"{verb} {service} {path} is of {len(hits)} methods"
    return hits[0]


def faults(api: str, field: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    """Yield where an answer is not as the document has it."""
    if "$ref" in field:
        field = discovery.document(api)["schemas"][field["$ref"]]
    if field.get("type") == "array":
        for item in value:
            yield from faults(api, field["items"], item, path)
    elif path.endswith(".metric"):
        # Regions name quotas of newer GPUs than the document does.
        return
    elif field.get("type") == "object":
        for name, inner in value.items():
            known = field.get("properties", {}).get(name) or field.get("additionalProperties")
            if known is None:
                yield f"{path}.{name}: no such field"
            else:
                yield from faults(api, known, inner, f"{path}.{name}")
    else:
        yield from discovery._scalar({**field, "description": ""}, value, path, "")


class Server(ThreadingHTTPServer):
    """Answers by path, and what it saw of the wrong kind."""

    answers: dict[str, Any]
    wrong: list[str]
    seen: set[str]
    scope: str


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._reply(None)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if self.path == "/token":
            [assertion] = parse_qs(body.decode())["assertion"]
            claims = base64.urlsafe_b64decode(assertion.split(".")[1] + "==")
            self.server.scope = json.loads(claims)["scope"]
            self._send(200, {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        else:
            self._reply(json.loads(body))

    def _reply(self, body: Raw | None) -> None:
        url = urlsplit(self.path)
        service, _, path = url.path.lstrip("/").partition("/")
        if self.headers["Authorization"] != "Bearer t":
            self.server.wrong.append(f"{path}: not signed")
        if self.headers["x-goog-user-project"] != PROJECT:
            self.server.wrong.append(f"{path}: no project for its quota")
        status: int = 404
        answer: Any = {"error": {"code": 404, "message": "not found"}}
        key = f"{service} {path}"
        self.server.seen.add(service)
        if key in self.server.answers:
            status, answer = 200, self.server.answers[key]
            if callable(answer):
                answer = answer(body)
        if status == 200 and "error" in answer:
            status = answer["error"]["code"]
        if service in DOCUMENTS:
            self.server.wrong += _judged(self.command, service, path, url.query, body)
            if self.server.scope not in method_of(self.command, service, path)[1]["scopes"]:
                self.server.wrong.append(f"{path}: does not take {self.server.scope}")
            if status == 200:
                name, method = method_of(self.command, service, path)
                self.server.wrong += faults(name, method["response"], answer, path)
        self._send(status, answer)

    def _send(self, status: int, answer: Raw) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _judged(verb: str, service: str, path: str, query: str, body: Raw | None) -> list[str]:
    try:
        name, method = method_of(verb, service, path)
    except AssertionError as error:
        return [str(error)]
    unknown = set(parse_qs(query)) - set(method.get("parameters", {}))
    wrong = [f"{path}: no parameter {parameter}" for parameter in unknown]
    return wrong + (list(faults(name, method["request"], body, path)) if body else [])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    patch = pytest.MonkeyPatch()
    # The server here is a thread of the test, and answers late on a busy machine.
    patch.setattr(reading, "READ_SECONDS", 120)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = tmp_path_factory.mktemp("google") / "key.json"
    file.write_text(
        json.dumps(
            {
                "type": "service_account",
                "client_email": f"deploy@{PROJECT}.iam.gserviceaccount.com",
                "private_key": key.decode(),
                "token_uri": f"http://127.0.0.1:{server.server_port}/token",
            }
        )
    )
    patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    patch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", PROJECT)
    yield server
    patch.undo()
    server.shutdown()


@pytest.fixture
def reader(server: Server) -> Iterator[Google]:
    """The client, in a project in which everything is as both stacks take it to be."""
    server.answers, server.wrong, server.seen = good(), [], set()
    yield Google(f"http://127.0.0.1:{server.server_port}/{{service}}")
    assert server.wrong == []


def quotas(**more: tuple[int, int]) -> list[Raw]:
    rows = {
        "NETWORKS": (50, 3),
        "SUBNETWORKS": (175, 3),
        "FIREWALLS": (200, 3),
        "ROUTERS": (20, 1),
        "CPUS": (200, 8),
        "SSD_TOTAL_GB": (8192, 500),
        "HDB_TOTAL_GB": (4096, 0),
        **more,
    }
    return [
        {"metric": metric, "limit": limit, "usage": usage}
        for metric, (limit, usage) in rows.items()
    ]


def reservation(kind: str, count: int, **more: Any) -> Raw:
    return {
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": str(count),
            "inUseCount": "0",
            "instanceProperties": {"machineType": kind},
        },
        **more,
    }


def family(limit: int) -> Raw:
    dimensions = {"region": "europe-west1", "gpu_family": "NVIDIA_H200"}
    bucket = {"effectiveLimit": str(limit), "dimensions": dimensions}
    return {"consumerQuotaLimits": [{"quotaBuckets": [{"effectiveLimit": "0"}, bucket]}]}


def config_of_server(*served: str) -> Raw:
    """Return the answer for a channel; the last version is its default."""
    channel = {"channel": "REGULAR", "validVersions": list(served), "defaultVersion": served[-1]}
    return {"channels": [channel]}


def zone_of(stack: str) -> str:
    return shipped(stack).platform.zone


def key(path: str) -> str:
    return f"compute {COMPUTE}{path}"


def block(stack: str, end: str = "0001") -> str:
    place = f"/zones/{zone_of(stack)}/reservations/a3-ultra-16"
    return key(f"{place}/reservationBlocks/a3-ultra-16-block-{end}")


ACCOUNT = f"a3-ultra-nodes@{PROJECT}.iam.gserviceaccount.com"
FAMILY = (
    f"serviceusage v1beta1/projects/{PROJECT}/services/compute.googleapis.com/"
    "consumerQuotaMetrics/compute.googleapis.com%2Fgpus_per_gpu_family"
)
SERVICES = f"serviceusage v1/projects/{PROJECT}/services:batchGet"
TEST = f"cloudresourcemanager v3/projects/{PROJECT}:testIamPermissions"


def filestore() -> str:
    place = f"projects/{PROJECT}/locations/{zone_of(MEGA)}"
    return f"file v1/{place}/instances/a3-mega-filestore"


def good() -> dict[str, Any]:
    answers: dict[str, Any] = {
        f"cloudresourcemanager v3/projects/{PROJECT}": {
            "name": f"projects/{NUMBER}",
            "state": "ACTIVE",
        },
        TEST: lambda body: body,
        SERVICES: {
            "services": [
                {"name": f"projects/{NUMBER}/services/{name}", "state": "ENABLED"}
                for name in checks.services(shipped(MEGA)) + checks.services(shipped(ULTRA))
            ]
        },
        FAMILY: family(128),
        key(""): {"quotas": quotas()},
        block(ULTRA): {"resource": {"count": 16, "inUseCount": 0}},
    }
    policy = key("/regions/")
    for stack, kind, name, count in (
        (MEGA, "a3-megagpu-8g", "a3-mega-8", 8),
        (ULTRA, "a3-ultragpu-8g", "a3-ultra-16", 16),
    ):
        place, region = zone_of(stack), shipped(stack).platform.region
        location = checks._location(shipped(stack))
        made_with = {"policy": f"projects/p/regions/{region}/resourcePolicies/{name}-compact"}
        more = {"resourcePolicies": made_with} if stack == MEGA else {}
        answers |= {
            key(f"/regions/{region}"): {
                "quotas": quotas(PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS=(64, 0))
            },
            f"{policy}{region}/resourcePolicies/{name}-compact": {"name": f"{name}-compact"},
            key(f"/zones/{place}/machineTypes/{kind}"): {"name": kind},
            key(f"/zones/{place}/machineTypes/e2-standard-16"): {"guestCpus": 16},
            key(f"/zones/{place}/reservations/{name}"): reservation(kind, count, **more),
            key(f"/global/networkProfiles/{place}-vpc-roce"): {"name": f"{place}-vpc-roce"},
            f"container v1/projects/{PROJECT}/locations/{location}/serverConfig": config_of_server(
                "1.34.1-gke.1829001", "1.35.8-gke.1036000"
            ),
        }
    return answers


@functools.cache
def shipped(stack: str) -> GcpCluster:
    return parsed(section(stack))


def parsed(raw: Raw) -> GcpCluster:
    cluster = config.parse(raw, where="test")
    assert isinstance(cluster, GcpCluster)
    return cluster


Answers = dict[str, Any]


@dataclass
class Case:
    """One way in which a row does not hold."""

    row: str
    text: str
    stack: str = ULTRA
    edit: Callable[[Raw], object] = lambda raw: None
    change: Callable[[Answers], object] = lambda answers: None


def drop(name: str) -> Callable[[Answers], object]:
    return lambda answers: answers.pop(name)


def put(name: str, answer: Any) -> Callable[[Answers], object]:
    def change(answers: Answers) -> None:
        answers[name] = answer

    return change


def capacity(kind: str) -> Callable[[Raw], object]:
    return lambda raw: raw["pools"][0].update(capacity={"kind": kind})


def own_network(raw: Raw) -> None:
    raw["platform"]["network"] = dict(GCP_NETWORK)


def own_network_beside(rails: str) -> Callable[[Raw], None]:
    def edit(raw: Raw) -> None:
        own_network(raw)
        raw["platform"]["gpu_networks"]["cidr"] = rails

    return edit


def cached(raw: Raw) -> None:
    raw["pools"][0] |= {"image_streaming": True, "image_cache": CACHE}


def own_rails(raw: Raw) -> None:
    """Name GPU networks that are there: a VPC of the second gVNIC, and one of all rails."""
    rails = [{"network": "rdma", "subnetwork": f"rail-{index}"} for index in range(8)]
    networks = [{"network": "host", "subnetwork": "host"}, *rails]
    raw["platform"]["gpu_networks"] = {"kind": "existing", "networks": networks}


def rails(profile: str = "europe-west1-b-vpc-roce", **blocks: str) -> Answers:
    """Return what Google answers about them; ``blocks`` are subnets of other sizes."""
    answers: Answers = {key("/global/networks/rdma"): {"networkProfile": f"global/x/{profile}"}}
    names = {"host": "host"} | {f"rail-{index}": "rdma" for index in range(8)}
    for name, network in names.items():
        block = blocks.get(name.replace("-", "_"), "10.20.0.0/24")
        answers[key(f"/regions/europe-west1/subnetworks/{name}")] = {
            "network": f"https://www.googleapis.com/compute/v1/projects/p/global/networks/{network}",
            "ipCidrRange": block,
        }
    return answers


def second_pool(**capacity: str) -> Callable[[Raw], None]:
    """Return an edit that adds a pool of as many nodes on the first one's reservation."""

    def edit(raw: Raw) -> None:
        pool = copy.deepcopy(raw["pools"][0])
        pool |= {"name": "more", "node_selector": {"railhead.dev/pool": "more"}}
        pool["capacity"] |= capacity
        raw["pools"].append(pool)

    return edit


SUBNET = key("/regions/europe-west1/subnetworks/nodes")
SUBNET_OF_MEGA = key("/regions/us-central1/subnetworks/nodes")


def subnet(*ranges: str, **more: Any) -> Raw:
    return {
        "name": "nodes",
        "network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/net",
        "ipCidrRange": "10.0.0.0/20",
        "privateIpGoogleAccess": True,
        "secondaryIpRanges": [{"rangeName": name, "ipCidrRange": RANGES[name]} for name in ranges],
        **more,
    }


def ranged(**blocks: str) -> list[Raw]:
    """Return the secondary ranges of the subnet, with blocks of other sizes."""
    return [{"rangeName": name, "ipCidrRange": block} for name, block in (RANGES | blocks).items()]


RANGES = {"pods": "10.4.0.0/14", "services": "10.0.32.0/20"}


def regional(stack: str, **metrics: tuple[int, int]) -> Callable[[Answers], object]:
    region = shipped(stack).platform.region
    return put(key(f"/regions/{region}"), {"quotas": quotas(**metrics)})


ULTRA_16 = key("/zones/europe-west1-b/reservations/a3-ultra-16")
ROOM = {"quotas": quotas()}
MEGA_8 = key(f"/zones/{zone_of(MEGA)}/reservations/a3-mega-8")
CACHE = "global/images/training-images"
SERVER = f"container v1/projects/{PROJECT}/locations/europe-west1/serverConfig"
OTHERS = reservation("a3-megagpu-8g", 8, resourcePolicies={"policy": "p/resourcePolicies/other"})
CASES = [
    Case(
        "project", "there is no project", change=drop(f"cloudresourcemanager v3/projects/{PROJECT}")
    ),
    Case(
        "project",
        "has the number 481516234200, not 111111",
        edit=lambda raw: raw["platform"].update(project_number="111111"),
    ),
    Case(
        "apis",
        "not enabled: lustre.googleapis.com",
        change=lambda answers: answers[SERVICES].update(
            services=[s for s in answers[SERVICES]["services"] if "lustre" not in s["name"]]
        ),
    ),
    Case(
        "permissions",
        "lack container.clusters.create",
        change=put(
            TEST,
            lambda body: {
                "permissions": [p for p in body["permissions"] if p != "container.clusters.create"]
            },
        ),
    ),
    Case(
        "quota",
        "gpus_per_gpu_family of NVIDIA_H200: 64, 128 to come",
        edit=capacity("on-demand"),
        change=put(FAMILY, family(64)),
    ),
    Case(
        "quota",
        "PREEMPTIBLE_NVIDIA_H200_GPUS: 64, 8 in use, 128 to come",
        edit=capacity("spot"),
        change=regional(ULTRA, PREEMPTIBLE_NVIDIA_H200_GPUS=(64, 8)),
    ),
    Case(
        "quota",
        "SSD_TOTAL_GB: 500, 0 in use, 3600 to come",
        stack=MEGA,
        change=regional(MEGA, SSD_TOTAL_GB=(500, 0), PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS=(64, 0)),
    ),
    Case(
        "quota",
        "HDB_TOTAL_GB: 2000, 0 in use, 3200 to come",
        change=regional(ULTRA, HDB_TOTAL_GB=(2000, 0)),
    ),
    Case(
        "quota",
        "HDB_TOTAL_GB: 4096, 0 in use, 8000 to come",
        edit=cached,
        change=lambda answers: answers.update(
            {key(f"/{CACHE}"): {"diskSizeGb": "300"}, key("/regions/europe-west1"): ROOM}
        ),
    ),
    Case("quota", f"there is no disk image {CACHE}", edit=cached),
    Case(
        "quota",
        "CPUS: 72, 0 in use, 96 to come",
        change=regional(ULTRA, CPUS=(72, 0)),
    ),
    Case(
        "quota",
        "N4_CPUS: 23, 0 in use, 24 to come",
        edit=lambda raw: raw["platform"]["system_pool"].update(machine_type="n4-standard-4"),
        change=lambda answers: answers.update(
            {
                key("/zones/europe-west1-b/machineTypes/n4-standard-4"): {"guestCpus": 4},
                key("/regions/europe-west1"): {"quotas": quotas(N4_CPUS=(23, 0))},
            }
        ),
    ),
    Case(
        "quota",
        "GPUS_ALL_REGIONS: 8, 0 in use, 32 to come",
        stack=MEGA,
        change=put(key(""), {"quotas": quotas(GPUS_ALL_REGIONS=(8, 0))}),
    ),
    Case(
        "quota",
        "CPUS_ALL_REGIONS: 32, 0 in use, 96 to come",
        change=put(key(""), {"quotas": quotas(CPUS_ALL_REGIONS=(32, 0))}),
    ),
    Case(
        "networks",
        "NETWORKS: 5, 3 in use, 3 to come",
        change=put(key(""), {"quotas": quotas(NETWORKS=(5, 3))}),
    ),
    Case(
        "zone",
        "europe-west1-b has no a3-ultragpu-8g",
        change=drop(key("/zones/europe-west1-b/machineTypes/a3-ultragpu-8g")),
    ),
    Case(
        "zone",
        "there is no network profile europe-west1-b-vpc-roce",
        change=drop(key("/global/networkProfiles/europe-west1-b-vpc-roce")),
    ),
    Case("reservation", "there is no reservation a3-ultra-16", change=drop(ULTRA_16)),
    Case(
        "reservation", "is of a3-megagpu-8g", change=put(ULTRA_16, reservation("a3-megagpu-8g", 16))
    ),
    Case(
        "reservation",
        "is CREATING",
        change=put(ULTRA_16, reservation("a3-ultragpu-8g", 16, status="CREATING")),
    ),
    Case(
        "reservation",
        "is open to all",
        change=put(ULTRA_16, reservation("a3-ultragpu-8g", 16, specificReservationRequired=False)),
    ),
    Case(
        "reservation",
        "has 8 machines, 0 in use",
        change=put(ULTRA_16, reservation("a3-ultragpu-8g", 8)),
    ),
    Case(
        "reservation",
        "a3-ultra-16-block-0001 of a3-ultra-16 is not there",
        change=drop(block(ULTRA)),
    ),
    Case(
        "reservation",
        "12 in use, 16 are needed",
        change=put(block(ULTRA), {"resource": {"count": 16, "inUseCount": 12}}),
    ),
    Case(
        "reservation",
        "reservation a3-ultra-16 has 24 machines, 0 in use, 32 are needed",
        edit=second_pool(block="a3-ultra-16-block-0002"),
        change=lambda answers: answers.update(
            {
                ULTRA_16: reservation("a3-ultragpu-8g", 24),
                block(ULTRA, "0002"): {"resource": {"count": 16}},
            }
        ),
    ),
    Case(
        "reservation",
        "block a3-ultra-16-block-0001 of a3-ultra-16 has 24 machines, 0 in use, 32 are needed",
        edit=second_pool(),
        change=lambda answers: answers.update(
            {
                ULTRA_16: reservation("a3-ultragpu-8g", 32),
                block(ULTRA): {"resource": {"count": 24}},
            }
        ),
    ),
    Case(
        "reservation",
        "subblock sub-1 of a3-ultra-16 is not there",
        edit=lambda raw: raw["pools"][0]["capacity"].update(subblock="sub-1"),
    ),
    Case(
        "reservation",
        "subblock sub-1 of a3-ultra-16 has 8 machines, 0 in use, 16 are needed",
        edit=lambda raw: raw["pools"][0]["capacity"].update(subblock="sub-1"),
        change=put(
            f"{block(ULTRA)}/reservationSubBlocks/sub-1",
            {"resource": {"count": 8, "inUseCount": 0}},
        ),
    ),
    Case(
        "reservation",
        "was made with other, and the pool has a3-mega-8-compact",
        stack=MEGA,
        change=put(MEGA_8, OTHERS),
    ),
    Case(
        "reservation",
        "was made with other, and the pool has none",
        stack=MEGA,
        edit=lambda raw: raw["pools"][0].update(placement={"kind": "none"}),
        change=put(MEGA_8, OTHERS),
    ),
    Case(
        "reservation",
        "was made with no policy, and the pool has a policy of its own",
        edit=lambda raw: raw["pools"][0].update(placement={"kind": "compact"}),
    ),
    Case(
        "placement",
        "there is no placement policy a3-mega-8-compact",
        stack=MEGA,
        change=drop(
            key(f"/regions/{shipped(MEGA).platform.region}/resourcePolicies/a3-mega-8-compact")
        ),
    ),
    Case("subnets", "there is no subnet nodes", edit=own_network),
    Case("subnets", "has no range services", edit=own_network, change=put(SUBNET, subnet("pods"))),
    Case(
        "subnets",
        "has no Private Google Access",
        edit=own_network,
        change=put(SUBNET, subnet("pods", "services", privateIpGoogleAccess=False)),
    ),
    Case(
        "subnets",
        "192.168.64.0/20 of subnet nodes overlaps gpu_networks.cidr, 192.168.0.0/16",
        edit=own_network,
        change=put(SUBNET, subnet("pods", "services", ipCidrRange="192.168.64.0/20")),
    ),
    Case(
        "subnets",
        "10.4.0.0/14 of subnet nodes overlaps gpu_networks.cidr, 10.5.0.0/16",
        edit=own_network_beside("10.5.0.0/16"),
        change=put(SUBNET, subnet("pods", "services")),
    ),
    Case(
        "subnets",
        "10.8.0.0/15 of subnet nodes overlaps addresses of filestore, 10.9.0.0/26",
        stack=MEGA,
        edit=own_network,
        change=put(SUBNET_OF_MEGA, subnet("pods", "services", ipCidrRange="10.8.0.0/15")),
    ),
    Case(
        "subnets",
        "subnet nodes is 100.64.0.0/20, not of 10.0.0.0/8",
        stack=MEGA,
        edit=own_network,
        change=put(SUBNET_OF_MEGA, subnet("pods", "services", ipCidrRange="100.64.0.0/20")),
    ),
    Case(
        "subnets",
        "10.0.0.0/29 has 4 addresses for 23 nodes",
        edit=own_network,
        change=put(SUBNET, subnet("pods", "services", ipCidrRange="10.0.0.0/29")),
    ),
    Case(
        "subnets",
        "10.4.0.0/20 has room for the pods of 16 nodes, a /24 each, but there may be 23",
        edit=own_network,
        change=put(SUBNET, subnet("services", secondaryIpRanges=ranged(pods="10.4.0.0/20"))),
    ),
    Case(
        "subnets",
        "range services is 10.8.0.0/15, wider than the /16",
        edit=own_network,
        change=put(SUBNET, subnet("pods", secondaryIpRanges=ranged(services="10.8.0.0/15"))),
    ),
    Case("subnets", "gvnic-1: host has no subnet host", edit=own_rails),
    Case(
        "subnets",
        "rdma-3: rail-3 has 12 addresses for 16 nodes",
        edit=own_rails,
        change=lambda answers: answers.update(rails(rail_3="10.20.0.0/28")),
    ),
    Case(
        "subnets",
        "rdma-0: rdma is not of the network profile europe-west1-b-vpc-roce",
        edit=own_rails,
        change=lambda answers: answers.update(rails(profile="europe-west1-c-vpc-roce")),
    ),
    Case(
        "kubernetes",
        "channel REGULAR has no 1.35; it has 1.33.5-gke.1201000",
        change=put(SERVER, config_of_server("1.33.5-gke.1201000")),
    ),
    Case(
        "kubernetes",
        "channel REGULAR has no 1.34.1; it has 1.34.10-gke.1",
        edit=lambda raw: raw["platform"].update(kubernetes="1.34.1"),
        change=put(SERVER, config_of_server("1.34.10-gke.1")),
    ),
    Case(
        "kubernetes",
        "channel REGULAR begins with 1.39.1-gke.1: Kubernetes 1.39 is not served by versions",
        edit=lambda raw: raw["platform"].pop("kubernetes"),
        change=put(SERVER, config_of_server("1.34.1-gke.1829001", "1.39.1-gke.1")),
    ),
    Case(
        "names",
        "network a3-ultra-net",
        change=put(key("/global/networks/a3-ultra-net"), {"name": "a3-ultra-net"}),
    ),
    Case(
        "names",
        "service account a3-ultra-nodes",
        change=put(f"iam v1/projects/{PROJECT}/serviceAccounts/{ACCOUNT}", {"email": ACCOUNT}),
    ),
    Case(
        "names",
        "zonal Filestore a3-mega-filestore",
        stack=MEGA,
        change=put(filestore(), {"name": "a3-mega-filestore"}),
    ),
]


def test_every_row_is_failed_once() -> None:
    assert {case.row for case in CASES} == set(ROWS)


@pytest.mark.parametrize("stack", [MEGA, ULTRA])
def test_rows_hold_where_the_project_is_as_it_should(reader: Google, stack: str) -> None:
    for name, check in checks.ASKER.checks.items():
        findings = list(check(reader, shipped(stack)))
        assert [f.text for f in findings if not f.passed] == [], name
        assert findings or ROWS[name].of, name


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.text}")
def test_a_row_fails(server: Server, reader: Google, case: Case) -> None:
    raw = copy.deepcopy(section(case.stack))
    case.edit(raw)
    case.change(server.answers)
    findings = checks.ASKER.checks[case.row](reader, parsed(raw))
    failed = [f for f in findings if not f.passed]
    assert any(case.text in finding.text for finding in failed), [f.text for f in failed]
    assert all(f.passed is False for f in failed)
    assert all(f.remedy or ROWS[case.row].remedy for f in failed)
    assert server.seen <= set(ROWS[case.row].calls)


@pytest.mark.parametrize(
    ("row", "edit", "change"),
    [
        ("subnets", own_network, put(SUBNET, subnet("pods", "services"))),
        ("subnets", own_rails, lambda answers: answers.update(rails())),
        (
            "reservation",
            lambda raw: raw["pools"][0].update(placement={"kind": "compact"}),
            put(ULTRA_16, reservation("a3-ultragpu-8g", 16, deploymentType="DENSE")),
        ),
        (
            "reservation",
            lambda raw: None,
            put(ULTRA_16, {**OTHERS, **reservation("a3-ultragpu-8g", 16, deploymentType="DENSE")}),
        ),
        ("kubernetes", lambda raw: raw["platform"].update(kubernetes="1.34.1"), lambda _: None),
        ("kubernetes", lambda raw: raw["platform"].pop("kubernetes"), lambda _: None),
    ],
)
def test_what_google_takes_passes(
    server: Server,
    reader: Google,
    row: str,
    edit: Callable[[Raw], object],
    change: Callable[[Answers], object],
) -> None:
    raw = copy.deepcopy(section(ULTRA))
    edit(raw)
    change(server.answers)
    findings = list(checks.ASKER.checks[row](reader, parsed(raw)))
    assert [f.text for f in findings if not f.passed] == []
    assert findings


def test_end_of_a_reservation_is_told(server: Server, reader: Google) -> None:
    ends = reservation("a3-ultragpu-8g", 16, deleteAtTime="2027-01-31T00:00:00Z")
    server.answers[ULTRA_16] = ends
    (finding,) = checks.ASKER.checks["reservation"](reader, shipped(ULTRA))
    assert finding.text.endswith("16 machines, until 2027-01-31T00:00:00Z")


def test_rows_list_the_services_that_they_ask(server: Server, reader: Google) -> None:
    seen: dict[str, set[str]] = {}
    on_demand = section(ULTRA)
    capacity("on-demand")(on_demand)
    for cluster in (shipped(MEGA), shipped(ULTRA), parsed(on_demand)):
        for name, check in checks.ASKER.checks.items():
            server.seen.clear()
            list(check(reader, cluster))
            seen.setdefault(name, set()).update(server.seen)
    for name, row in ROWS.items():
        assert seen[name] == set(row.calls) or not seen[name], name


def test_what_may_not_be_asked_is_no_pass(
    server: Server, reader: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = {"error": {"code": 403, "message": "Permission denied"}}
    server.answers[key("")] = denied
    bucket = "storage storage/v1/b/railhead-training-a3-ultra-datasets"
    server.answers[bucket] = denied
    cache = "projects/others/global/images/training-images"
    server.answers[f"compute compute/v1/{cache}"] = denied
    monkeypatch.setattr(checks, "Google", lambda: reader)
    shown: list[run.Result] = []
    raw = section(ULTRA)
    raw["pools"][0] |= {"image_streaming": True, "image_cache": cache}
    results = {r.row.id: r for r in run.preflight(parsed(raw), shown.append)}
    assert {r.row.id for r in shown} == set(ROWS)
    assert results["networks"].unproven
    assert "roles/viewer" in results["networks"].remedy
    assert results["names"].unproven
    assert "bucket railhead-training-a3-ultra-datasets" in results["names"].text
    assert results["zone"].verdict == "ok"
    sizes = list(checks._image_caches(reader, parsed(raw)))
    assert [(f.passed, cache in f.text) for f in sizes] == [(None, True)]

    reader.over.clear()
    server.answers[TEST] = {"error": {"code": 401, "message": "expired"}}
    with pytest.raises(PrerequisiteError, match="does not accept"):
        run.preflight(shipped(ULTRA), shown.append)


def test_no_answer_in_time_is_no_pass(
    server: Server, reader: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "Google", lambda: reader)

    def late(_: object) -> Raw:
        time.sleep(2)
        return {"quotas": quotas()}

    server.answers[key("")] = late
    results = {r.row.id: r for r in run.preflight(shipped(ULTRA), lambda _: None, seconds=1)}
    assert results["networks"].unproven
    assert results["networks"].text == "there was no answer within 1 s"
