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
