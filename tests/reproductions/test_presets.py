"""Every name in presets.toml must exist, and every value must be valid and in force."""

import tomllib
from dataclasses import replace

import pytest

from comity import algorithms, problems
from comity.configuration import (
    RUN_SETTINGS,
    Layer,
    configure,
    named_presets,
    preset,
    presets,
)
from comity.errors import UserError
from comity.learners import LEARNERS


def assert_names_exist(values: Layer, problem: str, algorithm: str) -> None:
    """All settings are settings of the algorithm, of the problem's learner or of runs."""
    found, cls = problems.find(problem), algorithms.find(algorithm)  # refuse unknown names
    assert values.algorithm.keys() <= cls.model_fields.keys(), algorithm
    assert values.learner.keys() <= LEARNERS[found.learner][1].model_fields.keys(), algorithm
    assert values.run.keys() <= set(RUN_SETTINGS), algorithm


@pytest.mark.parametrize("problem", presets())
def test_every_name_exists(problem):
    for algorithm, parts in presets()[problem].items():
        assert parts
        assert set(parts) <= {"run", "learner", "algorithm"}
        assert all(parts.values()), "an empty part is a left-over"
        assert_names_exist(preset(problem, algorithm), problem, algorithm)


@pytest.mark.parametrize("problem", presets())
def test_every_preset_is_in_force_and_gives_way_to_the_user(problem):
    for algorithm in presets()[problem]:
        values = preset(problem, algorithm)
        configuration = configure({"problem": problem, "algorithm": algorithm})
        assert values.algorithm.items() <= configuration.algorithm_settings.items(), algorithm
        assert values.learner.items() <= configuration.learner_settings.items(), algorithm
        assert values.run.items() <= configuration.model_dump().items(), algorithm
        mine = configure({"problem": problem, "algorithm": algorithm, "rounds": 3})
        assert mine.rounds == 3, algorithm


def test_no_preset_is_empty_and_no_error():
    assert preset("deep-sea-treasure", "fedala") == Layer()
    assert preset("a problem of one's own", "fedpref") == Layer()


# -- printed tables, typed from the thesis ---------------------------------------------------

_ENVIRONMENTS = (
    "lunar-lander",
    "minecart-deterministic",
    "deep-sea-treasure",
    "halfcheetah",
    "lunar-lander-continuous",
)
LOCAL_STEPS = {  # table A.5, "number local iterations", columns as printed
    "fedavg": (5000, 5000, 500, 25000, 5000),
    "fedprox": (5000, 5000, 500, 25000, 5000),
    "cfl": (10000, 2000, 1000, 25000, 5000),
    "matfl": (2000, 5000, 1000, 25000, 5000),
    "fedpref": (5000, 5000, 500, 25000, 10000),
}
CFL_THRESHOLDS = (5, 2, 5, 30, 15)  # table A.5


@pytest.mark.parametrize("algorithm", LOCAL_STEPS)
def test_environments_have_the_local_steps_of_the_thesis(algorithm):
    for problem, steps in zip(_ENVIRONMENTS, LOCAL_STEPS[algorithm], strict=True):
        configuration = configure({"problem": problem, "algorithm": algorithm})
        assert configuration.learner_settings["local_steps"] == steps, problem
        assert configuration.clients == (10 if problem == "halfcheetah" else 20), problem


def test_cfl_has_the_thresholds_of_the_thesis():
    for problem, threshold in zip(_ENVIRONMENTS, CFL_THRESHOLDS, strict=True):
        configuration = configure({"problem": problem, "algorithm": "cfl"})
        assert configuration.algorithm_settings["threshold"] == threshold, problem


_PEOPLE = ("adult-gender", "adult-race", "law-school-gender", "law-school-race")


@pytest.mark.parametrize(
    ("metric", "printed", "missing"),
    [("eo", (1e-3, 1e-3, 1e-2, 1e-3), 1e-3), ("dp", (1e-2, 1e-2, 1e-3, 1e-2), 1e-2)],
)
def test_fedprox_has_the_learning_rates_of_the_thesis(metric, printed, missing):
    """Tables A.11 and A.12 print four values for five columns."""
    for data, rate in zip((*_PEOPLE, "credit-default-gender"), (*printed, missing), strict=True):
        values = {"problem": f"{data}-{metric}", "algorithm": "fedprox", "clients": 4}
        assert configure(values).learner_settings["learning_rate"] == rate, data


