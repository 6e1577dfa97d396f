"""Reads jobs, which no plan shows: the files of `railhead launch`, and the programs that train."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from railhead.base.tags import moves
from railhead.catalog.switches import SWITCHES
from railhead.review.judged import Judged, few, locate
from railhead.review.model import Finding, Level, Loss
from railhead.review.reading import (
    assigned,
    called,
    mapping,
    name_of,
    nodes,
    plain,
    reached,
    snake,
    written,
)
from railhead.review.rows import lost, lowered, parts, several, short
from railhead.review.settings import Setting
from railhead.review.sources import Sources

_TRAINS = frozenset(
    """accelerate deepspeed horovod jax lightning megatron mpi4py paddle pytorch_lightning ray
    tensorflow torch transformers""".split()
)
#: Folders of which no job runs anything.
NO_JOBS = ("tests/", "docs/", "railhead/")
#: Who notices what a job or a program has lost.
NEXT = "who runs this job next"
#: Nodes of a function.
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Calls by which programs save.
SAVES = (
    *("save", "save_checkpoint", "save_state", "save_model", "save_pretrained", "save_file"),
    "async_save",
)
_SAVES = (*SAVES, "report", "ModelCheckpoint")
# What moves a checkpoint to its place, and what writes, under such a name, that one is whole.
_MOVES = ("rename", "replace", "symlink", "symlink_to", "move")
_WRITES = ("touch", "write_text", "write_bytes", "open")
_DELETES = ("rmtree", "unlink", "rmdir", "removedirs")
# What is deleted and is no checkpoint that was whole: one that a killed run began, caches, locks.
_TEMPORARY = re.compile(r"te?mp|partial|cache|lock|sock", re.I)
_WHOLE = re.compile(r"latest|newest|last|done|complete|whole|success|ready|finish|mark", re.I)
_WRITTEN = re.compile(r"['\"][wax]b?\+?['\"]")
# Names of what has the same functions and is no checkpoint: settings, data, pictures, their files.
_OTHER = re.compile(
    r"(?:^|_)(?:json|np|numpy|toml|tomllib|yaml|pickle|csv|datasets?|data|tokeni[sz]er|tok"
    r"|images?|img|fig(?:ure)?|plt|plots?|canvas|chart|wb|workbook|audio|wav|video)\d*(?:_|$)"
)
_OTHER_FILE = re.compile(
    r"\.(?:png|jpe?g|gif|svg|pdf|csv|tsv|jsonl?|ya?ml|txt|html|npy|npz|wav|mp4|parquet|xlsx)$"
)
# What calls a function that it is given, such as beside the training.
_RUNS = frozenset({"Process", "Thread", "apply_async", "partial", "submit", "to_thread"})
# Options by which frameworks go on where a run ended.
_RESUMES = ("resume_from_checkpoint", "ckpt_path", "auto_resume")
# Options of a job's command by which its program saves, and goes on where a run ended; not those
# that save less, or compute activations again.
_KEEPS = re.compile(
    r"(?<!\S)(?!-+no-|[\w.-]*(?:activation|grad))--?"
    r"(?:[\w.-]*(?:resum|restart|restor|ckpt|checkpoint|save)[\w.-]*|load(?![\w.-]))",
    re.I,
)
# Methods and functions of frameworks' checkpoints, and what is lost without them.
_CALLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("rename", "replace", "move"),
        "a checkpoint is no longer renamed when it is whole: the next run takes a half one for it",
    ),
    (("fsync",), "what was written may be on no disk when the node is lost"),
    (
        (
            *("load", "load_checkpoint", "load_state", "load_state_dict", "restore"),
            *("get_checkpoint", "latest_checkpoint", "set_state_dict", "load_file", "load_model"),
            *_RESUMES,
        ),
        "a run that starts again loads less of its checkpoint, or begins at step 0",
    ),
    (
        _SAVES,
        "less is saved: a run that starts again has lost more steps",
    ),
    (
        ("barrier", "monitored_barrier", "wait_for_everyone", "sync_global_devices"),
        "processes no longer wait for each other: one may call a checkpoint whole before another "
        "has written its part",
    ),
    (("set_epoch",), "each epoch has its data in the same order"),
)


def _other(was: Any, now: Any) -> bool:
    return bool(was != now)


def _moving(_: Any, now: Any) -> bool:
    return isinstance(now, str) and moves(now)


_PRIORITY = "goes before or after others: {was} -> {now}"
#: Fields of a job's file (:mod:`railhead.launch.job.model`).
_FIELDS: tuple[Setting, ...] = (
    Setting("*image", _moving, "refuse", "jobs", "{now} has a tag that moves: no run is repeated"),
    Setting("*image", _other, "ask", "jobs", "runs another image: {was} -> {now}"),
    Setting(
        "checkpoint.path",
        _other,
        "ask",
        "data",
        "a run that starts again looks for its checkpoints in {now}, not in {was}: it begins at "
        "step 0",
    ),
    Setting("checkpoint.*", _other, "ask", "data", "checkpoints: {was} -> {now}"),
    Setting("mounts*", lost, "ask", "data", "no longer mounts {was}"),
    Setting("mounts*", _other, "ask", "data", "mounts otherwise: {was} -> {now}"),
    Setting(
        "restarts",
        lambda was, now: bool(was) and now is None,
        "ask",
        "jobs",
        "ends for good when its runtime says, not after {was}",
    ),
    Setting("restarts", lowered, "ask", "jobs", "ends for good after {now} failures, not {was}"),
    Setting("timeout", _other, "ask", "jobs", "is ended after {now}, not {was}"),
    Setting("priority", _other, "ask", "quota", _PRIORITY),
    Setting("queue", _other, "ask", "quota", "takes the quota of {now}, not of {was}"),
    Setting("topology*", _other, "ask", "network", "is placed otherwise: {was} -> {now}"),
    Setting("fabric*", _other, "ask", "network", "asks for another fabric: {was} -> {now}"),
    Setting("verify", lost, "ask", "network", "does not prove its network before it trains"),
    Setting("*launcher", _other, "ask", "jobs", "starts its ranks otherwise: {was} -> {now}"),
    Setting("runtime", _other, "ask", "jobs", "has another runtime: {was} -> {now}"),
    Setting("shm", lowered, "ask", "jobs", "has {now} of shared memory, not {was}: loaders die"),
    Setting("*gpus_per_node", lowered, "ask", "jobs", "takes {now} GPUs of a node, not {was}"),
)


def jobs(source: Sources) -> Iterator[Finding]:
    """Yield what changed files of jobs lose, each field by its meaning."""
    for name in source.changed:
        if not name.endswith((".yaml", ".yml")) or name.startswith(NO_JOBS):
            continue
        was, now = map(mapping, source.texts(name))
        if now and is_job(now) and now["nodes"] != (was or {}).get("nodes"):
            yield from _too_many(source, name, now["nodes"])
        if not was or not now or not (is_job(was) and is_job(now)):
            continue
        old, new = ({**job, "checkpoint": checkpoint(job)} for job in (was, now))
        for key in sorted({*map(str, old), *map(str, new)}):
            for path, before, after in parts(key, old.get(key), new.get(key)):
                for row in _losses(path, before, after):
                    result = Judged(*row, who=NEXT, rule="job-file")
                    yield locate(source, name, f"{name}: {path}", result)


def is_job(content: Mapping[Any, Any]) -> bool:
    """Return whether a file's content is a job's."""
    return {"name", "nodes", "command"} <= content.keys() and "kind" not in content


def checkpoint(job: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return where a job's checkpoints are: below its name, if it says nothing else."""
    given = job.get("checkpoint")
    return {"path": job["name"], **(given if isinstance(given, Mapping) else {})}


