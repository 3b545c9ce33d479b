"""Who chooses what is best: each client its model, or all together one round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import comity.federation.clients
import comity.report
from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.pareto import reach
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners import Supervised
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.tiny import tiny

TOGETHER = [
    {"algorithm": "fedavg"},
    {"algorithm": "fairfed"},
    {"algorithm": "fedfb", "problem": "tiny-answers"},
    {"algorithm": "praffl", "praffl": {"hand_over": "averaged"}},
    {"algorithm": "praffl", "praffl": {"hand_over": "trained"}},
]


def words(values):
    return "-".join([values["algorithm"], *values.get("praffl", {}).values()])


def federation(values, rounds=4, **more):
    return tiny(**{"problem": "tiny-people", "chunk": 4, "rounds": rounds, **values, **more})


def finished(configuration):
    """The records of a federation, the models that are kept and the last ones."""
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records = [record for (record,) in loop.rounds()]
        before = engine.models(kept=False).clone()
        records += loop.finish()
        return records, engine.models(kept=True).clone(), engine.models(kept=False).clone(), before


def assert_same(found: Fleet, wanted: Fleet) -> None:
    assert set(found) == set(wanted)
    for name in found:
        assert torch.equal(found[name], wanted[name]), name


@pytest.mark.parametrize("values", TOGETHER, ids=words)
@pytest.mark.parametrize("best", [1, 2, 3, 4])
def test_the_kept_models_of_all_clients_are_those_of_one_round(values, best, monkeypatch):
    """The round that is best for all in the mean, whatever each client thinks of it.

    Its models are those with which a federation of so many rounds ends.
    """
    trained = federation(values).get_algorithm().select_after_training
    judged: list[float] = []

    def told(sets, reference):
        """Worth of the models of round 1, 2, …: the best has the best mean, not the best median."""
        judged.append(len(judged) + 1)
        if judged[-1] == best:
            return np.array([0.9, 0.1, 0.1, 0.1])
        return np.array([0.0, 0.19, 0.19, 0.19]) + judged[-1] / 100

    monkeypatch.setattr(comity.federation.clients, "reach", told)
    records, kept, _, _ = finished(federation(values, keep_scope="federation"))
    assert len(judged) == 4
    chosen = [record.round for record in records if record.chosen]
    assert chosen[-1] == (best if trained else best + 1)
    assert len(chosen) == best, "every round was better than those before, until the best"
    monkeypatch.undo()
    _, _, last, untouched = finished(federation(values, rounds=best, keep="last"))
    assert_same(kept, untouched if trained else last)


@pytest.mark.parametrize("values", TOGETHER, ids=words)
def test_the_choice_is_by_the_mean_hypervolume_on_validation(values, monkeypatch, tmp_path):
    """Of the one vector that a model brings, or of all that it spans."""
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    configuration = federation(values, keep_scope="federation")
    algorithm, problem = configuration.get_algorithm(), configuration.get_problem()
    seen: list[float] = []
    original = Supervised.evaluate

    def watching(self, fleet, rows, purpose, episodes):
        scores, steps = original(self, fleet, rows, purpose, episodes)
        if purpose == "validation":
            asked = algorithm.evaluation_preferences(2, "validation")
            sets = scores[:, None]
            if asked is not None:
                sets, _ = self.evaluate_preferences(fleet, rows, purpose, asked, 1)
            seen.append(float(reach(sets, problem.reference_point).mean()))
        return scores, steps

    monkeypatch.setattr(Supervised, "evaluate", watching)
    run = execute(Run.create(tmp_path / "run", configuration))
    # trained 1, sent 2, trained 2, …, sent at the end
    mine = seen[0::2] if algorithm.select_after_training else seen[1::2]
    first = 1 if algorithm.select_after_training else 2
    wanted, best = [], -np.inf
    for number, value in enumerate(mine, start=first):
        if value > best:
            wanted.append(number)
            best = value
    assert [entry["round"] for entry in run.history if entry["chosen"]] == wanted
    lines = [line for line in run.history if "validation_hypervolume" in line]
    noted = {line["round"]: line["validation_hypervolume"] for line in lines}
    for number, value in enumerate(mine, start=first):
        assert noted[number] == pytest.approx(value)
    assert run.results["keep_scope"] == "federation"


def test_each_client_for_itself_is_the_default():
    configuration = federation({"algorithm": "fedavg"})
    records, kept, _, _ = finished(configuration)
    assert configuration.keep_scope == "client"
    assert not any(record.chosen for record in records)
    assert kept.finite().all()


def test_the_last_models_do_not_ask_who_chooses():
    values = {"algorithm": "fedavg", "keep": "last", "keep_scope": "federation"}
    configuration = federation(values)
    assert not configuration.keeps_together
    records, _, _, _ = finished(configuration)
    assert not any(record.chosen for record in records)


@pytest.mark.parametrize("hand_over", ["averaged", "trained"])
def test_a_model_that_is_no_longer_finite_is_not_kept(hand_over, monkeypatch):
    """Even if the round in which a client broke is the best for the others."""
    original = Supervised.train

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            fleet["body.0.weight"][1] = float("nan")

    rounds: list[int] = []

    def told(sets, reference):
        rounds.append(len(rounds) + 1)
        return np.full(4, 0.9 if rounds[-1] == 2 else 0.1)

    monkeypatch.setattr(Supervised, "train", poisoned)
    monkeypatch.setattr(comity.federation.clients, "reach", told)
    values = {"algorithm": "praffl", "praffl": {"hand_over": hand_over}}
    _, kept, _, _ = finished(federation(values, keep_scope="federation"))
    assert kept.finite().all()


# -- settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"), [("participation", 0.5), ("fine_tune", "extra:1"), ("guard", True)]
)
def test_what_a_choice_of_all_excludes_is_refused(key, value):
    values = {"problem": "tiny-people", "algorithm": "fedavg", key: value}
    with pytest.raises(UserError, match=rf"{key} = {value} and keep_scope = federation exclude"):
        tiny(**values, keep_scope="federation")
    tiny(**values, keep_scope="client")
    tiny(**values, keep_scope="federation", keep="last")


@pytest.mark.parametrize("algorithm", ["no-communication", "lft-ensemble"])
def test_clients_that_are_sent_nothing_cannot_choose_together(algorithm):
    values = {"problem": "tiny-people", "algorithm": algorithm}
    with pytest.raises(UserError, match=f"keep_scope = federation means nothing for {algorithm}"):
        tiny(**values, keep_scope="federation")
    assert tiny(**values).keep_scope == "client"


def test_what_is_usual_for_a_problem_is_overridden():
    run_defaults = configure({"problem": "praffl-synthetic", "algorithm": "praffl"})
    assert (run_defaults.keep_scope, run_defaults.clients, run_defaults.rounds) == (
        "federation",
        3,
        10,
    )
    assert run_defaults.partition == "paper"
    said = configure(
        {"problem": "praffl-synthetic", "keep_scope": "client", "rounds": 2, "partition": "even"}
    )
    assert (said.keep_scope, said.clients, said.rounds) == ("client", 3, 2)
    assert said.partition == "even"
    for algorithm in ("no-communication", "lft-ensemble"):  # nobody asked for it
        quiet = configure({"problem": "praffl-synthetic", "algorithm": algorithm})
        assert quiet.keep_scope == "client"
    absent = configure({"problem": "praffl-synthetic", "participation": 0.7})
    assert absent.keep_scope == "client"  # all cannot choose together, and nobody said they must


def test_praffl_chooses_one_round_for_all_on_any_problem():
    values = {"problem": "german-credit-gender-dp", "algorithm": "praffl", "clients": 2}
    assert configure(values).keep_scope == "federation"
    assert configure({**values, "fine_tune": "extra:1"}).keep_scope == "client"
    assert configure({**values, "keep_scope": "client"}).keep_scope == "client"
