"""The tables of docs/fabric.md, from the catalogue: ``python -m tests.docs.fabric_tables``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.platform.registry import platforms_of
from tests.components.fabrics import Case, cases

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "fabric.md"
EVIDENCE = REPO / "docs" / "fabric-evidence.yaml"


def evidence() -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(EVIDENCE.read_text())
    return result


def table_row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table_head(*cells: str) -> Iterator[str]:
    yield table_row(*cells)
    yield table_row(*("---" for _ in cells))


def _ran(case: Case, seen: dict[str, Any]) -> str:
    results = [
        row
        for row in seen["ran"]
        if (row["mode"], row["fabric"], row["platform"]) == (case.mode, case.fabric, case.platform)
    ]
    return "; ".join(row["what"] for row in results) or "no"


def _only(fabrics: frozenset[str]) -> str:
    return f" on {', '.join(sorted(fabrics))}" if fabrics else ""


def proof() -> str:
    """Mode x platform: what was applied, what ran, what needs hardware."""
    seen = evidence()
    applied = f"yes, {seen['applied']['kubernetes']}"
    lines = list(
        table_head(
            "mode", "fabric", "platform", "applied to a real API server", "ran in the lab", "needs"
        )
    )
    for case in cases():
        needs = "nothing" if case.mode == "none" else seen["hardware"][case.mode]
        lines.append(
            table_row(
                f"`{case.mode}`", case.fabric, case.platform, applied, _ran(case, seen), needs
            )
        )
    return "\n".join(lines)


def modes() -> str:
    """Return the table of what a pod gets in each mode, and the privilege that it needs."""
    lines = list(
        table_head("mode", "platforms", "what a pod gets", "requests", "privilege, and why")
    )
    for mode in MODES.values():
        privilege = [f"`{c.name}`{_only(c.fabrics)}: {c.reason}" for c in mode.capabilities] or [
            f"none: {mode.unprivileged}"
        ]
        if mode.host_network:
            privilege.append(f"`hostNetwork`: {mode.host_network}")
        requests = [
            f"`{'nvidia.com/<rail>' if '{' in d.name and d.scope == 'rail' else d.name}`"
            + (" a NIC" if d.scope == "nic" else " a rail" if d.scope == "rail" else "")
            for d in mode.devices
        ]
        requests = [r.replace("{resource}", "rdma/rdma_shared_device_a") for r in requests]
        if mode.hugepages_mib:
            requests.append(f"`hugepages-2Mi` {mode.hugepages_mib} MiB a NIC")
        if mode.attachment == "claim":
            requests.append("a ResourceClaim")
        lines.append(
            table_row(
                f"`{mode.name}`",
                ", ".join(platforms_of(mode)),
                mode.summary,
                "; ".join(requests) or "nothing",
                "; ".join(privilege),
            )
        )
    return "\n".join(lines)


def paths() -> str:
    """Return the table of a node's paths that pods mount, by mode."""
    lines = list(table_head("mode", "container", "node's path", "in the pod", "why"))
    for mode in MODES.values():
        for path in mode.host_paths:
            access = "read only" if path.read_only else "read and write"
            lines.append(
                table_row(
                    f"`{mode.name}`{_only(path.fabrics)}",
                    path.container,
                    f"`{path.host}`",
                    f"`{path.mount}`, {access}",
                    path.reason,
                )
            )
    return "\n".join(lines)


def fabrics() -> str:
    """Return each fabric's pin, its proof and what the image must hold."""
    lines = list(
        table_head(
            "fabric", "RDMA", "`NCCL_NET`", "NCCL's log proves it by", "GPUDirect", "in the image"
        )
    )
    for fabric in FABRICS.values():
        pinned = next(v.value for v in fabric.environment if v.name == "NCCL_NET")
        lines.append(
            table_row(
                fabric.name,
                "yes" if fabric.rdma else "no",
                f"`{pinned}`",
                " and ".join(f"`{p}`" for p in fabric.proofs),
                f"`{fabric.gpudirect}`" if fabric.gpudirect else "not said",
                "; ".join(fabric.userspace) or "nothing",
            )
        )
    return "\n".join(lines)


TABLES = {"proof": proof, "modes": modes, "paths": paths, "fabrics": fabrics}


def rendered(page: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """Return the page with its tables regenerated."""
    for name, table in tables.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, mark, rest = page.partition(start)
        assert mark, f"the page has no place for the table {name!r}"
        _, mark, after = rest.partition(end)
        assert mark
        page = f"{before}{start}{table()}\n{end}{after}"
    return page


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text()))


if __name__ == "__main__":
    main()
