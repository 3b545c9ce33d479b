"""Ranges, and the combination that most members accept as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.configuration import negotiation
from comity.configuration.charter import _PLACES
from comity.configuration.negotiation import (
    FIELDS,
    Interval,
    Range,
    Values,
    agree,
    common,
    conflicts,
    parse_ranges,
    read_ranges,
)
from comity.configuration.terms import MemberTerms, accepted, range_faults
from comity.errors import UserError

OFFER: dict[str, Range] = {
    "steps": Interval(10, 100),
    "guard": Values((False, True)),
    "encoding": Values(("exact", "int8", "int4")),
    "patience": Interval(60, 600),
}
OFFERED = {"steps": 50, "guard": False, "encoding": "exact", "patience": 300}


def interval(least: int, most: int) -> st.SearchStrategy[Range]:
    ends = st.tuples(st.integers(least, most), st.integers(least, most))
    return ends.map(lambda pair: Interval(min(pair), max(pair)))


def some(range: Values) -> st.SearchStrategy[Range]:
    chosen = st.sets(st.sampled_from(range.named), min_size=1)
    return chosen.map(lambda kept: Values(tuple(v for v in range.named if v in kept)))


ANSWER = st.fixed_dictionaries(
    {
        "steps": interval(10, 100),
        "guard": some(OFFER["guard"]),  # type: ignore[arg-type]
        "encoding": some(OFFER["encoding"]),  # type: ignore[arg-type]
        "patience": interval(60, 600),
    }
)
ANSWERS = st.dictionaries(st.sampled_from("abcdef"), ANSWER, min_size=1, max_size=6)


def compatible(answers: list[Mapping[str, Range]]) -> bool:
    """Return whether some values are accepted by all, each field by brute force."""
    for field in OFFER:
        ranges = [answer[field] for answer in answers]
        if isinstance(OFFER[field], Interval):
            if max(r.named[0] for r in ranges) > min(r.named[-1] for r in ranges):  # type: ignore[type-var]
                return False
        elif not set.intersection(*(set(r.named) for r in ranges)):
            return False
    return True


@given(ANSWERS)
def test_values_lie_in_the_offer_and_in_the_answers_of_all_members(answers):
    outcome = agree(OFFERED, OFFER, answers)
    for field, value in outcome.values.items():
        assert value in OFFER[field]
        assert all(value in answers[name][field] for name in outcome.members)
    assert set(outcome.members) | set(outcome.left_out) == set(answers)
    for name, fields in outcome.left_out.items():
        assert fields
        assert all(outcome.values[field] not in answers[name][field] for field in fields)


@given(ANSWERS)
def test_no_larger_set_of_members_has_anything_in_common(answers):
    members = len(agree(OFFERED, OFFER, answers).members)
    for size in range(members + 1, len(answers) + 1):
        for names in combinations(answers, size):
            assert not compatible([answers[name] for name in names])


@given(ANSWERS, st.randoms(use_true_random=False))
def test_the_order_of_answers_changes_nothing(answers, random):
    names = list(answers)
    random.shuffle(names)
    assert agree(OFFERED, OFFER, {n: answers[n] for n in names}) == agree(OFFERED, OFFER, answers)


@given(ANSWERS)
@settings(max_examples=30)
def test_of_equal_sets_the_earliest_values_win(answers):
    """Against all combinations, in the offer's order: the first of the largest sets."""

    def candidates(field: str) -> list[object]:
        if isinstance(OFFER[field], Values):
            return list(OFFER[field].named)
        named = {v for answer in answers.values() for v in answer[field].named}
        return sorted(
            {OFFERED[field], *named},
            key=lambda v: (abs(v - OFFERED[field]), v),  # type: ignore[operator]
        )

    best: tuple[int, tuple[object, ...]] = (-1, ())
    for steps in candidates("steps"):
        for guard in candidates("guard"):
            for encoding in candidates("encoding"):
                for patience in candidates("patience"):
                    chosen = dict(zip(OFFER, (steps, guard, encoding, patience), strict=True))
                    count = sum(
                        all(chosen[f] in answer[f] for f in OFFER) for answer in answers.values()
                    )
                    if count > best[0]:
                        best = count, tuple(chosen.values())
    outcome = agree(OFFERED, OFFER, answers)
    assert (len(outcome.members), tuple(outcome.values.values())) == best


TERMS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.fixed_dictionaries(
        {},
        optional={
            "steps": interval(1, 150),
            "guard": some(Values((True, False))),
            "encoding": some(Values(("none", "int8", "exact"))),
            "patience": interval(1, 900),
        },
    ),
    min_size=1,
    max_size=6,
)


@given(TERMS)
def test_agreed_values_lie_in_the_terms_of_all_members(ranges):
    terms = {
        name: MemberTerms(accepts={field: range.plain() for field, range in own.items()})
        for name, own in ranges.items()
    }
    answers = {name: accepted(own, OFFER) for name, own in terms.items()}
    willing = {n: answer for n, answer in answers.items() if None not in answer.values()}
    outcome = agree(OFFERED, OFFER, willing)  # type: ignore[arg-type]
    for name in outcome.members:
        assert range_faults(terms[name], outcome.values) == []
    for name in outcome.left_out:
        assert range_faults(terms[name], outcome.values)


