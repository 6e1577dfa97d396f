"""The pages of docs/components, from the code: ``python -m tests.docs.component_pages``."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pulumi

from tests.docs import component_examples
from tests.docs.fabric_tables import table_head, table_row

REPO = Path(__file__).resolve().parents[2]
PAGES = REPO / "docs" / "components"
# What the parts stand on; nobody makes one.
ABSTRACT = frozenset({"ControllerRelease"})
_HEADINGS = {
    "": "The cluster",
    "controllers": "Controllers",
    "fabric": "Fabric",
    "queueing": "Queues",
    "guards": "Guards",
    "namespaces": "Namespaces",
    "watching": "Alerts",
    "existing": "Existing clusters",
    "aws": "AWS",
    "gcp": "Google Cloud",
}


class Component:
    """A component's class, and where it is."""

    def __init__(self, module: str, cls: type[pulumi.ComponentResource]) -> None:
        self.module, self.cls = module, cls
        below = module.removeprefix("railhead.components.")
        self.folder = below.split(".")[0] if "." in below else ""
        self.key = f"{below.replace('.', '_')}_{cls.__name__}"
        self.page = PAGES / f"{self.key.lower().replace('_', '-')}.md"

    @property
    def args(self) -> type[Any]:
        """The class of its arguments."""
        module: ModuleType = importlib.import_module(self.module)
        annotation = inspect.signature(self.cls.__init__).parameters["args"].annotation
        scope: Any = module
        for part in annotation.split("."):
            scope = getattr(scope, part)
        assert isinstance(scope, type)
        return scope

    @property
    def example(self) -> Any:
        """The function that makes one."""
        return getattr(component_examples, self.key)


def components() -> list[Component]:
    """Return every component that a program can make, by module."""
    results = []
    for path in sorted((REPO / "components").rglob("*.py")):
        below = path.relative_to(REPO / "components").with_suffix("").parts
        name = ".".join(("railhead", "components", *below)).removesuffix(".__init__")
        module = importlib.import_module(name)
        results += [
            Component(name, cls)
            for cls in vars(module).values()
            if isinstance(cls, type)
            and issubclass(cls, pulumi.ComponentResource)
            and cls.__module__ == name
            and cls.__name__ not in ABSTRACT
            and not cls.__name__.startswith("_")
        ]
    return results


def described(cls: type[Any], section: str) -> dict[str, str]:
    """Return name -> text of a docstring's ``Args`` or ``Attributes``, with those of its bases."""
    results: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "") if "__doc__" in vars(base) else ""
        block = re.search(rf"^{section}:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
        for item in re.split(r"\n(?=    \w)", block[1].rstrip() if block else ""):
            name, _, words = item.strip().partition(":")
            if words:
                results[name] = plain(" ".join(words.split()))
    return results


def plain(text: str) -> str:
    """Return a docstring's text in Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def summary(cls: type[Any]) -> str:
    """Return a docstring without its sections."""
    text = re.split(r"^(?:Args|Attributes):$", inspect.getdoc(cls) or "", flags=re.MULTILINE)[0]
    return plain(text.strip())


def arguments(cls: type[Any]) -> Iterator[str]:
    """Yield a table of a dataclass' fields."""
    texts = described(cls, "Args")
    yield from table_head("argument", "type", "default", "what it is")
    assert is_dataclass(cls)
    for item in fields(cls):
        default = "required"
        if item.default is not MISSING:
            default = f"`{item.default!r}`"
        elif item.default_factory is not MISSING:
            default = f"`{item.default_factory()!r}`"
        assert item.name in texts, f"{cls.__name__}: say in its docstring what {item.name} is"
        yield table_row(f"`{item.name}`", f"`{item.type}`", default, texts[item.name])


@functools.cache
def _imports() -> list[ast.Import | ast.ImportFrom]:
    every = ast.parse(inspect.getsource(component_examples)).body
    return [node for node in every if isinstance(node, ast.Import | ast.ImportFrom)]


def program(component: Component) -> str:
    """Return an example as a program: the imports that it uses, and its body."""
    source = textwrap.dedent(inspect.getsource(component.example))
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.FunctionDef)
    lines = source.splitlines()[body.body[0].lineno - 1 :]
    used = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    imports = []
    for node in _imports():
        names = [alias for alias in node.names if (alias.asname or alias.name) in used]
        if names:
            kept = ast.copy_location(
                ast.Import(names)
                if isinstance(node, ast.Import)
                else ast.ImportFrom(node.module, names, node.level),
                node,
            )
            imports.append(ast.unparse(kept))
    return formatted("\n".join([*imports, "", textwrap.dedent("\n".join(lines))]))


def formatted(source: str) -> str:
    """Return a program as ``ruff format`` writes it, which formats the pages' programs too."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "example.py", "-"]
    return subprocess.run(
        command, input=source, capture_output=True, text=True, check=True, cwd=REPO
    ).stdout


def page(component: Component) -> str:
    """Return a component's page."""
    outputs = described(component.cls, "Attributes")
    lines = [
        f"# {component.cls.__name__}",
        "",
        f"`{component.module}`",
        "",
        summary(component.cls),
        "",
        f"## Arguments: `{component.args.__name__}`",
        "",
        *arguments(component.args),
        "",
    ]
    if outputs:
        lines += ["## Outputs", "", *table_head("attribute", "what it is")]
        lines += [table_row(f"`{name}`", text) for name, text in outputs.items()]
        lines.append("")
    lines += ["## Example", "", "```python", program(component).rstrip(), "```", ""]
    return "\n".join(lines)


def index() -> str:
    """Return the page that lists the components."""
    lines = [
        "# Components",
        "",
        "Each part of a cluster is a Pulumi component with typed arguments of its own, so that"
        " another program can take the parts that it needs ([the packages](../installing.md)).",
        "`python -m tests.docs.component_pages` writes these pages from the code; a test runs each"
        " example.",
    ]
    every = components()
    for folder, heading in _HEADINGS.items():
        lines += ["", f"## {heading}", "", *table_head("component", "makes")]
        for component in every:
            if component.folder == folder:
                first = summary(component.cls).split("\n\n")[0].replace("\n", " ")
                lines.append(table_row(f"[{component.cls.__name__}]({component.page.name})", first))
    assert {component.folder for component in every} == set(_HEADINGS)
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """Return every page's path and text."""
    return {PAGES / "README.md": index()} | {
        component.page: page(component) for component in components()
    }


def main() -> None:
    """Write the pages, and delete those of components that are gone."""
    written = pages()
    PAGES.mkdir(exist_ok=True)
    for path in PAGES.glob("*.md"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
