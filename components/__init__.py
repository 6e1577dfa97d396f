"""The parts of a cluster: one file, one Pulumi component, one concern.

Rules that all of them keep: arguments are frozen dataclasses of the fields that the component uses,
never a whole stack (`railhead.components.arguments` makes them from one); ``opts`` goes to the
constructor of the component alone; children are ``ResourceOptions(parent=self, ...)`` and are
called ``<component>-<what>``; ``register_outputs`` comes once and last. Names that researchers and
controllers rely on (``metadata.name``) are fixed, never made up by the engine. Each has a page in
docs/components, made from its docstrings and from an example that a test runs.
"""
