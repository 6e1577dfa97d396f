"""The files that a killed `pulumi` leaves in a ``file://`` backend, and which may be removed.

`pulumi` removes its lock when it ends, on Ctrl-C and on SIGTERM too, but not when it is killed with
SIGKILL; the next command then stops until `pulumi cancel` is run. Two more files of a kill stop
every command: a lock half written (``ID.json.TIME.tmp``: gocloud.dev v0.46.0, blob/fileblob,
createTemp, is listed like a lock), and an empty sidecar (``FILE.attrs``: setAttrs truncates and
writes in place; "failed to load checkpoint: EOF"). ``?metadata=skip`` in the backend's URL writes
no sidecars; an old one is read all the same.

The lab's `pulumi` mends its backend before it starts. For another `pulumi` the language host starts
a guard, a small process that outlives a killed `pulumi` for a moment, and mends the backend once
`pulumi` and the stand-ins that it started are gone. For what is left there is `railhead state
--mend`.

This runs as a script of its own with the standard library only, so that it starts in no time.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Set by the launchers (install.py): the process that started the plugin.
ENGINE_PID = "RAILHEAD_ENGINE_PID"
_POLL_S = 0.1
_SIBLINGS_END_WITHIN_S = 10.0
# A file that is being written is whole within milliseconds.
_WRITTEN_WITHIN_S = 1.0
# A process and its lock are of one moment, unless the clock was set between them.
_CLOCK_IS_SET_WITHIN_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A file of a backend that stops commands.

    Attributes:
        file: the file.
        text: what is wrong with it.
        remedy: what to do, where the file may not simply be removed; empty where it may.
        owner: the dead process that held it; 0 without one.
    """

    file: Path
    text: str
    remedy: str = ""
    owner: int = 0


def backend_folder() -> Path | None:
    """Return the directory of the ``file://`` backend in use; None for another kind of backend."""
    url = os.environ.get("PULUMI_BACKEND_URL") or _project_url() or _logged_in_url()
    if not url.startswith("file://"):
        return None
    parts = urlsplit(url)
    path = unquote(parts.netloc + parts.path)
    return Path(path).expanduser().absolute() if path else None


def _project_url() -> str:
    # `backend: {url: ...}` of Pulumi.yaml, read without a YAML parser: the guard must start fast.
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / "Pulumi.yaml"
        if not file.is_file():
            continue
        inside = False
        for line in file.read_text(errors="replace").splitlines():
            if line[:1] not in (" ", "\t"):
                inside = line.split("#")[0].strip() == "backend:"
            elif inside and line.strip().startswith("url:"):
                url = line.split("url:", 1)[1].split(" #")[0].strip().strip("'\"")
                relative = url.removeprefix("file://")
                # Pulumi counts a relative path from the project's directory.
                return f"file://{folder / relative}" if url.startswith("file://.") else url
        return ""
    return ""


