"""Composes a whole training cluster, from a stack's file beside it, and exports its contract."""

import pulumi

from railhead import config
from railhead.components.training_cluster import TrainingCluster, TrainingClusterArgs

described = pulumi.Config(config.PROJECT).get_object(config.KEY)
cluster = config.parse(described, where=f"stacks/Pulumi.{pulumi.get_stack()}.yaml")
training = TrainingCluster(cluster.name, TrainingClusterArgs(cluster=cluster))

pulumi.export("contract", training.contract.model_dump(mode="json"))
