"""Every so many rounds all clients are judged, absent ones, too, and nothing is changed by it."""

from __future__ import annotations

import numpy as np
import pytest

from comity import run
from comity.configuration import configure
from comity.core.rng import stream
from comity.errors import UserError
from comity.learners import Supervised

BOTH = ("received", "trained")


def finished(path, **settings):
    values = {"clients": 4, "rounds": 5, "participation": 0.5, "partition": "pathological:3"}
    return run("usps-mlp", **{**values, "evaluate_every": 2, **settings}, out=path)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedrep", "fedala", "fedamp"])
def test_everyone_is_judged_as_if_it_were_the_end(algorithm, tmp_path):
    long = finished(tmp_path / "long", algorithm=algorithm)
    asked = [line["round"] for line in long.history if "everyone" in line]
    assert asked == [2, 4]
    short = finished(tmp_path / "short", algorithm=algorithm, rounds=2)
    last = short.history[-1]
    assert last["clients"] == [0, 1, 2, 3]
    assert long.history[1]["everyone"] == last["received"]


def test_nothing_is_changed_by_it(tmp_path):
    watched = finished(tmp_path / "watched", algorithm="fedpac")
    unwatched = finished(tmp_path / "unwatched", algorithm="fedpac", evaluate_every=0)
    lines = [{k: v for k, v in line.items() if k != "everyone"} for line in watched.history]
    assert lines == unwatched.history
    assert watched.results == unwatched.results


def test_pictures_are_judged_every_ten_rounds_unless_somebody_says_otherwise():
    assert configure({"problem": "usps-mlp"}).evaluate_every == 10
    assert configure({"problem": "german-credit-gender-dp"}).evaluate_every == 0


def test_environments_have_no_data_to_judge_all_by():
    with pytest.raises(UserError, match="evaluate_every means nothing for deep-sea-treasure"):
        configure({"problem": "deep-sea-treasure", "evaluate_every": 5})


@pytest.mark.parametrize(("fine_tune", "line"), [("none", -2), ("extra:1", -1)])
def test_results_have_the_last_of_before_and_after(fine_tune, line, tmp_path):
    done = finished(tmp_path / "run", algorithm="fedrep", fine_tune=fine_tune)
    last = done.history[line]
    means = {name: sum(v for (v,) in last[name]) / len(last[name]) for name in BOTH}
    assert done.results["validation"] == pytest.approx(means)
    assert means["received"] != means["trained"]


def test_who_receives_nothing_has_no_before(tmp_path):
    done = finished(tmp_path / "run", algorithm="no-communication")
    assert done.results["validation"] == {}


def test_global_measures_are_of_a_fixed_sample(tmp_path):
    """More than there are is all, bit for bit; a sample is the same for all chunks of clients."""
    values = {"algorithm": "fedrep", "rounds": 1}
    whole = finished(tmp_path / "all", **values, global_test="all").results
    assert finished(tmp_path / "more", **values, global_test=10**6).results == whole
    assert "global_test" not in whole
    none = finished(tmp_path / "none", **values, global_test=0).results
    some = finished(tmp_path / "some", **values, global_test=50).results
    apart = finished(tmp_path / "apart", **values, global_test=50, chunk=3).results
    assert (none["global_test"], some["global_test"]) == (0, 50)
    names = ("global_accuracy", "trivial_hypervolume")
    assert [name in none["metrics"] for name in names] == [False, True]
    assert some["metrics"]["global_accuracy"] == apart["metrics"]["global_accuracy"]
    assert some["metrics"]["global_accuracy"] != whole["metrics"]["global_accuracy"]
    # four clients with 50 samples each: a whole number of right answers among 200
    assert (some["metrics"]["global_accuracy"] * 200) % 1 == pytest.approx(0, abs=1e-3)
    assert some["per_client"] == none["per_client"] == whole["per_client"]


@pytest.mark.parametrize(("algorithm", "models"), [("fedavg", 2), ("fedrep", 4)])
def test_equal_models_are_judged_once_on_the_samples_of_all(
    algorithm, models, tmp_path, monkeypatch
):
    """FedAvg has one model in the end, in two chunks of clients; FedRep one per client."""
    judged, evaluate = [], Supervised.evaluate

    def counted(self, fleet, rows, purpose, episodes):
        if purpose == "everyone":
            judged.append(len(rows))
        return evaluate(self, fleet, rows, purpose, episodes)

    monkeypatch.setattr(Supervised, "evaluate", counted)
    values = {"algorithm": algorithm, "rounds": 1, "chunk": 2, "global_test": 300}
    done = finished(tmp_path / "run", **values)
    assert sum(judged) == models
    module = done.configuration.get_problem()
    rows = np.concatenate([share.test for share in module.client_rows()])
    drawn = np.sort(stream(done.configuration.seed, "global test").permutation(len(rows))[:300])
    samples = module.columns()
    inputs, labels = (samples[name][rows[drawn]] for name in ("inputs", "label"))
    right = [
        float((done.model(client)(inputs).argmax(dim=1) == labels).float().mean())
        for client in range(4)
    ]
    assert done.results["metrics"]["global_accuracy"] == pytest.approx(np.mean(right), abs=1e-6)


def test_the_more_models_the_fewer_samples_of_all():
    def judged(problem, **values):
        return configure({"problem": problem, **values}).global_test

    assert judged("usps-mlp") == judged("usps-mlp", clients=10) == 1000
    assert judged("usps-mlp", clients=100) == 200
    assert judged("usps-mlp", clients=100, global_test=1000) == 1000
    assert judged("usps-mlp", clients=40, global_test="all") == "all"
    assert judged("german-credit-gender-dp") == "all"
    assert judged("adult-gender-dp", clients=100) == "all"
    assert judged("adult-gender-dp", clients=250) == 4000
    assert judged("adult-gender-dp", clients=1500) == 1000


def test_what_is_no_number_of_samples_is_refused():
    with pytest.raises(UserError, match="global_test = -1"):
        configure({"problem": "usps-mlp", "global_test": -1})
    with pytest.raises(UserError, match="global_test means nothing for deep-sea-treasure"):
        configure({"problem": "deep-sea-treasure", "global_test": 5})
