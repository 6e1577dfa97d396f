"""A cluster that is there already."""
