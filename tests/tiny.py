"""A problem small enough to run every algorithm many times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from comity.configuration import Configuration, configure
from comity.problems import find, register

TINY = register(
    replace(
        find("deep-sea-treasure"),
        name="tiny-treasure",
        hidden=(16, 16),
        defaults={
            "learning_rate": 4e-3,
            "batch_size": 16,
            "buffer_size": 200,
            "learning_starts": 16,
            "gamma": 0.98,
            "target_update_interval": 32,
            "train_freq": 8,
            "gradient_steps": 4,
            "local_steps": 48,
            "total_steps": 192,
        },
    )
)


def tiny(**values: Any) -> Configuration:
    """A run of four clients and four rounds, in two chunks."""
    return configure({"problem": "tiny-treasure", "clients": 4, "chunk": 2, **values})
