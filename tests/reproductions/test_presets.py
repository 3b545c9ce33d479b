"""Every name in presets.toml must exist, and every value must be valid and in force."""

import pytest

from comity import algorithms, problems
from comity.configuration import RUN_SETTINGS, Layer, configure, preset, presets
from comity.learners import LEARNERS

PAIRS = [(problem, algorithm) for problem, table in presets().items() for algorithm in table]


@pytest.mark.parametrize(("problem", "algorithm"), PAIRS)
def test_every_name_exists(problem, algorithm):
    parts = presets()[problem][algorithm]
    assert parts
    assert set(parts) <= {"run", "learner", "algorithm"}
    assert all(parts.values()), "an empty part is a left-over"
    found, cls = problems.find(problem), algorithms.find(algorithm)  # refuse unknown names
    values = preset(problem, algorithm)
    assert values.algorithm.keys() <= cls.model_fields.keys()
    assert values.learner.keys() <= LEARNERS[found.learner][1].model_fields.keys()
    assert values.run.keys() <= set(RUN_SETTINGS)


@pytest.mark.parametrize(("problem", "algorithm"), PAIRS)
def test_every_preset_is_in_force_and_gives_way_to_the_user(problem, algorithm):
    values = preset(problem, algorithm)
    configuration = configure({"problem": problem, "algorithm": algorithm})
    assert values.algorithm.items() <= configuration.algorithm_settings.items()
    assert values.learner.items() <= configuration.learner_settings.items()
    assert values.run.items() <= configuration.model_dump().items()
    assert configure({"problem": problem, "algorithm": algorithm, "rounds": 3}).rounds == 3


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