def _logged_in_url() -> str:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()
    try:
        return str(json.loads((home / "credentials.json").read_text()).get("current") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def is_running(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Another user's.
        pass
    try:
        return _stat(pid)[0] not in ("Z", "X")
    except (OSError, IndexError):
        # macOS has no /proc.
        return not Path("/proc/self/stat").exists()


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _began(pid: int) -> float | None:
    """Return when a process began, in seconds of the epoch; None where /proc does not say."""
    try:
        ticks = int(_stat(pid)[19])
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def siblings(pid: int) -> list[int]:
    """Return the stand-ins, and what they started, that process ``pid`` started."""
    wanted = f"{ENGINE_PID}={pid}".encode()
    results = []
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in variables and is_running(int(entry.name)):
                results.append(int(entry.name))
    return results


def faults(folder: Path, stack: str = "", project: str = "") -> Iterator[Fault]:
    """Yield the files below a backend's ``folder`` that stop commands, locks first.

    Args:
        folder: the backend's.
        stack: of this one's commands; of every stack's without it.
        project: the stack's; without it, of every project's stack of that name.
    """
    held = False
    inside = folder / ".pulumi"
    whose = (stack, project)
    for file in sorted((inside / "locks").glob("**/*.json*")):
        mine = file.suffix != ".attrs" and _settled(file) and _concerns(file, inside, whose)
        if mine and (fault := _of_lock(file)) is not None:
            held = held or bool(fault.remedy)
            yield fault
    # What is half written may be an owner's.
    if not held:
        yield from _half_written(inside, whose)


def _concerns(file: Path, folder: Path, whose: tuple[str, str]) -> bool:
    """Return whether a file of a backend is the stack's of the project, or no single stack's.

    A state is PROJECT/STACK.json, all else in a folder PROJECT/STACK (pulumi v3.260,
    pkg/backend/diy: store.go, projectReferenceStore; lock.go, stackLockDir).
    """
    stack, project = whose
    parts = file.relative_to(folder).parts
    if not stack or len(parts) == 1:
        return True
    # KIND/[organization/]PROJECT/STACK...; a backend of before has no projects.
    projects = {*parts[1:-1]} - {"organization", stack}
    mine = stack in (file.parent.name, file.name.partition(".json")[0])
    return mine and (not project or not projects or project in projects)


def _of_lock(file: Path) -> Fault | None:
    """Return the fault that a lock is; None if it has just gone."""
    try:
        lock = _json(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Fault(
            file=file,
            text=f"a lock that cannot be read: {error.strerror}",
            remedy="wait until its owner's `pulumi` ends; once it is gone: `pulumi cancel --yes "
            "--stack STACK` as its owner",
        )
    if not isinstance(lock, dict):
        return Fault(file=file, text="a lock that was never written whole")
    number, host, when = lock.get("pid"), lock.get("hostname"), lock.get("timestamp")
    pid = number if isinstance(number, int) else 0
    since = f"since {when or 'an unknown time'}"
    if host != socket.gethostname():
        return Fault(
            file=file,
            text=f"locked by process {pid} of {host} {since}",
            remedy="once that process is gone: `pulumi cancel --yes --stack STACK`",
        )
    if is_running(pid) and not _is_another(pid, when):
        return Fault(
            file=file,
            text=f"locked by process {pid}, which runs, {since}",
            remedy=f"wait until it ends, or end it with Ctrl-C or `kill {pid}`",
        )
    return Fault(file=file, text=f"locked by process {pid}, which is gone, {since}", owner=pid)


def _is_another(pid: int, when: object) -> bool:
    """Return whether a process has its number from a lock's owner: it is younger, and no `pulumi`.

    By the clock alone an owner is younger, too, once the clock was set forward under it, as a
    virtual machine's is that slept.
    """
    try:
        locked = datetime.fromisoformat(str(when)).timestamp()
        if "pulumi" in Path(f"/proc/{pid}/comm").read_text():
            return False
    except (OSError, ValueError):
        return False
    began = _began(pid)
    return began is not None and began > locked + _CLOCK_IS_SET_WITHIN_S


def _half_written(folder: Path, whose: tuple[str, str]) -> Iterator[Fault]:
    for file in sorted(folder.glob("**/*.attrs")):
        if _settled(file) and _concerns(file, folder, whose) and not _is_whole(file):
            yield Fault(file=file, text="an empty sidecar: `failed to load checkpoint: EOF`")
    for file in sorted([*(folder / "stacks").glob("**/*.json"), *folder.glob("stacks/**/*.gz")]):
        if _settled(file) and _concerns(file, folder, whose) and not _is_whole(file):
            yield Fault(file=file, text="a state that is not whole", remedy=_way_back(file, folder))


def _way_back(file: Path, folder: Path) -> str:
    """Return the way back to the newest whole state before ``file``."""
    name = file.name.partition(".json")[0]
    # By project and stack (pulumi v3.260, pkg/backend/diy/store.go, BackupDir): another project's
    # stack may have the same name.
    copies = folder / "backups" / file.parent.relative_to(folder / "stacks") / name
    dated = copies.glob(f"{name}.[0-9]*{file.name.removeprefix(name)}")
    whole = [c for c in (*dated, *file.parent.glob(f"{file.name}.bak")) if _is_whole(c)]
    if not whole:
        return (
            "no whole copy of it is here: restore the backend's folder from a backup of yours, or "
            "let `pulumi import` take over what there is"
        )
    newest = max(whole, key=lambda c: c.stat().st_mtime)
    return f"the state before it: cp {newest} {file}"


def _settled(file: Path) -> bool:
    """Return whether it is a file, and nobody writes it any more."""
    try:
        read = file.stat()
    except OSError:
        return False
    old = time.time() - read.st_mtime > _WRITTEN_WITHIN_S
    return stat.S_ISREG(read.st_mode) and (read.st_size > 0 or old)


def _is_whole(file: Path) -> bool:
    """Return whether a file holds JSON; what cannot be read is not judged."""
    try:
        return _json(file) is not None
    except OSError:
        return True


def _json(file: Path) -> object:
    """Return what a file holds, compressed or not; None where that is not whole.

    Raises:
        OSError: it cannot be read.
    """
    data = file.read_bytes()
    try:
        return json.loads(zlib.decompress(data, 31) if data[:2] == b"\x1f\x8b" else data)
    except (zlib.error, ValueError):
        return None


def mend(folder: Path, stack: str = "", project: str = "") -> list[Fault]:
    """Remove the files that a killed `pulumi` left and nobody needs; return them.

    Waits for the stand-ins that the killed one had started: another run must not begin while, say,
    a Helm of theirs still cleans up.
    """
    removed = []
    for fault in faults(folder, stack, project):
        if fault.remedy:
            continue
        if fault.owner:
            _outlive(fault.owner)
        fault.file.unlink(missing_ok=True)
        fault.file.with_name(f"{fault.file.name}.attrs").unlink(missing_ok=True)
        removed.append(fault)
    return removed


def start_guard(pid: int) -> subprocess.Popen[bytes] | None:
    """Start a guard over process ``pid``; it ends by itself when that process has.

    Returns:
        None for process 1: who started us had ended before we asked, and 1 never does.
    """
    if pid <= 1:
        return None
    environment = {key: value for key, value in os.environ.items() if key != ENGINE_PID}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(pid)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def guard(pid: int) -> None:
    """Wait until process ``pid`` and its stand-ins are gone, then mend the backend."""
    folder = backend_folder()
    if folder is None:
        return
    while is_running(pid):
        time.sleep(_POLL_S)
    _outlive(pid)
    mend(folder)


def _outlive(pid: int) -> None:
    deadline = time.monotonic() + _SIBLINGS_END_WITHIN_S
    while siblings(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        guard(int(sys.argv[1]))
    elif (there := backend_folder()) is not None:
        mend(there)
