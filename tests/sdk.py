"""The real Kubeflow SDK, as a user of a cluster has it: in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest
import yaml

from railhead.base.paths import cache_root

VERSION = "0.5.0"


def installed() -> Path:
    """Return a Python with the SDK: installed once, into the cache."""
    home = cache_root() / f"kubeflow-sdk-{VERSION}"
    python = home / "bin" / "python"
    if not (home / "installed").is_file():
        venv.create(home, with_pip=True, clear=True)
        asked = [str(python), "-m", "pip", "install", "-q", f"kubeflow=={VERSION}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            pytest.skip(f"the SDK is not to be had here: {done.stderr[-300:]}")
        (home / "installed").touch()
    return python


def submit(text: str, *, kubeconfig: Path, namespace: str, folder: Path) -> list[str]:
    """Run a program of the SDK with the namespace in its context; the words that it prints.

    Skips the test where the SDK is not to be had.
    """
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    (folder / "train.py").write_text(text)
    done = subprocess.run(
        [str(installed()), "train.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(folder / "kubeconfig")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()
