"""The job file: what is accepted reaches the process unchanged; the rest is named, all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError
from railhead.launch import job as jobs
from railhead.launch.cli import JOB_FILE_EXAMPLE
from railhead.launch.job import JobFile, parse_job, read_job
from tests.unit.launch.conftest import JOB


def refused(text: str, **kwargs: list[str]) -> str:
    with pytest.raises(InputError) as caught:
        parse_job(text, where="job.yaml", **kwargs)
    return caught.value.problem


def test_the_example_in_the_help_is_a_job_file() -> None:
    job = parse_job(JOB_FILE_EXAMPLE, where="help")
    assert (job.nodes, job.gpus_per_node, job.env) == (2, 8, {"EPOCHS": "10"})


def test_the_example_is_about_ten_lines_and_reads(repo: Path) -> None:
    path = repo / "examples/torch-ddp.yaml"
    lines = [x for x in path.read_text().splitlines() if x.strip() and not x.startswith("#")]
    assert len(lines) <= 10
    job, files = read_job(path)
    assert (job.nodes, job.processes_per_node) == (2, 2)
    assert [f.name for f in files] == ["train.py"]


def test_text_is_taken_as_written() -> None:
    """YAML would make a bool, an octal, a float and a sexagesimal number of these."""
    job = parse_job(
        "name: a\nnodes: 1\ncommand: [run, 0.10, yes, 010, null-ish]\n"
        "env: {A: true, B: 0.10, C: 1:30, D: 1_000, E: '', F: ~x}\n",
        where="job",
    )
    assert job.command == ("run", "0.10", "yes", "010", "null-ish")
    assert job.env == {"A": "true", "B": "0.10", "C": "1:30", "D": "1_000", "E": "", "F": "~x"}


def test_all_mistakes_come_at_once_with_line_and_allowed_values() -> None:
    problem = refused(
        "name: Not_A_Name\nnodes: two\ngpu_per_node: 8\ncommand: torchrun x\n"
        "env:\n  1BAD: x\n  RAILHEAD_X: 4\n  EMPTY:\nimage: a b\nprocesses_per_node: 0\n"
    )
    lines = problem.splitlines()
    assert lines[0] == "job.yaml: 9 mistakes"
    expected = [
        r"line 1: name: 'Not_A_Name' is not allowed; allowed: lower-case letters",
        r"line 2: nodes: 'two' is not allowed; allowed: a whole number from 1 to 10000",
        r"line 3: gpu_per_node: no such field; did you mean 'gpus_per_node'\?; fields: name",
        r"line 4: command: 'torchrun x' is not allowed; allowed: a list of 1 to 128 words",
        r"line 6: env\.1BAD: '1BAD' is not allowed; allowed: a name of letters",
        r"line 7: env\.RAILHEAD_X: 'RAILHEAD_X' is not allowed; allowed: a variable that is not",
        r"line 8: env\.EMPTY: no value \(write \"\" for an empty text\)",
        r"line 9: image: 'a b' is not allowed; allowed: an image reference",
        r"line 10: processes_per_node: 0 is not allowed; allowed: a whole number from 1 to 512",
    ]
    for line, pattern in zip(lines[1:], expected, strict=True):
        assert re.match("  " + pattern, line), line


def test_missing_fields_are_mistakes_too() -> None:
    problem = refused("runtime: torch\n")
    for name in ("name", "nodes", "command"):
        assert f"  {name}: missing; allowed: " in problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a list of `field: value` lines"),
        ("- a\n- b\n", "a list of `field: value` lines"),
        ("a: [", "job.yaml:1: not YAML: expected the node content, but found '<stream end>'"),
        ("a: b: c", "job.yaml:1: not YAML"),
        ("name: a\nname: b\nnodes: 1\ncommand: [x]\n", "line 2: name: given twice"),
        ("a: &x [1]\nb: *x\n", "anchors and aliases are not used"),
        ("a: !!python/object:os.system x\n", "tags such as !!x"),
        ("a: " + "[" * 3000, "nested more than 20 levels deep"),
        ("name: a\nnodes: 1\ncommand: []\n", "line 3: command: [] is not allowed"),
        ("name: a\nnodes: 1\ncommand: ['']\n", "allowed: a program as the first word"),
        ('name: a\nnodes: 1\ncommand: ["a\\0b"]\n', "text without NUL"),
        ('name: a\nnodes: 1\ncommand: ["\\ud800"]\n', "half of a surrogate pair"),
        ("name: a\nnodes: 99999999999999999999999\ncommand: [x]\n", "line 2: nodes: '9999"),
        ("name: a\nnodes: 1.5\ncommand: [x]\n", "line 2: nodes: '1.5' is not allowed"),
        ("name: a\nnodes: '2'\ncommand: [x]\n", "line 2: nodes: '2' is not allowed"),
        ("name: a\nnodes: true\ncommand: [x]\n", "line 2: nodes: 'true' is not allowed"),
        ("name: a\nnodes: 1\ncommand: [x]\nfiles: [a/x.py, b/x.py]\n", "twice: x.py"),
        ("name: a\nnodes: 1\ncommand: [x]\nfiles: ['..']\n", "files[0]: '..' is not allowed"),
        ("name: a\nnodes: 1\ncommand: [x]\nenv: {RAILHEAD_X: 1}\n", "is not set already"),
        ("name: " + "a" * 46 + "\nnodes: 1\ncommand: [x]\n", "at most 45"),
        ("name: a\nnodes: 1\ncommand: [[x]]\n", 'command[0]: ["x"] is not allowed; allowed: text'),
        ("? [a]\n: b\n", "the file: a key must be text"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    assert says in refused(text)


@pytest.mark.parametrize(
    "image",
    [
        "torch",
        "torch:2.9",
        "docker.io/library/torch",
        "localhost:5000/a/b:c",
        "railhead.local/torch-cpu:lab",
        "nvcr.io/nvidia/pytorch:25.09-py3",
        "a.b/c@sha256:" + "0" * 64,
        "Registry.example/a:B",
    ],
)
def test_images_that_are_fine(image: str) -> None:
    text = f"name: a\nnodes: 1\ncommand: [x]\nimage: {image}\n"
    assert parse_job(text, where="job").image == image


@pytest.mark.parametrize(
    "image", ["", "a b", "Upper", "a:", "a@sha256:12", "https://x/y", "-a", "a//b"]
)
def test_images_that_are_not(image: str) -> None:
    assert "image" in refused(f"name: a\nnodes: 1\ncommand: [x]\nimage: '{image}'\n")


def test_overrides() -> None:
    job = parse_job(
        JOB, where="job", sets=["name=other", "nodes=4", "env.EPOCHS=3", "env.NEW=a=b", "queue=q"]
    )
    assert (job.name, job.nodes, job.queue) == ("other", 4, "q")
    assert job.env == {"EPOCHS": "3", "NEW": "a=b"}


@pytest.mark.parametrize(
    "item", ["nodes", "command=x", "env.=x", "env=x", "a.b=c", "nodez=3", "nodes=x"]
)
def test_bad_overrides(item: str) -> None:
    assert item.partition("=")[0].partition(".")[0] in refused(JOB, sets=[item])


def test_files_are_read_and_limited(job_file: Path) -> None:
    _, files = read_job(job_file)
    assert files == (jobs.Payload(name="train.py", data=b"say('hello')\n"),)
    (job_file.parent / "train.py").write_bytes(b"x" * (jobs.MAX_FILES_BYTES + 1))
    with pytest.raises(InputError, match=r"1048577 bytes; allowed: 1048576 a file"):
        read_job(job_file)


def test_the_largest_files_that_are_taken(tmp_path: Path) -> None:
    most = jobs.MAX_WORKSPACE_BYTES // jobs.MAX_FILES_BYTES
    for number in range(most):
        (tmp_path / f"{number}").write_bytes(b"x" * jobs.MAX_FILES_BYTES)
    (tmp_path / "one").write_bytes(b"x")
    text = "name: demo\nnodes: 1\ncommand: [a]\nfiles: "
    (tmp_path / "job.yaml").write_text(f"{text}{[str(n) for n in range(most)]}\n")
    assert len(read_job(tmp_path / "job.yaml")[1]) == most
    (tmp_path / "job.yaml").write_text(f"{text}{[*(str(n) for n in range(most)), 'one']}\n")
    with pytest.raises(InputError, match=f"{jobs.MAX_WORKSPACE_BYTES + 1} bytes together"):
        read_job(tmp_path / "job.yaml")


def test_unreadable_file_is_reported(job_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, words in ((OSError(13, "Permission denied"), "Permission denied"), (OSError(), "")):

        def no(_: Path, error: OSError = error) -> bytes:
            raise error

        monkeypatch.setattr("railhead.launch.job.files.read_bytes", no)
        with pytest.raises(InputError, match=rf"line 7: files\[0\]: 'train\.py': {words}\n"):
            read_job(job_file)


def test_half_of_a_character_is_not_a_key() -> None:
    assert "env: half of a surrogate pair is not text" in refused(JOB + '  "\\uD800": 1\n')


def test_missing_files_are_named_with_their_near_misses(job_file: Path) -> None:
    job_file.write_text(JOB.replace("[train.py]", "[trian.py, sub]"))
    (job_file.parent / "sub").mkdir()
    with pytest.raises(InputError) as caught:
        read_job(job_file)
    says = caught.value.problem
    assert (
        "files[0]: 'trian.py': no such file beside the job file; did you mean 'train.py'?" in says
    )
    assert "files[1]: 'sub': a folder without a file that would be taken along" in says


def test_mistakes_in_the_text_and_in_the_files_come_together(job_file: Path) -> None:
    job_file.write_text(JOB.replace("[train.py]", "[trian.py]").replace("nodes: 2", "nodes: 0"))
    with pytest.raises(InputError) as caught:
        read_job(job_file)
    lines = caught.value.problem.splitlines()
    assert lines[0].endswith("2 mistakes")
    assert lines[1].startswith("  line 3: nodes: 0 is not allowed")
    assert lines[2].startswith("  line 7: files[0]: 'trian.py': no such file")


def test_an_overridden_value_is_not_blamed_on_the_file() -> None:
    assert "\n  nodes: 0 is not allowed" in refused(JOB, sets=["nodes=0"])


def test_a_job_file_that_cannot_be_read(tmp_path: Path, job_file: Path) -> None:
    with pytest.raises(InputError, match=r"jobs\.yaml: no such file; did you mean 'job\.yaml'"):
        read_job(tmp_path / "jobs.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_job(tmp_path / "binary")
    with pytest.raises(InputError, match="a folder"):
        read_job(tmp_path)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["demo", "torch", "2", "0", "train.py", "${X}", "$(HOME)", "`id`"]),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
fields = st.sampled_from([*JobFile.model_fields, "nodez", "gpu", ""])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(fields, values, max_size=8))
def test_any_mapping_is_a_job_or_a_clean_refusal(data: dict[str, object]) -> None:
    import yaml

    _job_or_refusal(yaml.safe_dump(data, allow_unicode=True))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_job_or_a_clean_refusal(text: str) -> None:
    _job_or_refusal(text)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_job_file_is_a_job_or_a_clean_refusal(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(JOB)))
    cut = data.draw(st.integers(0, 5))
    new = data.draw(st.text(alphabet="\t :[]{}&*!|>'\"%@`#-?,\n\0\x85a0", max_size=5))
    _job_or_refusal(JOB[:at] + new + JOB[at + cut :])


def _job_or_refusal(text: str) -> None:
    refusal: InputError | None = None
    job = None
    try:
        job = parse_job(text, where="job.yaml")
    except InputError as error:
        refusal = error
    if refusal is not None:
        assert refusal.problem.startswith("job.yaml")
        assert refusal.remedy
        refusal.problem.encode()
        return
    assert job is not None
    assert job.nodes >= 1
    assert jobs.NAME.fullmatch(job.name)
    assert job.command[0].strip()
    for word in (*job.command, *job.env, *job.env.values()):
        word.encode()
