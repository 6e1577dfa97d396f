"""The training fabric on nodes: operators, device plugins, drivers, networks."""
