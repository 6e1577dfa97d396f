"""The lab on this machine."""
