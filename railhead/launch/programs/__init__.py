"""Programs that jobs run, shipped as files: they have what the training image has."""
