"""The federated preference-conditioned DQN: network, targets, loss, draws, what travels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from comity.algorithms import make
from comity.algorithms.conditioned_dqn import ConditionedDQN, ConditionedNetwork, Film, grid
from comity.configuration import configure
from comity.core.phases import View
from comity.core.rng import stream, torch_seeded
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.server import Server
from tests.tiny import TINY, tiny
from tests.vectors import CONDITIONED

SETTINGS = [
    {"conditioning": conditioning, "head": head}
    for conditioning in ("film", "concat")
    for head in ("vector", "scalar")
]


def network(**settings) -> ConditionedNetwork:
    with torch_seeded(3, "conditioned"):
        return make("conditioned-dqn", settings).build(TINY.model(), TINY)


def trained(**settings) -> ConditionedNetwork:
    """A network all of whose tensors are different from those at the start."""
    module = network(**settings)
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor += 0.3 * torch.randn(tensor.shape, generator=g)
    return module


def observations(count: int = 7) -> torch.Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(1))


# -- the network ---------------------------------------------------------------------------


def test_film_scales_and_shifts_features():
    """h ⊙ (1 + Γ w) + B w: 2 (1 + 1.5) + 0.1 and 4 (1 - 0.5) + 0."""
    film = Film(2, 2)
    film.gain.weight.data = torch.tensor([[3.0, 0.0], [0.0, -1.0]])
    film.shift.weight.data = torch.tensor([[0.0, 0.2], [1.0, -1.0]])
    even = torch.tensor([0.5, 0.5])
    assert film(torch.tensor([[2.0, 4.0]]), even).tolist() == [[pytest.approx(5.1), 2.0]]
    several = film(torch.tensor([[2.0, 4.0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    assert several.shape == (2, 1, 2)
    assert several[1].tolist() == [[8.0, 5.0]]


def test_before_training_all_preferences_have_the_same_values():
    asked = torch.as_tensor(grid(2), dtype=torch.float32)
    values = network()(observations(), asked)
    assert values.shape == (11, 7, 4, 2)
    assert (values == values[:1]).all()
    changed = network()
    changed.film.shift.weight.data += 1.0
    assert not torch.equal(changed(observations(), asked)[0], values[0])
    changed.film.shift.weight.data -= 1.0
    changed.film.gain.weight.data[:, 0] += 1.0
    different = changed(observations(), asked)
    assert not torch.equal(different[0], different[-1])


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(s.values()))
def test_a_preference_makes_an_ordinary_network(settings):
    """Of the problem's own layers; its outputs are w·Q, computed here from the parts."""
    module, weights = trained(**settings), np.array([0.3, 0.7])
    plain = make("conditioned-dqn", settings).predictor(module, weights)
    assert [type(layer) for layer in plain] == [type(layer) for layer in TINY.model()]
    shapes = [tensor.shape for tensor in TINY.model().state_dict().values()]
    assert [tensor.shape for tensor in plain.state_dict().values()] == shapes
    values = module(observations(), torch.tensor([0.3, 0.7]))
    expected = 0.3 * values[..., 0] + 0.7 * values[..., 1]
    torch.testing.assert_close(plain(observations()), expected)
    other = make("conditioned-dqn", settings).predictor(module, np.array([0.9, 0.1]))
    assert not torch.allclose(other(observations()), expected)


def test_concat_is_a_layer_on_observation_and_preference():
    module = trained(conditioning="concat")
    seen, linear = observations(), module.first.linear
    both = torch.cat([seen, torch.tensor([[0.2, 0.8]]).expand(7, 2)], dim=1)
    hidden = torch.relu(both @ linear.weight.T + linear.bias)
    expected = module.rest(hidden).reshape(7, 4, 2)
    torch.testing.assert_close(module(seen, torch.tensor([0.2, 0.8])), expected)


def test_a_scalar_head_has_one_value_for_all_objectives():
    values = trained(head="scalar")(observations(), torch.tensor([0.3, 0.7]))
    assert values.shape == (7, 4, 2)
    assert torch.equal(values[..., 0], values[..., 1])


# -- targets and loss ----------------------------------------------------------------------