def _too_many(source: Sources, name: str, nodes_: Any) -> Iterator[Finding]:
    """Yield a job that asks for more nodes than any pool of the stacks beside it has."""
    known = [size for file in source.stacks for size in _sizes(source.text(file, head=True))]
    most = max(known, default=0)
    if most and isinstance(nodes_, int) and nodes_ > most:
        text = f"asks for {nodes_} nodes, and no pool of a stack here has more than {most}: it "
        result = Judged("ask", "quota", f"{text}waits for ever", NEXT, "job-file")
        yield locate(source, name, f"{name}: nodes", result)


@lru_cache(maxsize=64)
def _sizes(stack: str | None) -> tuple[int, ...]:
    """Return how many nodes each pool of a stack's file has."""
    config = (mapping(stack) or {}).get("config")
    cluster = config.get("railhead:cluster") if isinstance(config, Mapping) else None
    pools = cluster.get("pools") if isinstance(cluster, Mapping) else None
    rows = pools if isinstance(pools, list) else []
    sizes = [pool.get("nodes") for pool in rows if isinstance(pool, Mapping)]
    return tuple(size for size in sizes if isinstance(size, int))


def _losses(path: str, was: Any, now: Any) -> Iterator[tuple[Level, Loss, str]]:
    """Yield how grave a changed field is, what is lost, and in words."""
    section, _, variable = path.rpartition(".")
    values = {variable: now}
    if path == "env":
        before, after = (of if isinstance(of, Mapping) else {} for of in (was, now))
        names = {*before, *after}
        values = {key: after.get(key) for key in names if before.get(key) != after.get(key)}
    if path == "env" or section.endswith("env"):
        for key in sorted(values.keys() & SWITCHES.keys()):
            value = values[key]
            does = f"no longer sets {key}" if value is None else f"sets {key}={short(value)}"
            yield "ask", "network", f"{does}: {SWITCHES[key].reason}"
        return
    if variable == "command":
        texts = (" ".join(map(str, several(of))).replace("_", "-") for of in (was, now))
        had, has = ({*_KEEPS.findall(text)} for text in texts)
        if gone := sorted(had - has):
            text = f"no longer has {few(gone, 3)}: it may save less, or begin at step 0"
            yield "ask", "data", text
        return
    for row in _FIELDS:
        if fnmatchcase(path, row.path) and row.when(was, now):
            yield row.level, row.loss, row.says.format(was=short(was), now=short(now))
            return


