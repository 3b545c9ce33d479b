"""The contact plan that a directory keeps, so that nothing depends on the user's file."""

from __future__ import annotations

from pathlib import Path

from comity.configuration import Configuration, contact_plan
from comity.core.storage import write_whole

CONTACTS = "contacts.csv"
"""Name of the file, beside ``config.toml``."""


def with_own_contacts(configuration: Configuration, path: Path | None = None) -> Configuration:
    """Return a configuration whose contact plan, if it has one, is that of a directory.

    Args:
        configuration: The configuration.
        path: The directory; None: that of the file in which the configuration is written.
    """
    if configuration.links is None:
        return configuration
    name = CONTACTS if path is None else str((path / CONTACTS).resolve())
    links = configuration.links.model_copy(update={"contacts": name})
    return configuration.model_copy(update={"links": links})


def save_contacts(path: Path, configuration: Configuration) -> None:
    """Write the contact plan of a configuration, if it has one, into a directory."""
    if configuration.links is not None:
        text = contact_plan(configuration.links).to_csv()
        write_whole(path / CONTACTS, text.encode())
