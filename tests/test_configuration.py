from __future__ import annotations

import tomllib

import pytest

from comity.algorithms import algorithms, find
from comity.configuration import RUN_SETTINGS, configure, difference, parse_setting, read_toml
from comity.errors import UserError
from comity.runs.entries import entry_values, split_entries
from tests.tiny import tiny


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


def test_defaults_on_data_are_the_thesis():
    tuned = configure({"problem": "adult-gender-eo", "algorithm": "fedcmoo"})
    assert tuned.algorithm_settings["server_rate"] == 2.0
    assert tuned.learner_settings["learning_rate"] == 1e-2
    assert (tuned.learner_settings["local_steps"], tuned.rounds) == (10, 150)
    plain = configure({"problem": "german-credit-gender-dp", "algorithm": "fedcmoo"})
    assert (plain.learner_settings["learning_rate"], plain.rounds) == (5e-3, 60)
    assert (plain.partition, plain.sizes) == ("stratified", "equal")
    assert (plain.validation_episodes, plain.test_episodes) == (1, 1)


def test_only_long_runs_are_compiled_and_it_is_written_down():
    short = configure({"problem": "german-credit-gender-dp", "clients": 3, "rounds": 2})
    assert short.learner_settings["compile"] == "no"
    values = {"problem": "german-credit-gender-dp", "clients": 20, "rounds": 4, "chunk": 10}
    # ten clients at once, so many steps each
    for steps, decided in ((4_999, "no"), (5_000, "yes")):
        long = configure({**values, "supervised": {"local_steps": steps}})
        assert long.learner_settings["compile"] == decided


def test_how_data_are_dealt_out_is_part_of_a_run():
    values = {"problem": "heart-disease-gender-eo", "clients": 4, "partition": "natural"}
    natural = configure(values)
    held = natural.get_problem().client_rows()
    assert [len(s.train) + len(s.validation) + len(s.test) for s in held] == [303, 294, 123, 200]
    assert configure(tomllib.loads(natural.to_toml())) == natural
    even = configure({**values, "partition": "stratified", "sizes": "1,1,1,2"})
    held = even.get_problem().client_rows()
    assert [len(s.train) + len(s.validation) + len(s.test) for s in held] == [184, 184, 184, 368]


def test_a_described_problem_survives_its_file(tmp_path):
    path = tmp_path / "loans.csv"
    rows = [f"{20 + i},{'fm'[i % 2]},{'ny'[i // 2 % 2]}" for i in range(60)]
    path.write_text("\n".join(["age,sex,paid", *rows]) + "\n")
    groups = {"young": "< 50", "old": "*"}
    described = {
        "data": str(path),
        "name": "loans",
        "label": "paid",
        "positive": "y",
        "sensitive": {"years": {"column": "age", "groups": groups}},
        "metrics": ["eodds"],
        "hidden": [4],
        "slope": 2.0,
    }
    configuration = configure({"problem": described, "clients": 2, "algorithm": "fsmgda"})
    again = configure(tomllib.loads(configuration.to_toml()))
    assert again == configuration
    assert again.problem_name == "loans"
    problem = again.get_problem()
    assert [objective.name for objective in problem.objectives] == ["accuracy", "fairness"]
    assert "equalised odds" in problem.objectives[1].meaning
    assert (problem.slope, problem.hidden) == (2.0, (4,))
    assert sorted(problem.samples().columns["group:years"].bincount().tolist()) == [30, 30]
    assert problem.samples().columns["label"].sum() == 30


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"partition": "sideways"}, ["partition", "sideways", "natural"]),
        ({"sizes": "0,1", "clients": 2}, ["sizes", "0,1", "positive"]),
        ({"sizes": "1,2"}, ["sizes", "got 2 for 20 clients"]),
        ({"clients": 104}, ["female", "104 clients"]),
        ({"validation_episodes": 2}, ["validation_episodes", "it has data"]),
        ({"supervised": {"batch_size": 0}}, ["supervised.batch_size = 0"]),
        ({"supervised": {"optimiser": "lbfgs"}}, ["supervised.optimiser", "sgd"]),
        ({"algorithm": "fedcmoo", "fedcmoo": {"beta": 0}}, ["fedcmoo.beta = 0"]),
        ({"problem": {"label": "paid"}}, ["problem.data"]),
        ({"supervised": {"learning_rate": float("inf")}}, ["learning_rate", "finite"]),
        ({"supervised": {"weight_decay": float("nan")}}, ["weight_decay = nan"]),
        ({"algorithm": "matfl", "matfl": {"shift": float("inf")}}, ["matfl.shift", "finite"]),
        (
            {"algorithm": "fedcmoo-pref", "fedcmoo-pref": {"server_rate": float("inf")}},
            ["fedcmoo-pref.server_rate", "finite"],
        ),
        ({"problem": {"data": "adult", "slope": float("inf")}}, ["problem.slope", "finite"]),
        ({"clients": 99999999999999999999}, ["clients", "1000000"]),
        ({"clients": 2147483648}, ["clients", "1000000"]),
        ({"threads": 100_000}, ["threads", "1024"]),
        ({"seed": 2**64}, ["seed", "64 bits"]),
        ({"sizes": "1e308,1e308", "clients": 2}, ["sizes", "positive"]),
        ({"partition": "dirichlet:inf"}, ["partition", "positive"]),
        ({"problem": {"data": "adult", "labels": "x"}}, ["labels", "label"]),
    ],
)
def test_a_wrong_setting_on_data_is_named(values, words):
    with pytest.raises(UserError) as error:
        configure({"problem": "german-credit-gender-dp", **values})
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algorithm", ["fedcmoo", "fedcmoo-pref", "fsmgda"])
def test_algorithms_of_losses_need_losses(algorithm):
    with pytest.raises(UserError, match=f"{algorithm} needs .* differentiable .* lunar-lander has"):
        configure({"problem": "lunar-lander", "algorithm": algorithm})
    assert configure({"problem": "german-credit-age-dp", "algorithm": algorithm})


