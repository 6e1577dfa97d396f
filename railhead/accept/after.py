"""`railhead accept check-report` and `compare`: what is done with reports. Imports are lazy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.accept.baselines import Row
    from railhead.accept.signing import Checked


def register(app: typer.Typer) -> None:
    """Add the commands to `railhead accept`."""
    app.command("check-report")(check_report)
    app.command("compare")(compare)


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="A report, or a folder of kept ones: before.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="B", help="A report, or a folder of kept ones: after.")
    ],
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="SHARE",
            min=0,
            max=1,
            help="What is taken for noise where neither repeats nor an interval tell it.",
        ),
    ] = 0.1,
    unlike: Annotated[
        bool,
        typer.Option("--unlike", help="Compare even if hardware, size or nodes are not the same."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell what became worse from A to B, beyond the noise of the figures.

    `railhead accept --keep FOLDER` keeps reports by cluster, hardware and version; a folder with
    several runs tells the noise best. Every report's seal is checked. Exits 0 when nothing became
    worse, 6 when something did, 3 when the two cannot be compared.

    Example: [bold]railhead accept compare before.json after.json[/bold]
    """
    from dataclasses import asdict

    from railhead.accept import baselines
    from railhead.base.errors import ExitCode, InputError

    old, new = baselines.read(before), baselines.read(after)
    differ = baselines.unlike([*old, *new])
    if differ and not unlike:
        raise InputError(
            f"{before} and {after} are not of the same {', nor of the same '.join(differ)}",
            remedy="compare reports of like runs, or take the difference as it is with --unlike",
        )
    rows = baselines.compare(old, new, tolerance=tolerance)
    worse = baselines.regressions(rows)
    if as_json:
        shown = {"worse": len(worse), "unlike": differ, "rows": [asdict(row) for row in rows]}
        typer.echo(json.dumps(shown))
    else:
        _show_rows(rows, len(old), len(new))
    raise typer.Exit(ExitCode.REFUSED if worse else ExitCode.OK)


def _show_rows(rows: Sequence[Row], before: int, after: int) -> None:
    """Return what differs between two reports, and how much is the same."""
    from railhead.accept.baselines import Change, regressions
    from railhead.launch.console import out, table

    shown = [row for row in rows if row.change is not Change.SAME]
    if shown:
        shares = ["" if row.share is None else f"{row.share:+.1%}" for row in shown]
        table(
            ("check", "what", "before", "after", "change", "", "noise from"),
            [
                (row.check, row.what, row.before, row.after, share, row.change, row.noise)
                for row, share in zip(shown, shares, strict=True)
            ],
            folded=("what", "before", "after", "noise from"),
            styles=["bold red" if row.change is Change.WORSE else None for row in shown],
        )
    count = len(regressions(rows))
    text = f"{count} became worse" if count else "nothing became worse"
    out(
        f"{text}; {len(rows) - len(shown)} of {len(rows)} verdicts and figures are the same "
        f"(reports: {before} before, {after} after)"
    )


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

    A digest shows an edit; only a signature shows who made it, and only with --key. Exits 0
    when nothing was changed, whatever its verdict is, and 6 when something was, when the key is
    another or when nobody signed it.

    Example: [bold]railhead accept check-report report.html --key accept-key.pub[/bold]
    """
    from railhead.accept import signing
    from railhead.base.errors import NotFoundError
    from railhead.base.reading import read_bytes

    try:
        raw = read_bytes(file)
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
        by = "nobody signed it, so this tells an edit, not a report that was written again"
    elif checked.trusted:
        by = f"signed by the key given, {signing.fingerprint(seal.signer)}"
    else:
        by = (
            f"signed by {signing.fingerprint(seal.signer)}, which was compared with no key: "
            "--key names the one you know"
        )
    text = "accepted" if report.accepted else "not accepted"
    return "\n".join(
        [
            f"{file}: unchanged: cluster {report.cluster} of {report.begun:%Y-%m-%d} is {text}",
            f"digest {seal.report}",
            by,
        ]
    )
