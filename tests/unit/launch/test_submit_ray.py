"""A Ray job is followed until Ray says that it has ended, also where its stream of logs breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from railhead.launch.programs import submit_ray


class Status(str):
    """A job's status, as Ray's enumeration is one."""

    def is_terminal(self) -> bool:
        return self in ("SUCCEEDED", "FAILED", "STOPPED")


class Ray:
    """A cluster's jobs; a stream ends at ``!`` with an error, and else as if all were well.

    Args:
        streams: what each connection gets to read.
        statuses: what each question for the status is answered; None is no such job.
    """

    def __init__(self, streams: Sequence[Sequence[str]], statuses: Sequence[str | None]) -> None:
        self.streams, self.statuses = list(streams), list(statuses)
        self.submitted: list[str] = []

    def submit_job(self, *, entrypoint: str, submission_id: str) -> None:
        self.submitted.append(f"{submission_id}: {entrypoint}")

    def get_job_status(self, job: str) -> Status:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is None:
            raise RuntimeError(f"{job} does not exist")
        return Status(status)

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        for text in self.streams.pop(0) if self.streams else ():
            if text == "!":
                raise RuntimeError(f"the stream of {job} broke")
            yield text


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_ray, "PAUSE_S", 0.0)


@pytest.mark.parametrize(
    ("streams", "statuses"),
    [
        ([["a\n", "b\n", "c\n"]], [None, "SUCCEEDED"]),
        ([["a\n", "b\n"], ["a\n", "b\nc\n"]], [None, "RUNNING", "FAILED"]),
        ([["a\n", "!"], ["!"], ["a\nb\nc\n"]], [None, "STOPPED"]),
        ([["a\nb\n"], [], ["a\n", "b\n", "c", "\n"]], [None, "RUNNING", "RUNNING", "SUCCEEDED"]),
    ],
    ids=["whole", "ended early", "broken twice", "nothing between"],
)
def test_each_line_is_printed_once_to_the_end(
    streams: list[list[str]], statuses: list[str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    ray = Ray(streams, statuses)
    assert submit_ray.main(ray, "j", "python3 train.py") == 0
    assert capsys.readouterr().out == "a\nb\nc\n"
    assert ray.submitted == ["j: python3 train.py"]
    assert not ray.streams


def test_a_submitter_that_comes_back_submits_nothing() -> None:
    ray = Ray([["a\n"]], ["RUNNING", "SUCCEEDED"])
    assert submit_ray.main(ray, "j", "x") == 0
    assert not ray.submitted


def test_a_job_that_stays_gone_is_given_up() -> None:
    ray = Ray([], ["RUNNING", None])
    assert submit_ray.main(ray, "j", "x") == 1


def test_a_head_that_cannot_be_asked_is_submitted_nothing() -> None:
    class Away(Ray):
        def get_job_status(self, job: str) -> Status:
            raise ConnectionError(f"no head for {job}")

    ray = Away([], ["RUNNING"])
    with pytest.raises(ConnectionError):
        submit_ray.main(ray, "j", "x")
    assert not ray.submitted
