from __future__ import annotations

import tomllib

import pytest

from comity.comparison import entry_values, split_entries
from comity.configuration import configure, parse_setting
from comity.errors import UserError


def test_defaults_are_the_papers_for_that_problem():
    fedpref = configure({"problem": "deep-sea-treasure"})
    assert (fedpref.algorithm, fedpref.clients, fedpref.rounds) == ("fedpref", 20, 28)
    assert fedpref.learner_settings["local_steps"] == 500
    cfl = configure({"problem": "deep-sea-treasure", "algorithm": "cfl"})
    assert cfl.learner_settings["local_steps"] == 1000
    assert cfl.rounds == 14, "the steps in all are the same"
    minecart = configure({"problem": "minecart-deterministic"})
    assert minecart.algorithm_settings["minimum_similarity"] == 0.0
    assert minecart.learner_settings["learning_starts"] == 50_000


def test_rounds_set_the_schedule_of_exploration():
    short = configure({"problem": "deep-sea-treasure", "rounds": 4})
    assert short.learner_settings["total_steps"] == 2000
    told = configure({"problem": "deep-sea-treasure", "rounds": 4, "dqn": {"total_steps": 9000}})
    assert told.learner_settings["total_steps"] == 9000


def test_a_configuration_written_down_and_read_again_is_the_same():
    configuration = configure(
        {
            "problem": "lunar-lander",
            "algorithm": "fedpref",
            "fedpref": {"threshold": "2.5%"},
            "preferences": [[0.25] * 4] * 3,
            "clients": 3,
        }
    )
    assert configure(tomllib.loads(configuration.to_toml())) == configuration


def test_a_preference_file_is_written_into_the_configuration(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("0.25,0.75\n0.5,0.5\n")
    configuration = configure(
        {"problem": "deep-sea-treasure", "clients": 2, "preferences": str(file)}
    )
    file.unlink()
    again = configure(tomllib.loads(configuration.to_toml()))
    assert again.get_preferences().tolist() == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"problem": "deep-see-treasure"}, ["deep-see-treasure", "Did you mean", "lunar-lander"]),
        ({"algorithm": "fedprf"}, ["fedprf", "Did you mean 'fedpref'"]),
        ({"client": 3}, ["client", "Did you mean 'clients'"]),
        ({"clients": 0}, ["clients = 0"]),
        ({"clients": "many"}, ["clients = 'many'"]),
        ({"rounds": -1}, ["rounds = -1"]),
        ({"participation": 1.5}, ["participation = 1.5"]),
        ({"keep": "both"}, ["keep", "best", "last"]),
        ({"fine_tune": "extra:0"}, ["fine_tune", "extra:K"]),
        ({"fedpref": {"topr": 1}}, ["fedpref", "topr", "top_r"]),
        ({"fedpref": {"top_r": 0}}, ["fedpref.top_r = 0"]),
        ({"fedpref": {"threshold": -1}}, ["fedpref.threshold = -1"]),
        ({"fedpref": 3}, ["fedpref = 3", "table"]),
        ({"fedavg": {}}, ["fedavg", "fedpref"]),
        ({"dqn": {"gamma": 2}}, ["dqn.gamma = 2"]),
        ({"preferences": [[1.0, 1.0]] * 20}, ["row 1", "off the simplex"]),
        ({"preferences": [[0.5, 0.5]]}, ["expected 20 rows"]),
        ({"algorithm": "no-communication", "guard": True}, ["guard", "no-communication"]),
        (
            {"algorithm": "no-communication", "fine_tune": "replace-last"},
            ["fine_tune", "no-communication"],
        ),
    ],
)
def test_a_wrong_setting_is_named(values, words):
    with pytest.raises(UserError) as error:
        configure({"problem": "deep-sea-treasure", **values})
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_are_toml_values_or_bare_words():
    assert parse_setting("fedpref.top_r=0.4") == (["fedpref", "top_r"], 0.4)
    assert parse_setting("keep=last") == (["keep"], "last")
    assert parse_setting("dqn.average_targets=true") == (["dqn", "average_targets"], True)
    with pytest.raises(UserError, match="NAME=VALUE"):
        parse_setting("fedpref.top_r")


def test_entries_of_a_comparison():
    text = "fedavg+ft, fedpref[clustering=false,guard=true],cfl"
    assert split_entries(text) == ["fedavg+ft", "fedpref[clustering=false,guard=true]", "cfl"]
    assert entry_values("fedavg+ft") == {"algorithm": "fedavg", "fine_tune": "replace-last"}
    assert entry_values("fedpref[clustering=false,guard=true,dqn.gamma=0.5]") == {
        "algorithm": "fedpref",
        "fedpref": {"clustering": False},
        "guard": True,
        "dqn": {"gamma": 0.5},
    }
    with pytest.raises(UserError, match="NAME"):
        entry_values("fedpref[")
