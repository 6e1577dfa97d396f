"""``pulumi-language-python``: a stand-in language host, in Python, for Python programs.

Speaks ``pulumirpc.LanguageRuntime``. Each run is a child process of the program's own interpreter
(see :mod:`railhead.lab.engine.interpreter`) that executes :mod:`railhead.lab.engine.program`.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import grpc
import pulumi
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from railhead.base import backend
from railhead.base.errors import PrerequisiteError, RailheadError
from railhead.lab.engine import program, serving
from railhead.lab.engine.interpreter import environment_for, find_python, virtualenv_dir

STAND_IN = (
    "railhead: the Python language host is Railhead's stand-in for pulumi-language-python; "
    "install the official plugin to replace it"
)
_LIST_PACKAGES = (
    "import importlib.metadata as m, json;"
    "print(json.dumps([[d.metadata['Name'], d.version, bool(d.requires is None)]"
    " for d in m.distributions() if d.metadata['Name']]))"
)
_VERSION = "import platform; print(platform.python_version())"


class Children:
    """The processes that this host started, so that none outlives it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a child in a process group of its own; ``stdout`` None inherits."""
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        with self._lock:
            self._running.add(child)
        return child

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Return the child's exit status; negative for the signal that ended it."""
        try:
            return child.wait()
        finally:
            with self._lock:
                self._running.discard(child)

    def kill(self, child: subprocess.Popen[bytes], grace_s: float = 2.0) -> None:
        """End the child and what it started: SIGTERM, then SIGKILL after ``grace_s`` seconds."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
            except (ProcessLookupError, PermissionError):
                return
            try:
                child.wait(timeout=grace_s)
                return
            except subprocess.TimeoutExpired:
                continue

    def kill_all(self) -> None:
        """End every child."""
        with self._lock:
            running = list(self._running)
        for child in running:
            self.kill(child, grace_s=0.5)


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The LanguageRuntime service for ``runtime: python``."""

    def __init__(self, engine_address: str = "") -> None:
        self._engine_address = engine_address
        self._report = serving.EngineLog(engine_address)
        self._children = Children()

    def close(self) -> None:
        """End everything that runs."""
        self._children.kill_all()

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Take the engine's address when the engine attaches to a running host."""
        self._engine_address = request.engine_address
        self._report.connect(request.engine_address)
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """Return the SDK's version, which is what the official host reports as well."""
        return plugin_pb2.PluginInfo(version=_sdk_version())

    def GetRequiredPlugins(
        self, request: language_pb2.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Return no plugins: the engine finds providers when resources ask for them."""
        return language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Return no packages, so that the engine downloads no provider that a stand-in serves."""
        return language_pb2.GetRequiredPackagesResponse()

    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """Return no prompts: ``pulumi new`` keeps the defaults."""
        return language_pb2.RuntimeOptionsResponse()

    def Template(
        self, request: language_pb2.TemplateRequest, context: grpc.ServicerContext
    ) -> language_pb2.TemplateResponse:
        """Do nothing: templates need no further work."""
        return language_pb2.TemplateResponse()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End the running program."""
        threading.Thread(target=self.close, daemon=True).start()
        return empty_pb2.Empty()

    def Run(
        self, request: language_pb2.RunRequest, context: grpc.ServicerContext
    ) -> language_pb2.RunResponse:
        """Run the program; its output goes to this plugin's, which the engine shows."""
        self._report.debug(STAND_IN)
        options = _options(request.info)
        root = Path(request.info.root_directory or request.pwd)
        directory = Path(request.info.program_directory or request.pwd)
        try:
            python = find_python(options, root)
            self._check_types(options, python, directory)
        except RailheadError as error:
            return language_pb2.RunResponse(error=str(error))
        entry = request.info.entry_point or request.program or "."
        env = environment_for(python)
        env["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        env["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        argv = [str(python), "-u", program.__file__]
        values = {
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "root": str(root),
            "pwd": request.pwd or str(directory),
            "monitor": request.monitor_address,
            "engine": self._engine_address,
            "parallel": str(request.parallel),
        }
        for name, value in values.items():
            # One word each: a value that begins with a dash must not read as an option.
            argv.append(f"--{name}={value}")
        if request.dryRun:
            argv.append("--dry-run")
        argv += ["--", str(directory / entry), *request.args]
        try:
            child = self._children.start(argv, cwd=str(directory), env=env)
        except OSError as error:
            return language_pb2.RunResponse(error=f"{python} could not be started: {error}")
        context.add_callback(lambda: self._children.kill(child))
        status = self._children.wait(child)
        if status == 0:
            return language_pb2.RunResponse()
        if status == program.ERROR_SHOWN:
            return language_pb2.RunResponse(bail=True)
        if status < 0:
            return language_pb2.RunResponse(
                error=f"the program was ended by signal {signal.Signals(-status).name}"
            )
        return language_pb2.RunResponse(error=f"the program exited with status {status}")

    def About(
        self, request: language_pb2.AboutRequest, context: grpc.ServicerContext
    ) -> language_pb2.AboutResponse:
        """Return the interpreter that would run the program."""
        try:
            python = find_python(_options(request.info), Path(request.info.root_directory or "."))
        except RailheadError:
            python = Path(sys.executable)
        return language_pb2.AboutResponse(
            executable=str(python),
            version=_output([str(python), "-c", _VERSION]).strip(),
            metadata={"stand-in": "railhead"},
        )

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """Return the packages installed in the program's environment."""
        try:
            root = Path(request.info.root_directory or ".")
            python = find_python(_options(request.info), root)
            listed = json.loads(_output([str(python), "-c", _LIST_PACKAGES]) or "[]")
        except (RailheadError, ValueError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=name, version=version)
                for name, version, _ in sorted(listed)
            ]
        )

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Make the virtual environment and install the requirements (``pulumi install``)."""
        directory = Path(request.info.program_directory or request.directory)
        root = Path(request.info.root_directory or directory)
        try:
            commands = _install_commands(_options(request.info), root, directory)
        except RailheadError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        for argv in commands:
            child = self._children.start(
                argv,
                cwd=str(directory),
                env=os.environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            context.add_callback(functools.partial(self._children.kill, child))
            for line in child.stdout or ():
                yield language_pb2.InstallDependenciesResponse(stdout=line)
            if status := self._children.wait(child):
                context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION, f"{argv[0]} exited with status {status}"
                )

    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a policy pack, or a provider written in Python, and stream what it prints."""
        directory = Path(request.info.program_directory or request.pwd)
        root = Path(request.info.root_directory or directory)
        try:
            python = find_python(_options(request.info), root)
        except RailheadError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        env = environment_for(python)
        for item in request.env:
            variable, mark, value = item.partition("=")
            if mark:
                env[variable] = value
        target = str(directory / (request.info.entry_point or "."))
        if request.kind == "analyzer":
            runner = str(Path(__file__).with_name("policy_pack.py"))
            argv = [str(python), "-u", runner, *request.args, target]
        else:
            argv = [str(python), "-u", target, *request.args]
        child = self._children.start(
            argv,
            cwd=request.pwd or str(directory),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(lambda: self._children.kill(child))
        chunks: queue.Queue[language_pb2.RunPluginResponse | None] = queue.Queue()

        def pump(stream: IO[bytes], name: str) -> None:
            while chunk := os.read(stream.fileno(), 65536):
                message = (
                    language_pb2.RunPluginResponse(stdout=chunk)
                    if name == "stdout"
                    else language_pb2.RunPluginResponse(stderr=chunk)
                )
                chunks.put(message)
            chunks.put(None)

        open_streams = 0
        for stream, name in ((child.stdout, "stdout"), (child.stderr, "stderr")):
            if stream is not None:
                open_streams += 1
                threading.Thread(target=pump, args=(stream, name), daemon=True).start()
        while open_streams:
            message = chunks.get()
            if message is None:
                open_streams -= 1
            else:
                yield message
        yield language_pb2.RunPluginResponse(exitcode=self._children.wait(child))

    def _check_types(self, options: Mapping[str, Any], python: Path, directory: Path) -> None:
        checker = options.get("typechecker")
        if not checker or checker == "none":
            return
        commands = {"mypy": ["-m", "mypy", "."], "pyright": ["-m", "pyright", "."]}
        if checker not in commands:
            raise PrerequisiteError(
                f"runtime option typechecker is {checker!r}; allowed: mypy, pyright",
                remedy="correct runtime.options.typechecker in Pulumi.yaml",
            )
        done = subprocess.run(
            [str(python), *commands[checker]],
            cwd=directory,
            env=environment_for(python),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RailheadError(f"{checker} found errors:\n{done.stdout}{done.stderr}")


def _sdk_version() -> str:
    version = getattr(pulumi, "__version__", None)
    if isinstance(version, str):
        return version
    import importlib.metadata

    return importlib.metadata.version("pulumi")


def _options(info: language_pb2.ProgramInfo) -> dict[str, Any]:
    return json_format.MessageToDict(info.options) if info.HasField("options") else {}


def _output(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _install_commands(options: Mapping[str, Any], root: Path, directory: Path) -> list[list[str]]:
    toolchain = str(options.get("toolchain") or "pip")
    if toolchain in ("poetry", "uv"):
        tool = shutil.which(toolchain)
        if tool is None:
            raise PrerequisiteError(
                f"toolchain {toolchain!r} is configured but {toolchain} is not on PATH",
                remedy=f"install {toolchain}, or set runtime.options.toolchain to pip",
            )
        return [[tool, "install", "--no-ansi"] if toolchain == "poetry" else [tool, "sync"]]
    commands: list[list[str]] = []
    venv = virtualenv_dir(options, root)
    python = Path(sys.executable)
    if venv is not None:
        python = venv / "bin" / "python"
        if not python.exists():
            commands.append([sys.executable, "-m", "venv", str(venv)])
    for folder in (directory, root):
        requirements = folder / "requirements.txt"
        if requirements.exists():
            commands.append([str(python), "-m", "pip", "install", "-r", str(requirements)])
            break
    return commands


def main(argv: list[str]) -> None:
    """Entry point of the plugin; ``argv`` as the engine gives it."""
    address = serving.engine_address(argv)
    host = LanguageHost(address)
    if address:
        backend.start_guard(serving.engine_pid())
    serving.serve(
        lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server),
        argv=argv,
        on_stop=host.close,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
