"""An upgrade that fails says what goes on and what to do."""

from __future__ import annotations

import pulumi
import pytest

from railhead.catalog.versions import JOBSET_0_11
from railhead.components.controllers import charts


@pytest.mark.parametrize(("operation", "told"), [("update", 1), ("create", 0), ("delete", 0)])
def test_only_a_failed_update_logs_the_way_out(
    operation: str, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", texts.append)
    failed = pulumi.ErrorHookArgs("urn", "id", "kueue", "type", failed_operation=operation)
    assert charts.tell_way_out(charts.Chart.of(JOBSET_0_11.kueue), failed) is False
    assert len(texts) == told
    for text in texts:
        assert "kueue 0.16.6 did not come up" in text
        assert "kubectl -n kueue-system get pods" in text
        assert "put the stack's file back as it was" in text
