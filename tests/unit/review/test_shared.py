"""Jobs and ranks that come to have something in common, or no longer have it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from railhead.review.shared import orders, places, seals
from tests.unit.review.pulled import laid, write

JOB = {"name": "llm", "nodes": 2, "command": ["train.py"]}
OTHER = JOB | {"name": "other", "checkpoint": {"path": "runs/a"}}
SPLIT = "import torch\n\ndef split(rows, seed):\n    made = torch.Generator()\n    made.{}\n"
ORDER = "    return torch.randperm(rows, generator=made)\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, {"checkpoint": {"path": "runs/a"}}, True),
        (None, {"checkpoint": {"path": "runs/a"}}, True),
        ({}, {"name": "runs/a"}, True),
        ({"checkpoint": {"path": "runs/a"}}, {"checkpoint": {"path": "runs/a"}, "nodes": 4}, False),
        ({}, {"checkpoint": {"path": "runs/a"}, "namespace": "research"}, False),
        ({}, {"checkpoint": {"path": "runs/b"}}, False),
    ],
)
def test_jobs_that_come_to_share_a_directory_are_told(
    repository: Path, before: dict[str, object] | None, after: dict[str, object], told: bool
) -> None:
    (repository / "jobs").mkdir()
    (repository / "jobs/other.yaml").write_text(yaml.safe_dump(OTHER))
    (repository / "jobs/service.yaml").write_text("kind: Service\n")
    was = None if before is None else yaml.safe_dump(JOB | before)
    source = write(laid(repository), "jobs/llm.yaml", was, yaml.safe_dump(JOB | after))
    texts = [row.what for row in places(source) if row.subject.startswith("jobs/llm.yaml")]
    what = "writes its checkpoints to runs/a, as jobs/other.yaml does: "
    assert [text.startswith(what) for text in texts] == [True] * told


def test_lost_look_at_what_is_written_last_is_told(repository: Path) -> None:
    text = "import torch\n\ndef newest(a):\n    return max(a.glob('epoch-*/.metadata'))\n"
    source = laid(repository)
    for now, lost in (
        (text.replace("/.metadata", ""), True),
        (text.replace("epoch-*/", "step-*/"), False),
        (text.replace("newest", "last"), False),
    ):
        rows = list(seals(write(source, "train.py", text, now)))
        assert [row.what.partition(",")[0] for row in rows] == [
            "no longer looks for .metadata"
        ] * lost


@pytest.mark.parametrize(
    ("seed", "order", "told"),
    [
        ("manual_seed(seed + int(os.environ['RANK']))", ORDER, True),
        ("manual_seed(seed + rank)", ORDER, True),
        ("manual_seed(seed + epoch)", ORDER, False),
        # Noise may be each rank's own.
        ("manual_seed(seed + rank)", "    return torch.randn(rows, generator=made)\n", False),
        ("set_state(rank)", ORDER, False),
    ],
)
def test_order_of_data_by_a_seed_of_each_rank_is_told(
    repository: Path, seed: str, order: str, told: bool
) -> None:
    source, text = laid(repository), SPLIT.format(seed) + order
    was = SPLIT.format("manual_seed(seed)") + ORDER
    rows = list(orders(write(source, "train.py", was, text)))
    assert [row.subject for row in rows] == ["train.py: split()"] * told
    assert not list(orders(write(source, "train.py", text, f"# a\n{text}")))