def test_deciding_field_by_field_would_fail_where_the_whole_succeeds():
    """By fields alone: guard false (a, b), then exact (a, c): only a is left, below a quorum of 2.

    As a whole, b and c agree on guard true and int8.
    """
    offer: dict[str, Range] = {
        "guard": Values((False, True)), "encoding": Values(("exact", "int8"))
    }  # fmt: skip
    answers: dict[str, dict[str, Range]] = {
        "a": {"guard": Values((False,)), "encoding": Values(("exact",))},
        "b": {"guard": Values((False, True)), "encoding": Values(("int8",))},
        "c": {"guard": Values((True,)), "encoding": Values(("exact", "int8"))},
    }
    by_field = [n for n, a in answers.items() if False in a["guard"] and "exact" in a["encoding"]]
    assert by_field == ["a"]
    outcome = agree({"guard": False, "encoding": "exact"}, offer, answers)
    assert outcome.values == {"guard": True, "encoding": "int8"}
    assert outcome.members == ("b", "c")
    assert outcome.left_out == {"a": ("guard", "encoding")}


def test_of_an_interval_the_offered_value_wins_or_the_end_nearest_to_it():
    offer: dict[str, Range] = {"steps": Interval(10, 100)}
    for ends, expected in {
        (40, 60): 50, (70, 90): 70, (10, 20): 20, (45, 45): 45
    }.items():  # fmt: skip
        outcome = agree({"steps": 50}, offer, {"a": {"steps": Interval(*ends)}})
        assert outcome.values == {"steps": expected}
    both = {"a": {"steps": Interval(10, 40)}, "b": {"steps": Interval(60, 90)}}
    assert agree({"steps": 50}, offer, both).values == {"steps": 40}  # of two as near, the lower


def test_thirty_members_with_two_intervals_need_few_steps(monkeypatch):
    """30 members name 60 ends per interval; the search visits a small part of all combinations."""
    answers = {
        f"m{n:02}": {
            "steps": Interval(10 + n, 60 + n), "patience": Interval(60 + 7 * n, 200 + 9 * n),
            "guard": Values((n % 3 == 0, n % 3 != 0)), "encoding": Values(("exact", "int8")),
        }
        for n in range(30)
    }  # fmt: skip
    sizes: list[int] = []
    plain = negotiation._choices

    def counted(*arguments):
        choices = plain(*arguments)
        sizes.append(len(choices))
        return choices

    monkeypatch.setattr(negotiation, "_choices", counted)
    outcome = agree(OFFERED, OFFER, answers)
    assert prod(sizes) < 10_000  # of 61 * 61 * 2 * 3
    assert len(outcome.members) == max(
        sum(s in a["steps"] and p in a["patience"] for a in answers.values())
        for s in range(10, 101)
        for p in range(60, 601)
    )


def test_conflicts_name_the_field_and_both_members():
    answers: dict[str, dict[str, Range]] = {
        "a": {"steps": Interval(1, 5), "guard": Values((True,))},
        "b": {"steps": Interval(6, 9), "guard": Values((True, False))},
        "c": {"steps": Interval(4, 8), "guard": Values((False,))},
    }
    assert list(conflicts(answers)) == [("steps", "a", "b"), ("guard", "a", "c")]


def test_the_common_part_keeps_the_order_of_the_offer():
    assert common(Values(("a", "b", "c")), Values(("c", "a"))) == Values(("a", "c"))
    assert common(Interval(1, 5), Values((9, 4, 2))) == Values((4, 2))
    assert common(Values((9, 4, 2)), Interval(1, 5)) == Values((4, 2))
    assert common(Interval(1, 5), Interval(5, 9)) == Interval(5, 5)
    assert common(Interval(1, 4), Interval(5, 9)) is None
    assert common(Values((True,)), Values((False,))) is None


FAULTS = {
    "an unknown field": {"step": 5},
    "a word as a number": {"steps": "many"},
    "true as a number": {"steps": True},
    "a fraction of a step": {"steps": 2.5},
    "not a number": {"patience": float("nan")},
    "without end": {"patience": float("inf")},
    "below zero": {"patience": -1},
    "ends in the wrong order": {"steps": {"from": 5, "to": 2}},
    "one end": {"steps": {"from": 5}},
    "an interval of flags": {"guard": {"from": False, "to": True}},
    "no value": {"guard": []},
    "too many values": {"encoding": [str(n) for n in range(101)]},
    "a list in a list": {"guard": [[True]]},
    "an unprintable name": {"encoding": "a\nb"},
}


@pytest.mark.parametrize("table", FAULTS.values(), ids=FAULTS)
def test_a_fault_in_a_range_names_the_field(table):
    (field,) = table
    with pytest.raises(UserError, match=field):
        read_ranges(table, "accepts")


def test_ranges_are_read_as_they_are_written():
    table = {"steps": {"from": 5, "to": 9}, "guard": [True, False], "encoding": "int8"}
    ranges = read_ranges(table, "accepts")
    assert ranges == {
        "steps": Interval(5, 9), "guard": Values((True, False)), "encoding": Values(("int8",))
    }  # fmt: skip
    assert [str(r) for r in ranges.values()] == ["5 to 9", "true or false", "int8"]
    assert read_ranges({f: r.plain() for f, r in ranges.items()}, "accepts") == ranges


def test_ranges_of_the_command_line():
    texts = ["steps=50..200", "guard=false,true", "encoding=exact,int8", "patience=60.5..90"]
    assert parse_ranges(texts) == {
        "steps": {"from": 50, "to": 200},
        "guard": [False, True],
        "encoding": ["exact", "int8"],
        "patience": {"from": 60.5, "to": 90},
    }
    for text in ("steps", "steps=", "=5"):
        with pytest.raises(UserError, match=r"--negotiate|field of"):
            read_ranges(parse_ranges([text]), "negotiable")


def test_every_field_has_a_place_in_the_file():
    assert set(_PLACES) == set(FIELDS)
