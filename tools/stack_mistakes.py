"""Every field of every shipped stack made wrong in many ways: what the check says of each.

    python tools/stack_mistakes.py            # counts, and what passes with no reason on record
    python tools/stack_mistakes.py --all      # everything that passes, each with its reason

A mistake is one field of one stack with another value: of another type, empty, negative, huge, in
other letters, with white space, with what is not seen, a neighbour's, another platform's, an
unknown name; one field less, one more, an element twice. It is refused, doubted (a warning), or
passes; what passes does so for a reason of :data:`RIGHTLY`, or the check has a hole.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from railhead.base.errors import InputError
from railhead.config import check_values

REPO = Path(__file__).resolve().parents[1]
Step = str | int
Path_ = tuple[Step, ...]
#: No moment of the shipped stacks is over then.
NOW = datetime(2026, 11, 1, tzinfo=UTC)
_GONE = object()

#: (a pattern of the path, of the mistake) -> why it rightly passes. The first that fits counts.
RIGHTLY: tuple[tuple[str, str, str], ...] = (
    (r"runtimes\[\d+\]\.framework", r"[\w-]+'s", "a runtime may be of any framework"),
    (r"access", r"empty", "all of it has a default"),
    (".*", "left out|null", "it is optional, and what takes its place is documented"),
    (
        r".*(platform\.system_pool|\.tags|\.labels|gpu_operator|network_operator|ofed|gate|"
        r"network_policy|fabric\.sriov|s3_access|researchers|tolerations|taints|from_cidrs|dns|"
        r"cluster_ranges)",
        "empty",
        "nothing of it is required: every field has a default, or none of it is needed",
    ),
    (
        r"topology\[\d+\]|topology",
        "an unknown name|one element less|.*'s",
        "labels of nodes that others run are theirs to name; on a platform whose labels are known "
        "an unknown one is doubted",
    ),
    (
        r"name|pools\[\d+\]\.name|queues\[\d+\]\.(name|namespace|cluster_queue)|"
        r"runtimes\[\d+\]\.name|fabric\.rails\[\d+\]\.name|checkpoints\[\d+\]\.name|"
        r"platform\.identity",
        "an unknown name|what .* says|.*'s",
        "the author's own name, and any is as good that nothing else refers to",
    ),
    (
        r"teams\[\d+\]\.name",
        "an unknown name|what .* says",
        "the author's own name; references to a team go by its namespaces",
    ),
    (
        r"teams\[\d+\]\.(leads|viewers)",
        "empty",
        "a team may have nobody who leads or looks on",
    ),
    (
        r"teams\[\d+\]\.(weight|shares\[\d+\]\.(nodes|borrow|lend))",
        "zero",
        "nothing is promised, borrowed or lent, or what no other wants: each is a wish of its own",
    ),
    (
        r"teams\[\d+\]\.priority",
        "what name says",
        "here a team is called as one of the priorities is",
    ),
    (
        r"researchers|platform\.(researchers|administrators)\[\d+\]|platform\.groups|"
        r"teams\[\d+\]\.(leads|researchers|viewers)\[\d+\]",
        "an unknown name|other letters|what .* says|.*'s",
        "who is in a group is the identity provider's to know",
    ),
    (
        r"platform\.(kubeconfig|context)",
        "an unknown name|other letters|what .* says|negative",
        "what is in a kubeconfig, or on which machine it lies, is known where `pulumi up` runs",
    ),
    (
        r"checkpoints\[\d+\]\.storage_class",
        "an unknown name|what .* says|.*'s",
        "storage classes of clusters that others run, and of the lab, are theirs to name",
    ),
    (
        r"platform\.nfs\.classes\[\d+\]\.(server|share)",
        "an unknown name|other letters|what .* says",
        "servers and what they export are a site's own, and known where nodes mount",
    ),
    (
        r"platform\.nfs\.directory",
        "an unknown name",
        "the cluster's own directory below a share: which names others took is known on its server",
    ),
    (
        r"runtimes\[\d+\]\.restarts",
        "empty",
        "every field has a default: as often as the pool needs in a month",
    ),
    (
        r"runtimes\[\d+\]\.restarts\.gang",
        "zero",
        "a run that is not to be tried again ends at its first fault, and says so",
    ),
    (
        r"checkpoints\[\d+\]\.mount_path|fabric\.ipam\.data_dir",
        "an unknown name|other letters|.*'s",
        "any path is as good, and paths know letters apart",
    ),
    (
        r"runtimes\[\d+\]\.image|gate\.image",
        "an unknown name|.*'s",
        "which tags a registry has is known where nodes pull",
    ),
    (
        r"pools\[\d+\]\.node_selector(\..*)?",
        "a field more|an unknown name|other letters|empty|.*'s",
        "labels of nodes have any value, an empty one as well, and letters of both cases",
    ),
    (
        r"pools\[\d+\]\.(taints|tolerations)\[\d+\]\.(value|key)",
        "an unknown name|other letters|empty|what .* says",
        "taints have any value, an empty one as well",
    ),
    (
        r"fabric\.(rails\[\d+\]\.(master|pf_names\[\d+\])|hcas\[\d+\])",
        "an unknown name|other letters|what .* says|.*'s",
        "what a node calls its interfaces is known on the node: the gate proves it",
    ),
    (
        r"platform\.(tags|labels)(\..*)?",
        "a field more|an unknown name|other letters|empty|negative",
        "tags and labels for the bill are the author's own",
    ),
    (
        r"platform\.(project|system_pool\.(machine|instance)_type|storage\[\d+\]\.bucket|"
        r"s3_access\[\d+\]\.buckets\[\d+\]\.(name|prefix))|"
        r"pools\[\d+\]\.(capacity|placement)\.(name|policy|block)",
        "an unknown name|what .* says|other letters|empty",
        "what an account has is the cloud's to know, and it says so at preview",
    ),
    (
        r"platform\.storage\[\d+\]\.backup_days",
        "zero",
        "without daily backups there is the last one, and data of which nobody keeps any",
    ),
    (
        r"platform\.maintenance\.(start|end|no_upgrades_from)|"
        r"pools\[\d+\]\.purchase\.(starts|ends)",
        "other letters|what .* says|.*'s",
        "RFC 3339 lets `t` and `z` be small, and an exclusion may start with the window",
    ),
    (
        r"platform\.(deletion_protection|network\.interface_endpoints|storage\[\d+\]\."
        r"(efa|backups|compression)|s3_access\[\d+\]\.buckets\[\d+\]\.write)|"
        r"fabric\.lock_memory|pools\[\d+\]\.capacity\.queued",
        "turned round|.*'s",
        "both are meant somewhere",
    ),
    (
        ".*",
        "turned round|one element less",
        "the order of it means nothing, or one less is as good",
    ),
    (
        r"(pools|runtimes)\[\d+\]\.(nodes|cpu|memory|grace_seconds|schedulable\..*)|"
        r"checkpoints\[\d+\]\.size|ready_timeout_seconds|fabric\.(mtu|pods_per_node)|versions|"
        r"gpu_operator\..*|platform\.(kubernetes|endpoint\.kind|storage\[\d+\]\.\w+)",
        ".*'s",
        "another platform's value that is as good here",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One field of a stack with another value."""

    stack: str
    path: Path_
    kind: str
    cluster: Any

    @property
    def where(self) -> str:
        """The path as messages write it."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text


def stacks() -> dict[str, Any]:
    """Return name -> the cluster of each shipped stack."""
    return {
        file.name.removeprefix("Pulumi.").removesuffix(".yaml"): yaml.safe_load(file.read_text())[
            "config"
        ]["railhead:cluster"]
        for file in sorted((REPO / "stacks").glob("Pulumi.*.yaml"))
    }


def _fields(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _fields(inner, (*path, index))


def _at(value: Any, path: Path_) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _GONE
    return value


def _with(cluster: Any, path: Path_, value: Any) -> Any:
    made = copy.deepcopy(cluster)
    holder = _at(made, path[:-1])
    if value is _GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return made


def _wrong(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield other values for a field, each with what is wrong with it."""
    if not isinstance(value, dict):
        yield "a mapping", {"a": "b"}
    if not isinstance(value, list):
        yield "a list", ["a"]
    yield "null", None
    if isinstance(value, bool):
        yield "turned round", not value
        yield "a word", "yes please"
        yield "a number", 7
    elif isinstance(value, int):
        yield "a text", "seven"
        yield "its own text", str(value)
        yield "negative", -value or -1
        yield "zero", 0
        yield "huge", 10**12
        yield "a fraction", value + 0.5
        yield "a flag", True
    elif isinstance(value, str):
        yield "a number", 7
        yield "a flag", True
        yield "empty", ""
        yield "blank", "   "
        yield "a space before", f" {value}"
        yield "a line break after", f"{value}\n"
        yield "an unseen character", f"{value[:1]}\u200b{value[1:]}"
        yield "letters of another alphabet", f"\u0430{value[1:]}"
        yield "huge", "x" * 100_000
        yield "an unknown name", f"{value}x" if value[-1:] != "x" else f"{value}y"
        yield "negative", "-1"
        yield "for a shell", "$(reboot)"
        if value.swapcase() != value:
            yield "other letters", value.swapcase()
    elif isinstance(value, list):
        yield "empty", []
        yield "a text", "a"
        if value:
            yield "its first element twice", [*value, value[0]]
        if len(value) > 1:
            yield "turned round", value[::-1]
            yield "one element less", value[1:]
    elif isinstance(value, dict):
        yield "empty", {}
        yield "a text", "a"
        yield "a field more", value | {"colour": "red"}


