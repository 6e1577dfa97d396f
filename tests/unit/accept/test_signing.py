"""Every change of a report is found."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from railhead.accept import document, signing
from railhead.accept.model import Report, Verdict
from railhead.accept.report import END, SEAL_BEGIN
from railhead.accept.signing import ChangedError, check, sealed, sealed_page
from railhead.base.errors import InputError, NotFoundError
from railhead.cli import run
from tests.unit.accept.reports import NAMES, any_report, report, result, waiver

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
FULL = report(
    result("rdma", Verdict.FAILED, waiver=waiver("rdma")), *(result(n) for n in NAMES[1:])
)


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("key", [None, KEY])
def test_unchanged_report_verifies(key: Ed25519PrivateKey | None) -> None:
    for raw in (sealed_page(FULL, key).encode(), written(sealed(FULL, key))):
        checked = check(raw, key=key.public_key() if key else None)
        assert checked.report == FULL
        assert checked.trusted is (key is not None)
    assert json.loads(written(sealed(FULL)))["accepted"] is True


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every leaf, and of every list and object."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from places(inner, (*path, n))


def other(value: Any) -> list[Any]:
    """Values near to one that are not it, some of which a lenient reader takes for it."""
    if isinstance(value, bool):
        return [not value, int(value), str(value).lower()]
    if isinstance(value, int | float):
        return [value + 1, -value or 0.5, str(value), int(value) if value % 1 == 0 else 0]
    if isinstance(value, str):
        return [value + " ", value[:-1] if value else "x", None]
    if isinstance(value, list):
        return [value[:-1] if value else [0], [*value, *value[:1]] if value else None, {}]
    if isinstance(value, dict):
        return [{}, {**value, "more": 1}, None]
    return ["", 0]


def test_every_changed_field_is_reported() -> None:
    small = report(result("rdma", Verdict.NOT_PROVEN, waiver=waiver("rdma")), asked=("rdma",))
    original = sealed(small)
    tried = 0
    for path in list(places({k: v for k, v in original.items() if k != "seal"})):
        inner: Any = original
        for step in path[:-1]:
            inner = inner[step]
        kept = inner[path[-1]]
        for changed in other(kept):
            if written(changed) == written(kept):
                continue
            inner[path[-1]] = changed
            with pytest.raises(ChangedError):
                check(written(original))
            tried += 1
        del inner[path[-1]]
        with pytest.raises(ChangedError):
            check(written(original))
        if isinstance(inner, list):
            inner.insert(path[-1], kept)
        else:
            inner[path[-1]] = kept
    assert tried > 200
    assert check(written(original)).report == small


def test_an_edit_with_a_new_digest_must_still_agree_with_itself() -> None:
    """`accepted` is what the checks say, and what lenient readers would take is not taken."""
    for edit in (
        lambda held: held.update(accepted=True),
        lambda held: held["checks"][0]["measured"][0].update(value="355.5"),
        lambda held: held.update(begun=held["begun"].replace("Z", "+00:00")),
    ):
        held = document.body(report(result("rdma")))
        assert held["accepted"] is False
        edit(held)
        seal = {"report": document.sha256(held), "page": "", "signer": "", "signature": ""}
        with pytest.raises(ChangedError):
            check(written({**held, "seal": seal}))


def test_duplicate_key_is_reported() -> None:
    raw = written(sealed(report(result("rdma", Verdict.FAILED), asked=("rdma",))))
    twice = raw.replace(b'"verdict": "failed"', b'"verdict": "passed", "verdict": "failed"')
    assert twice != raw
    with pytest.raises(ChangedError, match="twice"):
        check(twice)


def test_any_changed_byte_of_a_page_is_reported() -> None:
    small = report(result("rdma", plots=()), asked=("rdma",))
    for key in (None, KEY):
        page = sealed_page(small, key).encode()
        begin = page.index(SEAL_BEGIN.encode()) + len(SEAL_BEGIN)
        end = page.index(END.encode(), begin)
        chosen = random.Random(7).sample(range(len(page)), 250)
        for place in [*chosen, *range(begin, end, 5)]:
            changed = bytearray(page)
            changed[place] ^= 1
            with pytest.raises(ChangedError):
                check(bytes(changed), key=key.public_key() if key else None)


def test_page_shows_what_its_data_says() -> None:
    """The digest was recomputed after an edit of the words; the data was left alone."""
    failed = report(result("rdma", Verdict.FAILED), asked=("rdma",))
    page = sealed_page(failed).replace("Not accepted", "Accepted")
    seal = signing.Seal(report=document.digest(failed), page=signing._page_digest(page))
    head, _, tail = page.partition(SEAL_BEGIN)
    _, _, tail = tail.partition(END)
    forged = head + SEAL_BEGIN + seal.model_dump_json() + END + tail
    with pytest.raises(ChangedError, match="shows"):
        check(forged.encode())


def test_added_bytes_and_cuts_are_reported() -> None:
    page, plain = sealed_page(FULL).encode(), written(sealed(FULL))
    for raw in (page + b" ", b" " + page, page[:-1], page[: len(page) // 2], b"", b"\xff" + page):
        with pytest.raises(ChangedError):
            check(raw)
    for raw in (plain[:-1], plain + b"{}", b"[]", b"null", b"1", b"[" * 100_000):
        with pytest.raises(ChangedError):
            check(raw)


def test_signer_is_named() -> None:
    for raw in (sealed_page(FULL, OTHER).encode(), written(sealed(FULL, OTHER))):
        check(raw)
        with pytest.raises(ChangedError, match="not by the key given"):
            check(raw, key=KEY.public_key())
    for raw in (sealed_page(FULL).encode(), written(sealed(FULL))):
        with pytest.raises(ChangedError, match="nobody signed"):
            check(raw, key=KEY.public_key())


def test_a_signature_is_good_for_its_own_report_and_signer_only() -> None:
    held = sealed(FULL, KEY)
    elsewhere = sealed(report(), KEY)
    for seal in (
        {**held["seal"], "signature": elsewhere["seal"]["signature"]},
        {**held["seal"], "signature": ""},
        {**held["seal"], "signer": ""},
        {**held["seal"], "signer": sealed(FULL, OTHER)["seal"]["signer"]},
        {**held["seal"], "signature": base64.b64encode(bytes(64)).decode()},
        {**held["seal"], "report": "0" * 64},
        {**held["seal"], "report": 0},
        {**held["seal"], "page": "0" * 64},
        {**held["seal"], "more": ""},
    ):
        with pytest.raises(ChangedError):
            check(written({**held, "seal": seal}))


def test_page_without_its_signature_is_reported() -> None:
    """The page says itself by whom it was signed."""
    page = sealed_page(FULL, KEY)
    head, _, tail = page.partition(SEAL_BEGIN)
    _, _, tail = tail.partition(END)
    bare = head + SEAL_BEGIN + END + tail
    seal = signing.Seal(report=document.digest(FULL), page=signing._page_digest(bare))
    with pytest.raises(ChangedError, match="shows"):
        check((head + SEAL_BEGIN + seal.model_dump_json() + END + tail).encode())


def test_noted_digest_exposes_a_regenerated_report() -> None:
    raw = written(sealed(FULL))
    noted = document.digest(FULL)
    assert check(raw, digest=f"sha256:{noted.upper()}").report == FULL
    with pytest.raises(ChangedError, match="another report"):
        check(written(sealed(report())), digest=noted)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(any_report, st.booleans())
def test_any_report_survives_its_seal(found: Report, signed: bool) -> None:
    key = KEY if signed else None
    for raw in (sealed_page(found, key).encode(), written(sealed(found, key))):
        assert check(raw).report == found


# -- keys, and the command ------------------------------------------------------------------------


def write_keys(folder: Path, key: Ed25519PrivateKey) -> tuple[Path, Path]:
    private, public = folder / "key", folder / "key.pub"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    public.write_text(signing.public_text(key.public_key()) + " me@desk\n")
    return private, public


def test_keys_are_read_as_openssh_and_openssl_write_them(tmp_path: Path) -> None:
    private, public = write_keys(tmp_path, KEY)
    assert signing.public_text(signing.private_key(private).public_key()) in public.read_text()
    for path in (private, public):
        assert (
            signing.public_key_file(path).public_bytes_raw() == KEY.public_key().public_bytes_raw()
        )
    pem = tmp_path / "pem"
    pem.touch(mode=0o600)
    pem.write_bytes(
        KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    assert signing.private_key(pem).private_bytes_raw() == KEY.private_bytes_raw()


def test_bad_keys_are_named_but_never_printed(tmp_path: Path) -> None:
    private, _ = write_keys(tmp_path, KEY)
    secret = private.read_text()
    private.chmod(0o640)
    with pytest.raises(InputError, match="others may read"):
        signing.private_key(private)
    private.chmod(0o600)
    curve = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    locked = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    for content in (b"", b"no key", curve, locked, secret[:200].encode(), b"\xff" * 40):
        private.write_bytes(content)
        with pytest.raises(InputError) as reported:
            signing.private_key(private)
        assert secret.splitlines()[1] not in str(reported.value)
    with pytest.raises(NotFoundError):
        signing.public_key_file(tmp_path / "none")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("railhead.accept.cli")
    _, public = write_keys(tmp_path, KEY)
    page = tmp_path / "report.html"
    page.write_text(sealed_page(FULL, KEY), encoding="utf-8")
    command = ["accept", "check-report", str(page)]
    assert run([*command, "--key", str(public)]) == 0
    assert "unchanged: cluster north of 2026-03-01 is accepted" in capsys.readouterr().out
    assert run([*command, "--json", "--digest", document.digest(FULL)]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["accepted"]
    assert not reported["trusted"]
    page.write_text(page.read_text().replace("355.5", "455.5"), encoding="utf-8")
    assert run(command) == 6
    assert "was changed" in capsys.readouterr().err
    assert run(["accept", "check-report", str(tmp_path / "none")]) == 5
