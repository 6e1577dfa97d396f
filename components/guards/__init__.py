"""The objects that the API server refuses, and the proof that nodes must give."""
