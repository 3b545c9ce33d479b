"""The laws with links: repeatable, stop anywhere, absent is not wrong, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from comity.algorithms import algorithms
from comity.api import resume
from comity.configuration import planned
from comity.core.storage import load_values
from comity.errors import UserError
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.events import stopping
from tests.laws.conftest import ALGORITHMS, data_of
from tests.laws.test_runs import contents, outcome
from tests.links.plans import always, passes, plan
from tests.tiny import tiny

CONTACTS = plan(
    passes("a/1", (100, 300)),
    passes("a/2", (100, 104), (240, 262), station="ground/h"),
    passes("b/1", (110, 140), station="ground/i"),
    passes("b/2", (270, 290), station="ground/k"),
)
"""Four clients: one nearly always in contact, one twice, one early, one late."""


@pytest.fixture
def contacts(tmp_path) -> str:
    path = tmp_path / "plan.csv"
    path.write_text(CONTACTS.to_csv())
    return str(path)


def linked(contacts: str, **values: Any) -> Any:
    links = {"contacts": contacts, "collect": "count:1", "work": "60s"} | values.pop("links", {})
    return tiny(links=links, **values)


REFUSED = {
    name: "asks clients twice" if cls.surveys else "of all clients in one place"
    for name, cls in algorithms().items()
    if cls.surveys or cls.centralised or cls.ensembles
} | {"fedfomo": "several models to choose from"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_runs_or_is_refused_with_its_sentence(name, contacts, tmp_path):
    values = {"problem": data_of(name), "algorithm": name}
    if name in REFUSED:
        with pytest.raises(UserError, match=REFUSED[name]):
            linked(contacts, **values)
        return
    configuration = linked(contacts, **values)
    table = planned(configuration)
    run = execute(Run.create(tmp_path / "run", configuration))
    assert [tuple(entry["clients"]) for entry in run.history[:-1]] == [
        planned_round.senders for planned_round in table.rounds
    ]
    assert len(table.rounds) == configuration.rounds >= 5
    assert max(table.lags) >= 2  # somebody is late


def models(run: Run) -> list[dict[str, bytes]]:
    loaded = (load_values(run.path / f"models/client-{c}.safetensors")[0] for c in range(4))
    return [{name: array.tobytes() for name, array in model.items()} for model in loaded]


@pytest.mark.parametrize(
    "values",
    [{"algorithm": "fedavg"}, {"algorithm": "cfl"}, {"algorithm": "fedpref", "guard": True}],
)
@pytest.mark.parametrize("problem", ["tiny-treasure", "tiny-people"])
def test_always_in_contact_is_the_plain_run_bit_for_bit(values, problem, tmp_path):
    path = tmp_path / "always.csv"
    path.write_text(always(4).to_csv())
    rules = {"collect": "all", "work": "5h"}
    thin = linked(str(path), problem=problem, **values, links=rules)
    assert thin.rounds == 4
    plain = tiny(problem=problem, **values, rounds=4, names=thin.names)
    runs = [execute(Run.create(tmp_path / name, c)) for name, c in (("t", thin), ("p", plain))]
    assert models(runs[0]) == models(runs[1])
    histories = [
        [{k: v for k, v in e.items() if k not in ("time", "age")} for e in run.history]
        for run in runs
    ]
    assert histories[0] == histories[1]
    assert all(set(entry["age"]) == {0} for entry in runs[0].history[:-1])


def test_whatever_the_number_of_workers(contacts, tmp_path):
    configuration = linked(contacts, algorithm="fedpref", guard=True, encoding="int8")
    one, two = (outcome(tmp_path / str(n), configuration, n) for n in (1, 2))
    assert one == two


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [("fedpref", (2, 5)), pytest.param("fedavg", range(1, 7), marks=pytest.mark.slow)],
)
def test_killed_after_any_round_and_resumed(algorithm, rounds, contacts, tmp_path):
    guard = algorithm == "fedpref"
    configuration = linked(
        contacts, problem="tiny-people", algorithm=algorithm, guard=guard, encoding="int8"
    )
    whole = outcome(tmp_path / "whole", configuration)
    for after in rounds:
        broken = Run.create(tmp_path / f"broken-{after}", configuration)
        with pytest.raises(KeyboardInterrupt):
            execute(broken, notify=stopping(after))
        assert contents(resume(broken.path)) == whole


def test_a_run_goes_on_without_the_file_and_at_another_place(contacts, tmp_path):
    configuration = linked(contacts, algorithm="fedavg")
    whole = outcome(tmp_path / "whole", configuration)
    run = Run.create(tmp_path / "run", configuration)
    (tmp_path / "plan.csv").unlink()
    moved = run.path.rename(tmp_path / "moved")
    assert contents(execute(Run.open(moved))) == whole
    assert (moved / "contacts.csv").read_text() == CONTACTS.to_csv()


def test_no_communication_works_at_the_same_times(contacts, tmp_path):
    alone = linked(contacts, algorithm="no-communication")
    together = linked(contacts, algorithm="fedavg")
    assert planned(alone) == planned(together)
    run = execute(Run.create(tmp_path / "run", alone))
    assert [e["clients"] for e in run.history[:-1]] == [
        list(planned_round.senders) for planned_round in planned(together).rounds
    ]
    assert run.results["links"]["updates"] == sum(planned(together).updates)


def test_an_absence_is_an_update_less(contacts, tmp_path):
    """A lost answer equals never having been asked: the next one starts from a later model."""
    rules = {"collect": "count:2/200s"}
    values: dict[str, Any] = {"algorithm": "fedavg", "encoding": "int8", "links": rules}
    table = planned(linked(contacts, **values))
    number, first = next((n, r) for n, r in enumerate(table.rounds, 1) if len(r.senders) > 1)
    lost = linked(contacts, **values, absences=[(number, first.senders[0], "round")])
    run = execute(Run.create(tmp_path / "lost", lost))
    assert run.results["links"]["updates"] == sum(table.updates) - 1
    assert run.history[number - 1]["clients"] == list(first.senders[1:])
    assert run.history[number - 1]["absent"] == {"round": [first.senders[0]]}


def test_results_and_history_tell_of_links(contacts, tmp_path):
    configuration = linked(
        contacts, problem="tiny-people", algorithm="fedavg", links={"watts": 2.0}
    )
    table = planned(configuration)
    run = execute(Run.create(tmp_path / "run", configuration))
    links = run.results["links"]
    assert links["rounds"] == len(table.rounds) == run.results["rounds"]
    assert links["updates"] == sum(table.updates)
    assert links["updates_per_client"]["most"] == max(table.updates)
    assert links["bytes_up"] == run.results["communication"]["bytes_up"] > 0
    assert links["energy_joules"] == pytest.approx(2 * links["radio_seconds"], abs=0.01)
    assert 0 < links["radio_seconds"] <= table.sending_seconds
    # FedAvg has one model: every mixing in between changes everybody's row
    assert [age for e in run.history[:-1] for age in e["age"]] == list(table.lags)
    assert links["age"] == {
        "mean": pytest.approx(sum(table.lags) / len(table.lags)),
        "most": max(table.lags),
    }
    assert [e["time"] for e in run.history[:-1]] == [r.time / 1000 for r in table.rounds]
    assert links["late_dropped"] == 0


def test_updates_that_are_too_old_are_left_out_and_named(contacts, tmp_path):
    rules = {"oldest": max(planned(linked(contacts, algorithm="fedavg")).lags) - 1}
    configuration = linked(contacts, problem="tiny-people", algorithm="fedavg", links=rules)
    run = execute(Run.create(tmp_path / "run", configuration))
    dropped = [entry for entry in run.history if "dropped" in entry]
    assert run.results["links"]["late_dropped"] == len(dropped) == 1
    (client,), (entry,) = dropped[0]["dropped"], dropped
    text = f"({configuration.names[client]}), round {entry['round']}: its update is "
    assert text in entry["events"][0]
    assert "(links.oldest); left out" in entry["events"][0]
    assert "nothing was mixed" in entry["events"][1]
    assert entry["mixing"] is None


def test_rows_of_fedpref_move_when_their_owner_sends(contacts, tmp_path):
    run = execute(Run.create(tmp_path / "run", linked(contacts, algorithm="fedpref")))
    assert {age for e in run.history[:-1] for age in e["age"]} == {0}
    assert max(planned(run.configuration).lags) >= 2


def test_training_while_waiting_takes_more_steps(contacts, tmp_path):
    counts = {}
    for waiting in ("pause", "train"):
        values = {"problem": "tiny-people", "algorithm": "fedavg"}
        configuration = linked(contacts, **values, links={"waiting": waiting})
        run = execute(Run.create(tmp_path / waiting, configuration))
        counts[waiting] = run.history[-1]["steps"]
        table = planned(configuration)
        local = configuration.learner_settings["local_steps"]
        assert counts[waiting] == [local * work for work in table.work]
        assert configuration.learner_settings["total_steps"] == local * max(table.work)
    assert sum(counts["train"]) > sum(counts["pause"])


def test_only_clients_with_a_contact_left_get_the_last_model(contacts, tmp_path):
    values = {"problem": "tiny-people", "algorithm": "fedavg", "keep": "last"}
    configuration = linked(contacts, **values, links={"collect": "every:140s"})
    table = planned(configuration)
    assert None in table.last
    assert any(last is not None for last in table.last)
    run = execute(Run.create(tmp_path / "run", configuration))
    received = run.history[-1]["received"]
    assert [row[0] is None for row in received] == [last is None for last in table.last]
