"""`railhead catalog ...`: the catalogue's rows as tables. Heavy imports are made inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.options import Json

if TYPE_CHECKING:
    from rich.table import Table


class Kind(StrEnum):
    """The kinds of rows in the catalogue."""

    MACHINES = "machines"
    ACCELERATORS = "accelerators"
    FABRICS = "fabrics"
    MODES = "modes"
    VERSIONS = "versions"


app = typer.Typer(
    no_args_is_help=True,
    help="Instance types, accelerators, fabrics and versions that Railhead knows.\n\n"
    "Example: railhead catalog show p5.48xlarge",
)


@app.callback()
def group() -> None:
    """Show the catalogue."""


@app.command(name="list")
def list_rows(
    kind: Annotated[
        Kind | None, typer.Argument(help="Print only this table. Default: all tables.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option("--platform", metavar="KIND", help="Print only machines of this platform."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the rows of the catalogue.

    Example: [bold]railhead catalog list machines --platform aws[/bold]
    """
    tables = _tables()
    chosen = {k: rows for k, rows in tables.items() if kind is None or k == kind}
    if platform is not None:
        chosen = {Kind.MACHINES: _on(chosen.get(Kind.MACHINES, tables[Kind.MACHINES]), platform)}
    if as_json:
        names = {k.value: {name: plain(row) for name, row in r.items()} for k, r in chosen.items()}
        typer.echo(json.dumps(names, indent=1))
        return
    _print(_LISTS[k](rows) for k, rows in chosen.items())


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A machine, accelerator, fabric, mode or version.")],
    as_json: Json = False,
) -> None:
    """Show everything that the catalogue says about one row, with the sources.

    Example: [bold]railhead catalog show p5.48xlarge[/bold]
    """
    from railhead.base.errors import NotFoundError

    rows = {k.value: table[name] for k, table in _tables().items() if name in table}
    if not rows:
        near = _near(name)
        suggestion = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise NotFoundError(
            f"{name!r} is not in the catalogue{suggestion}",
            remedy="`railhead catalog list` prints every name",
        )
    if as_json:
        typer.echo(json.dumps({kind: plain(row) for kind, row in rows.items()}, indent=1))
        return
    _print(_details(kind, name, row) for kind, row in rows.items())


def _tables() -> dict[Kind, Mapping[str, Any]]:
    from railhead.catalog.versions import ADDONS, COMBINATIONS, PARTS, PROVEN
    from railhead.config import use
    from railhead.config.files import stacks_folder
    from railhead.fabric.kinds import FABRICS
    from railhead.fabric.modes import MODES
    from railhead.machines import MACHINES
    from railhead.machines.accelerators import ACCELERATORS

    use(stacks_folder())
    controllers = PROVEN.controllers
    return {
        Kind.MACHINES: MACHINES,
        Kind.ACCELERATORS: ACCELERATORS,
        Kind.FABRICS: FABRICS,
        Kind.MODES: MODES,
        Kind.VERSIONS: {
            **COMBINATIONS,
            **{controller.name: controller for controller in controllers},
            **ADDONS,
            **PARTS,
        },
    }


def _on(machines: Mapping[str, Any], platform: str) -> dict[str, Any]:
    from railhead.base.errors import InputError, choices

    known = sorted({p for machine in machines.values() for p in machine.platforms})
    if platform not in known:
        listed = choices(platform, known)
        raise InputError(f"--platform {platform!r} is not known{listed}", remedy="name one of them")
    return {name: row for name, row in machines.items() if platform in row.platforms}


def _near(name: str) -> list[str]:
    """Return names that may have been meant: spelled alike, or containing the given one."""
    import difflib

    names = [known for table in _tables().values() for known in table]
    lower = {known.lower(): known for known in names}
    alike = [
        lower[match] for match in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
    ]
    inside = [known for known in names if len(name) > 2 and name.lower() in known.lower()]
    return list(dict.fromkeys([*alike, *inside]))[:6]


