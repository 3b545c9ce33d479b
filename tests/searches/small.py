"""Searches on a problem small enough to run many of them; nothing is drawn."""

from __future__ import annotations

from comity.searches import Search, configure_search
from comity.searches.configuration import SearchConfiguration, split_search_settings
from comity.searches.execution import execute_search
from tests.tiny import TINY

SMALL = {"iterations": 3, "candidates": 2, "clients": 2, "rounds": 3, "control": False}


def configuration(**settings) -> SearchConfiguration:
    values = {"problem": TINY.name, **SMALL, **settings}
    given = {name: value for name, value in values.items() if value is not None}
    return configure_search(split_search_settings(given))


def made(tmp_path, name="s", workers=1, **settings) -> Search:
    return execute_search(Search.create(tmp_path / name, configuration(**settings)), workers)


def contents(search: Search) -> dict[str, bytes]:
    names = ["results.json", "history.jsonl", "front.csv"]
    files = {name: (search.path / name).read_bytes() for name in names}
    for model in sorted((search.path / "models").iterdir()):
        files[model.name] = model.read_bytes()
    return files