def programs(source: Sources) -> Iterator[Finding]:
    """Yield programs that train and no longer do what keeps a run's work.

    Functions of a changed program may be in another file of its folder, which stays as it was.
    """
    was, now = training(source)
    idle = said(was.values()) - said(now.values())
    old = {name: _calls(text) for name, text in was.items()}
    new = {name: _calls(text) - _of_idle(text, idle) for name, text in now.items()}
    before, after = (sum(of.values(), Counter[str]()) for of in (old, new))
    for name in was:
        if not now[name] or not _trains(was[name]):
            continue
        gone = old[name] - new[name]
        for names, what in _CALLS:
            # One may take another's place, as one that saves beside the training does.
            if sum(after[n] for n in names) >= sum(before[n] for n in names):
                continue
            if less_often := [n for n in names if gone[n] and after[n] < before[n]]:
                called_ = "" if less_often[0] in _RESUMES else "()"
                subject = f"{name}: {few(less_often, 3)}{called_}"
                yield locate(source, name, subject, _of_program(what), *less_often)


def _of_program(what: str) -> Judged:
    return Judged("ask", "data", what, NEXT, "job-program")


def contents(source: Sources) -> Iterator[Finding]:
    """Yield programs whose checkpoints have less in them than before."""
    was, now = training(source)
    said_ = {key for text in now.values() for key in _keys(text)}
    known = {key for text in was.values() for key in _keys(text)}
    for name in was:
        before, after = _saved(was[name]), _saved(now[name])
        values = set(after.values())
        lost_ = {key for key, value in before.items() if key not in said_ and value not in values}
        if after and len(lost_) > len(after.keys() - known):
            keys = few(sorted(lost_), 4)
            what = f"saves without {keys}: a run that starts again begins without it"
            yield locate(source, name, f"{name}: save()", _of_program(what), *sorted(lost_))


