"""A team's own machines: rows in a file beside its stacks, of the same type, with the same checks.

``machines.yaml`` lists rows under ``machines:``, with the fields of
:class:`railhead.machines.Machine`. They join the catalogue of the process that reads a stack of
that folder, so that everything that reads rows reads theirs too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import yaml
from pydantic import ValidationError

from railhead import machines
from railhead.base.errors import InputError, choices
from railhead.base.reading import read_text
from railhead.machines import rows
from railhead.machines.accelerators import ACCELERATORS
from railhead.machines.machine import FIGURES, Machine

FILE = "machines.yaml"


def problems(
    machine: Machine, fabrics: Collection[str], platforms: Collection[str]
) -> Iterator[str]:
    """Yield what is wrong with a row in itself; the catalogue's own pass the same checks.

    Args:
        machine: the row.
        fabrics: names of all fabrics.
        platforms: kinds of all platforms.
    """
    for name in sorted(machine.fabrics - set(fabrics)):
        yield f"fabrics: {name!r} is not known{choices(name, sorted(fabrics))}"
    for name in sorted(machine.platforms - set(platforms)):
        yield f"platforms: {name!r} is not known{choices(name, sorted(platforms))}"
    if not machine.platforms:
        yield "platforms: is empty; say where stacks may use it, such as existing"
    if machine.gpus < 1:
        yield f"gpus: {machine.gpus} is less than 1"
    # A domain spans machines, or a machine has several of one size.
    domain = machine.nvlink_domain
    if domain < 1 or (machine.gpus >= 1 and domain % machine.gpus and machine.gpus % domain):
        yield (
            f"nvlink_domain: {domain} is neither a part of the {machine.gpus} GPUs of a machine "
            "nor a number of machines"
        )
    yield from _sizes(machine)
    yield from _interfaces(machine)
    for figure in FIGURES:
        if not machine.sources.get(figure):
            yield f"sources.{figure}: is missing; say where it was read, or why it has no source"
    for figure in sorted(set(machine.sources) - set(FIGURES)):
        yield f"sources.{figure}: is not a figure{choices(figure, FIGURES)}"


def _sizes(machine: Machine) -> Iterator[str]:
    for field, most in (
        ("schedulable_vcpus", machine.vcpus),
        ("schedulable_memory_gib", machine.memory_gib),
    ):
        value = getattr(machine, field)
        if value < 1 or (most is not None and value > most):
            yield f"{field}: {value} is not from 1 to what the machine has, {most}"
    row = ACCELERATORS.get(machine.accelerator or "")
    if machine.accelerator is not None and row is None:
        known = choices(machine.accelerator, sorted(ACCELERATORS))
        yield f"accelerator: {machine.accelerator!r} is not in the catalogue{known}"
    # Memory in GiB as reported is never more than in GB as sold, and not much less.
    elif row and not 0.9 * row.memory_gb <= machine.gpu_memory_gib <= row.memory_gb:
        yield f"gpu_memory_gib: {machine.gpu_memory_gib} is not about {row.memory_gb} GB, as sold"
    if machine.gpu_memory_gib < 0:
        yield f"gpu_memory_gib: {machine.gpu_memory_gib} is negative"


def _interfaces(machine: Machine) -> Iterator[str]:
    places = [(nic.card, nic.device) for nic in (*machine.host_nics, *machine.nics)]
    if len(set(places)) != len(places):
        yield "nics: two interfaces have one card and device"
    if not machine.nics:
        yield "nics: is empty; list the interfaces of the training fabric"
    if len(set(machine.hcas)) != len(machine.hcas):
        yield "nics: two interfaces have one RDMA device"
    rates = {nic.rate_gbps for nic in machine.nics}
    if len(rates) > 1:
        yield f"nics: rates {sorted(rates)} differ; list those of the training fabric alone"
    if min(rates, default=0) < 0:
        yield "nics: a rate is negative"


def read(path: Path, fabrics: Collection[str], platforms: Collection[str]) -> tuple[Machine, ...]:
    """Return the rows of a file.

    Raises:
        InputError: it cannot be read, or has mistakes, one line for each.
    """
    try:
        data = yaml.safe_load(read_text(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {error}", remedy="correct the file") from None
    listed = data.get("machines") if isinstance(data, dict) else None
    if not isinstance(listed, list) or set(data) != {"machines"}:
        raise InputError(
            f"{path}: has no list `machines:`, and nothing else",
            remedy="list rows as docs/catalogue.md shows",
        )
    results: list[Machine] = []
    wrong: list[str] = []
    for index, raw in enumerate(listed):
        at = f"{path}: machines[{index}]"
        try:
            machine = rows.machine(raw)
        except ValidationError as error:
            wrong += [
                f"{at}.{'.'.join(map(str, e['loc']))}: {e['msg']}"
                for e in error.errors(include_url=False)
            ]
            continue
        wrong += [f"{at}.{text}" for text in problems(machine, fabrics, platforms)]
        if machine.name in machines.SHIPPED or machine.name in [m.name for m in results]:
            wrong.append(
                f"{at}.name: {machine.name!r} is taken; a row of your own has its own name"
            )
        results.append(machine)
    if wrong:
        raise InputError("\n".join(wrong), remedy=f"edit {path}; nothing was changed")
    return tuple(results)


def use(folder: Path, fabrics: Collection[str], platforms: Collection[str]) -> None:
    """Add the rows of a folder's file, if it has one, to this process' catalogue.

    Raises:
        InputError: the file has mistakes, or a name that another folder's row has.
    """
    path = folder / FILE
    if not path.is_file():
        return
    for machine in read(path, fabrics, platforms):
        try:
            machines.add(machine)
        except ValueError as error:
            raise InputError(f"{path}: {error}", remedy="give it another name") from None
