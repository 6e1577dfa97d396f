"""Programs that jobs run, shipped as files: they have the standard library and PyTorch alone."""