def _saved(text: str | None) -> dict[str, str]:
    """Return the keys of what a program saves, with the code of their values."""
    known = assigned(text)
    every = list(nodes(text))
    for node in every:
        if isinstance(node, FUNCTIONS):
            returns = [part.value for part in _within(node) if isinstance(part, ast.Return)]
            known.setdefault(node.name, []).extend(filter(None, returns))
    calls = [node for node in every if isinstance(node, ast.Call) and file_call(node) in SAVES]
    parts = [part for call in calls for part in (*call.args, *(k.value for k in call.keywords))]
    names = {name for part in parts if (name := _name(part)) in known}
    values = [value for part in parts for value in known.get(_name(part), [part])]
    pairs = [pair for value in values for pair in _items(value)]
    for node in every:
        if isinstance(node, ast.Assign):
            keys = [part for part in node.targets if isinstance(part, ast.Subscript)]
            pairs += [(key.slice, node.value) for key in keys if name_of(key.value) in names]
        elif isinstance(node, ast.AugAssign) and name_of(node.target) in names:
            pairs += _items(node.value)
        elif isinstance(node, ast.Call) and name_of(getattr(node.func, "value", node)) in names:
            parts = [*node.args, node] if called(node) == "update" else []
            pairs += [pair for part in parts for pair in _items(part)]
    return {text: written(value) for key, value in pairs if (text := plain(key))}


def _keys(text: str | None) -> Iterator[str]:
    """Yield the keys that a program puts values under."""
    for node in nodes(text):
        if isinstance(node, ast.Dict | ast.Call):
            yield from (text for key, _ in _items(node) if (text := plain(key)))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from filter(None, [plain(node.slice)])


def _name(node: ast.expr) -> str:
    return name_of(node.func if isinstance(node, ast.Call) else node)


def _items(node: ast.expr) -> list[tuple[Any, ast.expr]]:
    """Return the keys and values of a mapping; one state alone has its owner's name."""
    if isinstance(node, ast.Dict):
        return list(zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.Call) and called(node) == "state_dict":
        owner = name_of(getattr(node.func, "value", node))
        return [(ast.Constant(owner), node)]
    if isinstance(node, ast.Call) and called(node) in ("dict", "update"):
        return [(ast.Constant(k.arg), k.value) for k in node.keywords if k.arg]
    return []


def marks(source: Sources) -> Iterator[Finding]:
    """Yield programs that mark a checkpoint as whole, or as the newest, before they save it."""
    texts = training(source)
    saving = savers(text for of in texts for text in of.values())
    for name in texts[0]:
        was, now = (_orders(of[name], saving) for of in texts)
        for (scope, mark), after in was.items():
            if after and not now.get((scope, mark), True):
                what = "comes before the save that it marks: a run that is killed between the two "
                what += "leaves a half checkpoint, which the next one takes for a whole one"
                yield locate(source, name, f"{name}: {mark}()", _of_program(what))


def deletions(source: Sources) -> Iterator[Finding]:
    """Yield programs that delete more than before ahead of a save in the same function."""
    texts = training(source)
    saving = savers(text for of in texts for text in of.values())
    was, now = ({n: Counter(_deletes(of[n], saving, 0)) for n in of} for of in texts)
    if sum(map(Counter.total, now.values())) <= sum(map(Counter.total, was.values())):
        return
    # A function that saves only now may have deleted before.
    before = Counter(part for of in texts[0].values() for part in _deletes(of, saving, math.inf))
    after = sum(now.values(), Counter[tuple[str, str]]())
    for name in now:
        for call, scope in [*((now[name] - was[name]) & (after - before))][:1]:
            what = "deletes before it saves: a run that is killed between the two may have no "
            what += "checkpoint"
            subject = f"{name}: {call}()" + (f" in {scope}()" if scope else "")
            yield locate(source, name, subject, _of_program(what), call)


