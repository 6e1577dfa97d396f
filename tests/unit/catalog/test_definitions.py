"""The stored definitions of custom resources are those of the releases that the catalogue pins."""

from __future__ import annotations

import re

import pytest

from railhead.catalog.versions import COMBINATIONS, PARTS, Bundled, Controller
from railhead.launch.apis import apis
from tests import crds

ROWS = {
    f"{row.name}-{row.version}": row
    for combination in COMBINATIONS.values()
    for row in crds.held(combination)
}
KINDS = {f"{row.name}-{row.version}": row for row in crds.KINDS_HELD}
# Made from the operator's own manifests once a policy asks for it; no row names it.
UNNAMED = {"NicConfigurationTemplate.configuration.net.nvidia.com/v1alpha1"}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_has_the_definitions_of_its_version(row: Controller) -> None:
    """A changed version fails here until its own definitions are fetched."""
    stored = {
        f"{body['spec']['names']['kind']}.{body['spec']['group']}/{version['name']}"
        for body in crds.of(row)
        for version in body["spec"]["versions"]
    }
    bundled = {
        name
        for part in PARTS.values()
        if isinstance(part.delivery, Bundled) and part.delivery.by == row.name
        for name in part.crds
    }
    named = set(row.crds) | bundled
    assert named <= stored
    if named:
        assert stored - named <= UNNAMED


def test_every_folder_belongs_to_a_pinned_release() -> None:
    assert {path.name for path in crds.DATA.iterdir() if path.is_dir()} == {*ROWS, *KINDS}


@pytest.mark.parametrize("row", KINDS.values(), ids=KINDS)
def test_a_kind_of_job_has_the_definition_of_its_version(row: Controller) -> None:
    written = {f"{api.kind}.{api.api_version}" for api in apis().values()}
    specs = [body["spec"] for body in crds.of(row)]
    served = {
        f"{spec['names']['kind']}.{spec['group']}/{v['name']}"
        for spec in specs
        for v in spec["versions"]
    }
    assert served <= set(row.crds)
    assert served & written & set(row.crds)


def test_the_readme_says_where_each_was_taken() -> None:
    reported = re.findall(
        r"^\| `([^`]+)` \| ([\w-]+/[\w-]+) \| (\S+) \| `",
        (crds.DATA / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [folder for folder, _, _ in reported] == list(dict.fromkeys(f for f, _, _ in reported))
    assert {folder for folder, _, _ in reported} == {*ROWS, *KINDS}
    for folder, _, tag in reported:
        assert tag.lstrip("v") == (ROWS | KINDS)[folder].version.lstrip("v")


def test_version_without_definitions_is_reported() -> None:
    row = next(iter(ROWS.values()))
    with pytest.raises(FileNotFoundError, match=r"README\.md"):
        list(crds.of(Controller(**(row.__dict__ | {"version": "99.0.0"}))))
