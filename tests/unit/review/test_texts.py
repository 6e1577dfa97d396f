"""Secrets in the lines that a pull request adds."""

from __future__ import annotations

import pytest

from railhead.review.texts import _loose, _secret

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
        ("wandbKey: " + "5f0c1d7be94a4f0e8c2b", False),
        ("wandb_api_key: " + "5f0c1d7be94a4f0e8c2b", True),
        ("secret_arn: arn:aws:secretsmanager:eu-west-1:123456789012:secret:a1", False),
        ('os.environ["HF_TOKEN"] = "' + "a1b2c3d4" + '"', True),
        ('{"name": "WANDB_API_KEY", "value": "' + "a1b2c3d4" + '"}', True),
        ("uri: postgresql://mlflow:" + "hunter22@db.example.com/mlflow", True),
        ("uri: postgresql://mlflow:${PASSWORD}@db.example.com/mlflow", False),
        ("url: https://hooks.slack.com/services/" + "T0/B0/a1b2c3d4e5f6a7b8", True),
        ("    client-key-data: LS0" + "tLS1CRUdJTg==", True),
        ("api-key: '" + "a1b2c3d4'", True),
        ("export DB_PASSWORD=" + "hunter22aa", True),
        ("export DB_PASSWORD=$DB_PASSWORD", False),
        ("max_tokens: '4096abc'", False),
        ("pad_token = '[PAD1]x'", False),
        ("secret: 'projects/1/secrets/a2'", False),
        ("credential: 'arn:aws:iam::1:role/a1'", False),
        ("secret: './secrets/a2.enc'", False),
        ("secret: '" + "/a1b2c3d4e5f6'", True),
        ('{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "token1"}}}', False),
    ],
)
def test_secrets_are_told_from_names(text: str, is_one: bool) -> None:
    assert bool(_secret(text, strict=False)) is is_one


def test_requirement_without_a_version_is_loose() -> None:
    for text, expected in (
        ("railhead[aws]==0.1.0", ""),
        ("railhead[aws]>=0.1", "has no exact version"),
        ("boto3  # newest", "has no exact version"),
        ("-r base.txt", ""),
        ("./wheels/railhead-0.1.0-py3-none-any.whl", ""),
        ("# boto3", ""),
        ("--extra-index-url https://packages.example.com/simple", "from another place"),
        ("-f https://packages.example.com/", "from another place"),
        ("--find-links .", ""),
        ("-r https://example.com/base.txt", "from another place"),
        ("-c https://example.com/pins.txt", "from another place"),
        ("-e .", "and no version"),
        ("boto3==1.43.18 \\", ""),
        ("boto3==1.*", "has no exact version"),
        ("boto3; python_version == '3.11'", "has no exact version"),
        ("boto3==1.43.18; python_version < '4'", ""),
        ("boto3 @ git+https://example.com/boto3@v==1", "has no exact version"),
        ("git+https://example.com/boto3", "has no exact version"),
        ("https://example.com/a-1-py3-none-any.whl", "whatever its address has"),
        ("a @ https://example.com/a-1-py3-none-any.whl", "whatever its address has"),
        (f"https://example.com/a-1-py3-none-any.whl#sha256={'0a' * 32}", ""),
        (f"a @ https://example.com/a.whl --hash=sha256:{'0a' * 32}", ""),
        ("https://example.com/a-1-py3-none-any.whl#egg=a", "whatever its address has"),
    ):
        assert expected in _loose(text), text
        assert bool(_loose(text)) is bool(expected), text


def test_examples_and_tests_may_have_passwords_but_no_keys() -> None:
    assert not _secret("password = 'hunter22'", strict=True)
    assert _secret(FORM, strict=True)
