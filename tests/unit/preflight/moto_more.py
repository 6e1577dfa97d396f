"""Answers that moto lacks, given in its own way: by its server, in the API's own format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import moto.eks.urls
from moto.core.responses import ActionResult, BaseResponse
from moto.ec2.responses import EC2Response
from moto.ecr.responses import ECRResponse
from moto.eks.responses import EKSResponse
from moto.iam.responses import IamResponse
from moto.server import ThreadedMotoServer
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.ssm.exceptions import ParameterNotFound
from moto.ssm.responses import SimpleSystemManagerResponse

#: The operation -> its answer; a test changes them.
ANSWERS: dict[str, Any] = {}


def _answer(operation: str) -> Any:
    def respond(self: BaseResponse) -> ActionResult:
        value = ANSWERS[operation]
        return ActionResult(value(self) if callable(value) else value)

    return respond


def _quota(self: ServiceQuotasResponse) -> str:
    code = json.loads(self.body)["QuotaCode"]
    if code not in ANSWERS["quotas"]:
        raise NoSuchResource
    return json.dumps({"Quota": {"QuotaCode": code, "Value": ANSWERS["quotas"][code]}})


def _parameter(self: SimpleSystemManagerResponse) -> ActionResult:
    name = self._get_param("Name")
    if not any(name.endswith(end) for end in ANSWERS["parameters"]):
        raise ParameterNotFound(f"Parameter {name} not found.")
    return ActionResult({"Parameter": {"Name": name, "Value": ANSWERS["image"]}})


@contextmanager
def serving() -> Iterator[str]:
    """Yield the address of a server of moto's that answers all that preflight asks."""
    for kind, method, operation in (
        (EC2Response, "describe_capacity_reservations", "reservations"),
        (EC2Response, "describe_placement_groups", "placement groups"),
        (EC2Response, "describe_vpc_block_public_access_options", "public access"),
        (EC2Response, "describe_vpc_block_public_access_exclusions", "exclusions"),
        (EC2Response, "describe_vpc_endpoint_services", "endpoint services"),
        (EC2Response, "get_ebs_default_kms_key_id", "volume key"),
        (EKSResponse, "describe_cluster_versions", "cluster versions"),
        (EKSResponse, "describe_addon_versions", "addon versions"),
        (ECRResponse, "describe_pull_through_cache_rules", "cache rules"),
        (IamResponse, "simulate_principal_policy", "simulation"),
    ):
        setattr(kind, method, _answer(operation))
    ServiceQuotasResponse.get_service_quota = _quota  # type: ignore[method-assign]
    SimpleSystemManagerResponse.get_parameter = _parameter  # type: ignore[method-assign]
    respond = moto.eks.urls.response.dispatch
    for path in ("cluster-versions", "addons/supported-versions"):
        moto.eks.urls.url_paths[f"{{0}}/{path}$"] = respond
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
