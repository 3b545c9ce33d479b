"""Requests, updates and metrics: parts of them, and several as one."""

from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet
from comity.federation.messages import (
    ClientUpdate,
    RoundMetrics,
    RoundRequest,
    Verdict,
    alike,
    expanded,
)


def fleet(*rows: float) -> Fleet:
    return Fleet({"w": torch.tensor(rows)[:, None]})


def request(**changes) -> RoundRequest:
    values = {
        "round": 3,
        "clients": (4, 7, 9),
        "models": fleet(0.4, 0.7, 0.9),
        "broadcast": {"b": np.array([40.0, 70.0, 90.0])},
        "verdicts": (Verdict(1), Verdict(2, kept=True), Verdict(2, rolled_back=True)),
    }
    return RoundRequest(**{**values, **changes})


def test_a_request_to_some_clients_has_their_rows_in_the_order_given():
    part = request().only((9, 4))
    assert part.clients == (9, 4)
    assert part.models is not None
    np.testing.assert_allclose(part.models["w"][:, 0], [0.9, 0.4])
    assert part.broadcast["b"].tolist() == [90.0, 40.0]
    assert part.verdicts == (Verdict(2, rolled_back=True), Verdict(1))
    assert (part.round, part.alone) == (3, False)


def test_a_request_without_models_and_verdicts_has_none_in_its_parts():
    part = request(models=None, verdicts=()).only((7,))
    assert part.models is None
    assert part.verdicts == ()


def test_joined_requests_have_all_rows():
    whole = request()
    joined = RoundRequest.joined([whole.only((4,)), whole.only((7, 9))])
    assert joined.clients == whole.clients
    assert joined.verdicts == whole.verdicts
    assert joined.models is not None
    assert whole.models is not None
    assert torch.equal(joined.models["w"], whole.models["w"])
    assert joined.broadcast["b"].tolist() == [40.0, 70.0, 90.0]


def test_an_update_with_two_rows_per_client_is_cut_between_clients():
    update = ClientUpdate((4, 7), fleet(1, 2, 3, 4), {"size": np.array([10.0, 20.0])})
    part = update.only((7,))
    assert part.models is not None
    assert part.models["w"][:, 0].tolist() == [3, 4]
    assert part.statistics["size"].tolist() == [20.0]
    joined = ClientUpdate.joined([update.only((4,)), part])
    assert joined.models is not None
    assert joined.models["w"][:, 0].tolist() == [1, 2, 3, 4]
    assert joined.clients == (4, 7)


def test_no_update_at_all_is_an_empty_one():
    empty = ClientUpdate.joined([])
    assert (empty.clients, empty.models, empty.statistics) == ((), None, {})


def test_rows_of_clients_that_have_several_each():
    assert expanded(np.array([2, 0]), 3).tolist() == [6, 7, 8, 0, 1, 2]


def test_requests_with_and_without_models_are_not_joined():
    without = request(models=None)
    assert alike([request(), without, request()]) == [[0, 2], [1]]
    assert alike([without]) == [[0]]


def test_metrics_of_several_chunks_as_one():
    def metrics(count: int, received: bool, remark: str) -> RoundMetrics:
        zeros = np.zeros(count, dtype=np.int64)
        vectors = np.ones((count, 2))
        return RoundMetrics(
            received=vectors if received else None,
            trained=vectors,
            kept=vectors,
            declined=zeros.astype(bool),
            steps=zeros + count,
            validation_steps=zeros,
            skipped=zeros,
            remarks=("slow", remark),
        )

    joined = RoundMetrics.joined([metrics(1, True, "a"), metrics(2, True, "b")])
    assert joined.received is not None
    assert joined.received.shape == (3, 2)
    assert joined.steps.tolist() == [1, 2, 2]
    assert joined.remarks == ("slow", "a", "b")
    assert RoundMetrics.joined([metrics(1, False, "a")]).received is None
