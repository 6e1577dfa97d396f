"""Checkpoint claims: whether a gang can use one, and the proof that two nodes share it."""