def test_clients_as_objectives_need_no_losses():
    assert configure({"problem": "lunar-lander", "algorithm": "fedmgda-plus"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"problem": "deep-see-treasure"}, ["deep-see-treasure", "Did you mean", " more."]),
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


@pytest.mark.parametrize("text", ["x = " + "[" * 3000, "x = " + "{a=" * 3000])
def test_a_file_without_end_is_refused(text, tmp_path):
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(UserError, match=r"deep\.toml is nested too deeply"):
        read_toml(tmp_path / "deep.toml")
    with pytest.raises(UserError, match="--set x: the value is nested too deeply"):
        parse_setting(text.replace(" ", ""))


def test_the_first_difference_of_two_configurations_is_named():
    before = {"a": 1, "t": {"x": 1.0, "y": [1]}}
    assert difference(before, before) == ""
    assert difference(before, {**before, "a": 2}) == "a is 2, it was 1"
    assert difference(before, {**before, "a": True}) == "a is True, it was 1"
    assert difference(before, {"a": 1, "t": {"x": 1.0, "y": [2]}}) == "t.y is [2], it was [1]"
    assert difference(before, {"a": 1}) == "t is not set, it was {'x': 1.0, 'y': [1]}"
    assert difference(before, {**before, "b": 3}) == "b is 3, it was not set"
    assert difference(before, {"b": 3}, common=True) == ""


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


def test_the_split_of_a_run_with_data_is_a_setting():
    values = {"problem": "adult-gender-dp", "clients": 2, "algorithm": "fedavg"}
    for split, train in (("70:10:20", 0.7), ("65:15:20", 0.65)):
        configuration = configure({**values, "split_ratio": split})
        rows = configuration.get_problem().client_rows()[0]
        total = len(rows.train) + len(rows.validation) + len(rows.test)
        assert len(rows.train) / total == pytest.approx(train, abs=1e-3)
        assert configure(tomllib.loads(configuration.to_toml())) == configuration
    assert configure(values).split_ratio == "70:10:20"


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("deep-sea-treasure", "split_ratio = 65:15:20 means nothing for deep-sea-treasure"),
        (
            "praffl-synthetic",
            "split_ratio = 65:15:20 means nothing for praffl-synthetic; say paper",
        ),
    ],
)
def test_a_split_is_refused_where_it_means_nothing(problem, message):
    assert configure({"problem": problem}).split_ratio in ("70:10:20", "paper")
    with pytest.raises(UserError, match=message):
        configure({"problem": problem, "split_ratio": "65:15:20"})


@pytest.mark.parametrize(
    ("participation", "clients", "count"),
    [(0.3, 10, 3), (0.07, 100, 7), (0.1, 25, 3), (0.5, 5, 3), (0.01, 4, 1), (1.0, 7, 7)],
)
def test_participants_are_rounded_up_and_not_by_floating_point(participation, clients, count):
    """⌈p N⌉; 0.07 * 100 is 7.000000000000001 for a computer."""
    assert tiny(participation=participation).participants(clients) == count


@pytest.mark.parametrize("name", sorted(algorithms()))
def test_settings_of_an_algorithm_do_not_hide_those_of_a_run(name):
    """In ``NAME[setting=value]`` the name alone must tell what is set."""
    assert not set(find(name).model_fields) & set(RUN_SETTINGS)