def mistakes() -> Iterator[Mistake]:
    """Yield every mistake, in a fixed order."""
    shipped = stacks()
    for stack, cluster in shipped.items():
        for path, value in _fields(cluster):
            for kind, other in _wrong(value):
                yield Mistake(
                    stack=stack, path=path, kind=kind, cluster=_with(cluster, path, other)
                )
            if isinstance(path[-1], str):
                yield Mistake(
                    stack=stack, path=path, kind="left out", cluster=_with(cluster, path, _GONE)
                )
            # A neighbour's value, of the same type.
            holder = _at(cluster, path[:-1])
            if isinstance(holder, dict) and isinstance(value, str):
                for key, near in holder.items():
                    if key != path[-1] and isinstance(near, str) and near != value:
                        yield Mistake(
                            stack=stack,
                            path=path,
                            kind=f"what {key} says",
                            cluster=_with(cluster, path, near),
                        )
                        break
            seen = [value]
            for name, foreign in shipped.items():
                theirs = _at(foreign, path)
                if theirs is _GONE or theirs in seen or isinstance(theirs, dict | list):
                    continue
                if foreign["platform"]["kind"] == cluster["platform"]["kind"]:
                    continue
                seen.append(theirs)
                yield Mistake(
                    stack=stack, path=path, kind=f"{name}'s", cluster=_with(cluster, path, theirs)
                )


def end(mistake: Mistake) -> str:
    """Return ``refused``, ``doubted`` or ``passes``."""
    try:
        checked = check_values(mistake.cluster, where="x", now=NOW)
    except InputError:
        return "refused"
    return "doubted" if checked.doubts else "passes"


def reason(mistake: Mistake) -> str:
    """Return why it rightly passes; empty if no reason is on record."""
    for path, kind, why in RIGHTLY:
        if re.fullmatch(path, mistake.where) and re.fullmatch(kind, mistake.kind):
            return why
    return ""


def main() -> int:
    """Print counts and holes; exit 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also what rightly passes")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    holes = 0
    for mistake in mistakes():
        ended = end(mistake)
        counts[ended] += 1
        if ended != "passes":
            continue
        why = reason(mistake)
        holes += not why
        if given.all or not why:
            print(f"{mistake.stack}: {mistake.where}: {mistake.kind}: {why or 'NO REASON'}")
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())), f"; {holes} unexplained")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
