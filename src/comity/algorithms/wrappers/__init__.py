"""Wrappers: server rules that go on top of any algorithm."""
