"""Simulated absences: who misses an exchange has done nothing, and the others go on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop, SimulatedLoop
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.learners import Supervised
from tests.tiny import tiny

People = dict[str, np.ndarray]


def run(**values) -> tuple[list[RoundRecord], list[Fleet], Fleet]:
    """The records of a federation, its models after each round, and the last ones."""
    configuration = tiny(**{"problem": "tiny-people", "chunk": 4, **values})
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records, models = [], []
        for (record,) in loop.rounds():
            records.append(record)
            models.append(engine.models(kept=False).clone())
        records += loop.finish()
        return records, models, engine.models(kept=False).clone()


def same(one: Fleet, other: Fleet, clients: list[int]) -> bool:
    return all(torch.equal(one[name][clients], other[name][clients]) for name in one)


def test_weights_go_to_those_who_answered():
    records, models, _ = run(algorithm="fedavg", absences=[[2, 1, "round"]])
    assert records[1].clients == (0, 2, 3)
    assert records[1].absent == {"round": (1,)}
    mixing = records[1].mixing
    assert mixing is not None
    np.testing.assert_allclose(mixing[0], [1 / 3, 0, 1 / 3, 1 / 3], atol=0.02)
    assert same(models[1], models[0], [1])
    assert not same(models[1], models[0], [0])


def test_absent_in_the_survey_is_absent_in_the_round():
    records, models, _ = run(algorithm="fedcmoo", absences=[[2, 1, "survey"]])
    assert records[1].absent == {"survey": (1,)}
    assert records[1].clients == (0, 2, 3)
    assert same(models[1], models[0], [1])


@pytest.mark.parametrize("chunk", [4, 1])
def test_absent_after_the_survey_has_had_a_say_and_done_nothing_else(chunk):
    """Its gradients count in the weights of all; its own state is as before the round."""
    surveyed = run(algorithm="fedcmoo", absences=[[2, 1, "round"]], chunk=chunk)
    silent = run(algorithm="fedcmoo", absences=[[2, 1, "survey"]], chunk=chunk)
    assert surveyed[0][1].absent == {"round": (1,)}
    assert same(surveyed[1][1], surveyed[1][0], [1])
    assert not same(surveyed[1][1], silent[1][1], [0, 2, 3])


def test_absent_at_the_end_keeps_what_it_has():
    records, models, last = run(algorithm="fedavg", absences=[[5, 2, "finish"]])
    assert records[-1].absent == {"finish": (2,)}
    assert same(last, models[-1], [2])
    assert not same(last, models[-1], [0])


def test_a_round_without_an_answer_is_an_error():
    absences = [[2, client, "round"] for client in range(4)]
    with pytest.raises(UserError, match="round 2, round: none of the 4 clients"):
        run(algorithm="fedavg", absences=absences)


@pytest.mark.parametrize(
    ("absence", "message"),
    [
        ([1, 4, "round"], "clients are 0 to 3"),
        ([5, 0, "round"], "rounds are 1 to 4"),
        ([0, 0, "round"], "rounds are 1 to 4"),
        ([4, 0, "finish"], "the last delivery is round 5"),
        ([1, 0, "survey"], "fedavg makes no survey"),
        ([1, 0, "lunch"], "absences"),
        ([1, 0], "absences"),
    ],
)
def test_absences_that_cannot_be_are_refused(absence, message):
    with pytest.raises(UserError, match=message):
        tiny(algorithm="fedavg", absences=[absence])


def test_one_round_for_all_is_chosen_only_of_rounds_that_all_answered():
    values = {"algorithm": "fedavg", "keep_scope": "federation"}
    records, _, _ = run(**values)
    full = [record.chosen for record in records]
    assert any(full[1:]), "some round must be chosen, or the test shows nothing"
    chosen = full.index(True, 1)
    absences = [[records[chosen].round, 3, "round"]]
    if records[chosen].round == 5:
        absences = [[5, 3, "finish"]]
    records, _, _ = run(**values, absences=absences)
    assert not records[chosen].chosen


# -- verdicts ------------------------------------------------------------------------------


def poison(monkeypatch, client: int, number: int) -> None:
    original = Supervised.train

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == number:
            fleet["0.weight"][client] = float("nan")

    monkeypatch.setattr(Supervised, "train", poisoned)


def test_verdicts_travel_with_the_next_request(monkeypatch):
    poison(monkeypatch, client=1, number=2)
    configuration = tiny(problem="tiny-people", algorithm="fedavg", chunk=4)
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        rounds = RoundLoop(engine, server).rounds()
        next(rounds)
        start = server.request()[0]
        assert [verdict.round for verdict in start.verdicts] == [1] * 4
        next(rounds)
        request = server.request()[0]
        assert [verdict.rolled_back for verdict in request.verdicts] == [False, True, False, False]
        assert not engine.models(kept=False).finite()[1], "nobody has told the client yet"
        engine.evaluate_delivery(request)
        back = engine.models(kept=False)
        assert start.models is not None
        assert torch.equal(back["0.weight"][1], start.models["0.weight"][1])


@pytest.mark.parametrize("keep_scope", ["client", "federation"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_verdicts_survive_a_restart_between_rounds(keep_scope, after, monkeypatch):
    """Server and clients made anew after each round end with the same bits."""
    poison(monkeypatch, client=1, number=2)
    configuration = tiny(problem="tiny-people", algorithm="fedavg", chunk=4, keep_scope=keep_scope)

    def ended(stop: int | None) -> list[Fleet]:
        with EmbeddedEngine(configuration) as engine:
            loop = SimulatedLoop(engine, Server(configuration))
            for _ in loop.rounds():
                if loop.done == stop:
                    tensors, values = loop.state()
                    state = {name: array.copy() for name, array in tensors.items()}
                    break
            if stop is None:
                loop.finish()
                return [engine.models(kept).clone() for kept in (True, False)]
        with EmbeddedEngine(configuration) as engine:
            loop = SimulatedLoop(engine, Server(configuration))
            loop.load(state, values)
            list(loop.rounds())
            loop.finish()
            return [engine.models(kept).clone() for kept in (True, False)]

    for one, other in zip(ended(None), ended(after), strict=True):
        assert same(one, other, [0, 1, 2, 3])
        assert one.finite().all()


# -- nothing is sent that is not mixed -----------------------------------------------------


def updates(monkeypatch, **values) -> list:
    configuration = tiny(**{"problem": "tiny-people", "chunk": 4, **values})
    sent = []
    with EmbeddedEngine(configuration) as engine:
        original = engine.round

        def listening(request):
            sent.append(original(request))
            return sent[-1]

        monkeypatch.setattr(engine, "round", listening)
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
    return sent


def test_without_communication_nothing_leaves_a_client(monkeypatch):
    sent = updates(monkeypatch, algorithm="no-communication")
    assert len(sent) == 4
    assert all(update.models is None and not update.statistics for update in sent)


def test_a_last_round_that_is_not_mixed_sends_no_model(monkeypatch):
    sent = updates(monkeypatch, algorithm="fedavg", fine_tune="replace-last")
    assert [update.models is None for update in sent] == [False, False, False, True]
    assert not sent[-1].statistics
