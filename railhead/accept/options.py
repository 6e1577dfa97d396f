"""Options of `railhead accept`, by their names on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# -- what runs ------------------------------------------------------------------------------------

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CHECK", help="Run this check alone. Repeatable."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Smaller sizes and fewer repeats; the report says so.")
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="Exit by the checks of --only; the others stay unproven."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Reuse the evidence of checks that have finished.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before using busy nodes.")]
Plan = Annotated[
    bool, typer.Option("--plan", "--dry-run", help="Print what would run; run nothing.")
]

# -- where it runs --------------------------------------------------------------------------------

Nodes = Annotated[
    str | None,
    typer.Option(
        "--nodes", metavar="N|NAMES", help="A number of nodes, or names a,b,c. Default: all."
    ),
]
Runtime = Annotated[
    str | None,
    typer.Option(
        "--runtime", metavar="NAME", help="The runtime to test with. Default: the first for torch."
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        "--queue", metavar="NAME", help="The queue of the jobs. Default: the first of the pool."
    ),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The queue's namespace.")
]
MayLose = Annotated[
    list[str] | None,
    typer.Option(
        "--may-lose", metavar="NODE", help="A node that the restart check may remove. Repeatable."
    ),
]
LoseWith = Annotated[
    str | None,
    typer.Option(
        "--lose-with",
        metavar="COMMAND",
        help="The command that removes a node; its name is appended.",
    ),
]

# -- the report -----------------------------------------------------------------------------------

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
]
HtmlFile = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Write it as one page that needs no network."),
]
JunitFile = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")
]
MarkdownFile = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown.")
]
Sign = Annotated[
    Path | None,
    typer.Option(
        "--sign", metavar="KEY", help="Sign page and JSON with this Ed25519 key (mode 0600)."
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="Keep the report there by cluster, hardware and version, for `accept compare`.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FOLDER", help="Keep evidence here. Default: railhead-accept/CLUSTER."
    ),
]

# -- waivers --------------------------------------------------------------------------------------

Waive = Annotated[
    list[str] | None,
    typer.Option("--waive", metavar="CHECK", help="Accept it unproven. Repeatable."),
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="The person who waives it.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason of the waiver.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="The last day of the waiver.")
]
Waivers = Annotated[
    Path | None, typer.Option("--waivers", metavar="FILE", help="A YAML list of waivers.")
]
