"""Stand-ins for the Pulumi plugins that the package registries do not carry.

Three programs speak Pulumi's own plugin protocol with the stubs of the Pulumi SDK, so that a plain
`pulumi` works where the official plugins cannot be downloaded: a Python language host, a runner of
Python policy packs and a Kubernetes provider. :func:`railhead.lab.engine.install.install` puts them
on a PATH and steps aside where an official plugin is installed. No program needs to know.
"""
