from __future__ import annotations

import pytest
import torch

from comity.algorithms import make
from tests.tiny import (
    ANSWERS,
    Number,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    held,
    learn,
    network_of,
    objective_of,
    one_step,
)


def half_square(answer: torch.Tensor) -> torch.Tensor:
    return 0.5 * answer.square().sum()


def start():
    """w = 1, v = 3, α = ½."""
    module = make("apfl", {"alpha": 0.5}).build(Number(1.0), ANSWERS)
    return module, {**held(module), "personal.t": torch.tensor([3.0])}


def assert_numbers(found, w: float, v: float, alpha: float) -> None:
    numbers = {"shared.t": w, "personal.t": v, "alpha": alpha}
    for name, wanted in numbers.items():
        assert found[name].item() == pytest.approx(wanted, abs=1e-5), name


# -- the paper's rule ----------------------------------------------------------------------


def test_the_first_step_of_a_round_by_hand_as_in_the_paper():
    """v̄ = 2: w loses η w, v loses η α v̄ and α loses η (v − w) v̄."""
    module, tensors = start()
    first, second = make("apfl", {"rule": "paper"}).phases(ANSWERS)
    assert first.steps == 1, "α follows the first batch"
    assert_numbers(one_step(first, module, tensors, half_square, 0.1), 0.9, 2.9, 0.1)
    assert_numbers(one_step(second, module, tensors, half_square, 0.1), 0.9, 2.9, 0.5)


@pytest.mark.parametrize(("slope", "wanted"), [(-100.0, 1.0), (100.0, 0.0)])
def test_alpha_stays_between_zero_and_one(slope, wanted):
    module, tensors = start()
    for rule in ("paper", "library"):
        phase = make("apfl", {"rule": rule}).phases(ANSWERS)[0]
        found = one_step(phase, module, tensors, lambda answer: slope * answer.sum(), 0.1)
        assert found["alpha"].item() == wanted


def test_the_mixture_predicts():
    module, tensors = start()
    module.load_state_dict(tensors)
    assert module(torch.zeros(1)).item() == 2.0
    assert module(torch.zeros(1), "shared").item() == 1.0
    assert module(torch.zeros(1), "personal").item() == 3.0


def mixture(v, w, alpha):
    """α v + (1 − α) w as tensors, with gradients for v and α alone."""
    pairs = zip(v.named_parameters(), w.parameters(), strict=True)
    return {name: alpha * p + (1 - alpha) * q.detach() for (name, p), q in pairs}


def test_two_rounds_of_the_papers_rule_are_those_of_plain_pytorch():
    algorithm = make("apfl", {"rule": "paper", "alpha": 0.6})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    for round in (1, 2):
        before = learn(algorithm, learner, models, problem, round=round)
        for client in range(3):
            w = network_of(problem, before, client, "shared.")
            v = network_of(problem, before, client, "personal.")
            alpha = before["alpha"][client].clone()
            lose = objective_of(problem, client)
            batches = batches_of(problem, client, 1, 16, 0, round)
            batches += batches_of(problem, client, 3, 16, 1, round)
            for step, batch in enumerate(batches):
                weight = alpha.clone().requires_grad_()
                mixed = mixture(v, w, weight)
                answers = torch.func.functional_call(v, mixed, (batch["inputs"],))
                slopes = torch.autograd.grad(
                    lose(answers, batch), [*v.parameters(), weight], materialize_grads=True
                )
                own = torch.autograd.grad(lose(w(batch["inputs"]), batch), list(w.parameters()))
                with torch.no_grad():
                    for p, slope in zip(v.parameters(), slopes, strict=False):
                        p -= 0.1 * slope
                    for q, slope in zip(w.parameters(), own, strict=True):
                        q -= 0.1 * slope
                if step == 0:
                    alpha = (alpha - 0.1 * slopes[-1]).clamp(0, 1)
            assert_holds(models, client, "shared.", w)
            assert_holds(models, client, "personal.", v)
            torch.testing.assert_close(models["alpha"][client], alpha)
    assert len(set(models["alpha"].tolist())) == 3, "each client has its own"


# -- the library's rule --------------------------------------------------------------------


def test_a_step_by_hand_as_in_the_library():
    """α follows ⟨v − w, α g_v + (1 − α) g_w⟩ + 0.02 α = 3.61, after the step of v and w."""
    module, tensors = start()
    (phase,) = make("apfl", {}).phases(ANSWERS)
    assert_numbers(one_step(phase, module, tensors, half_square, 0.1), 0.9, 2.7, 0.139)


def test_after_a_round_the_private_model_is_the_mixture():
    _, tensors = start()
    (phase,) = make("apfl", {}).phases(ANSWERS)
    assert phase.after is not None
    found = phase.after(tensors, {}, None)
    assert set(found) == {"personal.t"}
    assert found["personal.t"].item() == 2.0


def test_two_rounds_of_the_librarys_rule_are_those_of_plain_pytorch():
    algorithm = make("apfl", {"alpha": 0.6})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    for round in (1, 2):
        if round == 2:  # as if something had arrived
            for name in models.group("shared.*"):
                models[name].mul_(0.9)
        before = learn(algorithm, learner, models, problem, round=round)
        for client in range(3):
            w = network_of(problem, before, client, "shared.")
            v = network_of(problem, before, client, "personal.")
            alpha, lose = before["alpha"][client].clone(), objective_of(problem, client)
            descent = torch.optim.SGD([*v.parameters(), *w.parameters()], 0.1)
            for batch in batches_of(problem, client, 3, 16, 0, round):
                descent.zero_grad()
                lose(w(batch["inputs"]), batch).backward()
                lose(v(batch["inputs"]), batch).backward()
                descent.step()
                slope = 0.02 * alpha
                for p, q in zip(v.parameters(), w.parameters(), strict=True):
                    towards = alpha * p.grad + (1 - alpha) * q.grad
                    slope += ((p - q).detach() * towards).sum()
                alpha = (alpha - 0.1 * slope).clamp(0, 1)
            v.load_state_dict({k: t.detach() for k, t in mixture(v, w, alpha).items()})
            assert_holds(models, client, "shared.", w)
            assert_holds(models, client, "personal.", v)
            torch.testing.assert_close(models["alpha"][client], alpha)


@pytest.mark.parametrize("rule", ["paper", "library"])
def test_private_models_and_alpha_stay_and_wait_for_their_client(rule):
    assert_sends("apfl", {"shared"})
    assert_private_stays("apfl", "personal.", "alpha", apfl={"rule": rule})
