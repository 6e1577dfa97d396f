"""The files of a team's own repository, as `railhead new` writes them.

YAML is dumped from objects; a comment is put above a field as a whole line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from railhead import __version__
from railhead.base.examples import example
from railhead.config import KEY, PROJECT, schema
from railhead.launch import schema as job
from railhead.platform.starter import Section, Starter

_WIDTH = 100
REQUIREMENTS = "requirements.txt"
#: Where a repository keeps the wheels that it installs, with their requirements.
WHEELS = "wheels"
_PROGRAM = '''"""Program of `pulumi up`: the cluster of the current stack's file."""

from railhead.program import main

main()
'''
_PACK = '''"""The pack of `pulumi preview --policy-pack policies`: Railhead's and own rules."""

from pulumi_policy import Policy

from railhead.policies.pack import serve

OWN: list[Policy] = []  # rules of your own
serve({name!r}, file=__file__, own=OWN)
'''
_POLICIES = """\
# Levels of rules, by their names: advisory, mandatory or disabled, and their parameters. Without a
# line a rule has the level of docs/reviewing.md. An example:
#
# versions-ran: mandatory
# cloud-is-closed: {networks: [10.0.0.0/8]}
"""
#: Relative to the file that names it: pip, in `-r` and in `--find-links`.
_REQUIREMENTS = f"""\
# Railhead's wheels and all that they need, each by its hash: a public index has another project
# by the name. An upgrade replaces what is in {WHEELS}/.
-r {WHEELS}/requirements-{{extra}}.txt
"""
_README = """\
# {name}

GPU training clusters by Railhead {version}, a stack each:
[stacks/Pulumi.{stack}.yaml](stacks/Pulumi.{stack}.yaml).

```
python3 -m venv .venv && .venv/bin/pip install -r requirements.txt
. .venv/bin/activate
railhead doctor
railhead config check {stack}
railhead plan {stack}
pulumi stack init {stack}
pulumi preview -s {stack} --policy-pack policies
pulumi up -s {stack} --policy-pack policies
railhead launch examples/{job} --follow
```

`railhead plan` needs no credentials. State is where `pulumi login` says; a team shares a bucket of
its own. Pages that comments name (`docs/...`) are those of Railhead's release.
"""
#: The job that the documentation launches.
_EXAMPLE = example("")
_IGNORED = ".venv/\n__pycache__/\n.pulumi-state/\n"


class _Dumper(yaml.SafeDumper):
    """PyYAML's, with the elements of a list below their field."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        del indentless
        super().increase_indent(flow, False)


def _dumped(data: Any) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)


def stack_text(starter: Starter, section: Section) -> str:
    """Return the file of a stack: its notes, and each field with its comment."""
    lines = [schema.MODELINE, *(f"# {note}" for note in starter.notes), "config:"]
    lines.append(f"  {PROJECT}:{KEY}:")
    for field, value in section.items():
        lines += [f"    # {line}" for line in starter.comments.get(field, "").splitlines()]
        lines += [f"    {line}" for line in _dumped({field: value}).splitlines()]
    return "\n".join(lines) + "\n"


def files(name: str, stack: str, starter: Starter, section: Section) -> Mapping[str, str]:
    """Return path -> text of a new repository.

    Args:
        name: the Pulumi project's.
        stack: its first stack's.
        starter: the kind of place that the stack is on.
        section: the stack's section, which is correct.
    """
    return {
        "Pulumi.yaml": _dumped(
            {
                "name": name,
                "description": "GPU training clusters by Railhead, one stack a cluster",
                "runtime": _runtime(".venv"),
                "stackConfigDir": "stacks",
            }
        ),
        "__main__.py": _PROGRAM,
        f"stacks/Pulumi.{stack}.yaml": stack_text(starter, section),
        "stacks/stack.schema.json": schema.text(),
        "policies.yaml": _POLICIES,
        **{f"policies/{file}": text for file, text in pack(name, "../.venv").items()},
        REQUIREMENTS: _REQUIREMENTS.format(extra=starter.extra),
        **_job(),
        # As docs/pipelines has them: a pull request is reviewed without credentials.
        ".github/workflows/railhead-review.yml": _pipeline("github-review.yml"),
        ".github/workflows/railhead-comment.yml": _pipeline("github-comment.yml"),
        ".gitignore": _IGNORED,
        "README.md": _README.format(name=name, stack=stack, version=__version__, job=_EXAMPLE.name),
    }


def named(requirements: Path) -> tuple[str, ...]:
    """Return the files that a requirements file takes in by `-r`; none if it is not there."""
    text = requirements.read_text(encoding="utf-8") if requirements.is_file() else ""
    return tuple(re.findall(r"^-r +(\S+)", text, re.MULTILINE))


def _job() -> Mapping[str, str]:
    """Return path -> text of the job that the documentation launches, and of the schema."""
    file = _EXAMPLE
    names = (file.name, *yaml.safe_load(file.read_text("utf-8"))["files"])
    texts = {name: (file.parent / name).read_text("utf-8") for name in names}
    texts[job.NAME] = job.text()
    return {f"examples/{path}": text for path, text in texts.items()}


def pack(name: str, environment: str) -> Mapping[str, str]:
    """Return path -> text of a policy pack's folder, which reads `policies.yaml` from beside it."""
    settings = {
        "description": "What a plan of a training cluster must obey",
        "version": __version__,
        "runtime": _runtime(environment),
    }
    return {"PulumiPolicy.yaml": _dumped(settings), "__main__.py": _PACK.format(name=name)}


def _runtime(environment: str) -> dict[str, Any]:
    return {"name": "python", "options": {"toolchain": "pip", "virtualenv": environment}}


def _pipeline(name: str) -> str:
    return (Path(__file__).parent / "pipelines" / name).read_text(encoding="utf-8")
