"""``python -m comity.cli`` is the command line."""

from __future__ import annotations

from comity.cli import main

main()
