"""The assumptions of a stack, row by row, and the calls that ask for them before the first up."""
