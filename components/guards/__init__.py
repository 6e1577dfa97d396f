"""What the API server refuses, and what nodes must prove."""
