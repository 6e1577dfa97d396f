"""The review for machines: SARIF 2.1.0, and JUnit's XML."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from railhead.base.version import __version__
from railhead.review.model import Finding, Review

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"refuse": "error", "unjudged": "error", "ask": "warning", "note": "note"}


def sarif(review: Review) -> dict[str, Any]:
    """Return the review as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format")."""
    rules = sorted({finding.rule: finding for finding in review.findings}.items())
    names = [name for name, _ in rules]
    return {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "railhead-review",
                        "version": __version__,
                        "rules": [
                            {
                                "id": name,
                                "shortDescription": {"text": f"{finding.loss}: {name}"},
                                "defaultConfiguration": {"level": _LEVELS[finding.level]},
                            }
                            for name, finding in rules
                        ],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "results": [_result(f, names.index(f.rule)) for f in review.findings],
            }
        ],
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    place = finding.place
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.level],
        "message": {"text": f"{finding.subject}: {finding.what}"},
        "partialFingerprints": {"railhead/v1": finding.fingerprint},
    }
    if place is not None:
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": place.file},
                    "region": {"startLine": place.line},
                }
            }
        ]
    return result


def junit(review: Review) -> str:
    """Return the review as JUnit's XML: a case a finding, a failure where the review fails."""
    grave = [f for f in review.findings if f.level in ("refuse", "unjudged")]
    root = ElementTree.Element(
        "testsuite",
        name="railhead review",
        tests=str(max(len(review.findings), 1)),
        failures=str(len(grave)),
        time=str(review.seconds),
    )
    for finding in review.findings:
        where = f"{finding.place.file}:{finding.place.line}" if finding.place else ""
        case = ElementTree.SubElement(
            root,
            "testcase",
            classname=finding.stack or "pull request",
            name=f"{finding.rule}: {finding.subject}",
            file=where,
        )
        if finding in grave:
            failure = ElementTree.SubElement(case, "failure", message=finding.what[:200])
            failure.text = f"{where}\n{finding.what}\n{finding.allow}"
        elif finding.level == "ask":
            ElementTree.SubElement(case, "system-out").text = finding.what
    if not review.findings:
        ElementTree.SubElement(root, "testcase", classname="pull request", name="nothing is lost")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
