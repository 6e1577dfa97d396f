"""Outputs of a stack: what is gone, and what is plain text now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.rpc import UNKNOWN

from railhead.lab.planning import Plan
from railhead.review.jobs import unsecrets
from railhead.review.outputs import outputs
from railhead.review.place import Guess, of_output
from tests.unit.review.pulled import laid, write

SECRET = "[secret]"
HUB = {"hub": {"url": "https://hub.example.com", "token": SECRET}}


def _plan(of: dict[str, Any] | None) -> Plan:
    stack: dict[str, Any] = {"type": "pulumi:pulumi:Stack"} | (
        {} if of is None else {"outputs": of}
    )
    component = {"type": "acme:index:Hub", "outputs": {"token": SECRET}}
    states = {"stack": stack, "hub": component}
    return Plan(stack="a", resources=(), violations=(), judged=False, seconds=1.0, states=states)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (HUB, HUB, []),
        (HUB, {"hub": SECRET}, []),
        (HUB, {"hub": {"url": "https://new.example.com", "token": SECRET}}, []),
        (HUB, {"hub": {"url": "https://hub.example.com", "token": "abc"}}, [("hub", "refuse")]),
        ({"hub": SECRET}, {"hub": {"token": "abc"}}, [("hub", "refuse")]),
        ({"hub": SECRET}, {"hub": {"url": "a", "token": SECRET}}, []),
        ({"hubs": [SECRET, "a"]}, {"hubs": ["abc", "a"]}, [("hubs", "refuse")]),
        (HUB | {"zone": "a"}, HUB | {"zone": "b", "more": "c"}, []),
        (HUB | {"zone": "a"}, HUB, [("zone", "ask")]),
        # The engine's own plan has none.
        (HUB, None, []),
        (None, HUB, []),
    ],
)
def test_outputs_that_go_or_open(was: Any, now: Any, told: list[tuple[str, str]]) -> None:
    rows = outputs(_plan(was), _plan(now))
    assert [(name, judged.level) for name, judged in rows] == told


def test_output_is_placed_at_the_change_that_names_it(repository: Path) -> None:
    source = write(laid(repository), "__main__.py", "", 'a = 1\nexport("ml-hub", a)\n')
    place = of_output(source, "ml-hub")
    assert place is not None
    assert not isinstance(place, Guess)
    assert isinstance(of_output(source, "zone"), Guess)


def test_mark_taken_off_a_secret_is_asked_about(repository: Path) -> None:
    (repository / "__main__.py").write_text("export(a)\n")
    source = laid(repository)
    for before, after, asked in (
        ("export(a)\n", "export(Output.unsecret(a))\n", True),
        ("export(Output.unsecret(a))\n", "export(b=Output.unsecret(a))\n", False),
        ("export(Output.unsecret(a))\n", "export(a)\n", False),
        ("export(config.get_secret(a))\n", "export(config.get(a))\n", True),
        ("export(Output.secret(a))\n", "export(b=Output.secret(a))\n", False),
        ("export(config.get_secret(a))\n", "", False),
    ):
        changed = write(source, "__main__.py", before, after)
        assert bool(list(unsecrets(changed))) is asked, after


PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nabc"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"registry": {"user": "robot", "password": "not-a-real-one"}}, "ask registry.password"),
        ({"hubToken": "abc-def"}, "ask hubToken"),
        ({"robots": [{"api_key": "abc"}]}, "ask robots.api_key"),
        ({"kubeconfig": "users:\n- user: {token: abc}\n"}, "ask kubeconfig"),
        ({"login": PEM}, "refuse login"),
        ({"registry": {"user": "robot", "password": SECRET}}, ""),
        # Each says where it is, and what it is not.
        ({"token": "arn:aws:secretsmanager:us-east-2:1:secret:hub"}, ""),
        ({"registry": {"token": "registry-token", "passwordFile": "/run/password"}}, ""),
        ({"tokenizer": "llama", "max_tokens": "4096", "public_key": "ssh-ed25519 abc"}, ""),
        ({"kubeconfig": "users:\n- user: {exec: {command: aws}}\n"}, ""),
        # Which a plan does not know yet, and so not whether it is a secret.
        ({"password": UNKNOWN}, ""),
    ],
)
def test_new_output_that_lets_in_is_told(more: dict[str, Any], told: str) -> None:
    rows = list(outputs(_plan(HUB), _plan(HUB | more)))
    texts = [f"{row.level} {row.what.partition(' in ')[2].partition(':')[0]}" for _, row in rows]
    assert texts == [told] * bool(told)
    # What stands is not told again.
    assert not list(outputs(_plan(HUB | more), _plan(HUB | more)))
