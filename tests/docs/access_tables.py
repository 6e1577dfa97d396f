"""The tables of docs/access.md, from the roles: ``python -m tests.docs.access_tables``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead import config
from railhead.resolve.access import cluster_rights, rights
from railhead.resolve.rights import PERSONAS, Right
from tests.components.recording import REPO, lab_cluster

PAGE = REPO / "docs" / "access.md"


def _table(listed: Sequence[Right]) -> str:
    lines = [
        "| resources | verbs | " + " | ".join(PERSONAS) + " | for |",
        "| --- | --- | " + " | ".join("---" for _ in PERSONAS) + " | --- |",
    ]
    for right in listed:
        names = f" ({', '.join(right.names)})" if right.names else ""
        resources = ", ".join(f"`{name}`" for name in right.resources) + names
        group = f" of `{right.group}`" if right.group else ""
        who = " | ".join("yes" if persona in right.personas else "" for persona in PERSONAS)
        lines.append(f"| {resources}{group} | {', '.join(right.verbs)} | {who} | {right.why} |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return the page with its tables regenerated."""
    cluster = config.parse(lab_cluster(), where="lab")
    made = {"namespace": rights(cluster, "training"), "cluster": cluster_rights(cluster)}
    for name, listed in made.items():
        page = re.sub(
            rf"(<!-- rights: {name} -->\n).*?(<!-- end -->)",
            lambda m, listed=listed: f"{m[1]}{_table(listed)}\n{m[2]}",  # type: ignore[misc]
            page,
            count=1,
            flags=re.DOTALL,
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
