"""Options of `railhead accept`, in the groups that its parts read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks that run, and how."""

    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Run this check alone. Repeatable."),
    ] = None
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes and fewer repeats; the report says so.")
    ] = False
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Exit by the checks of --only; the others stay unproven."),
    ] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse the evidence of checks that have finished.")
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before using busy nodes.")
    ] = False
    plan: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Print what would run; run nothing.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Place:
    """The nodes, the runtime and the queue of the checks' jobs."""

    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes", metavar="N|NAMES", help="A number of nodes, or names a,b,c. Default: all."
        ),
    ] = None
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime",
            metavar="NAME",
            help="The runtime to test with. Default: the first for torch.",
        ),
    ] = None
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="NAME", help="The queue of the jobs. Default: the first of the pool."
        ),
    ] = None
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The queue's namespace.")
    ] = None
    may_lose: Annotated[
        list[str] | None,
        typer.Option(
            "--may-lose",
            metavar="NODE",
            help="A node that the restart check may remove. Repeatable.",
        ),
    ] = None
    lose_with: Annotated[
        str | None,
        typer.Option(
            "--lose-with",
            metavar="COMMAND",
            help="The command that removes a node; its name is appended.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """The files of the report, its signature, and the folders that are kept."""

    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write it as one page that needs no network."),
    ] = None
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")
    ] = None
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown.")
    ] = None
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign page and JSON with this Ed25519 key (mode 0600)."
        ),
    ] = None
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep the report there by cluster, hardware and version, for `accept compare`.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Keep evidence here. Default: railhead-accept/CLUSTER.",
        ),
    ] = None

    @property
    def files(self) -> dict[str, str | None]:
        """Format -> file of the report; ``-`` is standard output, None writes nothing."""
        return {
            "json": self.json,
            "html": self.html,
            "junit": self.junit,
            "markdown": self.markdown,
        }


@dataclass(frozen=True, kw_only=True)
class Waiving:
    """The checks that a person accepts unproven."""

    waive: Annotated[
        list[str] | None,
        typer.Option("--waive", metavar="CHECK", help="Accept it unproven. Repeatable."),
    ] = None
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="The person who waives it.")
    ] = None
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason of the waiver.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="The last day of the waiver.")
    ] = None
    waivers: Annotated[
        Path | None, typer.Option("--waivers", metavar="FILE", help="A YAML list of waivers.")
    ] = None
