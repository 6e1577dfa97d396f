"""What `pulumi up` runs: read the stack's configuration, build one cluster, export its contract."""

import pulumi

from components.cluster_access import cluster_access
from components.training_cluster import TrainingCluster, TrainingClusterArgs
from railhead import config, contract
from railhead.errors import RailheadError


def main() -> None:
    """Build the cluster of the current stack."""
    stack = pulumi.get_stack()
    try:
        cluster = config.parse(
            pulumi.Config(config.PROJECT).get_object(config.KEY),
            where=f"stacks/Pulumi.{stack}.yaml",
        )
        access = cluster_access(cluster.platform, cluster.name)
        built = TrainingCluster(cluster.name, TrainingClusterArgs(cluster=cluster, access=access))
    except RailheadError as error:
        # Printed as it is, without a traceback.
        raise pulumi.RunError(str(error)) from None
    pulumi.export(contract.OUTPUT, built.contract.model_dump(mode="json"))


main()
