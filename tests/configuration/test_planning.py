"""Configurations whose rounds a contact plan decides."""

from __future__ import annotations

import tomllib

import pytest

from comity.configuration import configure, planned, planned_sizes, read_toml
from comity.errors import UserError
from comity.runs.directory import Run
from comity.searches import configure_search
from tests.links.plans import always, passes, plan
from tests.tiny import tiny

CONTACTS = plan(
    passes("a/1", (100, 420)),
    passes("a/2", (100, 104), (300, 380), station="ground/h"),
    passes("b/1", (110, 240), station="ground/i"),
    passes("b/2", (350, 420), station="ground/k"),
)


@pytest.fixture
def contacts(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text(CONTACTS.to_csv())
    return path


def linked(contacts, **values):
    rules = {"contacts": str(contacts), "collect": "count:1", "work": "60s"}
    return tiny(links={**rules, **values.pop("links", {})}, **values)


def test_the_plan_decides_rounds_clients_names_and_steps(contacts):
    links = {"contacts": str(contacts), "collect": "count:1", "work": "60s"}
    values = {"problem": "tiny-people", "algorithm": "fedavg", "links": links}
    configuration = configure(values)
    table = planned(configuration)
    assert configuration.clients == 4
    assert configuration.names == ["a/1", "a/2", "b/1", "b/2"]
    assert configuration.rounds == len(table.rounds)
    local = configuration.learner_settings["local_steps"]
    assert configuration.learner_settings["total_steps"] == local * max(table.updates)
    assert max(table.updates) < len(table.rounds)
    assert configuration.links.sha256 == CONTACTS.sha256


def test_a_short_form_names_the_plan_only(contacts):
    with pytest.raises(UserError, match="the contact plan has no round"):
        tiny(links=str(contacts))  # an hour's work is longer than this plan


def test_steps_that_the_user_sets_stay(contacts):
    configuration = linked(contacts, algorithm="fedavg", dqn={"total_steps": 999})
    assert configuration.learner_settings["total_steps"] == 999


def test_the_file_of_a_run_gives_the_same_configuration(contacts, tmp_path):
    configuration = linked(contacts, algorithm="fedavg")
    run = Run.create(tmp_path / "run", configuration)
    written = tomllib.loads((run.path / "config.toml").read_text())
    assert "rounds" not in written
    assert written["links"]["contacts"] == "contacts.csv"
    again = configure(read_toml(run.path / "config.toml"))
    own = again.links.model_copy(update={"contacts": configuration.links.contacts})
    assert again.model_copy(update={"links": own}) == configuration
    assert run.configuration == again
    assert run.training_configuration == again


def test_a_plan_that_has_changed_is_refused(contacts, tmp_path):
    run = Run.create(tmp_path / "run", linked(contacts, algorithm="fedavg"))
    kept = run.path / "contacts.csv"
    kept.write_text("\n".join(kept.read_text().splitlines()[:-1]))
    with pytest.raises(UserError, match="has changed since this configuration was made"):
        _ = run.configuration


def test_without_links_files_are_as_before():
    text = tiny(algorithm="fedavg", rounds=2).to_toml()
    assert "links" not in tomllib.loads(text)
    assert tomllib.loads(text)["rounds"] == 2


def test_encodings_change_the_sizes_that_are_planned(contacts):
    sizes = {}
    for encoding in ("none", "int8"):
        configuration = linked(contacts, problem="deep-sea-treasure", encoding=encoding)
        sizes[encoding] = planned_sizes(configuration)
    assert sizes["none"][0] > 3.9 * sizes["int8"][0]
    assert sizes["int8"][0] % 1000 == 0
    alone = linked(contacts, problem="deep-sea-treasure", algorithm="no-communication")
    assert planned_sizes(alone) == sizes["none"]


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"rounds": 3}, "the contact plan decides; shorten it with links.days"),
        ({"participation": 0.5}, "participation = 0.5 means nothing with links"),
        ({"keep_scope": "federation"}, "keep_scope = federation chooses one round"),
        ({"fine_tune": "replace-last"}, "fine_tune = replace-last means nothing with links"),
        ({"clients": 5}, "clients = 5, but the contact plan has 4"),
        ({"links": {"work": "2h"}}, "a/1: its update takes .* bytes on the link; its 0 contacts"),
        ({"links": {"collect": "count:9"}}, "needs 9 updates of 4 clients"),
        ({"links": {"relay": "any"}}, "unknown setting of links 'relay'. Did you mean 'relays'"),
        ({"links": {"work": "soon"}}, "links.work = 'soon': 'soon' is not a duration"),
        ({"links": {"contacts": "none.csv"}}, "contact plan .*none.csv cannot be read"),
        ({"links": {"contacts": ""}}, "links.contacts is missing"),
        ({"links": {"sha256": "00"}}, "has changed"),
    ],
)
def test_what_does_not_fit_is_refused(contacts, values, part):
    with pytest.raises(UserError, match=part):
        linked(contacts, algorithm="fedavg", **values)


def test_links_must_be_a_table():
    with pytest.raises(UserError, match="links = 3: must be a table"):
        tiny(links=3)


def test_a_default_that_links_exclude_is_turned_off(contacts):
    configuration = linked(contacts, problem="tiny-people", algorithm="praffl")
    assert configuration.keep_scope == "client"
    assert configuration.participation == 1.0


def test_searches_have_no_links(contacts):
    with pytest.raises(UserError, match="links mean nothing in a search"):
        configure_search({"problem": "deep-sea-treasure", "links": str(contacts)})


def test_a_shorter_plan_has_fewer_rounds(tmp_path):
    path = tmp_path / "always.csv"
    path.write_text(always(4, days=2).to_csv())
    rules = {"collect": "all", "work": "5h"}
    assert linked(path, algorithm="fedavg", links=rules).rounds == 9
    assert linked(path, algorithm="fedavg", links={**rules, "days": 1.0}).rounds == 4
