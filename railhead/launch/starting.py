"""`railhead run`, one line that is a job, and `railhead init`, a first job file."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.errors import InputError, PrerequisiteError
from railhead.base.options import Context, Json, Kubeconfig, Lab, grouped
from railhead.launch.console import Explain, Files, Image, Queue, Sets, connected, out, say

if TYPE_CHECKING:
    from railhead.contract import ClusterContract, Runtime

SIZE = re.compile(r"([0-9]{1,5})(?:x([0-9]{1,3}))?")


def _named(items: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise InputError(
                f"{option} {item}: not NAME=VALUE", remedy=f"{option} {name or 'NAME'}=VALUE"
            )
        pairs[name] = value
    return pairs


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `railhead run` that set fields of its job."""

    size: Annotated[
        str,
        typer.Option("-j", "--size", metavar="NODES[xGPUS]", help="Nodes, and GPUs on each."),
    ] = "1"
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Its name; else made up.")
    ] = None
    image: Image = None
    runtime: Annotated[
        str | None, typer.Option("--runtime", metavar="NAME", help="Else the cluster's first one.")
    ] = None
    queue: Queue = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable. Repeatable."),
    ] = None
    files: Files = None
    sets: Sets = None

    def values(self, command: list[str]) -> dict[str, Any]:
        """Return the fields as a job file has them, with this command.

        Raises:
            InputError: the size, a variable or a field is not written as it must be.
        """
        from railhead.launch.job import override_values

        nodes, gpus = _sizes(self.size)
        values = {
            "name": self.name or _made_up_name(Path(command[0])),
            "nodes": nodes,
            "gpus_per_node": gpus,
            "command": command,
            "env": _named(self.env, "--env"),
            "files": list(self.files or ()),
            "image": self.image,
            "runtime": self.runtime,
            "queue": self.queue,
        }
        values = {field: value for field, value in values.items() if value is not None}
        mistakes = override_values(values, self.sets or ())
        if mistakes:
            raise InputError("; ".join(mistakes), remedy="such as --set timeout=2h")
        return values


def _sizes(size: str) -> tuple[int, int | None]:
    """Return the nodes, and the GPUs on each where the size says them."""
    match = SIZE.fullmatch(size)
    if match is None:
        raise InputError(
            f"-j {size}: not a size; allowed: NODES or NODESxGPUS, such as 2x8", remedy="-j 2x8"
        )
    return int(match[1]), int(match[2]) if match[2] else None


def _made_up_name(program: Path) -> str:
    """Return the program's name and six random digits, as a job may be called."""
    from railhead.launch.job import MAX_NAME

    stem = re.sub(r"[^a-z0-9]+", "-", program.stem.lower()).strip("-") or "run"
    stem = stem if stem[0].isalpha() else f"run-{stem}"
    return f"{stem[: MAX_NAME - 7]}-{secrets.token_hex(3)}"


