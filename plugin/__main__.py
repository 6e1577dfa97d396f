"""The Pulumi package `railhead`, as `pulumi package add` starts it from this folder."""

from railhead.provider import main

main()
