"""GPUDirect RDMA: Google's plugin on the nodes."""

from railhead.components.fabric.gke import GkeObjects

OBJECTS = GkeObjects()
