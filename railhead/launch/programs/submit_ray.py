"""Submits a program to a Ray cluster, and prints what it prints until Ray says that it has ended.

The command that KubeRay has for this takes the end of that stream for the end of the program, which
it then ends (kuberay issue 4921). Runs in the image of a RayJob.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

#: Seconds between two looks, and how many looks may fail in a row.
PAUSE_S, TRIES = 5.0, 60


class Output:
    """The output of a job; each stream of it begins at the first line again.

    Attributes:
        printed: how many characters of it are printed.
    """

    def __init__(self) -> None:
        self.printed = 0

    async def follow(self, client: Any, job: str) -> None:
        """Print what is not printed yet, until the stream ends."""
        read = 0
        async for text in client.tail_job_logs(job):
            read += len(text)
            if read > self.printed:
                sys.stdout.write(text[self.printed - read :])
                sys.stdout.flush()
                self.printed = read


def main(client: Any, job: str, entrypoint: str) -> int:
    """Submit a job unless it is there, and follow it to its end; return an exit code."""
    try:
        client.get_job_status(job)
    except RuntimeError:
        client.submit_job(entrypoint=entrypoint, submission_id=job)
    output, failed = Output(), 0
    while failed < TRIES:
        try:
            asyncio.run(output.follow(client, job))
            status = client.get_job_status(job)
        except Exception as error:  # noqa: BLE001 - a broken stream or a busy head, of any library
            failed += 1
            say(f"{error}")
        else:
            failed = 0
            if status.is_terminal():
                # Whether it failed the operator asks Ray itself.
                say(f"job {job}: {status}")
                return 0
        time.sleep(PAUSE_S)
    return 1


def say(text: str) -> None:
    """Print a line that is not the job's."""
    sys.stderr.write(f"railhead: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    from ray.job_submission import JobSubmissionClient

    # The first process of a container ends at no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    address = os.environ["RAY_DASHBOARD_ADDRESS"]
    dashboard = address if "://" in address else f"http://{address}"
    client = JobSubmissionClient(dashboard)
    sys.exit(main(client, os.environ["RAY_JOB_SUBMISSION_ID"], sys.argv[1]))
