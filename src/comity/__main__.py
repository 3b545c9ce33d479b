"""The command line as ``python -m comity``."""

from __future__ import annotations

from comity.cli import main

main()
