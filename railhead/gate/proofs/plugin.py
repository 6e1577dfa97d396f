"""The vendor's NCCL plugin: complete, of the jobs' version, with the devices of its daemon.

It is on the node's disk, not in images. If it is missing or incomplete, NCCL ends jobs at their
start, or the daemon beside them ends as if it had succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation, Plugin
from railhead.gate.node import Node, entries, text_of

ORDER = 15
_AGAIN = "drain the node and delete the installer's pod on it, which installs it again"


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check the plugin, if one is expected on the node."""
    return [] if expected.plugin is None else list(_findings(node, expected.plugin))


def _findings(node: Node, plugin: Plugin) -> Iterator[Finding]:
    yield _installed(node, plugin)
    if plugin.apertures:
        yield _apertures(node, plugin.apertures)
    for name in plugin.devices:
        there = (node.dev / name).exists()
        yield Finding(
            name=f"/dev/{name}",
            passed=there,
            text="there" if there else "is not there: the plugin's daemon cannot register memory",
            remedy=""
            if there
            else "`modprobe import-helper` on the node, as the installer does; " + _AGAIN,
        )
    if plugin.driver is not None:
        yield _driver(node, plugin, plugin.driver)


def _installed(node: Node, plugin: Plugin) -> Finding:
    subject = f"plugin {plugin.name}"
    missing = [name for name in plugin.libraries if not (node.plugins / name).exists()]
    version = text_of(node.plugins / "railhead" / plugin.name)
    if missing:
        return Finding(
            name=subject, passed=False, text=f"{', '.join(missing)}: not there", remedy=_AGAIN
        )
    if plugin.version is not None and version != plugin.version:
        text = (
            f"the node has {version or 'none that the installer finished'}, jobs {plugin.version}"
        )
        return Finding(name=subject, passed=False, text=text, remedy=_AGAIN)
    return Finding(name=subject, passed=True, text=version or "there")


def _apertures(node: Node, wanted: int) -> Finding:
    root = node.dev / "aperture_devices"
    # The directory of an unbound aperture exists too, and is empty.
    bound = [a for a in entries(root) if any(n.startswith("resource") for n in entries(root / a))]
    good = len(bound) >= wanted
    return Finding(
        name="apertures",
        passed=good,
        text=f"{len(bound)} of {wanted} NICs' below /dev/aperture_devices",
        remedy="" if good else _AGAIN,
    )


def _driver(node: Node, plugin: Plugin, branch: str) -> Finding:
    release = text_of(node.sys / "module" / "nvidia" / "version")
    good = release.partition(".")[0] == branch
    return Finding(
        name="NVIDIA driver",
        passed=good,
        text=f"{release or 'not loaded'}"
        + ("" if good else f", but plugin {plugin.version} was qualified with branch R{branch}"),
        remedy=""
        if good
        else "a GKE version and `driver` of the pool that bring that branch, or the plugin that "
        "belongs to this one",
    )
