"""Derives from a parsed stack all that the other parts read. Pure data: no Pulumi in it."""
