"""Rules that hold for the whole repository, checked on the files that git would ship."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from railhead.base.errors import ExitCode
from railhead.base.version import __version__
from railhead.catalog.versions import LAB, ModuleChart
from railhead.cli import BROUGHT_BY, GROUP
from tests.docs import commands

pytestmark = pytest.mark.house

REPO = Path(__file__).resolve().parents[2]
MEBIBYTE = 2**20

# Each is spelt in pieces, so that this file passes its own test.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "python" + "hosted.org",
    "proxy.golang" + ".org",
    "sum.golang" + ".org",
    "deb.debian" + ".org",
    "security.debian" + ".org",
    "archive.ubuntu" + ".com",
    "security.ubuntu" + ".com",
    "ports.ubuntu" + ".com",
    "registry.npm" + "js",
)
MACHINE_PATHS = ("/work/" + "main", "/work/" + "shared", "/tmp/" + "w/", "/opt/" + "wheels")
AUTHORSHIP = re.compile(
    "|".join(
        (
            r"\bcl" + "aude",
            "anth" + "ropic",
            "chat" + "gpt",
            "co" + "pilot",
            r"\bassis" + "tants?\\b",
            r"\b(an|the|this) AI" + r"\b",
            "AI-" + "(generated|written|assisted)",
            "language " + "model (wrote|generated)",
            "co-authored" + "-by",
        )
    ),
    re.IGNORECASE,
)


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git ships or would ship, relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = (Path(name) for name in listed.stdout.decode().split("\0") if name)
    return tuple(sorted(name for name in names if (REPO / name).is_file()))


#: Of real runs, for pages; everything else is text.
PICTURES = Path("docs/pictures")


def texts() -> Iterator[tuple[Path, str]]:
    for name in tracked():
        if name.parent == PICTURES:
            continue
        yield name, (REPO / name).read_text(encoding="utf-8")


def python_sources(*folders: str) -> list[Path]:
    return [
        name
        for name in tracked()
        if name.suffix == ".py" and (not folders or name.parts[0] in folders)
    ]


def parsed(source: Path | str) -> ast.Module:
    """Return a source's syntax tree."""
    text = (REPO / source).read_text()
    try:
        return ast.parse(text, str(source))
    except SystemError:
        # CPython 3.11 counts the converter's depth for all threads together (gh-106905).
        return ast.parse(text, str(source))


@cache
def imports(source: Path) -> frozenset[str]:
    """Return each module that a file imports anywhere; `from a import b` gives a and a.b."""
    names: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


# -- what is in the files -------------------------------------------------------------------------


def test_every_file_is_small_text() -> None:
    """The repository is source: nothing large and nothing binary, but for a page's pictures."""
    wrong = []
    for name in tracked():
        content = (REPO / name).read_bytes()
        if name.parent == PICTURES:
            if not content.startswith(b"\x89PNG") or len(content) > 300_000:
                wrong.append(f"{name}: no PNG, or more than 300 kB")
            continue
        if len(content) > MEBIBYTE:
            wrong.append(f"{name}: {len(content)} bytes")
        if b"\0" in content:
            wrong.append(f"{name}: binary")
    assert not wrong


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_no_registry_host(host: str) -> None:
    """Packages come by name from whatever registry the machine is set to."""
    assert [str(name) for name, text in texts() if host in text] == []


@pytest.mark.parametrize("path", MACHINE_PATHS)
def test_no_path_of_one_machine(path: str) -> None:
    assert [str(name) for name, text in texts() if path in text] == []


def test_files_are_about_the_work_not_about_who_did_it() -> None:
    hits = [f"{name}: {hit.group()}" for name, text in texts() for hit in AUTHORSHIP.finditer(text)]
    assert hits == []


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ("Co-Authored" + "-By: x", True),
        ("as the A" + "I said", True),
        ("the device plugin is a node's agent", False),
        ("trains a language model on two nodes", False),
    ],
)
def test_the_authorship_rule_tells_apart(text: str, fires: bool) -> None:
    assert bool(AUTHORSHIP.search(text)) is fires


