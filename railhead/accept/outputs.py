"""A report for machines and for pull requests: JSON with its schema, JUnit, Markdown."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

from railhead.accept.model import Report, Result, Verdict

_MARKS = {Verdict.PASSED: "✅", Verdict.FAILED: "❌", Verdict.NOT_PROVEN: "❓"}
_SCHEMA_ID = "https://railhead.dev/schemas/accept-report-1.json"
# XML 1.0 knows no other control characters, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINES = 40


def schema() -> dict[str, Any]:
    """Return the JSON Schema of what ``--json`` writes; its ``seal`` tells a change."""
    made = Report.model_json_schema(mode="serialization")
    made["properties"] = {
        "accepted": {
            "type": "boolean",
            "description": "Every promise is proven, or waived by name.",
        },
        **made["properties"],
        "seal": {"type": "object", "description": "Digest and signature; see check-report."},
    }
    made["required"] = sorted({"accepted", *made["properties"]} - {"seal"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": _SCHEMA_ID, **made}


def junit(report: Report) -> str:
    """JUnit XML: a promise that failed is a failure, one that is not proven an error."""
    by = {verdict: [r for r in report.checks if _said(r) is verdict] for verdict in Verdict}
    waived = [r for r in report.checks if r.waiver is not None]
    suite = ElementTree.Element(
        "testsuite",
        name=f"railhead accept {report.cluster}",
        tests=str(len(report.checks)),
        failures=str(len(by[Verdict.FAILED])),
        errors=str(len(by[Verdict.NOT_PROVEN])),
        skipped=str(len(waived)),
        time=f"{sum(r.seconds for r in report.checks):.1f}",
        timestamp=report.begun.replace(microsecond=0, tzinfo=None).isoformat(),
    )
    for result in report.checks:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"railhead.accept.{_clean(report.cluster)}",
            name=result.name,
            time=f"{result.seconds:.1f}",
        )
        text = "\n".join(part for part in (result.promise, result.summary, result.remedy) if part)
        if result.waiver is not None:
            ElementTree.SubElement(case, "skipped", message=_clean(_waiver(result)))
        elif result.verdict is Verdict.FAILED:
            _told(case, "failure", result, text)
        elif result.verdict is Verdict.NOT_PROVEN:
            _told(case, "error", result, text)
        ElementTree.SubElement(case, "system-out").text = _clean(_evidence(result))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(report: Report) -> str:
    """Return a comment for a pull request: the verdict, a row a promise, failures below."""
    head = "accepted" if report.accepted else "not accepted"
    size = ", quick" if report.quick else ""
    lines = [
        f"## Railhead acceptance: {_cell(report.cluster)} is {head}",
        "",
        f"{len(report.nodes)} nodes, {report.begun:%Y-%m-%d %H:%M} UTC to "
        f"{report.ended:%H:%M}, Railhead {report.railhead}{size}",
        "",
        "| | promise | verdict | what was found | time |",
        "| --- | --- | --- | --- | --- |",
    ]
    for result in report.checks:
        verdict = result.verdict.value + (", waived" if result.waiver else "")
        lines.append(
            f"| {_MARKS[result.verdict]} | {_cell(result.name)} | {verdict} | "
            f"{_cell(result.summary)} | {result.seconds:.0f} s |"
        )
    for result in report.checks:
        if result.verdict is Verdict.PASSED:
            continue
        lines += ["", f"### {_cell(result.name)}: {result.verdict.value}", ""]
        lines.append(f"{_text(result.summary)}")
        if result.waiver is not None:
            lines += ["", f"**{_text(_waiver(result))}**"]
        if result.remedy:
            lines += ["", f"What to do: {_text(result.remedy)}"]
        lines += _details(result)
    return "\n".join(lines) + "\n"


def _said(result: Result) -> Verdict | None:
    return None if result.waiver is not None else result.verdict


def _told(case: ElementTree.Element, kind: str, result: Result, text: str) -> None:
    reported = ElementTree.SubElement(
        case, kind, message=_clean(result.summary), type=result.verdict.value
    )
    reported.text = _clean(text)


def _waiver(result: Result) -> str:
    item = result.waiver
    if item is None:
        return ""
    return f"waived by {item.by} until {item.until.isoformat()}: {item.reason}"


def _evidence(result: Result) -> str:
    parts = [f"{m.name}: {m.value:g} {m.unit}".rstrip() for m in result.measured]
    parts += [f"{item.title}\n{_first(item.text)}" for item in result.evidence]
    return "\n\n".join(parts)


def _first(text: str) -> str:
    lines = text.splitlines()
    rest = [f"... and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *rest])


def _details(result: Result) -> list[str]:
    text = _evidence(result)
    if not text:
        return []
    # A fence longer than any run of backticks inside cannot be closed by evidence.
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["", "<details><summary>evidence</summary>", "", fence, text, fence, "", "</details>"]


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Words that Markdown and HTML leave as they are, in one line."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]@#])", r"\\\1", flat)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)


def write(path: str, text: str) -> None:
    """Write a file, or standard output for ``-``.

    Raises:
        InputError: it cannot be written.
    """
    import sys
    from pathlib import Path

    from railhead.base.errors import InputError

    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", remedy="name another file") from None


def json_text(document: dict[str, Any]) -> str:
    """Return the text as files hold it."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
