"""Precision and recall of `railhead nccl read` on the labelled logs, by part and label.

Run by `make nccl-eval`. It never prints a file of the part that is kept aside.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
SHARED = REPO.parent / "shared" / "nccl-logs"
PAGE = REPO / "docs" / "reading-nccl.md"
BEGIN, END = "<!-- nccl-eval:begin -->", "<!-- nccl-eval:end -->"

DIMENSIONS = ("verdict", "transport", "gdr", "cause")
# What a reader answers when a log cannot tell: silence, which is never a wrong claim.
SILENT: Mapping[str, str | None] = {
    "verdict": None,
    "transport": "unknown",
    "gdr": "unknown",
    "cause": "null",
}
# What is claimed for a label that is one kind of it, which is silence about which.
COARSER = {("verbs", "ib"), ("verbs", "roce"), ("libfabric", "efa"), ("measured", "ok")}
# Verdicts that report no problem.
WELL = {"ok", "measured", "wired"}
PARTS = ("shared", "tune", "held_out")
TITLES = {"shared": "given", "tune": "tuned to", "held_out": "kept aside"}
COLUMNS = ("logs", "precision", "recall")


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One log and what it should be read as; ``written`` when it is from no thread."""

    path: Path
    labels: Mapping[str, str]
    written: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """One log, read."""

    log: Labelled
    got: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Score:
    """Counts of one label, or of a whole dimension.

    Attributes:
        support: logs that should be read so.
        right: of them, read so.
        claimed: logs that were read so.
        silent: of ``support``, read as unknown or null.
    """

    support: int
    right: int
    claimed: int
    silent: int

    @property
    def precision(self) -> float | None:
        """Right claims over claims; None where nothing was claimed."""
        return self.right / self.claimed if self.claimed else None

    @property
    def recall(self) -> float | None:
        """Right claims over what there was to claim; None where there was nothing."""
        return self.right / self.support if self.support else None


def index(folder: Path) -> list[Mapping[str, str]]:
    """Return the rows of a folder's INDEX.tsv."""
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def load(part: str) -> list[Labelled]:
    """Return the logs of a part, with their labels; empty when the part is not on this machine."""
    folder = SHARED if part == "shared" else HERE / part
    if not (folder / "INDEX.tsv").is_file():
        return []
    causes: Mapping[str, str] = {}
    if part == "shared":
        with (HERE / "shared-causes.tsv").open(encoding="utf-8", newline="") as stream:
            rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
            causes = {row["file"]: row["cause"] for row in rows}
    results = []
    for row in index(folder):
        labels = {name: row[name] for name in ("verdict", "transport", "gdr")}
        labels["cause"] = causes.get(row["file"], "null") if part == "shared" else row["cause"]
        written = row["fidelity"].startswith("written")
        results.append(Labelled(path=folder / row["file"], labels=labels, written=written))
    return results


def read_all(logs: Iterable[Labelled]) -> list[Result]:
    """Read every log as `railhead nccl read --json` does."""
    from railhead.diagnose import read

    results = []
    for log in logs:
        reading = read([log.path])
        got = {
            "verdict": reading.verdict,
            "transport": reading.transport,
            "gdr": reading.gdr,
            "cause": reading.cause or "null",
        }
        results.append(Result(log=log, got=got))
    return results


def score(results: Sequence[Result], dimension: str) -> dict[str, Score]:
    """Return the scores by label; ``all`` is the whole dimension, without silence.

    ``verbs`` for a log of InfiniBand or RoCE claims neither, it is silent about which; as is
    ``libfabric`` for a log of EFA, and ``measured`` for one that its thread calls ``ok``.
    """
    silent = str(SILENT[dimension])
    pairs = []
    for result in results:
        label, got = result.log.labels[dimension], result.got[dimension]
        if (got, label) in COARSER:
            got = silent
        pairs.append((label, got))
    wanted, claimed = Counter(w for w, _ in pairs), Counter(g for _, g in pairs)
    right = Counter(w for w, g in pairs if w == g)
    quiet = Counter(w for w, g in pairs if g == silent)
    labels = sorted((wanted.keys() | claimed.keys()) - {silent})
    scores = {
        label: Score(
            support=wanted[label],
            right=right[label],
            claimed=claimed[label],
            silent=quiet[label],
        )
        for label in labels
    }
    return {
        "all": Score(
            support=sum(item.support for item in scores.values()),
            right=sum(item.right for item in scores.values()),
            claimed=sum(item.claimed for item in scores.values()),
            silent=sum(item.silent for item in scores.values()),
        ),
        **scores,
    }


Table = dict[str, dict[str, dict[str, Score]]]
# A label of fewer logs kept aside has no row of its own: it would say which of them is misread.
FEW = 3
# Rows of a dimension that are no labels; `all` is the whole of it, the others halves of it.
WHOLES = {
    "all": "all",
    "threads": "of them from threads",
    "written": "of them written",
    "problem": "a problem, of whatever kind",
    "kind": "ib, roce and verbs as one",
}


