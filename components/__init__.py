"""What a cluster is made of: one file, one Pulumi component, one concern.

Rules that all of them keep: arguments are frozen dataclasses; ``opts`` goes to the constructor of
the component alone; children are ``ResourceOptions(parent=self, ...)`` and are called
``<component>-<what>``; ``register_outputs`` comes once and last. Names that researchers and
controllers rely on (``metadata.name``) are fixed, never made up by the engine.
"""