def test_scripts_are_executable_and_stop_at_the_first_error() -> None:
    scripts = [name for name, text in texts() if text.startswith("#!") and "bash" in text[:32]]
    assert {Path(".ci/run"), Path("tools/bootstrap.sh")} <= set(scripts)
    for name in scripts:
        assert (REPO / name).stat().st_mode & 0o111, f"{name} is not executable"
        assert "set -euo pipefail" in (REPO / name).read_text(), name
        subprocess.run(["bash", "-n", str(REPO / name)], check=True)


# -- who may import whom --------------------------------------------------------------------------

# Every package of railhead, and which of the others it may import. A new package belongs here.
MAY_IMPORT = {
    # What everything stands on.
    "base": "",
    # Instance types: rows in YAML, and their type.
    "machines": "base",
    "catalog": "base machines",
    # A stack: what is written in its file, parsed and checked, then resolved for all who read it.
    "fabric": "base machines catalog",
    "model": "base machines catalog fabric framework",
    "platform": "base machines catalog fabric model",
    "framework": "base catalog",
    "config": "base machines catalog fabric model platform framework contract kube",
    "resolve": "base machines catalog fabric model platform framework config contract gate watch",
    # Alerts, dashboards, and programs that run in the cluster beside what they watch.
    "watch": "base catalog gate",
    # What a cluster tells its users, and how one talks to it. Machines' facts are everybody's.
    "contract": "base",
    "kube": "base machines catalog contract",
    # What a researcher runs: they know a cluster by its contract alone. `status` asks diagnose, and
    # what proves a job's fabric in its pods is sent with it, as files of nccl.
    "launch": "base contract kube storage framework nccl evidence",
    # Logs and measurements, against what the catalogue says that a machine can do.
    "nccl": "base machines",
    "diagnose": "base nccl",
    # What diagnose reads, from a cluster.
    "evidence": "base contract kube nccl diagnose",
    # The state of the last update, against what is live.
    "drift": "base kube",
    # Claims of the contract, and the proof that nodes share them.
    "storage": "base contract kube",
    # Promises, each proven by jobs that are launched as a researcher's, and read as they are.
    "accept": "base machines catalog contract kube launch nccl storage",
    # Runs on the nodes: further held by test_the_gate_needs_nothing_but_python.
    "gate": "base",
    "lab": "base machines catalog fabric model platform config resolve contract kube",
    # What a stack takes for granted, asked of its cloud or cluster before the first up.
    "preflight": "base machines catalog model platform config kube",
    # A pull request's two plans, compared.
    "review": "base machines catalog model config contract lab",
    # A stack's whole life, on a twin of its cluster.
    "twin": "base machines catalog fabric framework model config resolve contract kube gate lab",
    # The two that put the rooms of the core together.
    "cli": "base machines catalog fabric model platform config resolve contract kube launch nccl"
    " diagnose evidence drift storage preflight",
    "__main__": "cli",
    # What a project's own `__main__.py` calls.
    "program": "base config contract resolve components",
    # The same for programs in other languages.
    "provider": "base config platform components",
    # Top-level folders, which links bring in. Further held by LAYERS.
    "components": "base machines catalog fabric model platform config resolve contract gate watch",
    "policies": "base catalog fabric resolve contract",
}

# (files under, must not import, why)
LAYERS = [
    ("components", "railhead.launch", "data flows from components to launch, by the contract"),
    ("components", "railhead.lab", "a component may not know which environment it is in"),
    ("policies", "railhead.launch", "a policy reads a plan, it launches nothing"),
    ("railhead/launch", "pulumi", "a researcher installs no Pulumi"),
    ("railhead/launch", "pulumi_kubernetes", "a researcher installs no Pulumi"),
    ("railhead/launch", "grpc", "a researcher installs no gRPC"),
    ("", "components", "they are imported as railhead.components"),
    ("", "policies", "they are imported as railhead.policies"),
    ("railhead", "tests", "the installed package stands without the checkout"),
]


@pytest.mark.parametrize(("folder", "forbidden", "why"), LAYERS)
def test_layers(folder: str, forbidden: str, why: str) -> None:
    sources = [name for name in python_sources() if name.is_relative_to(folder)]
    assert sources, f"no Python under {folder}"
    hits = [
        f"{name} imports {module}: {why}"
        for name in sources
        for module in sorted(imports(name))
        if within(module, forbidden)
    ]
    assert hits == []


