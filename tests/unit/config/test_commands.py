"""`railhead config check` and `schema`: what `pulumi up` would say, without Pulumi."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from railhead import cli
from railhead.base.errors import ExitCode, InputError
from railhead.config import check, load
from railhead.config.schema import FILE, MODELINE, stack_schema
from railhead.fabric.modes import MODES
from railhead.machines import MACHINES
from railhead.platform.registry import PLATFORMS
from railhead.resolve.cluster import resolve
from tests import shipped

REPO = Path(__file__).resolve().parents[3]
STACKS = sorted((REPO / "stacks").glob("Pulumi.*.yaml"))


@functools.cache
def schema() -> dict[str, Any]:
    """Return the schema of stacks, made once for tests that only read it."""
    return stack_schema()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["config", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def edited(tmp_path: Path, stack: str, **changes: Any) -> Path:
    """Return a stack's file with some of its cluster's fields put in another way."""
    data = shipped.document(stack)
    for path, value in changes.items():
        holder = data["config"]["railhead:cluster"]
        *parents, last = path.split("__")
        for key in parents:
            holder = holder[int(key) if key.isdigit() else key]
        holder[last] = value
    folder = tmp_path / "stacks"
    folder.mkdir(exist_ok=True)
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    file = folder / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump(data))
    return file


def line(file: Path, text: str) -> int:
    """Return the line of a file, counted from 1, that holds a text and is the first to."""
    return next(i for i, row in enumerate(file.read_text().splitlines(), 1) if text in row)


@pytest.mark.slow
def test_without_an_argument_every_stack_is_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(REPO)
    code, out, _ = run(capsys, "check")
    assert code == ExitCode.OK
    rows = [row for row in out.splitlines() if not row.startswith(("note:", "team "))]
    assert [row.partition(":")[0] for row in rows] == [
        str(file.relative_to(REPO)) for file in STACKS
    ]
    code, out, _ = run(capsys, "check", "--json")
    assert [row["cluster"]["name"] for row in json.loads(out)] == [load(f).name for f in STACKS]

    bad = edited(tmp_path, "lab", versions="labb")
    (bad.parent / "Pulumi.good.yaml").write_text((REPO / "stacks/Pulumi.lab.yaml").read_text())
    other = (REPO / "stacks/Pulumi.lab.yaml").read_text().replace("nodes: 2", "nodes: 0")
    (bad.parent / "Pulumi.other.yaml").write_text(other)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "check")
    assert code == ExitCode.BAD_INPUT
    assert out.startswith("stacks/Pulumi.good.yaml: correct")
    assert "stacks/Pulumi.x.yaml:" in err
    assert "stacks/Pulumi.other.yaml:" in err
    code, out, _ = run(capsys, "check", "--json")
    assert code == ExitCode.BAD_INPUT
    assert [bool(row["mistakes"]) for row in json.loads(out)] == [False, True, True]

    for file in bad.parent.iterdir():
        file.unlink()
    assert run(capsys, "check")[0] == ExitCode.NOT_FOUND


@pytest.mark.slow
@pytest.mark.parametrize("file", STACKS, ids=lambda f: f.name)
def test_every_example_stack_is_correct(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run(capsys, "check", str(file))
    assert code == ExitCode.OK
    # A block that the example names is over one day.
    assert check(file, now=datetime(2026, 11, 1, tzinfo=UTC)).doubts == ()
    assert ": correct: cluster " in out
    # The lab's images are built where it runs; no registry was asked for those of the others.
    notes = [line for line in out.splitlines() if line.startswith("note:")]
    assert len(notes) == (file.stem != "Pulumi.lab")
    assert all(note.startswith("note: no digest is known of ") for note in notes)
    code, out, _ = run(capsys, "check", str(file), "--json")
    assert code == ExitCode.OK
    assert json.loads(out)["mistakes"] == []
    assert json.loads(out)["cluster"]["name"] == load(file).name


@pytest.mark.slow
def test_untested_versions_are_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = edited(tmp_path, "aws-p5-prod", versions="newest-read")
    code, out, _ = run(capsys, "check", str(file))
    assert code == ExitCode.OK
    assert out.splitlines()[1].startswith(
        "note: versions 'newest-read': Kueue 0.19.2, JobSet 0.12.0"
    )
    assert len(out.splitlines()) == 3
    notes = json.loads(run(capsys, "check", str(file), "--json")[1])["notes"]
    assert [note.partition(" ")[0] for note in notes] == ["versions", "no"]


def test_a_stack_is_found_by_name_from_anywhere_in_the_project(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPO)
    code, out, _ = run(capsys, "check", "lab")
    assert code == ExitCode.OK
    assert out.startswith("stacks/Pulumi.lab.yaml: correct")
    monkeypatch.chdir(REPO / "docs")
    assert run(capsys, "check", "lab")[0] == ExitCode.OK


def test_mistakes_are_shown_as_pulumi_shows_them_all_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = edited(
        tmp_path, "aws-p5-prod", pools__0__instance_type="p5.48xlrage", versions="productoin"
    )
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "check", "x")
    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert (
        f"stacks/Pulumi.x.yaml:{line(file, 'instance_type: p5.48xlrage')}: "
        "pools[0].instance_type: 'p5.48xlrage' is not in the catalogue; did you mean "
        "'p5.48xlarge'?" in err
    )
    assert (
        f"stacks/Pulumi.x.yaml:{line(file, 'versions: productoin')}: versions: 'productoin' is "
        "not in the catalogue" in err
    )
    code, out, _ = run(capsys, "check", "x", "--json")
    assert code == ExitCode.BAD_INPUT
    assert len(json.loads(out)["mistakes"]) >= 2


@pytest.mark.parametrize(
    ("given", "said"),
    [("labb", "did you mean 'lab'?"), ("zzzz", "there are: "), ("", "there are: ")],
)
def test_an_unknown_stack_names_those_there_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    monkeypatch.chdir(REPO)
    code, _, err = run(capsys, "check", given)
    assert code == ExitCode.NOT_FOUND
    assert said in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "check", str(tmp_path / "Pulumi.y.yaml"))
    assert code == ExitCode.BAD_INPUT
    assert "cannot be read" in err


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    written = json.loads(json.dumps(schema()))
    jsonschema.Draft202012Validator.check_schema(written)
    return jsonschema.Draft202012Validator(written)


def test_the_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "schema")
    assert code == ExitCode.OK
    assert json.loads(out)["$schema"].endswith("2020-12/schema")


@pytest.mark.slow
@pytest.mark.parametrize("file", STACKS, ids=lambda f: f.name)
def test_every_example_stack_satisfies_the_schema(
    validator: jsonschema.Draft202012Validator, file: Path
) -> None:
    assert list(validator.iter_errors(yaml.safe_load(file.read_text()))) == []


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"pools__0__instance_type": "p5.48xlrage"}, "pools.0.instance_type"),
        ({"pools__0__nodes": 0}, "pools.0.nodes"),
        ({"pools__0__nodes": "four"}, "pools.0.nodes"),
        ({"pools__0__colour": "red"}, "pools.0"),
        ({"platform__kind": "azure"}, "platform.kind"),
        ({"name": "Not A Name"}, "name"),
        ({"versions": "newest"}, "versions"),
        ({"researchers": None}, "researchers"),
    ],
    ids=str,
)
def test_parse_refuses_what_the_schema_refuses(
    validator: jsonschema.Draft202012Validator,
    tmp_path: Path,
    changes: dict[str, Any],
    at: str,
) -> None:
    file = edited(tmp_path, "aws-p5-prod", **changes)
    with pytest.raises(InputError):
        load(file)
    errors = list(validator.iter_errors(yaml.safe_load(file.read_text())))
    assert at in [".".join(map(str, list(e.path)[2:])) for e in errors]


def properties(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every property anywhere in a schema, with its name; conditions have none."""
    if isinstance(value, dict):
        held = value.get("properties")
        yield from held.items() if isinstance(held, dict) else ()
        for key, inner in value.items():
            if key != "if":
                yield from properties(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from properties(inner)


def test_every_property_of_the_schema_says_what_it_is() -> None:
    named = list(properties(schema()))
    silent = sorted({name for name, held in named if "description" not in held})
    assert len(named) > 400
    # `config:` and `railhead:cluster:` lead to it, and so does a platform's kind.
    assert silent == []
    words = [held["description"] for name, held in named]
    assert all(len(text.split()) >= 2 for text in words)


def test_a_description_is_the_docstring_s() -> None:
    aws = schema()["$defs"]["aws"]["$defs"]
    assert aws["AwsPool"]["properties"]["hugepages_2mib"]["description"] == (
        "`hugepages_2mib`: huge pages of 2 MiB that each node sets aside for EFA."
    )
    assert aws["GpuOperatorConfig"]["properties"]["gdrcopy"]["description"].startswith(
        "The low-latency copy driver"
    )
    assert aws["RestartConfig"]["properties"]["gang"]["description"].startswith("`gang` is how")


def test_schema_offers_only_what_the_platform_has() -> None:
    defined = schema()["$defs"]
    for kind, platform in PLATFORMS.items():
        own = defined[kind]
        [pool] = [
            held["properties"]["instance_type"]["enum"]
            for held in own["$defs"].values()
            if "node_selector" in held.get("properties", {})
        ]
        assert set(pool) == {n for n, machine in MACHINES.items() if kind in machine.platforms}
        fabric = own["properties"]["fabric"]
        assert set(fabric["properties"]["mode"]["enum"]) == {
            name for name, mode in MODES.items() if mode.on(platform.offers)
        }
    assert "lab" not in defined["aws"]["properties"]["versions"]["enum"]
    assert "lab" in defined["lab"]["properties"]["versions"]["enum"]


@pytest.mark.parametrize("name", shipped.STACKS)
def test_schema_refuses_fields_of_another_platform(
    validator: jsonschema.Draft202012Validator, name: str
) -> None:
    """Each stack under another platform's kind, and with each other stack's pools and fabric."""
    cluster = shipped.stack(name)
    own = cluster["platform"]["kind"]
    refused = 0
    for other in shipped.STACKS:
        theirs = shipped.stack(other)
        if theirs["platform"]["kind"] == own:
            continue
        for part in ("platform", "pools"):
            mixed = {"config": {"railhead:cluster": cluster | {part: theirs[part]}}}
            # The lab is an existing cluster to a stack that names its kubeconfig.
            if part == "platform" and {own, theirs["platform"]["kind"]} == {"lab", "existing"}:
                continue
            # A pool without anything of its platform's own is as good elsewhere.
            plain = {"name", "instance_type", "nodes", "node_selector", "tolerations"}
            machines = {p["instance_type"] for p in theirs["pools"]}
            if (
                part == "pools"
                and all(own in MACHINES[m].platforms for m in machines)
                and all(set(p) <= plain for p in theirs["pools"])
                and own in ("existing", "lab")
            ):
                continue
            assert list(validator.iter_errors(mixed)), (name, other, part)
            refused += 1
    assert refused >= 3


@pytest.mark.parametrize("file", STACKS, ids=lambda f: f.name)
def test_every_stack_names_its_schema(file: Path) -> None:
    first = file.read_text().splitlines()[0]
    assert first == MODELINE
    assert (file.parent / first.partition("$schema=")[2]).samefile(REPO / FILE)


def test_guards_are_printed_as_the_stack_makes_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "guards", "onprem-roce-shared")
    objects = list(yaml.safe_load_all(out))
    resolved = resolve(load(REPO / "stacks" / "Pulumi.onprem-roce-shared.yaml"))
    wanted = {**resolved.guards, **resolved.ending}
    specs = {
        kind: {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == kind}
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    }
    assert code == ExitCode.OK
    assert {o["apiVersion"] for o in objects} == {"admissionregistration.k8s.io/v1"}
    assert specs["ValidatingAdmissionPolicy"] == {n: g.policy for n, g in wanted.items()}
    bindings = {name: spec for n, g in wanted.items() for name, spec in g.bound(n).items()}
    assert specs["ValidatingAdmissionPolicyBinding"] == bindings
    # As the page of the rules says of each that has guards.
    page = (REPO / "docs/reviewing.md").read_text()
    column = [row.rpartition(" | ")[2] for row in page.splitlines() if row.startswith("| `")]
    named = {name for cell in column for name in re.findall(r"`(railhead-[\w-]+)`", cell)}
    assert len(named) > 4
    assert named <= set(wanted)
