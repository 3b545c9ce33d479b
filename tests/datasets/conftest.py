from __future__ import annotations

import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The directory in which files are looked for."""
    monkeypatch.setenv("COMITY_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
