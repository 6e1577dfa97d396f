"""Builds the documentation site, strictly and without network. Run by `make site`.

What it builds is a folder for each version beside the others, and the list of them that the pages
show: a release is put beside older ones by copying its folder.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from railhead.base.version import __version__
from tools import site_pages

REPO = Path(__file__).resolve().parents[1]
SETTINGS = REPO / "mkdocs.yml"
STYLE = REPO / "tools" / "site.css"
#: Page of the checkout -> page of the site; those of docs/ keep their paths below it.
RENAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
#: What pages link to outside of docs/ is copied below this folder, as it is.
FILES = "files"
_MARKER = re.compile(r"(?:[-*]|\d+\.) +")
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_INDEX = (
    '<!doctype html><meta charset="utf-8"><title>Railhead</title>'
    '<meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">Railhead {0}</a>\n'
)


class _Loader(yaml.SafeLoader):
    """PyYAML's, which leaves Python's own tags to MkDocs."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def main() -> int:
    """Build the site of this version below a folder; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=REPO / "build" / "site")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    build(arguments.into.resolve())
    print(f"{arguments.into}: version {__version__}; python -m http.server -d {arguments.into}")
    return 0


def build(into: Path) -> Path:
    """Build the site of this version as a folder of ``into``; return the folder.

    Raises:
        mkdocs.exceptions.Abort: a link leads nowhere, or a page is in no list.
    """
    # The pages' only date, so that the same sources give the same bytes.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1580601600")
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    target = into / __version__
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder)
        stage(staged)
        config = load_config(
            str(SETTINGS), docs_dir=folder, site_dir=str(target), nav=navigation(staged)
        )
        mkdocs_build(config)
    versions = sorted((path.parent.name for path in into.glob("*/index.html")), key=_order)
    newest = versions[-1]
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == newest else []}
        for name in reversed(versions)
    ]
    (into / "versions.json").write_text(json.dumps(listed) + "\n", encoding="utf-8")
    (into / "index.html").write_text(_INDEX.format(newest), encoding="utf-8")
    return target


def _order(version: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"[.+-]", version)]


def stage(into: Path) -> None:
    """Write every page and file of the site below a folder, as MkDocs reads them."""
    queue = [*RENAMED, *(str(path.relative_to(REPO)) for path in (REPO / "docs").rglob("*.md"))]
    done: set[str] = set()
    while queue:
        source = queue.pop()
        if source in done:
            continue
        done.add(source)
        target = into / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not source.endswith(".md"):
            shutil.copyfile(REPO / source, target)
            continue
        text, linked = relinked(source, (REPO / source).read_text(encoding="utf-8"))
        target.write_text(indented(text), encoding="utf-8")
        queue += linked
    shutil.copy(STYLE, into)
    for path, text in site_pages.pages().items():
        target = into / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


def place(source: str) -> str:
    """Return where a file of the checkout is in the site."""
    if source in RENAMED:
        return RENAMED[source]
    inside = source.removeprefix("docs/")
    return inside if inside != source else f"{FILES}/{source}"


def relinked(source: str, text: str) -> tuple[str, list[str]]:
    """Return a page whose links fit the site, and the files of the checkout that it links to."""
    linked: list[str] = []
    here = PurePosixPath(place(source)).parent

    def link(match: re.Match[str]) -> str:
        before, path, after = match.groups()
        file = (REPO / source).parent / path
        if not file.is_file() or not file.resolve().is_relative_to(REPO):
            return match[0]
        known = str(file.resolve().relative_to(REPO))
        linked.append(known)
        return before + os.path.relpath(place(known), here) + after

    return _LINK.sub(link, text), linked


def indented(text: str) -> str:
    """Return a page whose lists are as Python's Markdown needs them.

    It indents an item's content by four, and ends a paragraph of an item at a blank line alone.
    """
    lines: list[str] = []
    columns, fenced, loose = [0], False, False
    for line in text.splitlines():
        words = line.lstrip()
        lead = len(line) - len(words)
        while words and lead < columns[-1]:
            columns.pop()
        fenced ^= words.startswith("```")
        marker = None if fenced else _MARKER.match(words)
        loose = len(columns) > 1 and (loose or not words) if not marker else loose
        if marker and loose and lines[-1]:
            lines.append("")
        lines.append("    " * (len(columns) - 1) + line[columns[-1] :] if words else "")
        if marker:
            columns.append(lead + len(marker[0]))
    return "\n".join([*lines, ""])


def navigation(staged: Path) -> list[Any]:
    """Return the settings' `nav` with every folder replaced by its pages."""
    nav: list[Any] = yaml.load(SETTINGS.read_text(encoding="utf-8"), _Loader)["nav"]  # noqa: S506
    return [_expanded(entry, staged) for entry in nav]


def _expanded(entry: Any, staged: Path) -> Any:
    if isinstance(entry, str):
        return entry
    [(title, inside)] = entry.items()
    if isinstance(inside, list):
        return {title: [_expanded(item, staged) for item in inside]}
    if inside.endswith("/"):
        names = {path.name for path in (staged / inside).glob("*.md")}
        # The page that lists the others is the folder's own.
        [first] = names & {"index.md", "README.md"}
        groups = _sections((staged / inside / first).read_text(encoding="utf-8"))
        alone = sorted(names - {first}.union(*groups.values()))
        listed = [{name: [inside + page for page in pages]} for name, pages in groups.items()]
        return {title: [inside + first, *listed, *(inside + name for name in alone)]}
    return entry


def _sections(page: str) -> dict[str, list[str]]:
    """Return the sections of a page that lists others, with the pages that each lists."""
    _, *parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {
        title: re.findall(r"^\| \[[^]]+\]\(([^)/]+\.md)\)", text, flags=re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


if __name__ == "__main__":
    sys.exit(main())
