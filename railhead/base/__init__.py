"""The base of every other package: errors, paths, quantities, field types, shared names."""