def target_of(targets: str, choosing=None) -> torch.Tensor:
    after = torch.tensor(CONDITIONED["values"])[:, None]
    return ConditionedDQN(targets=targets).target(
        torch.tensor([CONDITIONED["reward"]]),
        torch.tensor([CONDITIONED["gamma"]]),
        after if choosing is None else choosing,
        after,
        torch.tensor(CONDITIONED["preferences"]),
    )


def test_targets_look_at_their_own_preference():
    torch.testing.assert_close(
        target_of("scalarised")[:, 0], torch.tensor(CONDITIONED["scalarised"])
    )
    weights = torch.tensor(CONDITIONED["preferences"])
    scalars = (target_of("scalarised")[:, 0] * weights).sum(dim=1)
    torch.testing.assert_close(scalars, torch.tensor(CONDITIONED["scalars"]))


def test_the_envelope_looks_at_all_drawn_preferences():
    torch.testing.assert_close(target_of("envelope")[:, 0], torch.tensor(CONDITIONED["envelope"]))


def test_one_network_chooses_and_the_other_one_counts():
    """A network that finds action 1 of the last preference best for all: [1, -1] + 0.9 [0, 5]."""
    choosing = torch.zeros(3, 1, 2, 2)
    choosing[2, 0, 1] = 1.0
    assert target_of("envelope", choosing)[:, 0].tolist() == [[1.0, 3.5]] * 3


def test_nothing_follows_an_end():
    algorithm = ConditionedDQN()
    after = torch.full((1, 1, 2, 2), 9.0)
    parts = torch.tensor([[1.0, 2.0]]), torch.zeros(1), after, after, torch.tensor([[0.5, 0.5]])
    assert algorithm.target(*parts).tolist() == [[[1.0, 2.0]]]


@pytest.mark.parametrize(
    ("settings", "progress", "expected"),
    [
        # Q - y = (2, -0.5): Huber 1.5 and 0.125, mean 0.8125; w·Q - w·y = 0.75: 0.28125
        ({}, 0.0, 0.8125),
        ({}, 1.0, 0.28125),
        ({}, 0.5, 0.546875),
        ({"ranking": 0.5}, 1.0, 0.546875),
        ({"head": "scalar"}, 0.0, 0.28125),
    ],
)
def test_the_loss_goes_over_from_vectors_to_scalars(settings, progress, expected):
    """One transition that ends with reward (1, 1) at the even preference; Q = (3, 0.5)."""
    batch = {
        "before": torch.zeros(1, 2),
        "after": torch.zeros(1, 2),
        **{name: torch.tensor([0]) for name in ("before_row", "after_row", "action")},
        "reward": torch.tensor([[1.0, 1.0]]),
        "discount": torch.zeros(1),
    }
    view = View(
        {},
        preference=torch.tensor([1.0, 0.0]),
        drawn={"coins": torch.tensor([[0.9]]), "importance": torch.tensor([[0.5, 0.5]])},
        progress=torch.tensor(progress),
        forward=lambda parameters, seen, weights: torch.tensor([[[[3.0, 0.5]]]]),
    )
    loss = ConditionedDQN(own_share=0.5, **settings).loss({}, batch, view)
    assert float(loss) == pytest.approx(expected)


def test_a_share_of_the_drawn_preferences_is_the_client_s_own():
    seen = []

    def forward(parameters, observations, weights):
        seen.append(weights)
        return torch.zeros(len(weights), 1, 1, 2)

    batch = {
        **{name: torch.zeros(1, 2) for name in ("before", "after", "reward")},
        **{name: torch.tensor([0]) for name in ("before_row", "after_row", "action")},
        "discount": torch.zeros(1),
    }
    drawn = {
        "coins": torch.tensor([[0.1], [0.6]]),
        "importance": torch.tensor([[0.2, 0.8], [0.4, 0.6]]),
    }
    view = View({}, preference=torch.tensor([0.75, 0.25]), drawn=drawn, forward=forward)
    ConditionedDQN(own_share=0.5).loss({}, batch, view)
    assert seen[0].tolist() == [[0.75, 0.25], [pytest.approx(0.4), pytest.approx(0.6)]]


