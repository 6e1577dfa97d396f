"""The Python language host and the runner of policy packs, through the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.engine.conftest import Stack

pytestmark = pytest.mark.controlplane


def test_program_and_its_surroundings(stack: Stack) -> None:
    """Configuration with secrets, names, output on both streams, async programs, arguments."""
    (stack.folder / "helper.py").write_text("WORD = 'imported'\n")
    stack.program(
        """
        import asyncio, sys
        import helper
        print("on stdout")
        print("on stderr", file=sys.stderr)
        pulumi.export("plain", config.require("plain"))
        pulumi.export("hidden", config.require_secret("hidden"))
        pulumi.export("is_secret", config.get("hidden"))
        pulumi.export("names", [
            pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(),
            pulumi.runtime.is_dry_run(), helper.WORD, os.getcwd(), len(sys.argv),
        ])
        """
    )
    stack.set("plain", "a value with 'quotes' and ünïcode")
    stack.run("config", "set", "--secret", "hidden", "hush").ok()
    assert (stack.folder / "stacks" / "Pulumi.test.yaml").exists()
    result = stack.up().ok()
    assert "on stdout" in result.text
    assert "on stderr" in result.text
    outputs = json.loads(stack.run("stack", "output", "--json").ok().text)
    assert outputs["plain"] == "a value with 'quotes' and ünïcode"
    assert outputs["hidden"] == "[secret]"
    assert outputs["names"] == [
        "t", "test", "organization", False, "imported", str(stack.folder), 1,
    ]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("body", "shown", "hidden"),
    [
        ("raise ValueError('the reason')", "ValueError: the reason", "program.py"),
        ("raise pulumi.RunError('just this')", "error: just this", "Traceback"),
        ("import no_such_module", "No module named 'no_such_module'", "program.py"),
        ("import sys; sys.exit(7)", "exited with status 7", "Traceback"),
        ("config.require('absent')", "absent", "program.py"),
    ],
)
def test_a_failing_program(stack: Stack, body: str, shown: str, hidden: str) -> None:
    """The user's mistake is shown, the machinery is not."""
    stack.program(body)
    result = stack.preview()
    assert result.status != 0
    assert shown in result.text
    assert hidden not in result.text


@pytest.mark.exhaustive
def test_virtual_environment(stack: Stack) -> None:
    """`runtime.options.virtualenv` decides the interpreter; one that is absent is named."""
    (stack.folder / "Pulumi.yaml").write_text(
        "name: t\nruntime: {name: python, options: {toolchain: pip, virtualenv: .venv}}\n"
        "stackConfigDir: stacks\n"
    )
    stack.program("import sys; pulumi.export('prefix', sys.prefix)")
    missing = stack.preview()
    assert missing.status != 0
    assert ".venv" in missing.text
    assert "pulumi install" in missing.text
    venv.create(stack.folder / ".venv", with_pip=False)
    packages = next((stack.folder / ".venv").glob("lib/python*/site-packages"))
    # The SDK of this interpreter, so that nothing need be installed.
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "here.pth").write_text("\n".join(here) + "\n")
    stack.up().ok()
    outputs = json.loads(stack.run("stack", "output", "--json").ok().text)
    assert outputs["prefix"] == str(stack.folder / ".venv")
    (stack.folder / "Pulumi.yaml").write_text(
        "name: t\nruntime: {name: python, options: {toolchain: pipp}}\nstackConfigDir: stacks\n"
    )
    wrong = stack.preview()
    assert wrong.status != 0
    assert "'pipp'" in wrong.text
    assert "poetry" in wrong.text


def test_interrupted_program(stack: Stack) -> None:
    """SIGINT during the program ends it quietly, its children too."""
    stack.program(
        """
        import subprocess, time
        subprocess.Popen(["sleep", "654321"])
        open("running", "w").close()
        time.sleep(60)
        """
    )
    process = stack.start_up()
    stack.wait_for((stack.folder / "running").exists)
    os.kill(process.pid, signal.SIGINT)
    stack.wait_for(lambda: process.poll() is not None, 20)
    log = (stack.folder / "up.log").read_text()
    assert "Traceback" not in log
    assert "KeyboardInterrupt" not in log
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 654321" not in listed.stdout


PACK = """
from pulumi_policy import (
    EnforcementLevel, PolicyPack, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy,
)

def no_secrets_in_maps(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if args.resource_type == "kubernetes:core/v1:ConfigMap" and "password" in args.props["data"]:
        report("a ConfigMap holds a password")

PolicyPack(name="pack", enforcement_level=EnforcementLevel.MANDATORY, policies=[
    ResourceValidationPolicy(
        name="no-secrets-in-maps", description="Passwords go into Secrets.",
        validate=no_secrets_in_maps,
    ),
])
"""


def test_policy_pack(stack: Stack, tmp_path: Path) -> None:
    """A mandatory violation fails the preview; an obedient program passes."""
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "PulumiPolicy.yaml").write_text("runtime: python\ndescription: for a test\n")
    (pack / "__main__.py").write_text(PACK)
    stack.program(
        """
        k8s.core.v1.ConfigMap(
            "cm", metadata={"name": "c"}, data={config.get("key") or "word": "x"}, opts=o
        )
        """
    )
    stack.preview("--policy-pack", str(pack)).ok()
    stack.set("key", "password")
    failed = stack.preview("--policy-pack", str(pack))
    assert failed.status != 0
    assert "a ConfigMap holds a password" in failed.text
    assert "mandatory" in failed.text
    assert "Traceback" not in failed.text


def test_about_and_debug_log_name_the_stand_ins(stack: Stack) -> None:
    """`pulumi about` names the interpreter; the debug log names the stand-ins."""
    assert "stand-in" in stack.run("about").ok().text
    stack.program("k8s.core.v1.ConfigMap('cm', metadata={'name': 'c'}, opts=o)")
    log = stack.preview("--debug").ok().text
    assert "Railhead's stand-in for pulumi-language-python" in log
    assert "Railhead's stand-in for pulumi-resource-kubernetes" in log
