"""A library of the right names: the linker takes it, and every function says "no device"."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from railhead.lab.artifacts import stubs

MACHINES = {"x86_64": 62, "aarch64": 183}


def machine() -> int:
    if os.uname().machine not in MACHINES:
        pytest.skip("a machine that PyTorch has no wheels for")
    return MACHINES[os.uname().machine]


def test_the_linker_loads_it_and_each_function_says_no_device(tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so.1"
    names = [f"cuThing{i}" for i in range(300)]
    path.write_bytes(stubs.library(machine(), names, ["libcudart.so.13"]))
    loaded = ctypes.CDLL(str(path))
    assert {getattr(loaded, name)() for name in names} == {100}
    assert not hasattr(loaded, "cuOther")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler to link against it")
def test_program_linked_against_a_stub_version_runs(tmp_path: Path) -> None:
    """PyTorch's own libraries are linked like this: by name, version and symbol."""
    script = tmp_path / "versions"
    script.write_text("libcudart.so.13 { global: *; };")
    real, user = tmp_path / "real.c", tmp_path / "user.c"
    real.write_text("int cudaCount(void) { return 7; }")
    user.write_text("int cudaCount(void); int count(void) { return cudaCount(); }")
    out = tmp_path / "lib"
    out.mkdir()
    target = out / "libcudart.so.13"
    build = ["gcc", "-shared", "-fPIC", "-o"]
    reported = f"-Wl,--version-script={script}"
    subprocess.run([*build, target, real, reported, "-Wl,-soname,libcudart.so.13"], check=True)
    subprocess.run([*build, out / "libuser.so", user, target, "-Wl,-rpath,$ORIGIN"], check=True)
    target.unlink()
    asked = stubs.read(out / "libuser.so")
    assert ("libcudart.so.13", "libcudart.so.13") in asked.versions
    assert "cudaCount" in asked.undefined
    assert "count" in asked.defined
    assert stubs.stand_in(out) == ("libcudart.so.13",)
    assert ctypes.CDLL(str(out / "libuser.so")).count() == 100
    assert stubs.stand_in(out) == ()
