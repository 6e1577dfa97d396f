"""Traffic that a training namespace allows; the lab tests show that it is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.base.names import PODSET_LABEL
from railhead.components import arguments
from railhead.components.namespaces.network_policies import Traffic, dns_addresses, policies
from railhead.lab.spec import CONTROL_ADDRESS
from tests.components.recording import lab_cluster


def parsed(**network_policy: Any) -> Any:
    return config.parse(lab_cluster() | {"network_policy": network_policy}, where="test")


def traffic(cluster: Any) -> Traffic:
    result = arguments.traffic(cluster, "training")
    assert result is not None
    return result


def allowed(**network_policy: Any) -> Traffic:
    return traffic(parsed(**network_policy))


def test_everything_is_denied_both_ways() -> None:
    assert policies(allowed())["railhead-default-deny"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }


def test_only_pods_of_jobs_reach_each_other_on_every_port() -> None:
    rule = policies(allowed())["railhead-jobs"]
    jobs = {"matchExpressions": [{"key": PODSET_LABEL, "operator": "Exists"}]}
    assert rule["podSelector"] == jobs
    # No ports named is every port; no namespace selector is this namespace alone.
    assert rule["ingress"] == [{"from": [{"podSelector": jobs}]}]
    assert rule["egress"] == [{"to": [{"podSelector": jobs}]}]


def test_names_are_looked_up_at_name_servers_only() -> None:
    (rule,) = policies(allowed(dns=["10.9.8.7/32"]))["railhead-names"]["egress"]
    assert {(p["protocol"], p["port"]) for p in rule["ports"]} == {("UDP", 53), ("TCP", 53)}
    pods, *blocks = rule["to"]
    assert pods["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "kube-system"
    }
    assert "podSelector" in pods, "a namespace selector alone is every pod of it"
    cidrs = {block["ipBlock"]["cidr"] for block in blocks}
    assert cidrs == {"169.254.20.10/32", "10.9.8.7/32"}
    assert all(cidr.endswith("/32") for cidr in cidrs)


def test_the_labs_stack_names_the_labs_name_server() -> None:
    lab = config.parse(lab_cluster(), where="test")
    assert f"{CONTROL_ADDRESS}/32" in dns_addresses(traffic(lab))


def test_name_servers_of_distributions_are_reached() -> None:
    """Kubespray's pods ask one address in the node's namespace, AKS' and GKE's others."""
    platform = {"kind": "existing", "kubeconfig": "/etc/kubeconfig"}
    existing = config.parse(
        lab_cluster() | {"platform": platform, "fabric": {"kind": "ethernet", "mode": "none"}},
        where="test",
    )
    theirs = {"169.254.10.11/32", "169.254.25.10/32", "169.254.169.254/32"}
    assert theirs <= set(dns_addresses(traffic(existing)))


def test_the_metadata_server_is_no_name_server_of_a_lab() -> None:
    assert "169.254.169.254/32" not in dns_addresses(allowed())


def test_what_the_site_adds() -> None:
    result = policies(
        allowed(
            egress=[
                {"cidr": "203.0.113.0/24", "ports": [443]},
                {"namespace": "tracking", "ports": [53], "protocol": "UDP"},
                {"cidr": "198.51.100.7/32"},
            ],
            ingress_namespaces=["monitoring"],
        )
    )
    assert result["railhead-egress"]["egress"] == [
        {
            "to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
            "ports": [{"protocol": "TCP", "port": 443}],
        },
        {
            "to": [
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tracking"}}}
            ],
            "ports": [{"protocol": "UDP", "port": 53}],
        },
        {"to": [{"ipBlock": {"cidr": "198.51.100.7/32"}}]},
    ]
    (source,) = result["railhead-ingress"]["ingress"][0]["from"]
    assert source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] == "monitoring"
    assert {"railhead-egress", "railhead-ingress"} & set(policies(allowed())) == set()


@pytest.mark.parametrize(
    ("destination", "words"),
    [
        ({}, "either cidr or namespace"),
        ({"cidr": "10.0.0.0/8", "namespace": "a"}, "either cidr or namespace"),
        ({"cidr": "10.0.0.1/8"}, "is not a network"),
        ({"cidr": "10.0.0.0/8", "ports": [0]}, "greater than or equal to 1"),
    ],
)
def test_mistakes_are_named(destination: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        parsed(egress=[destination])
    assert "network_policy.egress[0]" in str(refused.value)
    assert words in str(refused.value)
