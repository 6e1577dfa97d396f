"""The site's pages that are made of data: a page for each rule, alert, cause and machine.

They are written at each build and never kept, so they cannot be out of date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pulumi_policy import Policy

from railhead.cli.catalog import plain
from railhead.diagnose.knowledge import CAUSES, CLUES
from railhead.diagnose.model import Cause
from railhead.diagnose.report import sureness
from railhead.machines import MACHINES
from railhead.policies import RULES
from railhead.watch import page as watch_page
from railhead.watch.alerts import ALERTS

REPO = Path(__file__).resolve().parents[1]


def pages() -> dict[str, str]:
    """Return the path below the site's root and the text of every page."""
    rows = _rules_table()
    return {
        **_folder("rules", "Rules", {str(rule.name): _rule(rule, rows) for rule in RULES}),
        **_folder("alerts", "Alerts", {alert.name: watch_page.text_of(alert) for alert in ALERTS}),
        **_folder("causes", "Causes", {cause.id: _cause(cause) for cause in CAUSES.values()}),
        **_folder("machines", "Machines", {name: _machine(name) for name in MACHINES}),
    }


def _folder(folder: str, title: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return a folder's pages and the one that lists them, each with its first sentence."""
    lines = [f"# {title}", "", "| | |", "| --- | --- |"]
    made = {}
    for name, text in texts.items():
        made[f"{folder}/{name}.md"] = f"# {name}\n\n{text.strip()}\n"
        first = text.strip().split("\n", 1)[0]
        lines.append(f"| [{name}]({name}.md) | {_cell(first)} |")
    return {f"{folder}/index.md": "\n".join([*lines, ""]), **made}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(rows: Iterable[tuple[str, ...]], *head: str) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def _rules_table() -> dict[str, list[str]]:
    """Return what docs/reviewing.md says of each rule: what it refuses, why, and its guards."""
    page = (REPO / "docs" / "reviewing.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in cells}


def _rule(rule: Policy, rows: Mapping[str, list[str]]) -> str:
    refuses, reason, guards = rows[str(rule.name)]
    level = rule.enforcement_level
    return (
        f"{rule.description}\n\n"
        f"- **Refuses**: {_linked(refuses)}\n"
        f"- **Because**: {_linked(reason)}\n"
        f"- **At admission**: {'not checked' if guards == '-' else guards}\n"
        f"- **Level**: {level.value if level else 'mandatory'}; `policies.yaml` may set another\n\n"
        "[All rules, and how to read what they print](../reviewing.md#the-rules)\n"
    )


def _linked(text: str) -> str:
    """Return a text of a page of docs/ with its links as from a folder of it."""
    return text.replace("](", "](../")


def _cause(cause: Cause) -> str:
    best = max(rule.confidence for rule in cause.rules)
    signs = sorted({sign for rule in cause.rules for sign in (*rule.needs, *rule.any_of)})
    examples = [CLUES[sign].example for sign in signs if sign in CLUES]
    setting = f"`{cause.fix.path}` of the {cause.fix.where}'s file: " if cause.fix.path else ""
    parts = [
        f"{cause.title}.",
        f"At best {sureness(best)}. Verdict of the run: {cause.verdict or 'several are possible'}.",
        f"## Fix\n\n{setting}{cause.fix.text}",
        f"Without Railhead: {cause.by_hand}",
        f"## Confirm\n\n{cause.confirm}",
    ]
    if examples:
        lines = "\n".join(examples)
        parts.append(f"## Signs in a log\n\n```text\n{lines}\n```")
    if cause.apart:
        rows = [(f"[{other}]({other}.md)", text) for other, text in cause.apart.items()]
        parts.append(f"## Told apart from\n\n{_table(rows, 'cause', 'by')}")
    parts.append(f"Source: {cause.source}")
    return "\n\n".join(parts)


def _machine(name: str) -> str:
    row = plain(MACHINES[name])
    sources: Mapping[str, str] = row.pop("sources")
    gpus = f"{row['gpus']} x {row['accelerator'] or 'a stand-in'}"
    rows = [
        (f"`{key}`", _value(value), sources.get(key) or sources.get(key.partition("_")[0], ""))
        for key, value in row.items()
        if key != "name" and value not in (None, [], {})
    ]
    return (
        f"{gpus}, on {', '.join(row['platforms'])}.\n\n{_table(rows, 'field', 'value', 'source')}"
    )


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "<br>".join(f"`{json.dumps(item)}`" for item in value)
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return f"`{json.dumps(value)}`" if isinstance(value, dict) else str(value)
