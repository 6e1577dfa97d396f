"""Providers that make nothing and write down what they were asked to make.

With them a cloud's stack is planned without credentials, by Pulumi's SDK alone (`railhead plan` and
`review`) or by the real engine.
"""
