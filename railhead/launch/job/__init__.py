"""The job file: ten lines of YAML, read strictly, every mistake reported at once.

``values`` is what each value may be, ``model`` the fields, ``text`` the YAML, ``files`` the local
files that go along; ``reading`` makes a job of them.
"""

from railhead.launch.job.files import MAX_FILES_BYTES, MAX_WORKSPACE_BYTES, Payload
from railhead.launch.job.model import CheckpointFile, JobFile, RoleFile, SizingFile
from railhead.launch.job.reading import MAX_JOB_FILE_BYTES, job_of, parse_job, read_job
from railhead.launch.job.text import override_values
from railhead.launch.job.values import (
    MAIN_ROLE,
    MAX_NAME,
    MAX_WORD_BYTES,
    NAME,
    WORKSPACE,
    seconds,
)

__all__ = [
    "MAIN_ROLE",
    "MAX_FILES_BYTES",
    "MAX_JOB_FILE_BYTES",
    "MAX_NAME",
    "MAX_WORD_BYTES",
    "MAX_WORKSPACE_BYTES",
    "NAME",
    "WORKSPACE",
    "CheckpointFile",
    "JobFile",
    "Payload",
    "RoleFile",
    "SizingFile",
    "job_of",
    "override_values",
    "parse_job",
    "read_job",
    "seconds",
]