def _deletes(
    text: str | None, saving: Collection[str], unsaved: float
) -> Iterator[tuple[str, str]]:
    """Yield (call, function) of each call that deletes files before the function's first save.

    ``unsaved`` stands for the line of that save where a function has none.
    """
    for scope, calls, saves in _scopes(text, saving):
        for node in calls:
            if node.lineno < min(saves, default=unsaved) and _is_deletion(node):
                yield called(node), scope


def _scopes(
    text: str | None, saving: Collection[str]
) -> Iterator[tuple[str, list[ast.Call], list[int]]]:
    """Yield name, calls and lines of saves of each function, and of the module without a name."""
    for scope in nodes(text):
        if isinstance(scope, (*FUNCTIONS, ast.Module)):
            calls = [node for node in _within(scope) if isinstance(node, ast.Call)]
            saves = [node.lineno for node in calls if file_call(node) in saving]
            yield getattr(scope, "name", ""), calls, saves


def _is_deletion(call: ast.Call) -> bool:
    name = called(call)
    of_os = name == "remove" and name_of(getattr(call.func, "value", call)) == "os"
    return (of_os or name in _DELETES) and not _TEMPORARY.search(written(call))


def _orders(text: str | None, saving: Collection[str]) -> dict[tuple[str, str], bool]:
    """Return (function, what marks) -> whether it comes after the function's first save."""
    results: dict[tuple[str, str], bool] = {}
    for scope, calls, saves in _scopes(text, saving):
        for node in calls if saves else ():
            if _is_mark(node):
                key = (scope, called(node))
                results[key] = results.get(key, False) or node.lineno > min(saves)
    return results


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module or function, without those of functions in it."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        todo += [] if isinstance(node, FUNCTIONS) else ast.iter_child_nodes(node)


def _is_mark(call: ast.Call) -> bool:
    """Return whether a call says of a checkpoint that it is whole, or the newest."""
    name = called(call)
    if name in _MOVES:
        return not _is_aside(call)
    text = written(call) if name in _WRITES else ""
    return bool(_WHOLE.search(text)) and (name != "open" or bool(_WRITTEN.search(text)))


def savers(texts: Iterable[str | None]) -> set[str]:
    """Return the names of functions that save, themselves or by others."""
    functions = [
        (
            node.name,
            {file_call(part) for part in ast.walk(node) if isinstance(part, ast.Call)},
        )
        for text in texts
        for node in nodes(text)
        if isinstance(node, FUNCTIONS)
    ]
    results = set(SAVES)
    while more := {name for name, calls in functions if calls & results} - results:
        results |= more
    return results


def training(source: Sources) -> tuple[dict[str, str], dict[str, str]]:
    """Return the base's and the new texts of changed programs, then of those that go with them.

    Both are empty where none trained before.
    """
    earlier = set(source.renamed.values())
    names = [n for n in source.changed if n.endswith(".py") and n not in earlier]
    changed = [n for n in names if not n.startswith(NO_JOBS)]
    code = dict.fromkeys([*changed, *(b for name in changed for b in _beside(source, name))])
    texts = {name: source.texts(name) for name in code}
    was, now = ({name: both[side] or "" for name, both in texts.items()} for side in (0, 1))
    return (was, now) if any(map(_trains, was.values())) else ({}, {})


def _beside(source: Sources, name: str) -> Iterator[str]:
    """Yield the programs of a file's folder that it imports, or that import it."""
    own = _imports(Path(name).stem)
    text = "\n".join(source.text(name, head=head) or "" for head in (False, True))
    for path in sorted((source.root / name).parent.glob("*.py")):
        other = str(path.relative_to(source.root))
        if _imports(path.stem).search(text) or own.search(source.text(other, head=True) or ""):
            yield other


