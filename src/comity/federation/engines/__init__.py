"""Engines: places where clients run."""
