"""Differential privacy: settings, the accountant and the noise that follows from epsilon."""

from __future__ import annotations

import math
import sys
import tomllib

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.special import log_ndtr

from comity.configuration import configure
from comity.configuration.budget import largest_epsilon, planned_updates
from comity.configuration.privacy import Privacy, read_privacy
from comity.errors import UserError
from comity.searches.configuration import configure_search
from tests.tiny import tiny


def delta_at(epsilon: float, noise: float, updates: int) -> float:
    """δ(ε) = Φ(1/(2s) − ε s) − e^ε Φ(−1/(2s) − ε s) of Balle and Wang (2018).

    s = noise / (2 √updates): any two clipped updates are at most 2 C apart.
    """
    s = noise / (2 * math.sqrt(updates))
    first, second = log_ndtr(1 / (2 * s) - epsilon * s), log_ndtr(-1 / (2 * s) - epsilon * s)
    return math.exp(first) - math.exp(epsilon + second)


def test_off_by_default():
    assert tiny().privacy is None
    assert "privacy" not in tiny().to_toml()
    assert largest_epsilon(tiny()) is None


@pytest.mark.parametrize(
    ("noise", "updates", "delta", "epsilon"),
    [
        # s = 1: Φ(−0.5) − e Φ(−1.5) = 0.3085375387 − 2.7182818285 × 0.0668072013
        (2.0, 1, 0.3085375387 - 2.7182818285 * 0.0668072013, 1.0),
        (4.0, 4, 0.3085375387 - 2.7182818285 * 0.0668072013, 1.0),
        (2.0, 4, 0.5 - 7.3890560989 * 0.0227501319, 2.0),  # s = 1/2: Φ(0) − e² Φ(−2)
    ],
)
def test_epsilon_by_hand(noise, updates, delta, epsilon):
    assert Privacy(noise=noise, delta=delta).spent(updates) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("updates", [1, 7, 300])
@pytest.mark.parametrize("noise", [0.3, 2.0, 25.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_epsilon_is_that_of_an_independent_formula(noise, updates, delta):
    epsilon = Privacy(noise=noise, delta=delta).spent(updates)
    if epsilon == 0:
        assert delta_at(0.0, noise, updates) <= delta
    elif epsilon < 600:  # beyond, e^ε is no float
        assert delta_at(epsilon, noise, updates) == pytest.approx(delta, rel=1e-6)


def test_epsilon_is_that_of_an_accountant_that_composes_step_by_step():
    """Privacy loss distributions, convolved: another route to the same figure."""
    accountant = PLDAccountant()
    event = dp_accounting.GaussianDpEvent(3.0 / 2)  # noise in units of the sensitivity 2 C
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 10))
    expected = accountant.get_epsilon(1e-5)
    assert Privacy(noise=3.0, delta=1e-5).spent(10) == pytest.approx(expected, rel=1e-3)


def test_nothing_sent_spends_nothing():
    assert Privacy(noise=1.0).spent(0) == 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 200.0])
@pytest.mark.parametrize("updates", [1, 30])
def test_noise_keeps_epsilon_and_is_not_larger_than_it_must_be(epsilon, updates):
    privacy = Privacy(epsilon=epsilon).with_noise(updates)
    assert privacy.spent(updates) <= epsilon
    assert delta_at(epsilon, privacy.noise, updates) == pytest.approx(1e-5, rel=1e-3)
    assert privacy.with_noise(updates) == privacy, "a file that has both is taken as it is"


def test_a_run_is_repeated_from_its_file():
    configuration = tiny(privacy={"epsilon": 8, "clip": 0.5})
    assert configuration.privacy is not None
    assert configuration.privacy.noise == Privacy(epsilon=8.0).with_noise(4).noise > 0
    assert largest_epsilon(configuration) == pytest.approx(8, abs=1e-4)
    assert configure(tomllib.loads(configuration.to_toml())) == configuration


FAULTS = {
    "nothing": ({}, "name its epsilon"),
    "only clip": ({"clip": 2.0}, "name its epsilon"),
    "negative": ({"epsilon": -1}, "privacy.epsilon = -1"),
    "delta": ({"epsilon": 1, "delta": 1}, "privacy.delta = 1"),
    "no clip": ({"epsilon": 1, "clip": 0}, "privacy.clip = 0"),
    "hardly any noise": ({"noise": 1e-9}, "privacy.noise = 1e-09: must be at least 1e-06"),
    "far too much": ({"epsilon": 1e9}, "privacy.epsilon = 1000000000"),
    "not finite": ({"epsilon": math.inf}, "privacy.epsilon = inf"),
    "unknown": ({"epsilom": 1}, "epsilom"),
    "no table": (8, "privacy = 8: must be a table"),
    "too little noise": ({"epsilon": 1, "noise": 0.1}, "takes at least .* over 4 updates"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    table, text = FAULTS[name]
    with pytest.raises(UserError, match=text):
        tiny(privacy=table)


def test_without_the_accountant_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(UserError, match=r"comity\[privacy\]"):
        read_privacy({"epsilon": 1}).with_noise(1)


# -- how often a client sends --------------------------------------------------------------

PEOPLE = {"problem": "tiny-people", "algorithm": "fedavg", "rounds": 6}


def test_every_round_counts_and_a_last_one_without_mixing_does_not():
    assert planned_updates(tiny(**PEOPLE)) == (6, 6, 6, 6)
    assert planned_updates(tiny(**PEOPLE, fine_tune="extra:2")) == (6, 6, 6, 6)
    assert planned_updates(tiny(**PEOPLE, fine_tune="replace-last")) == (5, 5, 5, 5)
    assert planned_updates(tiny(**PEOPLE, topology="neighbours", graph="ring")) == (6, 6, 6, 6)
    assert planned_updates(tiny(**{**PEOPLE, "algorithm": "no-communication"})) == (0, 0, 0, 0)


def test_clients_that_are_drawn_count_as_often_as_they_are_drawn():
    """The draw follows from the public seed: it hides nobody, and is known before the run."""
    configuration = tiny(**PEOPLE, participation=0.5, privacy={"epsilon": 8})
    counts = planned_updates(configuration)
    assert sum(counts) == 12
    assert len(set(counts)) > 1
    assert configuration.privacy is not None
    assert configuration.privacy.spent(max(counts)) == pytest.approx(8, abs=1e-4)


# -- what more would leave a client --------------------------------------------------------


def test_what_no_noise_covers_is_refused():
    private = {"problem": "tiny-people", "privacy": {"noise": 1}}
    with pytest.raises(UserError, match=r"keep_scope = federation.*validation"):
        tiny(**private, keep_scope="federation")
    with pytest.raises(UserError, match=r"attack = 'size:1' means nothing with privacy"):
        tiny(**private, attack="size:1")
    with pytest.raises(UserError, match=r"fedcmoo asks clients for gradients"):
        tiny(**private, algorithm="fedcmoo")
    weighed = {"front": "global", "fusion": "weights"}
    with pytest.raises(UserError, match=r"hetpfl hands the hypernetworks of all clients"):
        tiny(**private, algorithm="hetpfl", hetpfl=weighed)
    assert tiny(**private, algorithm="praffl").keep_scope == "client"


def test_a_search_is_refused():
    with pytest.raises(UserError, match="privacy means nothing in a search"):
        configure_search({"problem": "tiny-people", "privacy": {"noise": 1}})
