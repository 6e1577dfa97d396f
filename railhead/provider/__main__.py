"""Starts the package as `pulumi-resource-railhead` does."""

from railhead.provider import main

if __name__ == "__main__":
    main()
