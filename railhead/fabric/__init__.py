"""Training fabrics, and the modes that bring them into pods."""