def test_every_package_imports_only_what_is_below_it() -> None:
    wrong = []
    for module_name, name in modules().items():
        package = package_of(module_name)
        if package == "":
            continue
        assert package in MAY_IMPORT, f"railhead.{package} has no row in MAY_IMPORT"
        allowed = {"railhead", f"railhead.{package}"}
        allowed |= {f"railhead.{other}" for other in MAY_IMPORT[package].split()}
        wrong += [
            f"{name} imports {module}"
            for module in sorted(modules_imported(name))
            if within(module, "railhead") and ".".join(module.split(".")[:2]) not in allowed
        ]
    assert wrong == []


# Every distribution: its packages, its folder, and the distributions that it may import.
DISTRIBUTIONS = {
    "railhead-diagnose": ("distributions/diagnose", "base machines nccl diagnose", ""),
    "railhead": (
        ".",
        "__init__ __main__ catalog fabric model platform framework config resolve watch contract"
        " kube launch evidence drift storage preflight gate cli program provider components"
        " policies",
        "railhead-diagnose",
    ),
    "railhead-accept": ("distributions/accept", "accept", "railhead railhead-diagnose"),
    "railhead-lab": ("distributions/lab", "lab review twin", "railhead railhead-diagnose"),
}


def test_every_package_is_in_one_distribution() -> None:
    listed = [name for _, packages, _ in DISTRIBUTIONS.values() for name in packages.split()]
    assert len(listed) == len(set(listed)), "a package is in two distributions"
    missing = {package_of(module) or "__init__" for module in modules()} - set(listed)
    assert not missing, (
        f"in no row of DISTRIBUTIONS: {', '.join(sorted(missing))}; add it to one, and unless that "
        "is the core, link it in the distribution's folder and exclude it in pyproject.toml"
    )


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_imports_only_those_it_builds_on(distribution: str) -> None:
    _, own, below = DISTRIBUTIONS[distribution]
    allowed = set(own.split())
    for other in below.split():
        allowed |= set(DISTRIBUTIONS[other][1].split())
    wrong = [
        f"{source} imports {module}"
        for name, source in modules().items()
        if (package_of(name) or "__init__") in own.split()
        for module in sorted(modules_imported(source))
        if within(module, "railhead") and (package_of(module) or "__init__") not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_asks_for_those_it_builds_on(distribution: str) -> None:
    """Each is named at its very version, or by one that names it."""
    folder, packages, below = DISTRIBUTIONS[distribution]
    table = project(distribution)
    assert table["name"] == distribution
    asked: dict[str, str] = {}
    for requirement in map(Requirement, table["dependencies"]):
        if requirement.name in DISTRIBUTIONS:
            assert str(requirement.specifier) == f"=={__version__}", requirement
            asked[requirement.name] = DISTRIBUTIONS[requirement.name][2]
    assert set(asked) | set(" ".join(asked.values()).split()) == set(below.split())
    # Its folder has links to its packages; the core's are the tree itself.
    if folder != ".":
        assert {path.name for path in (REPO / folder / "railhead").iterdir()} == set(
            packages.split()
        )
        assert (REPO / folder / "LICENSE").read_bytes() == (REPO / "LICENSE").read_bytes()


def test_allowed_imports_have_no_circle() -> None:
    graph = {package: set(below.split()) for package, below in MAY_IMPORT.items()}
    assert circles(graph) == []


def test_the_gate_needs_nothing_but_python() -> None:
    """The gate runs from files in a ConfigMap, in any image that has a Python."""
    shipped = [name for name in python_sources("railhead") if name.is_relative_to("railhead/gate")]
    for name in [*shipped, Path("railhead/base/finding.py")]:
        for module in modules_imported(name):
            ours = within(module, "railhead.gate") or module == "railhead.base.finding"
            assert ours or module.split(".")[0] in sys.stdlib_module_names, (name, module)


@cache
def modules() -> dict[str, Path]:
    """Return every module of ours by its name."""
    named = {}
    for name in python_sources("railhead", "components", "policies"):
        module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
        # They are top-level folders, which links inside the package bring in.
        named[module if name.parts[0] == "railhead" else f"railhead.{module}"] = name
    return named


@cache
def modules_imported(source: Path) -> frozenset[str]:
    """Modules that a file imports; `from a import b` gives a.b where that is a module of ours."""
    ours = modules()
    imported: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                imported.add(inner if inner in ours else node.module)
    return frozenset(imported)


def circles(graph: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """Return the strongly connected components of several nodes (Tarjan), and self-loops."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = [[node] for node, onward in graph.items() if node in onward]

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for onward in graph[node] & graph.keys():
            if onward not in index:
                visit(onward)
            if onward in stack:
                low[node] = min(low[node], low[onward])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                components.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return components


def package_of(module: str) -> str:
    """Return the package of railhead that a module is in; empty for railhead itself."""
    return module.split(".")[1] if "." in module else ""


def test_no_circle_of_imports() -> None:
    """Imports at the top of a module, inside functions and for the type checker all count."""
    graph = {module: modules_imported(name) for module, name in modules().items()}
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, [["a", "b", "c"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"a", "d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
        ({"a": {"a"}}, [["a"]]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], found: list[list[str]]) -> None:
    assert circles(graph) == found


def test_only_the_policy_pack_starts_a_pack() -> None:
    """`PolicyPack(...)` blocks for ever, so importing a module of rules must not meet it."""
    for name in python_sources():
        # Its function `serve` is what a pack's own `__main__.py` calls.
        if name == Path("policies/pack.py") or name.parts[0] == "tests":
            continue
        calls = [
            node
            for node in ast.walk(parsed(name))
            if isinstance(node, ast.Call)
            and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) == "PolicyPack"
        ]
        assert not calls, f"{name} starts a PolicyPack"


def test_no_template_language() -> None:
    for name in python_sources():
        for module in imports(name):
            assert module.split(".")[0] not in {"jinja2", "mako", "chevron"}, name


# -- how it starts --------------------------------------------------------------------------------


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_starts_light() -> None:
    """`railhead --help` must not pay for the engine, for gRPC or for a Kubernetes client."""
    loaded = json.loads(
        run_python("import json, sys, railhead.cli; print(json.dumps(sorted(sys.modules)))")
    )
    heavy = ("pulumi", "pulumi_kubernetes", "kr8s", "kubernetes", "grpc", "cryptography", "httpx")
    assert [module for module in loaded if module.split(".")[0] in heavy] == []


def test_launch_works_where_pulumi_is_not_installed() -> None:
    """A researcher's machine has the base dependencies only: everything of launch imports there."""
    modules = [
        ".".join(name.with_suffix("").parts).removesuffix(".__init__")
        for name in python_sources("railhead")
        if name.is_relative_to("railhead/launch")
        or name in {Path("railhead/cli/__init__.py"), Path("railhead/contract/__init__.py")}
    ]
    assert any("launch" in module for module in modules)
    run_python(
        "import importlib, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'pulumi', 'pulumi_kubernetes', 'pulumi_policy', 'grpc',"
        " 'google', 'kubernetes'} or name in {'railhead.components', 'railhead.policies'}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"for module in {modules!r}:\n"
        "    importlib.import_module(module)\n"
    )


# -- dependencies ---------------------------------------------------------------------------------


@cache
def project(distribution: str = "railhead") -> dict[str, Any]:
    file = REPO / DISTRIBUTIONS[distribution][0] / "pyproject.toml"
    data: dict[str, Any] = tomllib.loads(file.read_text())["project"]
    return data


def test_commands_of_other_distributions_name_them() -> None:
    brought = {
        command: name
        for name in DISTRIBUTIONS
        for command in project(name).get("entry-points", {}).get(GROUP, {})
    }
    assert brought == BROUGHT_BY


def declared(text: str) -> set[str]:
    """Return what `pip install` of a requirement brings, without our own distributions."""
    names: set[str] = set()
    queue = [Requirement(text)]
    while queue:
        requirement = queue.pop()
        if requirement.name not in DISTRIBUTIONS:
            names.add(canonicalize_name(requirement.name))
            continue
        table = project(requirement.name)
        asked = [*table["dependencies"]]
        for extra in requirement.extras:
            asked += table["optional-dependencies"][extra]
        queue += map(Requirement, asked)
    return names


def pins(name: str) -> dict[str, str]:
    """Distribution to version of one requirement file; fails on anything but hashed pins."""
    versions: dict[str, str] = {}
    text = (REPO / "requirements" / name).read_text().replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        match = re.fullmatch(
            r"([A-Za-z0-9._-]+)==([^\s;]+)(?: ; [^#]*?)?((?:\s+--hash=sha256:[0-9a-f]{64})+)", line
        )
        assert match, f"requirements/{name}: not a pin with hashes: {line[:80]}"
        versions[canonicalize_name(match[1])] = match[2]
    return versions


SETS = sorted(path.name for path in (REPO / "requirements").glob("*.txt"))


@pytest.mark.parametrize("name", SETS)
def test_requirements_are_hashed_pins_and_nothing_else(name: str) -> None:
    assert pins(name)
    text = (REPO / "requirements" / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-[^-]|--(index|extra|find|trusted|pre)", text, re.MULTILINE)


def test_requirement_sets_agree_on_every_version() -> None:
    everything = pins("dev.txt")
    for name in SETS:
        for distribution, version in pins(name).items():
            assert everything.get(distribution, version) == version, (name, distribution)


@pytest.mark.parametrize(
    ("name", "requirement"),
    [
        ("base.txt", "railhead"),
        ("deploy.txt", "railhead[deploy]"),
        ("nccl.txt", "railhead[nccl]"),
        ("lab.txt", "railhead-lab"),
        ("verify.txt", "railhead[verify]"),
        ("dev.txt", "railhead[dev]"),
        ("dev.txt", "railhead-accept[sign]"),
    ],
)
def test_requirement_sets_hold_what_is_declared(name: str, requirement: str) -> None:
    assert declared(requirement) <= set(pins(name))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_pinned_versions_satisfy_the_declared_ranges(distribution: str) -> None:
    table = project(distribution)
    have = pins("dev.txt") | pins("aws.txt") | pins("gcp.txt") | pins("verify.txt")
    optional = table.get("optional-dependencies", {})
    for text in [*table["dependencies"], *(t for extra in optional.values() for t in extra)]:
        requirement = Requirement(text)
        if requirement.name not in DISTRIBUTIONS:
            version = have[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), (text, version)


def test_researchers_install_neither_pulumi_nor_grpc() -> None:
    assert not {"pulumi", "pulumi-kubernetes", "grpcio", "protobuf"} & set(pins("base.txt"))


# Distributions that are the other half of a declared one, at a version that it dictates.
BROUGHT = {
    "pydantic": {"pydantic-core"},
    "pulumi": {"grpcio", "protobuf", "semver"},
    "pytest": {"packaging", "pluggy"},
}


def brought(allowed: set[str]) -> set[str]:
    return {other for name, others in BROUGHT.items() if name in allowed for other in others}


def test_imported_packages_are_declared() -> None:
    """A module that only happens to be installed is missing on the next machine."""
    first_party = {"railhead", "tests", "tools", "benchmarks"}
    providers = importlib.metadata.packages_distributions()
    wrong = []
    builds = {
        package: distribution
        for distribution, (_, packages, _) in DISTRIBUTIONS.items()
        for package in packages.split()
    }
    for name in python_sources():
        if name.parts[0] == "examples" or name == Path("tests/lab/rails.py"):
            continue  # runs in a training image, with what the image has
        if name.parent.name == "programs":
            continue  # the same: shipped with a job, and imported by no other module
        # The deploy side of the package; the rest is the researcher's.
        deploys = {
            Path("railhead/config"),
            Path("railhead/resolve"),
            Path("railhead/contract/reference.py"),
            Path("railhead/program.py"),
            Path("railhead/provider"),
        }
        if any(name.is_relative_to(path) for path in deploys):
            allowed = declared("railhead[deploy]")
        elif name == Path("tools/site.py"):
            # requirements/docs.in: it builds the site alone.
            allowed = declared("railhead[dev]") | {"mkdocs"}
        elif name.is_relative_to("railhead/nccl"):
            # Optional there: without it logs are read slower, and zstd ones are refused.
            allowed = declared("railhead-diagnose[nccl]")
        elif name == Path("railhead/accept/signing.py"):
            # Optional too: digests need none of it, signatures are refused without it.
            allowed = declared("railhead-accept[sign]")
        elif name == Path("railhead/cli/release.py"):
            # Optional too: without it nobody's signature is read.
            allowed = declared("railhead[verify]")
        elif name == Path("railhead/preflight/reading.py"):
            # The extra of the cloud that is asked: without it preflight says what to install.
            allowed = declared("railhead[aws]") | declared("railhead[gcp]")
        elif name.parts[0] == "railhead":
            allowed = declared(builds.get(name.with_suffix("").parts[1], "railhead"))
        elif name.is_relative_to("components/aws") or name.is_relative_to("components/gcp"):
            # Each cloud's SDK is an extra of its own, which only its own components import.
            allowed = declared(f"railhead[{name.parts[1]}]")
        elif name.parts[0] in {"components", "policies", "__main__.py"}:
            allowed = declared("railhead[deploy]")
        else:
            allowed = declared("railhead[dev]")
        for module in imports(name):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top in first_party:
                continue
            distributions = {canonicalize_name(d) for d in providers.get(top, [top])}
            if not distributions & (allowed | brought(allowed)):
                wrong.append(f"{name} imports {top} ({', '.join(sorted(distributions))})")
    assert wrong == []


def test_the_catalogue_names_what_the_lab_builds() -> None:
    """One go.mod builds the controllers; the catalogue must name those very versions."""
    text = (REPO / "railhead/lab/build/core/go.mod").read_text()
    required = dict(re.findall(r"^\s+(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))
    for controller in (LAB.kueue, LAB.jobset, LAB.trainer):
        chart = controller.chart
        assert isinstance(chart, ModuleChart), controller.name
        assert required[chart.module] == chart.module_version, controller.name
        assert chart.module_version == f"v{controller.version}" == controller.tag
    minor = re.match(r"v(1\.\d+)\.", required["k8s.io/kubernetes"])
    assert minor
    oldest, newest = (tuple(map(int, v.split("."))) for v in LAB.kubernetes)
    assert oldest <= tuple(map(int, minor[1].split("."))) <= newest


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", commands.command_paths(), ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    """`--help` says what the command does and shows it in use; the example parses."""
    command = commands.command_at(path)
    help_text = command.help or ""
    assert len(help_text.split()) >= 4, f"railhead {' '.join(path)}: no help"
    shown = re.sub(r"\[/?\w+\]", "", f"{help_text}\n{getattr(command, 'epilog', '') or ''}")
    name = f"railhead {' '.join(path)}"
    examples = re.findall(rf"Example: ([^\n]*{re.escape(name)}\b[^\n]*)", shown)
    assert examples, f"{name} --help shows no `Example: {name} ...`"
    for example in examples:
        line = example.split("`")[0].rstrip(" .")
        problem = commands.check(line, REPO)
        assert problem is None, f"{name} --help: {line}: {problem}"
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert getattr(parameter, "help", None), f"{' '.join(path)}: {parameter.opts} no help"


# -- the project's own papers ---------------------------------------------------------------------


def test_the_exit_code_page_lists_every_code() -> None:
    page = (REPO / "docs/exit-codes.md").read_text()
    rows = {int(number): name for number, name in re.findall(r"^\| (\d+) \| `(\w+)` ", page, re.M)}
    assert rows == {code.value: code.name for code in ExitCode}


def test_the_changelog_knows_this_version() -> None:
    import railhead

    assert f"## {railhead.__version__}" in (REPO / "CHANGELOG.md").read_text()


def test_licence() -> None:
    text = (REPO / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert project()["license"] == "Apache-2.0"


def test_hooks_are_local() -> None:
    """Hooks run the pinned tools of .venv: nothing is fetched when a commit is made."""
    import yaml

    config = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text())
    assert [entry["repo"] for entry in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system", hook["id"]
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"],
        cwd=REPO,
        check=True,
    )


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "make test" in (REPO / ".ci/run").read_text()
    assert "make test" in (REPO / "README.md").read_text()
    assert "make demo" in (REPO / "README.md").read_text()
