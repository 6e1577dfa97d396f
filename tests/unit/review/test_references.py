"""Stacks, clusters and accounts that a program takes where nobody says one."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.review.references import references
from tests.unit.review.pulled import laid, write

READS = """import pulumi

config = pulumi.Config()
net = pulumi.StackReference(f"acme/net/{pulumi.get_stack()}")
contract = ClusterContract.from_stack(config.require("stack"))
kubeconfig = config.require("kubeconfig")
replicas = config.require("replicas")
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            'config.require("stack")',
            'config.get("stack") or "acme/gpu/prod"',
            "takes acme/gpu/prod",
        ),
        ('config.require("stack")', 'config.get("stack", "acme/gpu/prod")', "takes acme/gpu/prod"),
        ('config.require("kubeconfig")', 'config.get("kubeconfig") or "~/.kube/prod"', "~/.kube/"),
        ('config.require("replicas")', 'config.get("replicas") or "2"', ""),
        ('config.require("stack")', 'config.require("cluster")', ""),
        ('config.require("stack")', '"acme/gpu/prod"', "reads the stack acme/gpu/prod, whichever"),
        ('f"acme/net/{pulumi.get_stack()}"', '"acme/net/prod"', "reads the stack acme/net/prod"),
        ("net =", "network =", ""),
        (
            'config.require("stack")',
            'config.get("stack") if config.get("stack") else "acme/gpu/prod"',
            "takes acme/gpu/prod",
        ),
    ],
)
def test_place_that_nobody_has_to_say_is_told(
    repository: Path, old: str, new: str, told: str
) -> None:
    source = write(laid(repository), "clusters/__main__.py", READS, READS.replace(old, new))
    rows = [row.what for row in references(source)]
    assert [told in row for row in rows] == [True] * bool(told), rows


def test_other_stack_is_told(repository: Path) -> None:
    was = 'import pulumi\n\nNET = "acme/net/dev"\nnet = pulumi.StackReference(NET)\n'
    source = write(laid(repository), "__main__.py", was, was.replace("dev", "prod"))
    (row,) = references(source)
    assert row.what.startswith("reads the stack acme/net/prod, not acme/net/dev")


_PROD = '"acme/gpu/prod"'


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (f'stack = config.get("stack")\nif not stack:\n    stack = {_PROD}\n', True),
        (f'PROD = {_PROD}\nstack = config.get("stack") or PROD\n', True),
        (f'PROD = {_PROD}\nstack = config.get("stack", PROD)\n', True),
        ('stack = config.get("stack") or pulumi.get_stack()\n', False),
        ('ORG = "acme"\nstack = config.get("stack") or f"{ORG}/gpu/prod"\n', True),
        ('stack = config.get("stack") or f"{org}/gpu"\n', False),
        (f'try:\n    stack = config.require("stack")\nexcept E:\n    stack = {_PROD}\n', True),
        ('try:\n    stack = config.require("stack")\nfinally:\n    stack = None\n', False),
        ('stack = config.get("stack")\nif not stack:\n    raise ValueError\n', False),
    ],
)
def test_place_that_is_chosen_elsewhere_is_reported(repository: Path, now: str, told: bool) -> None:
    top = "from pulumi import Config\n\nconfig = Config()\n"
    was = f'{top}stack = config.require("stack")\n'
    rows = list(references(write(laid(repository), "__main__.py", was, f"{top}{now}")))
    assert bool(rows) == told


def test_references_in_another_order_are_the_same(repository: Path) -> None:
    rows = [f'{n} = pulumi.StackReference("acme/net/{n}")\n' for n in ("a", "b")]
    was, now = ("".join(["import pulumi\n", *of]) for of in (rows, rows[::-1]))
    assert list(references(write(laid(repository), "__main__.py", was, now))) == []


def test_required_variable_that_gets_a_default_is_told(repository: Path) -> None:
    was = 'import os\nimport pulumi\n\naccount = os.environ["AWS_ACCOUNT"]\n'
    source = laid(repository)
    for way in ("get", "setdefault"):
        now = was.replace('["AWS_ACCOUNT"]', f'.{way}("AWS_ACCOUNT", "123456789012")')
        (row,) = references(write(source, "__main__.py", was, now))
        assert row.what.startswith("takes 123456789012 where nothing says another")
