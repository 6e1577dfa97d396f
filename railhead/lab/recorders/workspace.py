"""A copy of a project that the real engine runs on recording providers, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import railhead
from railhead.catalog import digests, own
from railhead.catalog.versions import COMBINATIONS, ModuleChart
from railhead.lab.engine.install import install as install_stand_ins
from railhead.lab.recorders.answers import SECTION
from railhead.lab.recorders.install import install as install_recorders
from railhead.lab.recorders.recording import JOURNAL

#: What makes a folder a policy pack, and what one of a team's own reads from beside it.
PACK_FILE = "PulumiPolicy.yaml"
POLICIES_FILE = "policies.yaml"


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The folder and the whole environment in which `pulumi` runs one stack."""

    project: Path
    stack_file: Path
    journal: Path
    environment: Mapping[str, str]


def workspace(folder: Path, *, checkout: Path, stack: str, file: Path, pulumi: Path) -> Workspace:
    """Lay out ``folder``, which is empty, for the stack of ``file``; no secret of it is copied.

    The program is that of the project ``checkout``, and so is what its `__main__.py` imports from
    beside it: in a checkout of Railhead the components, elsewhere they are the installed ones. The
    state, Pulumi's home and the home directory are in ``folder``, so nothing of the user's is read
    or written.
    """
    for name in ("project/stacks", "state", "home/.kube", "plugins", "cache"):
        (folder / name).mkdir(parents=True)
    project, journal = folder / "project", folder / "journal.jsonl"
    journal.touch()
    shutil.copy(checkout / "__main__.py", project)
    # Without the virtual environment: the stand-in's own interpreter has everything.
    settings = yaml.safe_load((checkout / "Pulumi.yaml").read_text())
    settings["runtime"] = "python"
    settings["stackConfigDir"] = "stacks"
    settings.pop("backend", None)
    (project / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    given = yaml.safe_load(file.read_text())
    plain = {key: value for key, value in given["config"].items() if not _secret(value)}
    platform = plain["railhead:cluster"]["platform"]
    # A path outside of the home directory would be this machine's: a cluster that answers.
    if not str(platform.get("kubeconfig", "~/")).startswith("~/"):
        platform["kubeconfig"] = "~/.kube/config"
    stack_file = project / "stacks" / f"Pulumi.{stack}.yaml"
    stack_file.write_text(yaml.safe_dump({"config": plain}, sort_keys=False))
    section = folder / "section.json"
    section.write_text(json.dumps(plain["railhead:cluster"], default=str))
    for beside in (own.FILE, digests.FILE):
        if (there := file.parent / beside).is_file():
            shutil.copy(there, stack_file.parent)
    fake_lab(folder / "cache", platform.get("lab", "lab"))
    fake_kubeconfig(folder / "home", plain["railhead:cluster"])
    plugins = folder / "plugins"
    install_stand_ins(plugins, python=Path(sys.executable), helm=None)
    install_recorders(plugins)
    # Where its folder of logs cannot be made, the engine logs no step at its most verbose level,
    # which is two fifths of its work (pulumi v3.250.0, pkg/logging/encrypted.go: StartLogging).
    (folder / "home" / "logs").touch()
    return Workspace(
        project=project,
        stack_file=stack_file,
        journal=journal,
        environment={
            "PATH": f"{plugins}:{pulumi.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            # The engine writes the state once, at the end, in half the time (pulumi v3.250.0,
            # pkg/backend/snapshot.go: unsafeServiceLoop).
            "PULUMI_SKIP_CHECKPOINTS": "1",
            "RAILHEAD_CACHE": str(folder / "cache"),
            "AWS_REGION": "us-east-1",
            JOURNAL: str(journal),
            SECTION: str(section),
            # The project's code, whichever one the virtual environment was made for.
            "PYTHONPATH": str(checkout),
            "LANG": "C.UTF-8",
        },
    )


def _secret(value: Any) -> bool:
    return isinstance(value, Mapping) and "secure" in value


def policy_pack(folder: Path, checkout: Path) -> Path:
    """Return the project's policy pack, run by this interpreter; made in ``folder``.

    In a checkout it imports the Railhead of the same checkout: what is beside a pack comes first
    there. A project without a pack is judged by the one that is installed.
    """
    own = checkout / "policies"
    source = own if (own / PACK_FILE).is_file() else Path(railhead.__file__).parent / "policies"
    judge = folder / "judge"
    pack = judge / "policies"
    if (source / "__init__.py").is_file():
        # A package, whose modules are imported by their names.
        pack.mkdir(parents=True)
        shutil.copy(source / "__main__.py", pack)
    else:
        shutil.copytree(source, pack, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    if (package := checkout.absolute() / "railhead").is_dir():
        (judge / "railhead").symlink_to(package)
    if (given := checkout / POLICIES_FILE).is_file():
        shutil.copy(given, judge)
    settings = yaml.safe_load((source / PACK_FILE).read_text())
    settings["runtime"] = "python"
    (pack / PACK_FILE).write_text(yaml.safe_dump(settings))
    return pack


def fake_kubeconfig(home: Path, cluster: Mapping[str, Any]) -> None:
    """Write the kubeconfig that an existing cluster's stack names, if it is below ``home``."""
    named = str(cluster["platform"].get("kubeconfig") or "")
    path = Path(named.replace("~", str(home), 1))
    if named and path.is_relative_to(home):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("apiVersion: v1\nkind: Config\n")


def fake_lab(cache: Path, name: str = "lab") -> None:
    """Write what the program reads of a lab after `railhead lab up` and `railhead lab build`."""
    lab = cache / "labs" / name
    lab.mkdir(parents=True)
    (lab / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    (lab / "identity").write_text("5d1d7a3e-3b0e-4c57-9d3c-6f6b3d1f0c11\n")
    for chart in _charts():
        (cache / "charts" / chart).mkdir(parents=True)
        (cache / "charts" / chart / "Chart.yaml").write_text("apiVersion: v2\n")


def _charts() -> set[str]:
    """Return the charts of every combination that the lab takes from modules."""
    return {
        f"{row.name}-{row.version}"
        for combination in COMBINATIONS.values()
        for row in combination.controllers
        if isinstance(row.chart, ModuleChart)
    }
