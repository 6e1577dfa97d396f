"""Every component has a page, which is current, and an example, which runs."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest

from tests.components.recording import fake_kubeconfig, fake_lab, run_program, stack_cluster
from tests.docs.component_pages import PAGES, components, pages

REMEDY = "run `python -m tests.docs.component_pages`"


@pytest.mark.slow
def test_pages_are_current() -> None:
    written = pages()
    assert {path.name for path in PAGES.glob("*.md")} == {path.name for path in written}, REMEDY
    for path, text in written.items():
        assert path.read_text() == text, f"{path.name}: {REMEDY}"


@pytest.mark.slow
def test_examples_make_their_components(tmp_path: Path) -> None:
    """One program, since what a run costs is its start."""
    cluster = stack_cluster("lab")
    fake_lab(tmp_path)
    fake_kubeconfig(tmp_path / "home", cluster)
    makers = {component.cls: component.example for component in components()}

    def program() -> None:
        for example in makers.values():
            example()

    with pytest.MonkeyPatch.context() as patch:
        made: set[type[pulumi.Resource]] = set()
        before = pulumi.ComponentResource.register_outputs

        def registered(self: pulumi.ComponentResource, outputs: object) -> None:
            made.add(type(self))
            before(self, outputs)  # type: ignore[arg-type]

        patch.setattr(pulumi.ComponentResource, "register_outputs", registered)
        run_program(cluster, tmp_path, program=program)
    assert made >= set(makers)
