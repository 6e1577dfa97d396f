"""Tests of what `railhead lab watch` applies: the stack's own files, and pods that read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml

from railhead.lab import watching

RULES = "groups: [{name: a, rules: []}]\n"
SCRAPES = "scrape_configs: [{job_name: b}]\n"


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (result,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return result


def noted(objects: list[dict[str, Any]]) -> dict[str, str]:
    template = one(objects, "Deployment", "prometheus")["spec"]["template"]
    return dict(template["metadata"]["annotations"])


def test_the_stacks_files_are_loaded_as_they_are() -> None:
    data = one(watching.objects(RULES, SCRAPES, None), "ConfigMap", "prometheus")["data"]
    assert (data["rules.yml"], data["scrapes.yml"]) == (RULES, SCRAPES)
    config = yaml.safe_load(data["prometheus.yml"])
    assert config["rule_files"] == ["/etc/prometheus/rules.yml"]
    assert config["scrape_config_files"] == ["/etc/prometheus/scrapes.yml"]


def test_other_files_make_another_pod_and_the_same_do_not() -> None:
    before = noted(watching.objects(RULES, SCRAPES, None))
    assert noted(watching.objects(RULES, SCRAPES, None)) == before
    assert noted(watching.objects("", SCRAPES, None)) != before
    assert noted(watching.objects(RULES, SCRAPES, "http://told:8000/")) != before


def test_alerts_go_to_the_webhook_and_so_does_their_end() -> None:
    (receiver,) = watching.alertmanager("http://told:8000/")["receivers"]
    assert receiver["webhook_configs"] == [{"url": "http://told:8000/", "send_resolved": True}]
    assert watching.alertmanager(None)["receivers"] == [{"name": "lab"}]


@dataclass(frozen=True)
class Answering:
    """A lab that answers every question alike."""

    answer: str

    def raw(self, path: str) -> str:
        assert path.endswith("metadata.name%3Drailhead-rules")
        return self.answer


def test_a_stack_that_is_not_watched_has_no_files() -> None:
    there = json.dumps({"items": [{"data": {"railhead-rules.yaml": RULES}}]})
    assert watching.of_stack(Answering(there), watching.RULES) == RULES
    assert watching.of_stack(Answering('{"items": []}'), watching.RULES) == ""
    assert watching.of_stack(Answering(""), watching.RULES) == ""
