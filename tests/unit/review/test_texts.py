"""Secrets in the lines that a pull request adds."""

from __future__ import annotations

import pytest

from railhead.review.texts import _secret

FORM = "hf" + "_" + "a1" * 12


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (f"value = {FORM!r}", True),
        ("key: AKIA" + "ABCDEFGHIJKLMNOP", True),
        ("-----BEGIN RSA PRIVATE " + "KEY-----", True),
        ('"WANDB_API_KEY": "0123abcd4567",', True),
        ("password = 'hunter22'", True),
        ("secretName: 'registry-pull1'", False),
        ("token_file = '/run/token1'", False),
        ("password = config.require_secret('password1')", False),
        ('"HF_TOKEN": "${HF_TOKEN}"', False),
        ("number of tokens: '4096'", False),
        ("api_version='v1beta1'", False),
    ],
)
def test_secrets_are_told_from_names(text: str, is_one: bool) -> None:
    assert bool(_secret(text, strict=False)) is is_one


def test_examples_and_tests_may_have_passwords_but_no_keys() -> None:
    assert not _secret("password = 'hunter22'", strict=True)
    assert _secret(FORM, strict=True)
