"""Timetables by hand: passes, antennas, transfers over several passes, relays, collection rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.errors import UserError
from comity.links.contacts import ContactPlan
from comity.links.limits import Spread, limit
from comity.links.timetable import timetable
from tests.links.plans import always, links, passes, plan, row

UP, DOWN = 10_000, 5_000
"""Bytes of messages: 10 and 5 seconds at the rate of these plans."""


def pieces(table, client, up):
    """Return the booked pieces of a client in one direction, in seconds."""
    return [
        [(p.start / 1000, p.end / 1000) for p in t.pieces]
        for t in table.transfers
        if t.client == client and t.up == up
    ]


def test_two_clients_and_three_passes_of_which_one_is_too_short():
    contacts = plan(
        passes("a/1", (100, 130), (400, 420)),
        passes("a/2", (200, 205), (300, 340)),
    )
    table = timetable(contacts, links(collect="all"), 2, UP, DOWN)
    (only,) = table.rounds
    assert (only.time, only.senders, only.versions, only.work) == (305_000, (0, 1), (0, 0), (1, 1))
    assert pieces(table, 0, True) == [[(100, 110)]]
    assert pieces(table, 1, True) == [[(200, 205), (300, 305)]]  # over two passes
    assert pieces(table, 0, False) == [[(400, 405)]]
    assert pieces(table, 1, False) == [[(305, 310)]]
    assert table.updates == (1, 1)
    assert table.last == (1, 1)
    assert table.silent == ()
    # 10 + 5 + 5 + 5 + 5 of twice 30 + 20 + 5 + 40 seconds
    assert table.use_of_passes == pytest.approx(30 / 190)
    assert table.sending_seconds == 20


def test_an_update_that_cannot_arrive_is_named_with_bytes_and_volume():
    contacts = plan(passes("a/1", (100, 130)), passes("a/2", (200, 205), (300, 304)))
    table = timetable(contacts, links(collect="count:1"), 2, UP, DOWN)
    (silence,) = table.silent
    assert silence.client == 1
    assert "takes 10,000 bytes" in silence.reason
    assert "its 2 contacts to the server after hour 0.0 carry 9,000 bytes" in silence.reason
    assert table.updates == (1, 0)
    assert pieces(table, 1, True) == []  # what cannot arrive takes no time from others


def test_overhead_and_rates_count_on_the_link():
    contacts = plan(
        row("a/1", "ground/g", 100, 104, 4_000),
        row("a/1", "ground/g", 200, 300),
    )
    table = timetable(contacts, links(collect="all", overhead=1.5), 1, UP, DOWN)
    # 120,000 bits: 16,000 in the first contact, 104,000 in 13 s of the second
    assert table.rounds[0].time == 213_000


def test_one_antenna_serves_one_pass_and_the_rest_stays_usable():
    contacts = plan(passes("a/1", (100, 120)), passes("a/2", (105, 125)))
    table = timetable(contacts, links(collect="all"), 2, UP, DOWN)
    assert pieces(table, 0, True) == [[(100, 110)]]
    assert pieces(table, 1, True) == [[(110, 120)]]
    assert table.rounds[0].time == 120_000
    assert table.last == (None, 1)  # the pass of the first is over
    two = timetable(contacts, links(collect="all", antennas=2), 2, UP, DOWN)
    assert pieces(two, 1, True) == [[(105, 115)]]
    assert two.rounds[0].time == 115_000
    assert two.last == (1, 1)


def test_two_stations_are_two_antennas_and_a_client_has_one_radio():
    contacts = plan(
        passes("a/1", (100, 120)),
        passes("a/2", (100, 104)),
        passes("a/2", (102, 120), station="ground/h"),
    )
    table = timetable(contacts, links(collect="all"), 2, UP, DOWN)
    assert pieces(table, 1, True) == [[(102, 112)]]


def test_a_relay_is_used_where_it_is_earlier():
    contacts = plan(
        passes("a/1", (500, 540)),
        passes("b/1", (150, 190)),
        row("a/1", "b/1", 100, 111),
    )
    direct = timetable(contacts, links(collect="count:1"), 2, UP, DOWN)
    assert direct.rounds[-1].time == 510_000
    relayed = timetable(contacts, links(collect="count:1", relays="any"), 2, UP, DOWN)
    (first, *_) = [t for t in relayed.transfers if t.client == 0]
    assert [(p.source, p.target, p.start, p.end) for p in first.pieces] == [
        ("a/1", "b/1", 100_000, 110_000),
        ("b/1", "ground/g", 150_000, 160_000),
    ]
    other = timetable(contacts, links(collect="count:1", relays="same-operator"), 2, UP, DOWN)
    assert other == direct


def test_a_relay_carries_a_message_whole_within_one_contact():
    contacts = plan(
        passes("a/1", (500, 540)),
        passes("a/2", (150, 190)),
        row("a/1", "a/2", 100, 106),
        row("a/1", "a/2", 120, 126),
    )
    table = timetable(contacts, links(collect="count:1", relays="any"), 2, UP, DOWN)
    assert pieces(table, 0, True) == [[(500, 510)]]


def test_a_client_waits_for_the_mixing_of_its_own_update():
    contacts = plan(
        passes("a/1", (100, 1000)),
        passes("a/2", (100, 1000), station="ground/h"),
    )
    table = timetable(contacts, links(collect="every:200s"), 2, UP, DOWN)
    # got at 205, done at 265, there at 275: in the mixing at 400, though 140 s were left to train
    assert [r.time for r in table.rounds] == [200_000, 400_000, 600_000, 800_000, 1_000_000]
    assert all(r.senders == (0, 1) for r in table.rounds)
    assert [r.versions for r in table.rounds] == [(v, v) for v in range(5)]
    assert table.last == (None, None)


def test_an_update_counts_the_mixings_that_it_missed():
    contacts = plan(
        passes("a/1", (100, 1000)),
        passes("a/2", (100, 110), (300, 306), (900, 950), station="ground/h"),
    )
    table = timetable(contacts, links(collect="count:1"), 2, UP, DOWN)
    late = [(n, r) for n, r in enumerate(table.rounds, 1) if r.senders == (1,)]
    # mixed at 110 together with nobody; model loaded at 300, trained, sent at 900
    (_, first), (number, second) = late
    assert first.time == 110_000
    before = sum(r.time <= 300_000 for r in table.rounds)
    assert second.versions == (before,)
    assert second.time == 910_000
    assert table.lags[number - 1] == number - 1 - before > 5


def test_the_newest_model_at_the_time_of_the_pass_is_delivered():
    contacts = plan(
        passes("a/1", (100, 300)),
        passes("a/2", (100, 110), (250, 306), station="ground/h"),
    )
    table = timetable(contacts, links(collect="count:1"), 2, UP, DOWN)
    made = sum(r.time <= 250_000 for r in table.rounds)
    assert made > 2
    assert table.deliveries[1][0].version == made


def test_some_are_mixed_after_the_duration():
    contacts = plan(passes("a/1", (100, 2000)), passes("a/2", (1500, 2000), station="ground/h"))
    forever = timetable(contacts, links(collect="count:2"), 2, UP, DOWN)
    assert forever.rounds[0].time == 1_510_000
    patient = timetable(contacts, links(collect="count:2/300s"), 2, UP, DOWN)
    # first there at 110, mixed at 410; got at 415, done at 475, there at 485, mixed at 785 …
    assert [(r.time, r.senders) for r in patient.rounds][:2] == [(410_000, (0,)), (785_000, (0,))]


def test_what_has_arrived_when_the_plan_ends_is_mixed_then():
    contacts = plan(passes("a/1", (100, 150)), passes("a/2", (100, 150), station="ground/h"))
    for rule in ("every:6h", "count:2/12h"):
        one = plan(passes("a/1", (100, 150)), passes("a/2", (10, 50), station="ground/h"))
        table = timetable(one, links(collect=rule), 2, UP, DOWN)
        assert [(r.time, r.senders) for r in table.rounds] == [(150_000, (0,))]
    assert timetable(contacts, links(collect="every:6h"), 2, UP, DOWN).rounds[0].senders == (0, 1)


def test_the_first_model_may_have_to_be_sent():
    contacts = plan(passes("a/1", (10, 30), (200, 220)))
    table = timetable(contacts, links(collect="all", start="sent"), 1, UP, DOWN)
    assert pieces(table, 0, False)[0] == [(10, 15)]
    assert table.rounds[0].time == 210_000
    assert table.deliveries[0][0].version == 0
    lost = timetable(contacts, links(collect="all", start="sent"), 1, UP, 100_000)
    assert lost.rounds == ()
    assert "its first model takes 100,000 bytes" in lost.silent[0].reason


def test_training_while_waiting_counts_whole_rounds_of_work_and_five_at_most():
    contacts = plan(passes("a/1", (250, 270), (10_000, 10_020)))
    table = timetable(contacts, links(collect="all", waiting="train"), 1, UP, DOWN)
    # done at 60, sent at 250: 3 more whole minutes. Got at 265, done at 325, sent at 10,000: 5
    assert [r.work for r in table.rounds] == [(4,), (5,)]
    assert table.work == (9,)
    assert timetable(contacts, links(collect="all"), 1, UP, DOWN).work == (2,)


def test_ties_are_broken_by_the_number_of_the_client():
    stations = [f"ground/{letter}" for letter in "xyz"]
    contacts = plan(
        *(passes(f"a/{n}", (100, 200), station=stations[n]) for n in range(3)),
    )
    table = timetable(contacts, links(collect="count:2"), 3, UP, DOWN)
    assert table.rounds[0].senders == (0, 1)


def test_the_order_of_rows_changes_nothing():
    contacts = plan(
        passes("a/1", (100, 1000)),
        passes("a/2", (100, 111), (300, 306), (900, 950)),
        passes("b/1", (100, 1000)),
        row("a/2", "b/1", 400, 500),
    )
    setting = links(collect="count:2", relays="any")
    table = timetable(contacts, setting, 3, UP, DOWN)
    rows = list(contacts.contacts)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert timetable(ContactPlan.of(rows), setting, 3, UP, DOWN) == table


SPANS = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 400)), min_size=1, max_size=12).map(
    lambda spans: [
        (start + 4000 * number, start + length + 4000 * number)
        for number, (start, length) in enumerate(spans)
    ]
)


@settings(max_examples=60, deadline=None)
@given(SPANS, st.integers(0, 200_000), st.integers(0, 200_000), st.integers(0, 200_000))
def test_for_one_client_more_bytes_never_give_more_updates(spans, up, down, more):
    contacts, setting = plan(passes("a/1", *spans)), links(collect="all")
    before = timetable(contacts, setting, 1, up, down)
    assert sum(timetable(contacts, setting, 1, up + more, down).updates) <= sum(before.updates)
    assert sum(timetable(contacts, setting, 1, up, down + more).updates) <= sum(before.updates)


RANDOM_PASSES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 20), st.integers(20, 90)),
    min_size=4,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(RANDOM_PASSES, st.integers(1, 2), st.sampled_from(["all", "count:2/600s", "every:500s"]))
def test_nothing_is_booked_twice_and_every_message_is_carried_whole(chosen, antennas, rule):
    taken, contacts = set(), [passes(f"a/{n}", (0, 30)) for n in range(4)]
    for client, station, slot, length in chosen:
        if (client, station, slot) not in taken:
            taken.add((client, station, slot))
            span = (100 + 100 * slot, 100 + 100 * slot + length)
            contacts.append(passes(f"a/{client}", span, station=f"ground/{station}"))
    table = timetable(plan(*contacts), links(collect=rule, antennas=antennas), 4, UP, DOWN)
    every = [p for t in table.transfers for p in t.pieces]
    for transfer in table.transfers:
        assert sum(p.end - p.start for p in transfer.pieces) == (10_000 if transfer.up else 5_000)
        assert transfer.pieces[0].start >= transfer.ready
    for piece in every:
        inside = [
            c
            for c in table.plan.contacts
            if (c.source, c.target) == (piece.source, piece.target)
            and c.start <= piece.start
            and piece.end <= c.end
        ]
        assert inside
    for moment in {p.start for p in every}:
        now = [p for p in every if p.start <= moment < p.end]
        assert len({(p.source, p.target) for p in now}) == len(now)
        for node in {n for p in now for n in (p.source, p.target)}:
            ends = [{p.source, p.target} for p in now]
            partners = {(pair - {node}).pop() for pair in ends if node in pair}
            assert len(partners) <= (antennas if node.startswith("ground") else 1)
    for planned in table.rounds:
        assert len(set(planned.senders)) == len(planned.senders)


def test_what_limits_is_found_by_messages_of_no_size():
    small = timetable(always(3), links(collect="all", work="6h"), 3, UP, DOWN)
    assert len(small.rounds) == 3  # 6, 12 and 18 hours; the fourth would end after the plan
    verdict = limit(small, links(collect="all", work="6h"))
    assert not verdict.bytes
    assert str(verdict) == (
        "contacts are the limit: messages of no size would give the same 9 updates"
    )
    setting = links(collect="all", work="60s")
    slow = timetable(plan(passes("a/1", (0, 2000))), setting, 1, 500_000, 500_000)
    assert sum(slow.updates) == 2  # there at 560 and 1,620
    verdict = limit(slow, setting)
    assert verdict.bytes
    assert verdict.free_updates == 33
    assert str(verdict).startswith("bytes are the limit: messages of no size would give 33")


def test_plans_that_do_not_fit_are_refused():
    contacts = plan(passes("a/1", (0, 10)), passes("a/2", (0, 10)))
    with pytest.raises(UserError, match=r"clients = 3, but the contact plan has 2 .*a/1, a/2"):
        timetable(contacts, links(), 3, UP, DOWN)
    with pytest.raises(UserError, match=r"links.server = 'meo/\*' matches none"):
        timetable(contacts, links(server="meo/*"), 3, UP, DOWN)
    with pytest.raises(UserError, match="needs 5 updates of 2 clients"):
        timetable(contacts, links(collect="count:5"), 2, UP, DOWN)


def test_spread():
    assert Spread.of((1, 5, 2, 8)) == Spread(1, 3.5, 8)
