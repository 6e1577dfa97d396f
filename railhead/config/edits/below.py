"""Finds what an edit recreates below the objects: the cluster, pools' nodes, file systems."""

from __future__ import annotations

import re
from collections.abc import Iterator

from railhead.catalog.fsx import metadata_iops
from railhead.config.edits.edit import Edit
from railhead.contract import ClusterContract, MadeWith

# What a pool on AWS says that pins no image, and how what it says of a capacity block begins.
_NEWEST = "the newest"
_BLOCK = "capacity-block "
# What a cluster on EKS says of its Kubernetes.
_MINOR = "Kubernetes minor"


def recreated(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield all of it; if the cluster itself goes, nothing else."""
    whole = (*_cluster(before, after), *_moved(before, after), *_minors(before, after))
    yield from whole or (*_nodes(before, after), *_storage(before, after))


def changes(was: MadeWith, now: MadeWith) -> tuple[str, ...]:
    """Return changes that are impossible in place; skip what only one of the two says."""
    return (
        *(
            f"{key} {old} to {now.fixed[key]}"
            for key, old in was.fixed.items()
            if now.fixed.get(key, old) != old
        ),
        *(
            f"{key} down from {old} to {now.grows[key]}"
            for key, old in was.grows.items()
            if now.grows.get(key, old) < old
        ),
        *(
            [f"launch template {was.template} to {now.template}"]
            if was.template and now.template and was.template != now.template
            else []
        ),
    )


def _cluster(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    for what, old, new in (
        ("called", before.cluster, after.cluster),
        ("on platform", before.platform, after.platform),
    ):
        if old != new:
            yield Edit(
                kind="cluster",
                name=before.cluster,
                loses=(),
                tells=f"would be {what} {new} instead of {old}: all that the stack made would be "
                "made a second time, and then deleted under its first name",
                way="leave it as it was; another cluster is another stack's file",
            )


def _moved(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield the move of the stack's own cluster; an existing one may be another by now."""
    if moves := changes(before.made.cluster, after.made.cluster):
        yield Edit(
            kind="cluster",
            name=before.cluster,
            loses=("data", "jobs", "quota") if after.standing else (),
            tells=f"cannot go from {', '.join(moves)} in place: all that the stack made would be "
            "deleted and recreated",
            way="leave these as they were; another cluster is another stack's file",
        )


def _minors(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield a Kubernetes that is more than one minor newer.

    EKS refuses it (terraform-aws-eks, issue 2607) once `up` is under way, and the state takes it
    for done (terraform-provider-aws, issue 35575).
    """
    was, now = (contract.made.cluster.grows.get(_MINOR) for contract in (before, after))
    if was is not None and now is not None and now > was + 1:
        yield Edit(
            kind="cluster",
            name=before.cluster,
            loses=(),
            tells=f"cannot go from Kubernetes 1.{was} to 1.{now} at once: EKS takes one minor at a "
            "time",
            way=f"write 1.{was + 1}, run `pulumi up`, and then write the next",
        )


def _nodes(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = after.made.pools
    for name in (pool.name for pool in before.node_pools):
        was = before.made.pools.get(name, MadeWith())
        losses = changes(was, now[name]) if name in now else ()
        if name in now and now[name].template and not was.template:
            # An older Railhead did not say what it launched nodes with: it may be another text.
            losses += (f"launch template of an older Railhead to {now[name].template}",)
        if losses:
            losses += (*_image(was, now[name]), *_block(was))
            yield Edit(
                kind="pool",
                name=name,
                loses=("jobs",),
                tells=(
                    "would end the jobs on its nodes, or take their network: "
                    if after.standing
                    else "would lose nodes that it has, with the jobs on them: "
                )
                + ", ".join(losses),
                way="let its jobs end first, or add a pool beside it",
            )


def _image(was: MadeWith, now: MadeWith) -> tuple[str, ...]:
    """Return a word on a pinned image that new nodes would not have.

    terraform-provider-aws sends a release only when it changes (service/eks/node_group.go, issue
    40902); without one EKS takes its newest, and it never goes back (EKS API,
    UpdateNodegroupVersion).
    """
    old, new = (made.fixed.get("ami_release", _NEWEST) for made in (was, now))
    if new == _NEWEST or old == _NEWEST:
        return ()
    if old == new:
        return (
            f"and the new nodes would not have the image {new}: EKS takes its newest where "
            "`ami_release` stays, and refuses to go back later, so write a newer one beside it",
        )
    if _numbers(new) < _numbers(old):
        return (f"and EKS refuses an image older than {old}, half-way through the update",)
    return ()


def _block(was: MadeWith) -> tuple[str, ...]:
    """Return a word on a pool of a capacity block, whose nodes EKS does not replace.

    EKS user guide, capacity-blocks-mng: the desired size must be 0. It refuses the update, and the
    state takes it for done (terraform-provider-aws, issue 35575).
    """
    if not str(was.fixed.get("purchase", "")).startswith(_BLOCK):
        return ()
    return (
        "and EKS refuses to update a group of a capacity block while its nodes run: scale it to 0 "
        "first (docs/aws.md)",
    )


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _with_defaults(was: MadeWith, cluster: str) -> MadeWith:
    """Return a file system with what an older Railhead did not record.

    It made each from no backup, and a share's directory by the cluster's name.
    """
    return was.model_copy(update={"fixed": {"directory": cluster, "backup": "none", **was.fixed}})


def _storage(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = after.made.storage
    for name, recorded in before.made.storage.items():
        was = _with_defaults(recorded, before.cluster)
        claims = [f"{c.namespace}/{c.claim}" for c in before.checkpoints if c.storage_class == name]
        of = f"(of {', '.join(claims)}) " if claims else ""
        if name not in now:
            tells = f"{of}would be deleted with all that is in it"
            way = "keep it in platform.storage under this name"
            if after.standing:
                tells = f"{of}would no longer be there for claims, nor its driver with the last one"
                way = "keep it while a claim names it"
        elif moves := changes(was, now[name]):
            tells = (
                f"{of}would lose what is in it: it cannot go from {', '.join(moves)} in place, and "
                "a new one is empty"
            )
            way = "leave these as they were, or add a file system and a claim beside it, and copy"
            if after.standing:
                tells = f"{of}would go from {', '.join(moves)} for new claims alone: others stay"
                way = "add a class of another name, and copy"
            elif any(c.storage_class == name for c in after.checkpoints):
                yield _kept_claims(name, of, moves)
                continue
        elif refused := _metadata(was, now[name]):
            tells, way = refused
            yield Edit(kind="storage", name=name, loses=(), tells=of + tells, way=way)
            continue
        else:
            continue
        yield Edit(kind="storage", name=name, loses=("data",), tells=tells, way=way)


def _metadata(was: MadeWith, now: MadeWith) -> tuple[str, str] | None:
    """Return why FSx refuses to grow a file system of Lustre, and what to do instead.

    It refuses a size beside fewer metadata IOPS than that brings by itself, and the provider
    changes metadata first, at the old size (terraform-provider-aws, issue 44432 and pull request
    44456); automatic mode takes none away (FSx user guide, managing-metadata-performance).
    """
    if "metadata.iops" not in now.grows or "capacity_gib" not in was.grows:
        return None
    before, size = was.grows["capacity_gib"], now.grows["capacity_gib"]
    iops, brings = now.grows["metadata.iops"], metadata_iops(size)
    if size <= before:
        return None
    if iops < brings:
        return (
            f"cannot grow to {size} GiB, which bring {brings} metadata IOPS, beside {iops}: FSx "
            "refuses it",
            f"write {brings} or more as metadata.iops in the same edit, or `kind: automatic`",
        )
    had, then = was.grows.get("metadata.iops", 0), metadata_iops(before)
    if "metadata" in now.fixed and had > then:
        return (
            f"cannot go to automatic metadata and to {size} GiB at once: FSx is asked for metadata "
            f"first, and refuses: {before} GiB bring {then} IOPS, and there are {had}",
            f"grow it with `metadata: {{kind: provisioned, iops: {iops}}}`, and write automatic in "
            "an edit of its own",
        )
    return None


def _kept_claims(name: str, of: str, moves: tuple[str, ...]) -> Edit:
    """Return the edit of a file system whose claims stay.

    They are bound for good to volumes that name the old one by its id or address; no volume takes
    another (kubernetes, ValidatePersistentVolumeUpdate), and `up` would end there.
    """
    return Edit(
        kind="storage",
        name=name,
        loses=(),
        tells=f"{of}cannot go from {', '.join(moves)} in place, and its claims stay bound to "
        "volumes of the file system that would be deleted",
        way="leave these as they were, or add a file system and a claim beside it, and copy",
    )
