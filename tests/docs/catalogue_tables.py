"""The tables of docs/catalogue.md, from its rows: ``python -m tests.docs.catalogue_tables``."""

from __future__ import annotations

from railhead.catalog.digests import pinned, references
from railhead.catalog.versions import COMBINATIONS
from railhead.resolve.gate import GATE_IMAGE
from tests.docs.fabric_tables import REPO, rendered, table_head, table_row

PAGE = REPO / "docs" / "catalogue.md"


def ran() -> str:
    """Return the table of what was run with each combination of versions, and where."""
    lines = list(table_head("versions", "Kueue, JobSet, Trainer", "ran", "where", "held by"))
    for combination in COMBINATIONS.values():
        versions = ", ".join(row.version for row in combination.controllers)
        for run in combination.ran:
            source = run.source if run.source == "by hand" else f"`{run.source}`"
            lines.append(table_row(f"`{combination.name}`", versions, run.what, run.where, source))
        if not combination.ran:
            lines.append(
                table_row(f"`{combination.name}`", versions, "nothing", "-", combination.source)
            )
    return "\n".join(lines)


def images() -> str:
    """Return every image with its digest, or that it was not read."""
    lines = list(table_head("image", "digest", "read in"))
    # The gate's is no row of the catalogue: a stack may name another.
    for reference in (*references(), GATE_IMAGE):
        digest, source = pinned(reference)
        name = reference.partition("@")[0].removesuffix(":")
        lines.append(table_row(f"`{name}`", f"`{digest}`" if digest else "-", source))
    return "\n".join(lines)


TABLES = {"ran": ran, "images": images}


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text(), TABLES))


if __name__ == "__main__":
    main()
