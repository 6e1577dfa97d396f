"""The parts of docs/watching.md that are made of the rows: ``python -m railhead.watch.page``."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

from railhead.watch.alerts import ALERTS, Alert
from railhead.watch.metrics import METRICS, SOURCES

_TITLES = {
    "queue": "The queue",
    "gang": "Gangs",
    "checkpoints": "Checkpoints",
    "fabric": "The fabric",
    "gpu": "GPUs",
    "nodes": "Nodes",
    "keeping": "What keeps all of it",
    "watching": "What watches",
}


def alerts() -> str:
    """Return every alert, by group: when it fires, how bad it is, and what to do."""
    parts = []
    for group, rows in groupby(ALERTS, key=lambda alert: alert.group):
        parts.append(f"\n### {_TITLES[group]}\n")
        parts += [f"\n#### {row.name}\n\n{text_of(row)}" for row in rows]
    return "".join(parts) + "\n"


def text_of(alert: Alert) -> str:
    """Return what the documentation says of an alert, without its heading."""
    held = "at once" if alert.wait == "0s" else f"after {alert.wait}"
    texts = alert.annotations
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: m[1].upper(), texts.description)
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: m[1].upper(), texts.summary)
    summary = summary.replace("HOSTNAMEHOSTNAME", "HOSTNAME")
    summary = re.sub(r"\{\{ \$value[^}]*\}\}", "N", summary)
    return (
        f"{alert.labels.severity.capitalize()}, {held}: {summary}.\n\n"
        f"```promql\n{alert.expr}\n```\n\n{text}\n"
    )


def metrics() -> str:
    """Return every metric that a query names, by who gives it."""
    lines = ["\n| metric | labels | says |\n| --- | --- | --- |\n"]
    for key, source in SOURCES.items():
        lines.append(f"| **{source.title}** | | {source.read} |\n")
        lines += [
            f"| `{metric.name}` | {', '.join(metric.labels)} | {metric.says} |\n"
            for metric in METRICS.values()
            if metric.exporter == key
        ]
    return "".join(lines) + "\n"


def write(page: Path) -> None:
    """Rewrite both parts, between their marks."""
    text = page.read_text(encoding="utf-8")
    for name, made in (("alerts", alerts()), ("metrics", metrics())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + made + end + rest.split(end)[1]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/watching.md"))
