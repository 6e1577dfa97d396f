"""Evidence in the cluster for :mod:`railhead.diagnose`: a job's logs and the objects around it."""
