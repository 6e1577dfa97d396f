"""Providers that make nothing and write down what they were asked to make.

With them the real engine plans a cloud's stack without credentials: `railhead plan`, and the tests.
"""
