"""Virtual functions of InfiniBand HCAs: what the SR-IOV operator makes of nodes and networks."""

from components.fabric.sriov import SriovObjects

OBJECTS = SriovObjects()