def evaluate() -> Table:
    """dimension -> label -> part -> score, for the parts that are on this machine."""
    table: Table = {dimension: {} for dimension in DIMENSIONS}
    for part in PARTS:
        results = read_all(load(part))
        if not results:
            continue
        for dimension in DIMENSIONS:
            scores = score(results, dimension)
            for name, written in (("threads", False), ("written", True)):
                some = [result for result in results if result.log.written == written]
                if some:
                    scores[name] = score(some, dimension)["all"]
            if dimension == "verdict":
                scores["problem"] = alarms(results)
            if dimension == "transport":
                scores["kind"] = kinds(results)
            for label, item in scores.items():
                if part == "held_out" and label not in WHOLES and item.support < FEW:
                    continue
                table[dimension].setdefault(label, {})[part] = item
    return table


def alarms(results: Sequence[Result]) -> Score:
    """Return recall and precision of seeing any problem."""
    pairs = [
        (result.log.labels["verdict"] not in WELL, result.got["verdict"] not in WELL)
        for result in results
    ]
    return Score(
        support=sum(wanted for wanted, _ in pairs),
        right=sum(wanted and got for wanted, got in pairs),
        claimed=sum(got for _, got in pairs),
        silent=0,
    )


def kinds(results: Sequence[Result]) -> Score:
    """Transports, with InfiniBand and Ethernet below verbs taken for the same."""
    same = {"ib": "verbs", "roce": "verbs"}

    def alike(words: Mapping[str, str]) -> dict[str, str]:
        return {"transport": same.get(words["transport"], words["transport"])}

    return score(
        [
            Result(
                log=Labelled(path=result.log.path, labels=alike(result.log.labels)),
                got=alike(result.got),
            )
            for result in results
        ],
        "transport",
    )["all"]


def _ordered(rows: Mapping[str, Mapping[str, Score]]) -> list[str]:
    wholes = [name for name in WHOLES if name in rows]
    return [*wholes, *sorted(label for label in rows if label not in WHOLES)]


def cells(found: Score | None, *, counts: bool = False) -> tuple[str, str, str]:
    """Logs, precision, recall; with ``counts``, what they are made of."""
    if found is None:
        return "", "", ""
    texts = []
    for share, whole in ((found.precision, found.claimed), (found.recall, found.support)):
        text = "-" if share is None else f"{share:.0%}"
        texts.append(f"{text} ({found.right}/{whole})" if counts and share is not None else text)
    return str(found.support), texts[0], texts[1]


def markdown(table: Table, parts: Sequence[str] = ("tune", "held_out")) -> str:
    """Return the table of the documentation: the parts that every checkout has.

    Causes are many: those too rare for figures of their own are in the whole only.
    """
    lines = []
    for dimension in DIMENSIONS:
        heads = [f"{TITLES[part]}: {column}" for part in parts for column in COLUMNS]
        lines += [
            f"| {dimension} | {' | '.join(heads)} |",
            f"| --- |{' ---: |' * len(heads)}",
        ]
        for label in _ordered(table[dimension]):
            row = table[dimension][label]
            if parts[-1] not in row and (dimension == "cause" or parts[0] not in row):
                continue
            name = f"**{WHOLES[label]}**" if label in WHOLES else f"`{label}`"
            results = [text for part in parts for text in cells(row.get(part), counts=True)]
            lines.append(f"| {name} | {' | '.join(results)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def show(table: Table) -> None:
    """Print the table for people."""
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(width=None if sys.stdout.isatty() else 120)
    for dimension in DIMENSIONS:
        drawn = RichTable(title=dimension, title_justify="left", box=None, pad_edge=False)
        drawn.add_column("label", no_wrap=True)
        parts = [part for part in PARTS if part in table[dimension].get("all", {})]
        for part in parts:
            for number, column in enumerate(COLUMNS):
                head = f"{TITLES[part]}\n{column}" if not number else f"\n{column}"
                drawn.add_column(head, justify="right", no_wrap=True)
        for label in _ordered(table[dimension]):
            row = table[dimension][label]
            name = WHOLES.get(label, label)
            drawn.add_row(name, *(cell for part in parts for cell in cells(row.get(part))))
        console.print(drawn)
        console.print()


def misreadings(part: str) -> list[tuple[str, str, str, str]]:
    """(file, dimension, expected, got) of a part that may be tuned to.

    Raises:
        ValueError: for the part that is kept aside.
    """
    if part == "held_out":
        raise ValueError("the files of the part that is kept aside are not shown")
    return [
        (item.log.path.name, dimension, item.log.labels[dimension], item.got[dimension])
        for item in read_all(load(part))
        for dimension in DIMENSIONS
        if item.log.labels[dimension] != item.got[dimension]
    ]


def page_with(text: str, table: Table) -> str:
    """Return the documentation page with its generated section rewritten."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{PAGE.name} has no section between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(table)}{END}{after}"


def main() -> int:
    """Print the table; with --write, put it into the documentation; with --misread, list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--misread", choices=("shared", "tune"), help="list what is misread")
    arguments = parser.parse_args()
    if arguments.misread:
        for row in misreadings(arguments.misread):
            print(*row, sep="\t")
        return 0
    table = evaluate()
    show(table)
    if arguments.write:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
