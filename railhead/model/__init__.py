"""Models of a stack's file: frozen, shared by every platform."""
