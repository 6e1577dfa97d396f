"""GPUDirect RDMA: Google's plugin on the nodes."""

from components.fabric.gke import GkeObjects

OBJECTS = GkeObjects()
