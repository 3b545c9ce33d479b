"""The updates that a site has released under differential privacy, counted on its disk.

An answer that was lost on its way has left all the same, and a server may ask again in other words.
So the site counts for itself, before anything leaves, and answers no more once its budget is spent.
"""

from __future__ import annotations

import json
from pathlib import Path

from comity.configuration import Configuration
from comity.configuration.budget import planned_updates
from comity.core.storage import write_whole

LEDGER = "privacy.json"
_UPDATES = "updates"


class Ledger:
    """Count of the updates that left a site, of as many as its noise allows for.

    Args:
        directory: The site's directory.
        configuration: The site's configuration.
    """

    def __init__(self, directory: Path, configuration: Configuration) -> None:
        self._path = directory / LEDGER
        self._private = configuration.privacy is not None
        self._most = max(planned_updates(configuration)) if self._private else 0

    @property
    def updates(self) -> int:
        """Updates that have left the site."""
        return int(json.loads(self._path.read_text())[_UPDATES]) if self._path.is_file() else 0

    @property
    def fault(self) -> str:
        """Reason why no further update may leave; empty: one may."""
        if not self._private or self.updates < self._most:
            return ""
        return f"the privacy budget is spent: {self._most} updates have left this site"

    def count(self) -> None:
        """Count an update that is about to leave."""
        if self._private:
            write_whole(self._path, json.dumps({_UPDATES: self.updates + 1}).encode())
