"""State of a search: saved and restored, and what it derives from the history."""

from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet
from comity.searches.archive import Origin
from comity.searches.state import SearchState
from tests.searches.small import configuration


def models(*marks: float) -> Fleet:
    return Fleet({"weight": torch.tensor(marks)[:, None]})


def filled(**settings) -> SearchState:
    """Two iterations of two candidates, the second without a larger hypervolume."""
    state = SearchState(configuration(**settings))
    vectors = np.array([(8.2, -3.0), (11.5, -5.0)])
    for number in (1, 2):
        weights = np.array([(0.9, 0.1), (0.1 * number, 1 - 0.1 * number)])
        origins = [
            Origin(weight.tolist(), number, place, None) for place, weight in enumerate(weights)
        ]
        state.archive.add(vectors, models(number, 10 * number), origins)
        state.add_models(models(number, 10 * number))
        state.communication["bytes_up"] += 7
        state.events.append(f"event {number}")
        starts = [None, None] if number == 1 else [0, 1]
        steps = {"training": 100, "validation": 10}
        state.record(weights, vectors, starts, steps, evaluation_steps=5 * number)
    state.events.append("under way")
    return state


def test_what_is_saved_comes_back():
    state, other = filled(), SearchState(configuration())
    arrays, values = state.save()
    other.restore(arrays, values)
    assert other.history == state.history
    assert other.communication == state.communication == {"bytes_up": 14, "bytes_down": 0}
    assert other.events == ["under way"]
    assert other.seconds >= values["seconds"]
    assert other.hypervolume == state.hypervolume > 0
    assert other.models is not None
    assert other.models["weight"].flatten().tolist() == [1, 10, 2, 20]
    again, values = other.save()
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)


def test_an_entry_holds_costs_since_the_beginning_and_events_of_its_iteration():
    first, second = filled().history
    assert (first["iteration"], second["iteration"]) == (1, 2)
    assert (first["evaluations"], second["evaluations"]) == (2, 4)
    assert second["environment_steps"] == {"training": 200, "validation": 20, "evaluation": 10}
    assert [entry["communication"]["bytes_up"] for entry in (first, second)] == [7, 14]
    assert [entry["events"] for entry in (first, second)] == [["event 1"], ["event 2"]]
    assert [candidate["start"] for candidate in second["candidates"]] == [0, 1]


def test_findings_after_any_number_of_iterations():
    state = filled()
    empty, one, both = state.findings(0), state.findings(1), state.findings()
    assert empty.weights.shape == empty.vectors.shape == empty.front.shape == (0, 2)
    np.testing.assert_array_equal(both.weights, [(0.9, 0.1), (0.1, 0.9), (0.9, 0.1), (0.2, 0.8)])
    np.testing.assert_array_equal(one.weights, both.weights[:2])
    np.testing.assert_array_equal(one.front, [(8.2, -3.0), (11.5, -5.0)])
    assert both.budget == 6


def test_the_nearest_solved_weight_is_the_oldest_of_equals():
    assert filled().nearest(np.array([(1.0, 0.0), (0.19, 0.81)])) == [0, 3]


def test_it_has_stalled_when_the_hypervolume_stays():
    state = filled()
    assert state.stalled(1)
    assert not state.stalled(2), "there is no iteration so long ago"
    assert not state.stalled(0), "0: never"
