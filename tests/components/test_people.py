"""Sources of people's groups on each cloud, as the providers get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError
from tests.components.order import assert_first
from tests.components.recording import run_stack, stack_cluster

pytestmark = pytest.mark.slow
OIDC = {"issuer": "https://login.example.com", "client_id": "kubernetes"}


def aws(researchers: str = "ml-researchers", **oidc: Any) -> dict[str, Any]:
    cluster = stack_cluster("aws-p5-prod")
    cluster["platform"]["oidc"] = OIDC | oidc
    return cluster | {"researchers": researchers, "access": {"leads": ["oidc:leads"]}}


def test_eks_has_the_identity_provider(tmp_path: Path) -> None:
    recording = run_stack("aws-p5-prod", tmp_path, cluster=aws())
    (made,) = recording.of_type("aws:eks/identityProviderConfig:IdentityProviderConfig")
    assert made.inputs["oidc"] == {
        "identityProviderConfigName": "people",
        "issuerUrl": "https://login.example.com",
        "clientId": "kubernetes",
        "groupsClaim": "groups",
        "groupsPrefix": "oidc:",
        "usernameClaim": "sub",
        "usernamePrefix": "oidc:",
    }


def test_people_of_a_provider_get_in_until_their_jobs_are_gone(tmp_path: Path) -> None:
    """A running job ends `destroy` in its first turn (docs/editing.md); they are to end it."""
    recording = run_stack("aws-p5-prod", tmp_path, cluster=aws())
    providers = recording.of_type("aws:eks/identityProviderConfig:IdentityProviderConfig")
    (claim, *_) = recording.kind("PersistentVolumeClaim")
    assert_first(recording, providers, claim)


LEADS, BOTH = (f"arn:aws:iam::123456789012:role/{name}" for name in ("leads", "ml-researchers"))


def members(**groups: list[str]) -> dict[str, Any]:
    cluster = stack_cluster("aws-p5-prod")
    cluster["platform"]["members"] = groups
    return cluster | {"access": {"leads": ["leads"]}}


def test_eks_puts_members_into_their_groups(tmp_path: Path) -> None:
    """Each principal once, one of the researchers', who lead as well, under the name it had."""
    recording = run_stack("aws-p5-prod", tmp_path, cluster=members(leads=[LEADS, BOTH]))
    entries = recording.of_type("aws:eks/accessEntry:AccessEntry")
    groups = {e.inputs["principalArn"]: e.inputs.get("kubernetesGroups") for e in entries}
    assert len(entries) == len(groups)
    assert groups[LEADS] == ["leads"]
    assert groups[BOTH] == ["leads", "ml-researchers"]
    once = {e.manner["known as"][0]["spec"]["name"].partition("-eks-")[2] for e in entries}
    assert {"researcher-0", "member-123456789012-role/leads"} <= once


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({}, "access.leads[0]: EKS puts nobody in 'leads': list its IAM roles or users under plat"),
        ({"leads": [LEADS], "lead": [BOTH]}, "platform.members.lead: 'lead' is no group of the"),
        ({"leads": [LEADS.replace("leads", "platform-engineers")]}, "is an administrator already"),
        ({"leads": ["leads"]}, "platform.members.leads[0]"),
    ],
    ids=str,
)
def test_group_without_members_is_refused(groups: dict[str, list[str]], words: str) -> None:
    with pytest.raises(InputError) as refused:
        config.parse(members(**groups), where="test")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("oidc", "words"),
    [
        ({"issuer": "http://login.example.com"}, "platform.oidc.issuer"),
        ({"issuer": "https://login.example.com?a=b"}, "platform.oidc.issuer"),
        ({"client_id": ""}, "platform.oidc.client_id"),
        ({"groups_prefix": "system:"}, "platform.oidc.groups_prefix"),
        ({"username_prefix": "system:"}, "platform.oidc.username_prefix"),
        ({"client_secret": "x"}, "platform.oidc.client_secret"),
        ({"groups_prefix": "sso:"}, "access.leads[0]: 'oidc:leads' does not start with 'sso:'"),
    ],
    ids=str,
)
def test_nonsense_is_refused_by_its_field(oidc: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        config.parse(aws(**oidc), where="test")
    assert words in str(refused.value)


def test_each_google_group_may_connect(tmp_path: Path) -> None:
    cluster = stack_cluster("gcp-a3-ultra")
    cluster["access"] = {"leads": ["ml-leads@example.com"]}
    grants = run_stack("gcp-a3-ultra", tmp_path, cluster=cluster).of_type(
        "gcp:projects/iAMMember:IAMMember"
    )
    members = {g.inputs["member"] for g in grants if "-researchers" in g.name}
    assert members == {f"group:{cluster['researchers']}", "group:ml-leads@example.com"}
    cluster["access"] = {"leads": ["leads"]}
    with pytest.raises(InputError, match=r"access.leads\[0\]: 'leads' is no group's address"):
        config.parse(cluster, where="test")
