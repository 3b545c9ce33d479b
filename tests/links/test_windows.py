"""Who hears whom without a server, by hand."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from comity.links.windows import heard
from tests.links.plans import links, passes, plan, row

SIZE = 10_000
"""Bytes of a message: 10 seconds."""


def test_messages_that_arrive_whole_within_a_window_are_heard():
    contacts = plan(
        row("a/1", "a/2", 100, 110),  # exactly one message
        row("a/2", "a/1", 100, 109),  # a second too short
        row("a/3", "a/1", 591, 605),  # over the end of the window
        row("a/1", "a/3", 700, 705),  # in two contacts of the second window
        row("a/1", "a/3", 800, 805),
        row("a/2", "a/3", 1250, 1259),  # never whole: third window is left out
    )
    windows = heard(contacts, links(collect="every:600s"), 3, SIZE)
    assert [window.time for window in windows] == [600_000, 1_200_000]
    assert windows[0].heard == (frozenset(), frozenset({0}), frozenset())
    assert windows[1].heard == (frozenset(), frozenset(), frozenset({0}))


def test_a_client_works_first_and_serves_one_partner_at_a_time():
    contacts = plan(
        row("a/1", "a/2", 0, 70),  # 10 s are left after a minute's work
        row("a/1", "a/3", 55, 75),  # 5 s are left after that
        row("a/2", "a/3", 70, 80),
    )
    (window,) = heard(contacts, links(collect="every:600s"), 3, SIZE)
    assert window.heard == (frozenset(), frozenset({0}), frozenset({1}))


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"collect": "all"}, "clients mix by the clock"),
        ({"collect": "every:60s"}, "leaves no time to send"),
        ({"collect": "count:3"}, "needs 3 updates of 2 clients"),
    ],
)
def test_rules_that_do_not_fit_are_refused(values, part):
    with pytest.raises(UserError, match=part):
        heard(plan(row("a/1", "a/2", 0, 70)), links(**values), 2, SIZE)


def test_a_plan_without_contacts_between_clients_is_refused():
    contacts = plan(passes("a/1", (0, 10)), passes("a/2", (0, 10)))
    with pytest.raises(UserError, match="no contact from client to client"):
        heard(contacts, links(collect="every:1h"), 2, SIZE)
