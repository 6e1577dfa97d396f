"""Programs that start a job's processes in its pods; sent as text, run by the image's Python."""
