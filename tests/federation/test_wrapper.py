"""ConFREE as users ask for it: with a host, in a configuration, in a comparison."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch

import comity.report
from comity.algorithms import algorithms
from comity.algorithms.wrappers.confree import ConFREE, direction
from comity.cli import main
from comity.configuration import configure, read_toml
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.runs.directory import Run
from comity.runs.entries import entry_values, with_wrapper
from comity.runs.execute import execute
from tests.laws.conftest import data_of
from tests.tiny import tiny

HOSTS = [
    *(
        "apfl",
        "conditioned-dqn",
        "ditto",
        "fedadagrad",
        "fedadam",
        "fedala",
        "fedavg",
        "fedavgm",
        "fedbabu",
        "fedbn",
    ),
    *("fedcp", "fedpac", "fedper", "fedphp", "fedprox", "fedrep", "fedrod", "fedyogi"),
    *("lg-fedavg", "per-fedavg", "pfedme"),
]
OTHERS = [
    *("cfl", "fedamp", "fedfomo", "fednova", "fedpref", "matfl", "no-communication", "q-fedavg"),
    "scaffold",
]


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    monkeypatch.setattr(comity.report, "write_comparison_report", lambda *made: None)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command line, in this process; returns what it said."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert exit.value.code == code, said.err
        return said.err if code else said.out

    return called


def wrapped(algorithm: str, **values: Any):
    return tiny(problem=data_of(algorithm), algorithm=algorithm, wrapper="confree", **values)


# -- configurations ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", HOSTS)
def test_every_host_with_a_shared_update_takes_it(algorithm):
    configuration = wrapped(algorithm)
    assert configuration.label.startswith(f"{algorithm}+confree")
    assert configuration.get_wrappers() == [ConFREE()]


@pytest.mark.parametrize("algorithm", OTHERS)
def test_others_are_refused_with_the_reason_and_the_list(algorithm):
    with pytest.raises(UserError) as error:
        wrapped(algorithm)
    said = str(error.value)
    assert f"a mean of updates that clients share; {algorithm} has none." in said
    assert said.endswith(f"It works with {', '.join(HOSTS)}.")


def test_the_list_is_complete():
    assert sorted(name for name, found in algorithms().items() if found.shared_update) == HOSTS
    assert not set(HOSTS) & set(OTHERS)


def test_the_name_of_a_row():
    assert wrapped("fedrep").label == "fedrep+confree"
    assert wrapped("fedrep", fine_tune="replace-last").label == "fedrep+confree+ft"
    assert tiny(problem="tiny-people", algorithm="fedrep").label == "fedrep"


@pytest.mark.parametrize(
    "own", [{}, {"c": 0.7, "scope": "model", "guidance": "sequential", "rescale": False}]
)
def test_a_configuration_file_says_it_all(own, tmp_path):
    configuration = wrapped("fedrep", confree=own)
    path = tmp_path / "config.toml"
    path.write_text(configuration.to_toml())
    values = read_toml(path)
    assert values["wrapper"] == "confree"
    assert values["confree"] == ConFREE(**own).model_dump()
    again = configure(values)
    assert again == configuration
    assert again.get_wrappers() == [ConFREE(**own)]


def test_in_python_it_is_put_around_its_host():
    named = tiny(problem="tiny-people", algorithm=ConFREE("fedrep", c=0.7))
    assert named == wrapped("fedrep", confree={"c": 0.7})
    assert named != wrapped("fedrep")
    with pytest.raises(UserError, match=r"confree\.c = 2"):
        ConFREE("fedrep", c=2)
    with pytest.raises(UserError, match="setting of confree 'cc'"):
        ConFREE("fedrep", cc=0.5)
    with pytest.raises(UserError, match="fedamp has none"):
        tiny(problem="tiny-people", algorithm=ConFREE("fedamp"))
    with pytest.raises(UserError, match=r"ConFREE\('fedrep'\)"):
        tiny(problem="tiny-people", algorithm=ConFREE())


def test_without_a_wrapper_there_is_no_table_of_it():
    configuration = tiny(problem="tiny-people", algorithm="fedrep")
    assert "confree" not in configuration.to_toml()
    assert configuration.get_wrappers() == []
    with pytest.raises(UserError, match="confree"):
        tiny(problem="tiny-people", algorithm="fedrep", confree={"c": 0.5})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"wrapper": "confre"}, "wrapper.*confre"),
        ({"wrapper": "confree", "confree": {"c": 1.0}}, "confree.c"),
        ({"wrapper": "confree", "confree": {"c": 0.0}}, "confree.c"),
        ({"wrapper": "confree", "confree": {"scope": "layer"}}, "confree.scope"),
        ({"wrapper": "confree", "confree": {"cc": 0.5}}, "setting of confree 'cc'"),
        ({"wrapper": "confree", "confree": 0.5}, "confree = 0.5: must be a table"),
    ],
)
def test_mistakes_are_named(values, said):
    with pytest.raises(UserError, match=said):
        tiny(problem="tiny-people", algorithm="fedrep", **values)


# -- comparisons ---------------------------------------------------------------------------


def test_a_row_more_beside_each_host_that_takes_it():
    entries = ["no-communication", "fedavg", "fedamp", "fedrep+ft", "fedpac[strength=0.5]"]
    assert with_wrapper(entries, "confree") == [
        "no-communication",
        "fedavg",
        "fedavg+confree",
        "fedamp",
        "fedrep+ft",
        "fedrep+confree+ft",
        "fedpac[strength=0.5]",
        "fedpac+confree[strength=0.5]",
    ]
    assert with_wrapper(entries, None) == entries
    assert with_wrapper(["fedavg+confree"], "confree") == ["fedavg+confree"]


def test_the_settings_of_a_row():
    assert entry_values("fedpac+confree+ft[strength=0.5,confree.c=0.2,guard=true]") == {
        "algorithm": "fedpac",
        "wrapper": "confree",
        "fine_tune": "replace-last",
        "fedpac": {"strength": 0.5},
        "confree": {"c": 0.2},
        "guard": True,
    }


def test_an_unknown_wrapper_is_a_mistake(call):
    with pytest.raises(UserError, match="wrapper"):
        with_wrapper(["fedavg"], "confre")
    common = ("tiny-answers", "--clients", 2, "--out", "out")
    assert "confre" in call("compare", *common, "--algorithms=fedavg", "--with=confre", code=2)
    assert "confre" in call("run", *common, "--algorithm", "fedavg", "--with", "confre", code=2)


def test_a_comparison_with_and_without(call, tmp_path):
    said = call(
        *("compare", "tiny-answers", "--algorithms", "no-communication,fedamp,fedrep,fedpac"),
        *("--with", "confree", "--clients", 3, "--rounds", 2, "--seeds", 1, "--workers", 1),
        *("--set", "supervised.local_steps=2", "--set", "confree.c=0.3", "--json", "--out", "c"),
    )
    rows = json.loads(said)["rows"]
    assert [row["algorithm"] for row in rows] == [
        *("no-communication", "fedamp", "fedrep", "fedrep+confree", "fedpac", "fedpac+confree")
    ]
    for row in rows:
        run = Run.open(tmp_path / "c" / row["runs"][0])
        own = row["algorithm"].endswith("+confree")
        assert run.configuration.wrapper == ("confree" if own else "none")
        assert run.configuration.wrapper_settings.get("confree", {}).get("c") == (
            0.3 if own else None
        )
        assert all((entry["conflict"] is not None) == own for entry in run.history[:2])
    values = {row["algorithm"]: row["metrics"] for row in rows}
    assert values["fedrep"].keys() == values["fedrep+confree"].keys()


def test_a_run_from_the_command_line(call, tmp_path):
    call(
        *("run", "tiny-answers", "--algorithm", "fedrep", "--with", "confree", "--clients", 3),
        *("--rounds", 2, "--set", "supervised.local_steps=2", "--workers", 1, "--out", "out"),
    )
    assert Run.open(tmp_path / "out").configuration.label == "fedrep+confree"
    call("run", "tiny-answers", "--algorithm", "fedamp", "--with", "confree", code=2)


# -- runs ----------------------------------------------------------------------------------


def test_the_history_tells_how_much_conflict_there_was(tmp_path):
    opposed = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    configuration = wrapped("fedprox", chunk=4, preferences=opposed)
    run = execute(Run.create(tmp_path / "run", configuration))
    rounds = [entry for entry in run.history if entry["round"] <= configuration.rounds]
    assert len(rounds) == configuration.rounds
    for entry in rounds:
        assert set(entry["conflict"]) == {"pairs", "mean", "guided", "unsolved"}
        assert all(0 <= share <= 1 for share in entry["conflict"].values())
    assert any(entry["conflict"]["pairs"] > 0 for entry in rounds)
    plain = tiny(problem="tiny-people", algorithm="fedprox", chunk=4)
    run = execute(Run.create(tmp_path / "plain", plain))
    assert all(entry["conflict"] is None for entry in run.history)


def delivered(configuration) -> Fleet:
    """What all clients are sent after one round."""
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        request, _ = federation.request()
    assert request.models is not None
    return request.models


@pytest.mark.parametrize(
    ("algorithm", "own"),
    [
        ("fedpac", ("head.",)),
        ("fedcp", ("gate.", "upload.")),
        ("fedrep", ()),
        ("fedrod", ()),
        ("ditto", ()),
    ],
)
def test_only_shared_tensors_change_their_rule(algorithm, own):
    """FedPAC's heads and FedCP's gate and head are mixed as without it, bit for bit."""
    values = {"problem": "tiny-answers", "algorithm": algorithm, "rounds": 2}
    plain = delivered(tiny(**values, chunk=4))
    guided = delivered(tiny(**values, wrapper="confree", chunk=4))
    assert set(plain) == set(guided)
    for name in plain:
        if own and name.startswith(own):
            assert torch.equal(plain[name], guided[name]), name
        else:
            assert not torch.equal(plain[name], guided[name]), name
            assert torch.equal(guided[name][0], guided[name][1]), "one for all"


def test_the_servers_step_in_a_run_is_the_formulas():
    """From the common start along the clients' updates, tensor by tensor."""
    values = {"problem": "tiny-answers", "algorithm": "fedavg", "rounds": 2, "chunk": 4}
    configuration = tiny(**values, wrapper="confree")
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        start = federation.initial.clone()
        next(RoundLoop(engine, federation).rounds())
        trained = engine.models(kept=False).clone()
        request, _ = federation.request()
    assert request.models is not None
    for name in request.models:
        updates = (trained[name] - start[name]).flatten(1).double().numpy()
        step = direction(updates @ updates.T, 0.4).weights @ updates / 1.16
        wanted = start[name][0].flatten().numpy() + step
        np.testing.assert_allclose(request.models[name][2].flatten(), wanted, rtol=1e-3, atol=1e-5)


def test_absent_clients_are_sent_the_guided_model_as_well():
    configuration = wrapped("fedavg", participation=0.5, chunk=4)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        assert len(federation.server_models()) == 1
        request, _ = federation.last_request()
    assert request.models is not None
    first = request.models["0.weight"]
    assert torch.equal(first, first[:1].expand_as(first))


def test_two_clients_with_one_output_do_not_stop_a_run():
    """Updates of the last bias are numbers; opposed ones leave no guidance but rounding errors."""
    for seed in range(1, 9):
        configuration = wrapped("fedavg", clients=2, seed=seed)
        with EmbeddedEngine(configuration) as engine:
            list(RoundLoop(engine, Server(configuration)).rounds())
