"""The tables of docs/access.md, from the roles, and docs/forbidden-acts.md, from the acts.

``python -m tests.docs.access_tables`` writes both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from railhead import config
from railhead.resolve.access import cluster_rights, rights
from railhead.resolve.rights import PERSONAS, Right
from tests.components.acts import PEOPLE, Act, acts, decided
from tests.components.recording import REPO, lab_cluster

PAGE = REPO / "docs" / "access.md"
ACTS = REPO / "docs" / "forbidden-acts.md"
_HEAD = """# Forbidden acts

Acts that the stack refuses, and by what: a guard (`railhead-NAME`), the roles (RBAC), or the API
server itself. They were written from the Kubernetes API downwards, before the guards were read.
`tests/components/test_access.py` tries each as everyone named, on an API server with the lab's
guards and roles. The list is `tests/data/forbidden_acts.yaml`; `python -m tests.docs.access_tables`
writes this page.
"""


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


def _refused(act: Act) -> str:
    """Return in words what refuses an act: its object, or else the pod that it would make."""
    (first, *_) = [by for by in act.by if by != "-"]
    return first if first in ("RBAC", "API server") else f"`railhead-{first}`"


def _counts() -> str:
    """Return how many acts of each person are refused, by what."""
    kinds = {"RBAC": "by RBAC", "API server": "by the API server"}
    counts = Counter((who, kinds.get(a.by[0], "by a guard")) for a in acts() for who in a.who)
    lines = ["| who | refused by RBAC | by a guard |", "| --- | --- | --- |"]
    for who in dict.fromkeys(who for who, _ in counts):
        guards = sum(n for (w, by), n in counts.items() if w == who and by != "by RBAC")
        lines.append(f"| {PEOPLE[who]} | {counts[who, 'by RBAC']} | {guards} |")
    return "\n".join(lines)


def _decided() -> str:
    lines = ["| let through | why |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {act.name} | {act.row['why']} |" for act in decided())])


def acts_page() -> str:
    """Return docs/forbidden-acts.md: who tries what, and what refuses it."""
    parts: dict[str, list[Act]] = {}
    for act in acts():
        parts.setdefault(", ".join(PEOPLE[who] for who in act.who), []).append(act)
    lines = [_HEAD]
    for who, listed in parts.items():
        lines += [f"## Tried as: {who}", "", "| act | refused by | why |", "| --- | --- | --- |"]
        lines += [f"| {a.name} | {_refused(a)} | {a.row.get('why', '')} |" for a in listed]
        lines.append("")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return docs/access.md with its tables regenerated."""
    cluster = config.parse(lab_cluster(), where="lab")
    made = {
        "rights: namespace": _table(rights(cluster, "training")),
        "rights: cluster": _table(cluster_rights(cluster)),
        "acts: counts": _counts(),
        "acts: decided": _decided(),
    }
    for name, table in made.items():
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda m, table=table: f"{m[1]}{table}\n{m[2]}",  # type: ignore[misc]
            page,
            count=1,
            flags=re.DOTALL,
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
    ACTS.write_text(acts_page())
