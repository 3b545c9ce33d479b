"""Results, control and test episodes of a search."""

from __future__ import annotations

import json

import pytest

from comity.searches import Search
from comity.searches.evaluation import EpisodeEvaluation, SampleEvaluation
from comity.searches.execution import execute_search
from tests.searches.small import contents, made
from tests.tiny import PEOPLE, TINY


def test_the_control_stands_beside_the_search(tmp_path):
    found = made(tmp_path, control=True, iterations=2)
    assert found.control is not None
    assert found.control.results["generator"] == "random"
    assert found.results["control"]["metrics"] == found.control.results["metrics"]
    alone = made(tmp_path, "alone", generator="random", iterations=2, control=True)
    assert alone.control is None
    assert alone.results["front"] == found.control.results["front"]


@pytest.mark.parametrize(
    ("evaluation", "problem"), [(EpisodeEvaluation, TINY), (SampleEvaluation, PEOPLE)]
)
def test_what_tests_is_used_once_at_the_end(evaluation, problem, tmp_path, monkeypatch):
    purposes = []
    original = evaluation.evaluate

    def watching(self, models, purpose):
        purposes.append(purpose)
        return original(self, models, purpose)

    monkeypatch.setattr(evaluation, "evaluate", watching)
    made(tmp_path, problem=problem.name)
    assert purposes.count("test") == 1
    assert purposes[-1] == "test"
    assert purposes.count("server") >= 6


def test_its_configuration_file_gives_the_same_search(tmp_path):
    found = made(tmp_path, generator="gap", spread=True, seed=5)
    again = Search.create(tmp_path / "again", found.configuration)
    assert contents(execute_search(again)) == contents(found)
    assert json.loads((found.path / "results.json").read_text()) == found.results