def _imports(module: str) -> re.Pattern[str]:
    return re.compile(rf"(?:import|from)\b[^\n]*(?:\([^)]*)?\b{re.escape(module)}\b")


def said(texts: Iterable[str | None]) -> set[str]:
    """Return the names that programs say outside of the functions that they define so."""
    names: set[str] = set()
    for text in texts:
        every = list(nodes(text))
        inside = {
            (id(part), function.name)
            for function in every
            if isinstance(function, FUNCTIONS)
            for part in ast.walk(function)
        }
        for node in every:
            name = reached(node) if isinstance(node, ast.Call) else name_of(node)
            if name and (id(node), name) not in inside:
                names.add(name)
    return names


def _of_idle(text: str | None, idle: Collection[str]) -> Counter[str]:
    """Return the calls in functions that nothing calls any more; with a save, of saves alone."""
    results: Counter[str] = Counter()
    for node in nodes(text):
        if isinstance(node, FUNCTIONS) and node.name in idle:
            calls = _counted(ast.walk(node))
            saves = {name: calls[name] for name in _SAVES if calls[name]}
            results += Counter(saves) if saves else calls
    return results


def unsecrets(source: Sources) -> Iterator[Finding]:
    """Yield programs of Pulumi that take the mark off a secret, also one that is not known yet."""
    for name in source.changed:
        if not name.endswith(".py") or name.startswith(NO_JOBS):
            continue
        was, now = map(_calls, source.texts(name))
        # Such as `get_secret`, whose place `get` takes.
        plain = {call: call.replace("_secret", "") for call in was - now if "_secret" in call}
        calls = [call for call, other in plain.items() if now[other] > was[other]]
        for call in ["unsecret"] if now["unsecret"] > was["unsecret"] else calls[:1]:
            what = "takes the mark off a secret: where it goes from there, such as into an output "
            what += "or an object, it lies in plain text in the stack's state"
            who = "nobody, until someone reads it"
            result = Judged("ask", "rights", what, who, "unsecret")
            yield locate(source, name, f"{name}: {call}()", result, call, plain.get(call, call))


def _calls(text: str | None) -> Counter[str]:
    """Return how often a program calls each function or method by its last name."""
    return _counted(nodes(text))


def _counted(every: Iterable[ast.AST]) -> Counter[str]:
    results: Counter[str] = Counter()
    for node in every:
        if isinstance(node, ast.keyword) and node.arg in _RESUMES:
            results[node.arg] += getattr(node.value, "value", True) not in (None, False)
        if not isinstance(node, ast.Call):
            continue
        if name := file_call(node):
            results[name] += 1
        if called(node) in _RUNS:
            given = (*node.args, *(k.value for k in node.keywords))
            results.update(filter(None, map(name_of, given)))
    return results


def _is_aside(call: ast.Call) -> bool:
    """Return whether a call is of a text, a record, a table or settings, and not of a file."""
    owner = getattr(call.func, "value", call)
    of = written(owner.func) if isinstance(owner, ast.Call) else name_of(owner)
    name = called(call)
    if name in ("load", *_SAVES):
        texts = [plain(part) or "" for node in call.args for part in ast.walk(node)]
        file = any(_OTHER_FILE.search(text.lower()) for text in texts)
        return file or bool(_OTHER.search(snake(of)))
    if name in ("rename", "replace"):
        fields = {k.arg for k in call.keywords} - {"src", "dst", "target"}
        return bool(fields) or (name == "replace" and len(call.args) > 1 and of != "os")
    return False


def file_call(call: ast.Call) -> str:
    """Return what a call is called, of one that may save or load a checkpoint; else nothing."""
    return "" if _is_aside(call) else called(call)


def _trains(text: str | None) -> bool:
    """Return whether a program imports a package that trains."""
    return not _TRAINS.isdisjoint(imported(text))


def imported(text: str | None) -> Iterator[str]:
    """Yield the packages that a program imports."""
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
