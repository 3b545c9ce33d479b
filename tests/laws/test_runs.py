"""The laws of whole runs, for every registered algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comity.algorithms import find
from comity.engines.embedded import Embedded
from comity.execution import execute, resume
from comity.federation import Federation, Loop
from comity.fleet import Fleet
from comity.learners import LEARNERS
from comity.problems import EnvironmentProblem
from comity.problems import find as find_problem
from comity.runs import Run
from comity.site import Message, Site
from tests.tiny import tiny


def outcome(path, configuration, workers=1):
    """All that a run leaves behind, as bytes, without times."""
    run = execute(Run.create(path, configuration), workers)
    return contents(run)


def contents(run: Run) -> dict[str, bytes]:
    files = ["results.json", "history.jsonl", "config.toml"]
    files += [f"models/client-{client}.safetensors" for client in range(4)]
    return {file: (run.path / file).read_bytes() for file in files}


def test_1_same_configuration_same_bits(case, tmp_path):
    configuration = tiny(**case)
    first = outcome(tmp_path / "a", configuration)
    assert outcome(tmp_path / "b", configuration) == first
    other = outcome(tmp_path / "c", tiny(**case, seed=2))
    assert all(other[file] != first[file] for file in first if file.startswith("models"))


def test_1_whatever_the_number_of_workers(tmp_path):
    configuration = tiny(algorithm="fedpref", guard=True)
    assert outcome(tmp_path / "1", configuration) == outcome(tmp_path / "2", configuration, 2)


def test_2_one_fleet_or_many(case, tmp_path):
    """Chunks of four, of two and of one client end with the same models, to tolerance."""
    models = []
    for chunk in (4, 2, 1):
        configuration = tiny(**{**case, "guard": False}, chunk=chunk, rounds=2)
        with Embedded(configuration) as engine:
            list(Loop(engine, Federation(configuration)).rounds())
            models.append(engine.models(kept=False))
    for other in models[1:]:
        for tensor_name in models[0]:
            np.testing.assert_allclose(
                models[0][tensor_name], other[tensor_name], rtol=1e-3, atol=1e-4
            )


@pytest.mark.parametrize("after", [1, 3])
def test_5_stop_anywhere(case, tmp_path, after):
    configuration = tiny(**case, participation=0.75)
    whole = outcome(tmp_path / "whole", configuration)

    def stop(done: int, total: int, text: str) -> None:
        if done == after:
            raise KeyboardInterrupt

    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, on_round=stop)
    # rounds that were recorded after the checkpoint are cut back
    broken.append_history({"round": 99})
    assert contents(resume(broken.path)) == whole


def test_6_private_stays_private(case, monkeypatch, tmp_path):
    """Every message holds the declared tensors and statistics and nothing else.

    Two federations that differ in one client's preference send, in the first round, messages
    that are equal bit for bit: from everybody as long as nobody has learned (with data, in the
    survey before training), and from all other clients in any case.
    """
    seen: list[list[Message]] = []
    asked: list[list[Message]] = []
    training, surveying = Site.round, Site.survey

    def listening(self, order):
        message, report = training(self, order)
        seen[-1].append(copied(message))
        return message, report

    def overhearing(self, order):
        message = surveying(self, order)
        asked[-1].append(copied(message))
        return message

    monkeypatch.setattr(Site, "round", listening)
    monkeypatch.setattr(Site, "survey", overhearing)
    weights = [[0.3, 0.7], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]]
    problem, algorithm = find_problem(case["problem"]), find(case["algorithm"])
    acting = isinstance(problem, EnvironmentProblem)
    late = {problem.learner: {"learning_starts": 60}} if acting else {}
    for first in ([0.3, 0.7], [0.8, 0.2]):
        seen.append([])
        asked.append([])
        configuration = tiny(**case, preferences=[first, *weights[1:]], **late)
        with Embedded(configuration) as engine:
            list(Loop(engine, Federation(configuration)).rounds())
            declared = set(engine.models(kept=False))
    for message in seen[0]:
        assert set(message.models) == declared
        assert set(message.statistics) <= {"size", "declined"}
        for name, values in message.statistics.items():
            sizes = (
                [1.0] if acting else [len(s.train) for s in configuration.get_problem().shares()]
            )
            assert np.isin(values, sizes if name == "size" else (0.0, 1.0)).all()
            assert values.shape == (len(message.clients),)
    others = slice(0, 2) if acting else slice(1, 2)
    told = "preferences" in algorithm.surveys  # then what everybody trains on depends on them
    for one, other in zip(seen[0][:2], seen[1][:2], strict=True):
        assert one.statistics.keys() == other.statistics.keys()
        if not told:
            assert_equal(one.part(others), other.part(others))
    assert bool(asked[0]) == bool(algorithm.surveys)
    for one, other in zip(asked[0][:2], asked[1][:2], strict=True):
        assert set(one.statistics) == set(algorithm.surveys) - {"gradients"}
        assert (one.models is None) == ("gradients" not in algorithm.surveys)
        for message in (one, other):
            message.statistics.pop("preferences", None)
        assert_equal(one, other)


def copied(message: Message) -> Message:
    models = None if message.models is None else message.models.clone()
    return replace(message, models=models, statistics=dict(message.statistics))


def assert_equal(one: Message, other: Message) -> None:
    for name, values in one.statistics.items():
        np.testing.assert_array_equal(values, other.statistics[name])
    if one.models is not None:
        for name in one.models:
            assert (one.models[name] == other.models[name]).all()


def test_7_absent_clients_keep_their_state(plain):
    configuration = tiny(**plain, participation=0.5, chunk=4)
    with Embedded(configuration) as engine:
        federation = Federation(configuration)
        seen = set()
        before = engine.models(kept=False).clone()
        state = {k: v.copy() for k, v in engine.state().items()}
        for (record,) in Loop(engine, federation).rounds():
            assert len(record.clients) == 2
            seen |= set(record.clients)
            absent = [c for c in federation.everyone if c not in record.clients]
            now = engine.state()
            watched = {"0/models/0.weight", "0/learner/steps", "0/learner/environment.at"}
            for key in watched & set(now):
                np.testing.assert_array_equal(now[key][absent], state[key][absent])
            assert (now["0/learner/steps"] > state["0/learner/steps"]).sum() == 2
            state = {k: v.copy() for k, v in now.items()}
        assert engine.models(kept=False).distance(before).any()
        assert len(seen) > 2, "the selection must change from round to round"


def test_8_a_client_that_is_no_longer_finite_is_named_and_left_out(plain, monkeypatch):
    name, learner = plain["algorithm"], LEARNERS[find_problem(plain["problem"]).learner][0]
    original, apart = learner.train, learner.train_apart

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            fleet["0.weight"][1, 0, 0] = float("nan")

    def poisoned_apart(self, fleet, rows, task):
        copies = apart(self, fleet, rows, task)
        if task.round == 2:
            copies["0.weight"][3, 0, 0] = float("nan")  # client 1, its second objective
        return copies

    monkeypatch.setattr(learner, "train", poisoned)
    monkeypatch.setattr(learner, "train_apart", poisoned_apart)
    configuration = tiny(**plain, chunk=4)
    with Embedded(configuration) as engine:
        loop = Loop(engine, Federation(configuration))
        records = [record for (record,) in loop.rounds()]
        loop.finish()
        for kept in (True, False):
            if find(name).communicates:
                assert engine.models(kept).finite().all()
        others = engine.models(kept=True).finite()
    assert others[[0, 2, 3]].all()
    if find(name).communicates:
        (event,) = [event for record in records for event in record.events]
        assert "client 1" in event
        assert "round 2" in event
        mixing = records[1].mixing
        assert mixing is not None
        assert (mixing[~np.isnan(mixing).any(axis=1)][:, 1] == 0).all()


def test_9_the_test_is_used_once_at_the_end(plain, monkeypatch, tmp_path):
    purposes: list[str] = []
    learner = LEARNERS[find_problem(plain["problem"]).learner][0]
    original = learner.judge

    def watching(self, fleet, rows, purpose, episodes):
        purposes.append(purpose)
        return original(self, fleet, rows, purpose, episodes)

    monkeypatch.setattr(learner, "judge", watching)
    execute(Run.create(tmp_path / "run", tiny(**plain, chunk=4)))
    assert purposes.count("test") == 2, "once for the kept models, once for the last ones"
    acting = isinstance(find_problem(plain["problem"]), EnvironmentProblem)
    end = ["test", "test"] if acting else ["test", "test", "everyone"]
    assert purposes[-len(end) :] == end
    assert set(purposes[: -len(end)]) == {"validation"}


def test_9_trivial_and_optimum_stand_beside_every_figure(name, tmp_path):
    results = execute(Run.create(tmp_path / "run", tiny(algorithm=name))).results
    assert results["trivial"]["mean_regret"] > 0
    assert results["optimum"]["hypervolume"] == pytest.approx(2303.0)
    assert results["reference_point"] == [-1.0, -101.0]
    for metrics in (results["metrics"], results["trivial"]):
        gap = results["optimum"]["mean_scalarised"] - metrics["mean_scalarised"]
        assert metrics["mean_regret"] == pytest.approx(gap)


def test_nobody_is_handed_a_worse_model_than_it_validated(name, tmp_path):
    """keep = best: on a deterministic problem the kept model is the best ever seen."""
    run = execute(Run.create(tmp_path / "run", tiny(algorithm=name)))
    weights = tiny(algorithm=name).get_preferences()
    best = np.full(4, -np.inf)
    for entry in run.history:
        for part in ("received", "trained"):
            if entry[part] is not None:
                best = np.maximum(best, (np.array(entry[part]) * weights).sum(axis=1))
    kept = [row["scalarised"] for row in run.results["per_client"]]
    np.testing.assert_allclose(kept, best)


def test_a_fleet_keeps_its_size() -> None:
    with pytest.raises(ValueError, match="client axis"):
        Fleet({"a": np.zeros((2, 1)), "b": np.zeros((3, 1))})  # type: ignore[dict-item]
