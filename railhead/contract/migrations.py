"""Migrations of a contract from an older schema version to today's, one step per version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from railhead.base.errors import InputError

SCHEMA_VERSION: Final = 3


def current(data: Any, where: str) -> Any:
    """Return the data of a contract in this reader's version.

    Raises:
        InputError: it has no version, or a newer one.
    """
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    # A stack's output comes back with every number as a float.
    if isinstance(version, float) and version.is_integer():
        version = int(version)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(
            f"{where}: schema_version is {version!r}, this Railhead reads 1 to {SCHEMA_VERSION}",
            remedy="name a contract that a Railhead stack published",
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{where}: schema_version is {version}, this Railhead reads 1 to {SCHEMA_VERSION}",
            remedy="install the Railhead release that the cluster's stack was deployed with",
        )
    for step in range(version, SCHEMA_VERSION):
        data = MIGRATIONS[step](data)
    return {**data, "schema_version": SCHEMA_VERSION}


def _from_1(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 2 ignores unknown fields, which 1 refused; its other additions are optional."""
    return data


def _from_2(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 3 says for each runtime what 2 said for the first pool's whole node.

    Version 2 did not say on which pool a runtime's pods run and what they mount: nobody can launch
    with it. The models report malformed values.
    """
    pools, runtimes = _rows(data.get("node_pools")), _rows(data.get("runtimes"))
    fabric = data.get("fabric")
    if not isinstance(fabric, Mapping) or pools is None or runtimes is None:
        return data
    devices = fabric.get("device_resources")
    devices = devices if isinstance(devices, Mapping) else {}
    whole = [pool.get("gpus_per_node") for pool in pools]

    def runtime(old: Mapping[str, Any]) -> Mapping[str, Any]:
        gpus = old.get("gpus_per_node")
        shares = []
        if gpus and whole == [gpus]:
            requests = {str(pools[0].get("gpu_resource", "nvidia.com/gpu")): gpus, **devices}
            texts = {name: _quantity(count) for name, count in requests.items()}
            shares = [{"gpus": gpus, "requests": texts}]
        return {**old, "processes_per_node": gpus, "shares": shares}

    return {
        **data,
        "standing": data.get("platform") in ("lab", "existing"),
        "runtimes": [runtime(old) for old in runtimes],
    }


def _quantity(count: Any) -> str:
    # A stack's output comes back with every number as a float.
    return str(int(count)) if isinstance(count, float) and count.is_integer() else str(count)


def _rows(value: Any) -> list[Mapping[str, Any]] | None:
    rows = isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
    return value if rows else None


#: Version -> the step that makes it the next one. No step is ever removed.
MIGRATIONS: Mapping[int, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType(
    {1: _from_1, 2: _from_2}
)
