"""What starts a job's processes in its pods; sent as text, and run by the image's own Python."""
