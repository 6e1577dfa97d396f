"""Program of `pulumi up`: the cluster of the current stack's file."""

from railhead.program import main

main()
