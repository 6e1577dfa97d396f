"""What is watched: the metrics there are, the alerts on them, and the programs that give more.

Pure data and text: :mod:`railhead.resolve.watching` makes a stack's own of it.
"""