# -- named presets -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", named_presets())
def test_every_name_in_a_named_preset_exists(name):
    first = named_presets()[name][0]
    covered = [
        (problem, algorithm)
        for problem in problems.problems()
        for algorithm in algorithms.algorithms()
        if first.covers(problem, algorithm)
    ]
    assert covered
    for problem, algorithm in covered:
        assert_names_exist(preset(problem, algorithm, name), problem, algorithm)


@pytest.mark.parametrize("name", named_presets())
def test_every_pattern_of_a_named_preset_matches_something(name):
    first, *others = named_presets()[name]
    for entry in (first, *others):
        assert entry.source
        for problem in entry.problems:
            for algorithm in entry.algorithms:
                alone = replace(entry, problems=(problem,), algorithms=(algorithm,))
                assert any(
                    alone.covers(p, a) and first.covers(p, a)
                    for p in problems.problems()
                    for a in algorithms.algorithms()
                ), (problem, algorithm)


def test_a_named_preset_wins_over_the_default_one_and_gives_way_to_the_user():
    values = {"problem": "minecart-deterministic", "algorithm": "cfl"}
    plain, paper = configure(values), configure({**values, "preset": "fedpref-paper"})
    assert (plain.preset, plain.algorithm_settings["threshold"]) == ("default", 2.0)
    assert (paper.preset, paper.algorithm_settings["threshold"]) == ("fedpref-paper", 3.0)
    assert paper.learner_settings == plain.learner_settings  # what it does not name
    mine = configure({**values, "preset": "fedpref-paper", "cfl": {"threshold": 4.0}})
    assert mine.algorithm_settings["threshold"] == 4.0
    again = configure(tomllib.loads(mine.to_toml()))
    assert again == mine


def test_a_named_preset_without_values_of_its_own_is_the_default_one():
    values = {"problem": "deep-sea-treasure", "algorithm": "matfl"}
    paper = configure({**values, "preset": "fedpref-paper"})
    assert paper.model_copy(update={"preset": "default"}) == configure(values)


HOSTS = {  # app. B.2 of pFedRLLA
    "fedamp": {"pull": 5e-7, "step": 5e-3},
    "fedphp": {"strength": 0.1, "momentum": 0.1},
    "ditto": {"pull": 0.5},
    "apfl": {"alpha": 1.0},
    "fedfomo": {"offers": 5},
    "fedala": {"rate": 1.0},
    "fedavg": {},
    "pfedrlla": {},
}


@pytest.mark.parametrize("algorithm", HOSTS)
def test_the_hosts_of_pfedrlla_have_its_settings(algorithm):
    values = {"problem": "cifar10-small", "algorithm": algorithm, "preset": "pfedrlla-appendix"}
    configuration = configure(values)
    assert HOSTS[algorithm].items() <= configuration.algorithm_settings.items()
    learner = configuration.learner_settings
    assert (learner["batch_size"], learner["local_epochs"], learner["momentum"]) == (64, 5, 0.5)
    assert (configuration.clients, configuration.participation) == (100, 0.1)
    assert (configuration.rounds, configuration.split_ratio) == (500, "65:15:20")


def test_fedala_of_pfedrlla_weighs_all_tensors():
    values = {"problem": "cifar10-small", "algorithm": "fedala", "preset": "pfedrlla-appendix"}
    configuration = configure(values)
    model = configuration.get_problem().model()
    assert len(configuration.get_module().top) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "fedpref"}, "unknown preset 'fedpref'. Did you mean 'fedpref-paper'"),
        ({"preset": "pfedrlla-appendix"}, "has no settings for fedavg on adult-gender-dp: comity"),
        ({"preset": "pfedrlla-appendix", "algorithm": "ditto"}, "no settings for ditto on adult"),
    ],
)
def test_a_preset_that_is_unknown_or_about_something_else_is_refused(values, message):
    with pytest.raises(UserError, match=message):
        configure({"problem": "adult-gender-dp", "algorithm": "fedavg", **values})
