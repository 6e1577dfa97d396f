"""The lab's networks; no rail may overlap one."""

#: Of the nodes, which are network namespaces on one bridge.
NODE_NETWORK = "10.210.0.0/24"
#: Of the pods; each node has a part.
POD_NETWORK = "10.244.0.0/16"
#: Of the services' virtual addresses.
SERVICE_NETWORK = "10.96.0.0/16"
