from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_drawn(monkeypatch):
    """Drawing takes longer than a tiny search and has tests of its own."""
    monkeypatch.setattr("comity.report.write_search_report", lambda found: found.path)
    monkeypatch.setattr("comity.report.write_searches_report", lambda found: found.path)
