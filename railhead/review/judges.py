"""The judges of a pull request, and the changes that it makes to them."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

import railhead
from railhead.review.model import Judges
from railhead.review.reading import mapping, tree
from railhead.review.sources import Sources

#: Files by which a pull request is judged, or jobs later, and what they are.
JUDGES: tuple[tuple[str, str], ...] = (
    ("policies/exempt.py", "the exemptions of the policy pack"),
    ("policies/*", "the policy pack"),
    ("policies.yaml", "the policy pack's configuration"),
    ("requirements.txt", "the version of Railhead"),
    ("wheels/*", "the version of Railhead"),
    ("railhead/review/*", "this review"),
    ("railhead/base/rbac.py", "the rights that the policy pack and this review refuse"),
    ("railhead/base/wide.py", "the networks that the policy pack and this review refuse"),
    ("railhead/lab/recorders/*", "the recorders of a plan"),
    ("railhead/lab/planning.py", "how a stack is planned"),
    ("railhead/lab/stack_plans.py", "how a stack is planned"),
    ("railhead/config/edits/*", "the guard of edits"),
    ("railhead/model/removals.py", "the guard of edits"),
    ("railhead/resolve/guards*", "the guards in the API server"),
    ("components/guards/*", "the guards in the API server"),
    ("railhead/gate/*", "the gate of nodes"),
    ("railhead/resolve/gate*", "the gate of nodes"),
    (".github/workflows/*", "the pipeline"),
    (".github/actions/*", "the pipeline"),
    (".gitlab/*", "the pipeline"),
    (".github/CODEOWNERS", "who must approve"),
    ("CODEOWNERS", "who must approve"),
    (".gitlab-ci*.yml", "the pipeline"),
    ("Jenkinsfile*", "the pipeline"),
    (".ci/*", "the pipeline"),
)
#: What a digest is taken of: the pack, and all that it and the plan are made with.
_DIGESTED = ("policies", "railhead", "components")


def judges(source: Sources, *, allowed: bool) -> Judges:
    """Return who judges, with the files of the pull request that change them."""
    changed = []
    for name in source.changed:
        what = next((what for pattern, what in JUDGES if fnmatchcase(name, pattern)), "")
        if what and differs(source, name) and not _beside(source, name):
            changed.append(f"{name}: {what}")
    return Judges(
        commit=source.tip,
        digest=f"sha256:{digest(source.judge)}",
        changed=tuple(changed),
        allowed=allowed,
    )


# Events of GitHub that are about no pull request.
_APART = frozenset({"create", "release", "repository_dispatch", "schedule", "workflow_dispatch"})
_OWNERS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
_REVIEWS = re.compile(r"railhead[ -](review|comment)|policy-pack|--allow\b")


def _beside(source: Sources, name: str) -> bool:
    """Return whether a file judges no pull request, though it lies where the judges do.

    Such are workflows that a tag or a clock starts, and owners where nobody had to approve before.
    """
    texts = [text for head in (False, True) if (text := source.text(name, head=head)) is not None]
    if name.startswith("components/") and len(texts) == 2:
        # What their pods may take is in each stack's plan, and judges nothing.
        return program(texts[0], sizes=False) == program(texts[1], sizes=False)
    if name in _OWNERS:
        return all(source.text(owners, head=False) is None for owners in _OWNERS)
    return name.startswith(".github/workflows/") and all(map(_is_apart, texts))


def _is_apart(text: str) -> bool:
    content = mapping(text)
    if not content or _REVIEWS.search(text):
        return False
    starts = triggers(content)
    return bool(starts) and all(
        event in _APART or (event == "push" and _is_tagged(when)) for event, when in starts.items()
    )


def triggers(workflow: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return event -> when, of what starts a workflow of GitHub."""
    # YAML 1.1 reads the key `on` as a boolean.
    starts = workflow.get("on", workflow.get(True))
    if isinstance(starts, Mapping):
        return starts
    return dict.fromkeys(map(str, starts if isinstance(starts, list) else [starts]))


def _is_tagged(when: Any) -> bool:
    return isinstance(when, Mapping) and bool(when.get("tags")) and not when.get("branches")


def digest(checkout: Path) -> str:
    """Return a digest of a project's pack, and of its Railhead or, without one, of this one."""
    total = hashlib.sha256()
    folders = [checkout / name for name in _DIGESTED if (checkout / name).is_dir()]
    if checkout / "railhead" not in folders:
        folders.append(Path(railhead.__file__).parent)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            total.update(str(path.relative_to(folder)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def differs(source: Sources, name: str) -> bool:
    """Return whether more than comments and docstrings of a file differ."""
    before, after = source.text(name, head=False), source.text(name, head=True)
    if before is None or after is None:
        return True
    if name.endswith(".py"):
        return program(before) != program(after)
    if name.endswith((".yaml", ".yml")):
        return bool(_tokens(before) != _tokens(after))
    return True


_OPENS = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_CLOSES = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_DEEPEST = 100  # PyYAML looks at all open lists for each token: thousands take minutes.


def _tokens(text: str) -> Any:
    """Return a YAML file's tokens, which have no comments; its text if it cannot be read.

    Values are not resolved, since ``yes`` is a boolean here and a string to GitHub; nor is a text
    beyond ASCII, where YAML 1.1 ends lines, and so comments, at characters that 1.2 does not.
    """
    if not text.isascii():
        return text
    tokens, depth = [], 0
    try:
        for token in yaml.scan(text):
            depth += isinstance(token, _OPENS) - isinstance(token, _CLOSES)
            if depth > _DEEPEST:
                return text
            tokens.append(
                (type(token), getattr(token, "value", None), getattr(token, "plain", None))
            )
    except (yaml.YAMLError, ValueError, OverflowError):
        return text
    return tokens


def program(text: str, *, sizes: bool = True) -> str:
    """Return what a Python file does: its text without comments and docstrings.

    Without ``sizes`` it has no amounts that pods request and may take, either.
    """
    module = tree(text)
    if module is None:
        return text
    for node in ast.walk(module):
        if not sizes and isinstance(node, ast.Dict) and _is_sizes(node):
            node.keys.clear()
            node.values.clear()
        body = getattr(node, "body", None)
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body.pop(0)
    try:
        return ast.dump(module)
    except RecursionError:
        return text


def _is_sizes(node: ast.Dict) -> bool:
    keys = {getattr(key, "value", None) for key in node.keys}
    return bool(keys) and keys <= {"requests", "limits"}
