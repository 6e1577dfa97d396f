"""`python -m railhead` is the command line."""

from railhead.cli import main

main()
