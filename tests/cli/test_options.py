"""Options of the command line: in step with the settings' declarations, and parsed."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from comity.cli.options import (
    LINKS,
    PASSES,
    RUN,
    SEARCH,
    SEARCH_FEDERATION,
    TUNE,
    Workforce,
    preference_of,
    seeds_of,
    with_links,
    with_settings,
    workers_of,
)
from comity.configuration import Configuration
from comity.errors import UserError
from comity.links.orbits import Passes
from comity.links.settings import Links
from comity.searches import SearchSettings
from comity.tuning import TuningSettings


@pytest.mark.parametrize(
    ("table", "settings"),
    [
        (RUN, Configuration),
        (SEARCH, SearchSettings),
        (SEARCH_FEDERATION, Configuration),
        (TUNE, TuningSettings),
        (LINKS, Links),
        (PASSES, Passes),
    ],
)
def test_every_option_is_a_setting_of_the_same_type(table, settings):
    for name, option in table.items():
        declared = settings.model_fields[name].annotation
        values = [type(value) for value in get_args(declared) if not isinstance(value, type)]
        assert option.type in (declared, *get_args(declared), *values), name
        assert option.help.endswith(".")


def test_a_command_gets_the_settings_that_were_given():
    seen: dict[str, Any] = {}

    @with_settings({name: RUN[name] for name in ("clients", "guard")})
    def command(*, problem: str = "p", values: dict[str, Any], out: str = "o") -> None:
        """Do it."""
        seen.update(values, problem=problem, out=out)

    assert list(inspect.signature(command).parameters) == ["problem", "clients", "guard", "out"]
    assert set(get_type_hints(command)) == {"problem", "clients", "guard", "out"}
    command(problem="q", clients=None, guard=False, out="o")
    assert seen == {"guard": False, "problem": "q", "out": "o"}


def test_options_of_links_go_into_their_table():
    given = {"contacts": "a.csv", "collect": "all", "clients": 3}
    file = {"links": {"relays": "any", "collect": "every:6h"}, "seed": 2}
    merged = with_links(file, given)
    assert merged == {"links": {"relays": "any", "collect": "all", "contacts": "a.csv"}, "seed": 2}
    assert given == {"clients": 3}
    assert with_links({"seed": 2}, {"clients": 3}) == {"seed": 2}
    with pytest.raises(UserError, match="name a contact plan with --links"):
        with_links({}, {"collect": "all"})


def test_seeds_are_a_number_or_a_list():
    assert seeds_of("5") == 5
    assert seeds_of("11,17") == [11, 17]
    assert seeds_of("7,") == [7]
    for text in ("0", "x", "", "-1", "1,-2"):
        with pytest.raises(UserError, match="--seeds"):
            seeds_of(text)


def test_workers_are_at_most_the_useful_ones(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 2, 3}, raising=False)
    assert workers_of(Workforce(7), 2) == 7
    assert workers_of(Workforce(None), 0.4) == 1
    assert workers_of(Workforce(None), 2) == 2
    assert workers_of(Workforce(None)) == 3
    assert workers_of(Workforce(None, "local:2")) is None, "a cluster has its own"


def test_a_preference_is_a_list_of_numbers():
    assert preference_of(None) is None
    assert preference_of("0.7,0.3") == [0.7, 0.3]
    with pytest.raises(UserError, match="one number per objective"):
        preference_of("0.7;0.3")
