"""What every other package stands on: errors, paths, quantities, field types, shared names."""