def plain(value: Any) -> Any:
    """Return a row in JSON types; sets are sorted, so that equal rows print the same."""
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _print(tables: Iterable[Table]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        # A pipe has no width of its own: whole lines are easier to search than folded ones.
        console = Console(highlight=False, width=240)
    for table in tables:
        console.print(table)


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _nics(machine: Any) -> str:
    kinds = sorted({(nic.rate_gbps, nic.interface) for nic in machine.nics})
    return ", ".join(
        f"{sum((n.rate_gbps, n.interface) == (rate, kind) for n in machine.nics)} x "
        f"{rate or 'no rate'} {kind}"
        for rate, kind in kinds
    )


def _best(machine: Any) -> str:
    best = max(machine.published, key=lambda m: m.busbw, default=None)
    return f"{best.busbw:g} {best.collective} on {best.nodes}" if best else "-"


def _machines(rows: Mapping[str, Any]) -> Table:
    table = _table(
        "Machines (per node)",
        *("name", "platforms", "GPUs", "CPUs", "GiB", "NICs, Gbit/s", "fabrics", "NVLink domain"),
        "best published busbw, GB/s",
    )
    for name, m in rows.items():
        table.add_row(
            name,
            ", ".join(sorted(m.platforms)),
            f"{m.gpus} x {m.accelerator or 'stand-in'}",
            str(m.vcpus or "-"),
            str(m.memory_gib or "-"),
            _nics(m),
            ", ".join(sorted(m.fabrics)),
            f"{m.nvlink_domain} GPUs",
            _best(m),
        )
    return table


def _accelerators(rows: Mapping[str, Any]) -> Table:
    table = _table("Accelerators", "name", "product", "generation", "GB", "NVLink, GB/s a GPU")
    for name, a in rows.items():
        table.add_row(
            name,
            a.product,
            a.generation,
            str(a.memory_gb),
            f"{a.nvlink_gbps} ({a.nvlink_links} links, generation {a.nvlink_generation})",
        )
    return table


def _fabrics(rows: Mapping[str, Any]) -> Table:
    from railhead.fabric.modes import MODES

    table = _table("Fabrics", "name", "RDMA", "modes that bring it into pods")
    for name, row in rows.items():
        table.add_row(
            name,
            "yes" if row.rdma else "no",
            ", ".join(sorted(m for m in MODES if name in MODES[m].fabrics)),
        )
    return table


def _modes(rows: Mapping[str, Any]) -> Table:
    from railhead.platform.registry import platforms_of

    table = _table("Modes", "name", "fabrics", "platforms", "what it does")
    for name, row in rows.items():
        fabrics, platforms = sorted(row.fabrics), platforms_of(row)
        table.add_row(name, ", ".join(fabrics), ", ".join(platforms), row.summary)
    return table


def _versions(rows: Mapping[str, Any]) -> Table:
    from railhead.catalog.versions import Combination

    table = _table("Versions", "name", "version", "Kubernetes", "from")
    for name, row in rows.items():
        if isinstance(row, Combination):
            of = f"kueue {row.kueue.version}, jobset {row.jobset.version}, trainer "
            table.add_row(
                name,
                "combination",
                " to ".join(row.kubernetes),
                f"{of}{row.trainer.version}",
            )
            continue
        served = row.kubernetes
        table.add_row(
            name,
            row.version or "the cloud's own",
            f"{served.oldest} to {served.newest or 'any newer'}" if served else "-",
            _origin(row),
        )
    return table


def _origin(row: Any) -> str:
    delivery = row.chart if hasattr(row, "chart") else row.delivery
    return ", ".join(f"{key} {value}" for key, value in plain(delivery).items())


_LISTS: dict[Kind, Callable[[Mapping[str, Any]], Table]] = {
    Kind.MACHINES: _machines,
    Kind.ACCELERATORS: _accelerators,
    Kind.FABRICS: _fabrics,
    Kind.MODES: _modes,
    Kind.VERSIONS: _versions,
}


def _details(kind: str, name: str, row: Any) -> Table:
    """Return every field of a row on its own line, with the source of each figure."""
    fields = plain(row)
    sources = fields.pop("sources", None)
    columns = ("field", "value") if sources is None else ("field", "value", "source")
    table = _table(f"{name} ({kind})", *columns)
    for field, value in fields.items():
        if field == "name" or (value in (None, [], {}) and field not in (sources or {})):
            continue
        cells = [field, _text(value)]
        table.add_row(*cells, *([] if sources is None else [_source(sources, field)]))
    return table


def _source(sources: Mapping[str, str], field: str) -> str:
    # Two fields of a machine share one source.
    return sources.get(field) or sources.get(field.partition("_")[0], "")


def _text(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, dict):
        return "\n".join(
            # A combination's add-ons are rows of their own.
            f"{key} {item['version'] or ''}".rstrip()
            if isinstance(item, dict) and "version" in item
            else f"{key}: {_line(item)}"
            for key, item in value.items()
        )
    if isinstance(value, list) and value and isinstance(value[0], dict) and "card" in value[0]:
        return "\n".join(_layout(value))
    if isinstance(value, list):
        return "\n".join(_line(item) for item in value) or "none"
    return str(value)


def _layout(nics: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for equal interfaces, with the card and device of each."""
    equal: dict[tuple[Any, ...], list[str]] = {}
    for nic in nics:
        place = f"{nic['card']}.{nic['device']}{' ' + nic['hca'] if nic['hca'] else ''}"
        equal.setdefault((nic["rate_gbps"], nic["interface"]), []).append(place)
    for (rate, interface), places in equal.items():
        yield f"{len(places)} x {rate} Gbit/s {interface}, at card.device {', '.join(places)}"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_line(v)}" for k, v in value.items() if v not in (None, [], {}))
    if isinstance(value, list):
        return ", ".join(_line(item) for item in value)
    return str(value)