# -- draws ---------------------------------------------------------------------------------


def test_preferences_are_drawn_from_the_client_s_stream():
    (phase,) = make("conditioned-dqn", {"drawn": 3}).phases(TINY)
    drawn = phase.draw(stream(7, "replay", 2, 1), 5, 16, {})
    again = stream(7, "replay", 2, 1)
    np.testing.assert_array_equal(drawn["importance"], again.dirichlet([1.0, 1.0], (5, 3)))
    np.testing.assert_array_equal(drawn["coins"], again.random((5, 3, 1)))


def test_episodes_have_the_own_preference_as_often_as_the_setting_says():
    own = np.array([0.3, 0.7])
    for share in (0.0, 0.25, 1.0):
        algorithm = make("conditioned-dqn", {"own_share": share})
        draws = [algorithm.acting_preference(stream(1, "acting", 0, e), own) for e in range(400)]
        assert np.mean([np.array_equal(draw, own) for draw in draws]) == pytest.approx(
            share, abs=0.06 * (0 < share < 1)
        )
        np.testing.assert_allclose([draw.sum() for draw in draws], 1.0)
    drawn = np.array([draw[0] for draw in draws_of(0.0)])
    assert np.histogram(drawn, bins=4, range=(0, 1))[0] == pytest.approx([100] * 4, abs=30)


def draws_of(share: float) -> list[np.ndarray]:
    algorithm, own = make("conditioned-dqn", {"own_share": share}), np.array([0.3, 0.7])
    return [algorithm.acting_preference(stream(1, "acting", 0, e), own) for e in range(400)]


@pytest.mark.parametrize(("objectives", "count"), [(2, 11), (3, 21), (4, 35)])
def test_the_grid_is_even_and_has_all_corners(objectives, count):
    points = grid(objectives)
    assert points.shape == (count, objectives)
    assert len(np.unique(points, axis=0)) == count
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    assert {tuple(row) for row in np.eye(objectives)} <= {tuple(row) for row in points}


# -- what travels, what is refused ---------------------------------------------------------


def messages(**values) -> list[dict[str, bytes]]:
    """The tensors of all messages of a run in which all rounds are served alike."""
    configuration = tiny(algorithm="conditioned-dqn", keep="last", rounds=2, **values)
    sent = []
    with EmbeddedEngine(configuration) as engine:
        round = engine.round

        def recorded(request):
            update = round(request)
            sent.append({name: t.numpy().tobytes() for name, t in update.models.tensors.items()})
            return update

        engine.round = recorded
        for _ in SimulatedLoop(engine, Server(configuration)).rounds():
            pass
    return sent


def test_models_tell_nothing_of_preferences_unless_clients_prefer_their_own():
    """Whatever clients prefer, they send the same bytes, target networks included."""
    one, other = [[0.9, 0.1]] * 4, [[0.1, 0.9]] * 4
    first, second = messages(preferences=one), messages(preferences=other)
    assert first == second
    assert {"film.gain.weight", "target.film.gain.weight", "target.rest.2.bias"} <= first[0].keys()
    half = {"conditioned-dqn": {"own_share": 0.5}}
    assert messages(preferences=one, **half)[0] != messages(preferences=other, **half)[0]


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-trolley"])
def test_data_and_continuous_actions_are_refused(problem):
    with pytest.raises(UserError, match=r"environments with discrete actions; tiny-.* has none"):
        configure({"problem": problem, "algorithm": "conditioned-dqn"})


def test_a_network_without_hidden_layers_is_refused():
    with pytest.raises(UserError, match=r"two or more nn\.Linear"):
        make("conditioned-dqn", {}).build(nn.Sequential(nn.Linear(2, 4)), replace(TINY))


def test_one_round_is_kept_for_all_by_what_clients_get_at_their_own_preference():
    configuration = tiny(algorithm="conditioned-dqn")
    assert configuration.keeps_together
    assert configuration.learner_settings["average_targets"]
    assert not tiny(algorithm="conditioned-dqn", participation=0.5).keeps_together
    assert not tiny(algorithm="fedavg").learner_settings["average_targets"]