@grouped
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ],
    options: Options,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the logs and wait for the end.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Run all checks and print the objects; create nothing."),
    ] = False,
    explain: Explain = False,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Launch a job from one line.

    A script of this folder is taken along, and begun as its runtime's framework begins it.

    Example: [bold]railhead run -j 2x8 --env EPOCHS=3 -- torchrun /workspace/train.py[/bold]

    Exits as `railhead launch` does.
    """
    from railhead.kube.published import read_contract
    from railhead.launch import cli
    from railhead.launch.choose import named_runtime
    from railhead.launch.job import JobFile, job_of
    from railhead.launch.plan import make_plan

    script, values = Path(command[0]), options.values(list(command))
    with connected(kubeconfig, context, lab) as cluster:
        contract = read_contract(cluster)
        if script.suffix == ".py":
            chosen = named_runtime(values.get("runtime"), contract)
            values["command"] = _started(script, list(command), values["files"], chosen)
        job, payloads = job_of(values, folder=Path.cwd(), where="the command line")
        plan = make_plan(job, payloads, contract)
        if explain:
            texts = dict.fromkeys(JobFile.model_fields, "command line")
            made_up = {"name": "made up: the program's name and six random digits"}
            texts |= {} if options.name else made_up
            cli.print_explanation(job, plan, contract, options=texts, as_json=as_json)
            return
        cli.launch_plan(cluster, plan, contract, follow=follow, dry_run=dry_run, as_json=as_json)


def _started(script: Path, words: list[str], files: list[str], runtime: Runtime) -> list[str]:
    """Return a script as a command: taken along where it is here."""
    place = str(script)
    if script.is_file():
        # Where the folder goes along anyway, the script lies in it.
        inside = [f for f in files if f != "." and script.is_relative_to(f)]
        if "." in files:
            place = f"/workspace/{script}"
        elif inside:
            place = f"/workspace/{Path(inside[0]).name}/{script.relative_to(inside[0])}"
        else:
            files.append(str(script))
            place = f"/workspace/{script.name}"
    return [*_starter(runtime), place, *words[1:]]


def _starter(runtime: Runtime) -> list[str]:
    """Return the words before a Python file; known frameworks add theirs themselves."""
    from railhead.launch.choose import framework_of

    return [] if framework_of(runtime) else ["python3"]


def init(
    job_file: Annotated[
        Path, typer.Argument(metavar="JOB.yaml", help="The file to write; - prints it.")
    ] = Path("job.yaml"),
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The job's name.")
    ] = "my-first-job",
    runtime: Annotated[
        str | None, typer.Option("--runtime", metavar="NAME", help="Else the cluster's first one.")
    ] = None,
    only_schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of job files alone; asks no cluster."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Write a first job file from what the cluster has, and the JSON Schema of job files beside it.

    Editors with the YAML language server complete and check a job file by the schema that its
    first line names.

    Example: [bold]railhead init job.yaml[/bold]

    Exits 0 when it is written, 3 when there is such a file already.
    """
    from railhead.kube.published import read_contract
    from railhead.launch import schema
    from railhead.launch.choose import named_runtime

    if only_schema:
        out(schema.text().rstrip())
        return
    with connected(kubeconfig, context, lab) as cluster:
        contract = read_contract(cluster)
    if not contract.runtimes:
        raise PrerequisiteError(
            f"cluster {contract.cluster!r} has no runtime",
            remedy="ask the platform team for one",
        )
    chosen = named_runtime(runtime or contract.runtimes[0].name, contract)
    text = first_job(contract, chosen, name)
    if str(job_file) == "-":
        out(text.rstrip())
        return
    try:
        with job_file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(
            f"{job_file}: is there already", remedy="name another file, or remove it"
        ) from None
    except OSError as error:
        raise InputError(f"{job_file}: {error.strerror}", remedy="name another file") from None
    say(f"wrote {job_file}; `railhead launch {job_file} --dry-run` checks it against the cluster")
    _write_schema(job_file.with_name(schema.NAME))


def _write_schema(path: Path) -> None:
    """Write the schema beside a job file; a file of the user's stays, and errors are ignored."""
    from railhead.launch import schema

    made = schema.text()
    try:
        there = path.read_text(encoding="utf-8") if path.exists() else None
        if there == made:
            return
        # A schema of another version of Railhead is rewritten; any other file is not.
        if there is not None and f'"title": "{schema.TITLE}"' not in there:
            say(f"note: {path} is not of Railhead's making and stays as it is")
            return
        path.write_text(made, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        say(f"note: {path} could not be written: {error}")
        return
    say(f"wrote {path}, by which editors complete and check it")


def first_job(contract: ClusterContract, runtime: Runtime, name: str) -> str:
    """Return a job file for a runtime: what must be said, and as comments what may be."""
    import yaml

    from railhead.launch.schema import MODELINE

    queues = [q for q in contract.queues if runtime.pool in q.pools]
    must = {
        "name": name,
        "runtime": runtime.name,
        "nodes": runtime.only_nodes or min(2, runtime.max_nodes or 2),
        "gpus_per_node": runtime.gpus_per_node,
        "command": [*_starter(runtime), "/workspace/train.py"],
        "files": ["train.py"],
    }
    may = {
        "image": runtime.image,
        "queue": queues[0].name if queues else None,
        "env": {"EPOCHS": "10"},
        "timeout": "12h",
        "checkpoint": {"path": name, "resume": "auto"} if runtime.checkpoint else None,
    }
    head = [
        f"A job for cluster {contract.cluster}. Check it: railhead launch FILE --dry-run",
        f"Runtimes: {', '.join(r.name for r in contract.runtimes)}",
        f"Queues over this one's pool: {', '.join(q.name for q in queues) or 'none'}",
        f"GPUs on a node: {', '.join(str(s.gpus) for s in runtime.shares)}; "
        f"nodes: at most {runtime.max_nodes or 'as many as the pool grows to'}",
    ]
    rest = {key: value for key, value in may.items() if value is not None}
    lines = [MODELINE, *(f"# {line}" for line in head)]
    lines += yaml.safe_dump(must, sort_keys=False, default_flow_style=None).splitlines()
    lines.append("# Optional fields:")
    dumped = yaml.safe_dump(rest, sort_keys=False, default_flow_style=None)
    lines += [f"# {line}" for line in dumped.splitlines()]
    return "\n".join(lines) + "\n"


def register(app: typer.Typer) -> None:
    """Add the commands to the root application."""
    app.command()(run)
    app.command()(init)
