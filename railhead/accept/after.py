"""`railhead accept check-report` and `compare`: what is done with reports. Imports are lazy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Json

if TYPE_CHECKING:
    from railhead.accept.signing import Checked


def register(app: typer.Typer) -> None:
    """Add the commands to `railhead accept`."""
    app.command("check-report")(check_report)


def check_report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A page, or the JSON that `--json` wrote.")
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="The public key (Ed25519) that must have signed it."
        ),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="SHA256", help="As it was noted when it was made."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell whether a report is as it was made: every verdict, figure and line of evidence.

    A digest tells an edit; who made it is told by a signature alone, and only with --key. Exits 0
    when nothing was changed, whatever its verdict is, and 6 when something was, when the key is
    another or when nobody signed it.

    Example: [bold]railhead accept check-report report.html --key accept-key.pub[/bold]
    """
    from railhead.accept import signing
    from railhead.base.errors import NotFoundError

    try:
        raw = file.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"the report {file} cannot be read: {error.strerror}",
            remedy="name a file that `railhead accept` wrote",
        ) from error
    wanted = signing.public_key_file(key) if key else None
    checked = signing.check(raw, key=wanted, digest=digest)
    typer.echo(json.dumps(_fields(checked)) if as_json else _told(checked, file))


def _fields(checked: Checked) -> dict[str, object]:
    from railhead.accept import signing

    report, seal = checked.report, checked.seal
    return {
        "unchanged": True,
        "cluster": report.cluster,
        "accepted": report.accepted,
        "digest": seal.report,
        "signer": signing.fingerprint(seal.signer) if seal.signer else None,
        "trusted": checked.trusted,
    }


def _told(checked: Checked, file: Path) -> str:
    from railhead.accept import signing

    report, seal = checked.report, checked.seal
    if not seal.signer:
        by = "nobody signed it, so this tells an edit, not a report that was made anew"
    elif checked.trusted:
        by = f"signed by the key given, {signing.fingerprint(seal.signer)}"
    else:
        by = (
            f"signed by {signing.fingerprint(seal.signer)}, which was held against no key: "
            "--key names the one you know"
        )
    said = "accepted" if report.accepted else "not accepted"
    return "\n".join(
        [
            f"{file}: unchanged: cluster {report.cluster} of {report.begun:%Y-%m-%d} is {said}",
            f"digest {seal.report}",
            by,
        ]
    )
