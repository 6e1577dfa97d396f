"""Horovod, whose processes mpirun starts; over MPI it needs no variable of its own."""

from __future__ import annotations

from railhead.framework.mpi import mpi

FRAMEWORK = mpi("horovod", "Horovod 0.28.1, docs/mpi.rst: mpirun in place of horovodrun")
