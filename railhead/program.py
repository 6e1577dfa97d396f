"""The program of `pulumi up`: read the configuration, build one cluster, export its contract.

A project's `__main__.py` needs nothing else::

    from railhead.program import main

    main()
"""

from __future__ import annotations

import gc

import pulumi

from railhead import config, contract
from railhead.base.errors import RailheadError
from railhead.components import last_update
from railhead.components.training_cluster import TrainingCluster, TrainingClusterArgs
from railhead.config import edits, live, served
from railhead.config.files import stacks_folder
from railhead.resolve.cluster import resolve


def main() -> TrainingCluster:
    """Build the cluster of the current stack; return it, for what else the program makes.

    Raises:
        pulumi.RunError: the stack's file has a mistake, or the edit loses something; the engine
            prints it without a traceback.
    """
    # Little of what a program makes is garbage before its end.
    gc.set_threshold(100_000, 20, 20)
    file = stacks_folder() / f"Pulumi.{pulumi.get_stack()}.yaml"
    # First of all, so that they outlive whatever is wrong below.
    outputs = last_update.outputs()
    try:
        # The engine hands over the values; their lines are in the file.
        checked = config.check_values(
            pulumi.Config(config.PROJECT).get_object(config.KEY), where=str(file)
        )
        cluster = checked.cluster
        for doubt in checked.doubts:
            pulumi.log.warn(doubt)
        resolved = resolve(cluster)
        # Before anything is registered: what an edit would lose is lost by then.
        if (before := last_update.made(outputs)) is not None and (
            warning := edits.stop(before, resolved.contract, cluster.removals)
        ):
            pulumi.log.warn(warning)
        # Before that, too: a pool that is not there would only show in a job's wait.
        if unchecked := live.before_up(cluster):
            pulumi.log.warn(unchecked)
        if never_ran := served.unproven(cluster):
            pulumi.log.warn(never_ran)
        # What `pulumi destroy` left for its claims is taken over, and stays so.
        adopt = bool(outputs.get(last_update.ADOPTED)) or bool(
            before is None and live.left_behind(cluster)
        )
        built = TrainingCluster(
            cluster.name, TrainingClusterArgs(cluster=cluster, resolved=resolved, adopt=adopt)
        )
    except RailheadError as error:
        # Printed as it is, without a traceback.
        raise pulumi.RunError(str(error)) from None
    published = built.contract.model_dump(mode="json")
    # Without details of the platform's own the contract is known at preview, and stays so. An
    # update that fails on its way leaves the last one, against which the next edit is held.
    awaited = {} if pulumi.runtime.is_dry_run() else {"": built.written}
    known = pulumi.Output.all(**built.details, **awaited) if built.details or awaited else None
    pulumi.export(
        contract.OUTPUT,
        known.apply(lambda found: last_update.detailed(published, found)) if known else published,
    )
    if adopt:
        pulumi.export(last_update.ADOPTED, adopt)
    if built.kubeconfig is not None:
        pulumi.export(contract.KUBECONFIG_OUTPUT, pulumi.Output.secret(built.kubeconfig))
    return built
