"""The documentation site: whole, built strictly without network, and read in a real browser."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.base.version import __version__
from railhead.diagnose.knowledge import CAUSES
from railhead.machines import MACHINES
from railhead.policies import RULES
from railhead.watch.alerts import ALERTS
from tests.docs import browser
from tools import site, site_pages


def _listed(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for inside in entry.values() if isinstance(entry, dict) else [entry]:
        for item in inside if isinstance(inside, list) else [inside]:
            yield from _listed(item)


def test_every_page_is_in_the_navigation_once(tmp_path: Path) -> None:
    site.stage(tmp_path)
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    listed = list(_listed(site.navigation(tmp_path)))
    assert len(listed) == len(set(listed))
    assert set(listed) == {page for page in pages if not page.startswith(site.FILES)}


def test_components_are_grouped_since_two_share_a_name(tmp_path: Path) -> None:
    site.stage(tmp_path)
    [reference] = [entry for entry in site.navigation(tmp_path) if "Reference" in entry]
    first, *groups = reference["Reference"][0]["Components"]
    assert first == "components/README.md"
    pages = {title: listed for group in groups for title, listed in group.items()}
    assert "components/aws-file-systems-lustre.md" in pages["AWS"]
    assert "components/gcp-lustre-lustre.md" in pages["Google Cloud"]


def test_every_rule_alert_cause_and_machine_has_a_page() -> None:
    rows = {
        "rules": [rule.name for rule in RULES],
        "alerts": [alert.name for alert in ALERTS],
        "causes": list(CAUSES),
        "machines": list(MACHINES),
    }
    expected = {f"{folder}/{name}.md" for folder, names in rows.items() for name in names}
    assert set(site_pages.pages()) == expected | {f"{folder}/index.md" for folder in rows}


def test_links_out_of_the_documentation_become_files_of_the_site() -> None:
    text, linked = site.relinked("docs/stack.md", "[a](../stacks/Pulumi.lab.yaml#x) [b](aws.md)")
    assert text == "[a](files/stacks/Pulumi.lab.yaml#x) [b](aws.md)"
    assert linked == ["stacks/Pulumi.lab.yaml", "docs/aws.md"]


def test_content_of_lists_is_indented_by_four() -> None:
    page = "1. a\n\n   ```yaml\n   - b\n   ```\n2. c\n   - d\n     e\n\nf\n- g\n- h\n"
    assert site.indented(page) == (
        "1. a\n\n    ```yaml\n    - b\n    ```\n\n2. c\n\n    - d\n        e\n\nf\n- g\n- h\n"
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("no MkDocs: run `make site` once")
    into = tmp_path_factory.mktemp("site")
    site.build(into)
    return into


@pytest.mark.slow
def test_pages_ask_nothing_of_other_places(built: Path) -> None:
    outside = re.compile(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(?:https?:)?//""")
    unmade = re.compile(r"<p>(?:- |\||\d+\. )|<p>[^<]*\n *(?:- |\|)")
    for page in built.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(), flags=re.DOTALL)
        assert not outside.search(text), page
        assert not unmade.search(text), f"{page}: a list or a table is shown as text"


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_build(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del built  # MkDocs is there.
    staged = site.stage

    def spoilt(into: Path) -> None:
        staged(into)
        with (into / "planning.md").open("a") as page:
            page.write("\n[gone](stack.md#no-such-part)\n")

    monkeypatch.setattr(site, "stage", spoilt)
    with pytest.raises(SystemExit):
        site.build(tmp_path)


@pytest.fixture
def served(built: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(built))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


@pytest.mark.slow
def test_a_reader_finds_pages_in_a_browser(served: str, tmp_path: Path) -> None:
    program = browser.found()
    if program is None:
        pytest.skip("no browser: install Debian's chromium-headless-shell")
    with browser.page(program, tmp_path) as page:
        for width in (1280, 390):
            page.resize(width, 900)
            page.open(f"{served}{__version__}/")
            assert page.run("document.querySelector('h1').innerText").startswith("Railhead")
            assert page.until("document.querySelector('.md-version__link')?.innerText") == (
                __version__
            )
            if width == 1280:
                tabs = page.run(texts(".md-tabs__link"))
                assert tabs[1:6] == [
                    *("Researchers", "Platform engineers", "Reviewers", "On call", "Contributors")
                ]
            else:
                page.run("document.querySelector('label[for=__drawer]').click()")
                page.until("document.querySelector('.md-sidebar').getBoundingClientRect().x == 0")
                assert "Quick start" in page.run(texts(".md-sidebar--primary a"))
                page.run("document.querySelector('label[for=__search]').click()")
            page.type(".md-search__input", "RailheadXid")
            links = "[...document.querySelectorAll('.md-search-result__link')].map(e => e.pathname)"
            page.until(f"{links}.includes('/{__version__}/alerts/RailheadXid/')")
            for name in ("alerts/RailheadXid", "machines/p5.48xlarge", "rules/versions-ran"):
                page.open(f"{served}{__version__}/{name}/")
                title = page.run("document.querySelector('h1').firstChild.textContent")
                assert title == name.split("/")[1]
                fits(page)
            for name in ("accepting", "watching", "what-was-not-run"):
                page.open(f"{served}{__version__}/{name}/")
                assert page.run("[...document.images].every(i => i.complete && i.naturalWidth)")
                fits(page)
        assert not [address for address in page.asked if not address.startswith((served, "data:"))]
        assert page.failed == []


def texts(selector: str) -> str:
    """Return JavaScript that gives the texts of elements."""
    return f"[...document.querySelectorAll('{selector}')].map(e => e.textContent.trim())"


def fits(page: browser.Page) -> None:
    """Check that only tables and code are wider than the window, and that no name is broken."""
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    broken = "[...document.querySelectorAll('td:first-child code')].filter(e => "
    # A line may end at a hyphen or a slash.
    broken += "/^[A-Za-z0-9_]+$/.test(e.textContent) && e.getClientRects().length > 1)"
    assert page.run(f"{broken}.map(e => e.textContent)") == []
