"""The review as one comment: the verdict first, then what is lost, then everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from railhead.review.judged import few
from railhead.review.model import Finding, Review, StackReview

#: By which a pipeline finds its one comment.
MARKER = "<!-- railhead-review -->"
#: GitHub's limit of a comment's body, in characters.
LIMIT = 65_536
_CUT = "\n\n*The comment ends here: the rest is in the report beside it.*\n"
_VERDICTS = {
    "refused": "do not merge",
    "unjudged": "do not merge yet: something could not be judged",
    "ask": "look before you merge",
    "clean": "nothing is lost",
}
_LEVELS = {"refuse": "⛔", "unjudged": "❓", "ask": "👀", "note": ""}
_FOLDED = 40


def markdown(review: Review) -> str:
    """Return the whole comment, however long."""
    return "\n".join(_lines(review)) + "\n"


def cut(text: str, limit: int = LIMIT) -> str:
    """Return a text that a comment can hold; what ends at a line, with a word about the rest."""
    if len(text) <= limit:
        return text
    kept = text[: limit - len(_CUT) - 64]
    kept = kept[: kept.rfind("\n")]
    # What is open must be closed, or the last sentence is folded away with it.
    opened = kept.count("<details>") - kept.count("</details>")
    fence = "\n```" if kept.count("```") % 2 else ""
    return f"{kept}{fence}{chr(10)}{'</details>' * opened}{_CUT}"


def headline(review: Review) -> str:
    """Return the verdict in one line."""
    worst = next((f for f in review.findings if f.level in ("refuse", "unjudged", "ask")), None)
    text = f"Railhead: **{_VERDICTS[review.verdict]}**"
    if worst is None:
        return text
    where = f"`{worst.stack}`: " if worst.stack else ""
    return f"{text} - {where}{worst.subject} {_first(worst.what)}"


def _first(text: str) -> str:
    sentence = text.split(". ", maxsplit=1)[0].split("; ", maxsplit=1)[0]
    return sentence if len(sentence) <= 180 else f"{sentence[:177]}..."


def _lines(review: Review) -> Iterator[str]:
    yield MARKER
    yield f"### {headline(review)}"
    yield ""
    if review.judges.changed:
        word = "a reviewer has allowed it" if review.judges.allowed else "ask a second reviewer"
        yield f"> **This pull request changes who judges it** ({word}):"
        yield from (f"> - {_cell(row)}" for row in review.judges.changed[:20])
        yield ""
    grave = [f for f in review.findings if f.level != "note"]
    if grave:
        yield "| | lost or opened | what | who notices | where |"
        yield "| --- | --- | --- | --- | --- |"
        for alike in _alike(grave):
            yield _row(alike)
        yield ""
    yield from _details(grave)
    for stack in review.stacks:
        yield from _stack(stack)
    notes = [f for f in review.findings if f.level == "note"]
    if notes:
        yield f"<details><summary>{len(notes)} changes that lose nothing</summary>"
        yield ""
        for finding in notes:
            yield f"- `{finding.stack}` {_cell(finding.subject)}: {_cell(finding.what)}"
        yield ""
        yield "</details>"
        yield ""
    yield f"**Not looked at:** {'; '.join(_cell(row) for row in review.not_looked_at)}."
    yield ""
    changed = "changed by this pull request" if review.judges.changed else "not changed here"
    yield (
        f"**Judged by** the pack and Railhead of `{review.base}` at `{review.judges.commit[:10]}`, "
        f"`{review.judges.digest[:19]}...`, {changed}. Compared with "
        f"`{review.compared_with[:10]}`, without credentials, in {review.seconds:.0f} s."
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings in groups that one row can say: the same of other resources, at one place.

    The pack's messages name their resource, so the first of each resource under a rule are alike.
    """
    groups: dict[object, list[Finding]] = {}
    nth: Counter[object] = Counter()
    for finding in findings:
        what: object = finding.what
        if finding.rule.startswith("pack-"):
            what = nth[finding.rule, finding.stack, finding.subject]
            nth[finding.rule, finding.stack, finding.subject] += 1
        key = (finding.level, finding.rule, finding.place, finding.who, what)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _row(alike: Sequence[Finding]) -> str:
    finding, *rest = alike
    others = [f.subject if f.stack == finding.stack else f"{f.subject} of {f.stack}" for f in rest]
    more = f", and so {_several(others)}" if others else ""
    what = f"{'' if not finding.stack else f'`{finding.stack}` '}**{_cell(finding.subject)}**"
    return (
        f"| {_LEVELS[finding.level]} | {finding.loss} | {what} {_cell(finding.what + more)} | "
        f"{_cell(finding.who)} | {_where(finding)} |"
    )


def _several(names: Sequence[str]) -> str:
    return few(list(dict.fromkeys(names)), 3)


def _where(finding: Finding) -> str:
    return f"`{finding.place.file}:{finding.place.line}`" if finding.place else ""


def _details(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the base's reason, each edit that keeps what is lost, once, and how to allow it."""
    shown: set[object] = set()
    for finding in findings:
        why = (finding.place, finding.reason)
        if finding.reason and why not in shown:
            shown.add(why)
            yield f"{_where(finding)} - the base says there: *{_cell(finding.reason)}*"
            yield ""
        edit = (finding.place, finding.suggestion)
        if finding.suggestion and edit not in shown:
            shown.add(edit)
            yield f"{_where(finding)} - {_cell(finding.subject)}: what keeps it:"
            yield "```suggestion"
            yield finding.suggestion
            yield "```"
        if finding.allow:
            yield f"Meant so? {finding.subject}: {finding.allow}"
            yield ""


def _stack(stack: StackReview) -> Iterator[str]:
    if not stack.compared and not stack.pools:
        yield f"**`{stack.stack}`**: there is no plan to compare."
        yield ""
        return
    before = sum(pool.gpus_before for pool in stack.pools)
    after = sum(pool.gpus_after for pool in stack.pools)
    same = "unchanged" if before == after else f"{before} before"
    yield (
        f"**`{stack.stack}`**: +{len(stack.added)} ~{len(stack.changed)} "
        f"±{len(stack.replaced)} -{len(stack.deleted)}; {after} GPUs ({same}), "
        f"{after * 24:,} GPU hours a day."
    )
    for pool in stack.pools:
        if pool.nodes_before != pool.nodes_after:
            yield (
                f"- pool {pool.pool}: {pool.nodes_before or 0} -> {pool.nodes_after or 0} x "
                f"{pool.instance_type}, {pool.gpus_before} -> {pool.gpus_after} GPUs"
            )
    for sign, rows in (
        ("paid for from now on", set(stack.paid_after) - set(stack.paid_before)),
        ("no longer paid for", set(stack.paid_before) - set(stack.paid_after)),
    ):
        if rows and stack.compared:
            yield f"- {sign}: {_cell(', '.join(sorted(rows)))}"
    for what, names in (
        ("Deleted", stack.deleted),
        ("Replaced", stack.replaced),
        ("Changed", stack.changed),
        ("Added", stack.added),
    ):
        if names:
            yield f"<details><summary>{what}: {len(names)}</summary>"
            yield ""
            yield from (f"- {_cell(name)}" for name in names[:_FOLDED])
            if len(names) > _FOLDED:
                yield f"- and {len(names) - _FOLDED} more"
            yield ""
            yield "</details>"
    yield ""
