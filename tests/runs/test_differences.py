"""Differences between entries of a comparison: intervals and tests, computed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from comity.runs.comparison_verdict import comparison_verdict
from comity.runs.differences import correct, difference, gains_of


def run(seed: int, values: list[float | None], preferences: Any = None) -> Any:
    known = [value for value in values if value is not None]
    clients = [
        {"preference": preference, "scalarised": value}
        for value, preference in zip(values, preferences or [[0.5, 0.5]] * len(values), strict=True)
    ]
    metrics = {"mean_scalarised": sum(known) / len(known)} if known else {}
    results = {"metrics": metrics, "per_client": clients}
    return SimpleNamespace(results=results, configuration=SimpleNamespace(seed=seed))


def runs(*values: list[float | None]) -> list[Any]:
    return [run(seed, each) for seed, each in enumerate(values, 1)]


def test_three_seeds_have_students_interval_and_test() -> None:
    ours, theirs = (
        runs([0.6, 0.5], [0.7, 0.8], [0.9, 0.8]),
        runs([0.5, 0.4], [0.5, 0.6], [0.6, 0.5]),
    )
    gain = difference(ours, theirs)
    assert gain is not None
    assert gain["each"] == [0.1, 0.2, 0.3]
    assert gain["mean"] == pytest.approx(0.2)
    assert gain["std"] == pytest.approx(0.081650, abs=1e-6)  # population: sqrt(0.02 / 3)
    # sample std 0.1, standard error 0.057735, t = 3.4641 with two degrees of freedom
    assert gain["p"] == pytest.approx(0.0741799, abs=1e-6)
    assert gain["interval"] == pytest.approx([0.2 - 0.248414, 0.2 + 0.248414], abs=1e-5)
    assert gain["clients"] == {"better": 6, "level": 0, "worse": 0}


def test_one_seed_or_equal_seeds_have_no_test() -> None:
    alone = difference(runs([0.5, 0.7]), runs([0.5, 0.6]))
    assert alone is not None
    assert (alone["std"], alone["interval"], alone["p"]) == (0.0, None, None)
    assert alone["clients"] == {"better": 1, "level": 1, "worse": 0}
    equal = difference(runs([0.6], [0.7]), runs([0.5], [0.6]))
    assert equal is not None
    assert (equal["mean"], equal["interval"], equal["p"]) == (pytest.approx(0.1), None, None)


def test_only_equal_seeds_and_equal_clients_are_paired() -> None:
    gain = difference(runs([0.5], [0.7]), [run(2, [0.6]), run(3, [0.1])])
    assert gain is not None
    assert gain["each"] == [0.1]
    assert difference(runs([0.5]), [run(2, [0.5])]) is None
    assert difference(runs([None]), runs([0.5])) is None
    others = difference(runs([0.5]), [run(1, [0.4], [[1.0, 0.0]])])
    assert others is not None
    assert "clients" not in others
    missing = difference(runs([0.5, None]), runs([0.4, 0.4]))
    assert missing is not None
    assert missing["clients"] == {"better": 1, "level": 0, "worse": 0}


def test_holms_correction_counts_both_sides_of_a_pair_once() -> None:
    def gain(p: float | None) -> Any:
        return {"p": p}

    paired = {
        ("x", "b", "a"): gain(0.01),
        ("x", "a", "b"): gain(0.01),
        ("x", "c", "a"): gain(0.04),
        ("y", "c", "a"): gain(0.03),
        ("x", "d", "a"): gain(None),
    }
    assert correct(paired) == 3
    values = [paired[key]["p_holm"] for key in paired]
    assert values[:4] == pytest.approx([0.03, 0.03, 0.06, 0.06])
    assert values[4] is None


def test_without_a_baseline_the_first_entry_is_one() -> None:
    settings = {name: {"algorithm": name} for name in ("cfl", "ditto", "fedrep")}
    entries = {name: runs([0.5], [0.6]) for name in settings}
    assert "paired" not in gains_of("cfl", settings, entries)
    assert set(gains_of("ditto", settings, entries)["paired"]) == {"cfl"}
    settings["fedavg"], entries["fedavg"] = {"algorithm": "fedavg"}, runs([0.5], [0.6])
    assert set(gains_of("ditto", settings, entries)["paired"]) == {"fedavg"}


# -- the verdict ---------------------------------------------------------------------------


def marks(**counts: int) -> dict[str, int]:
    return {"gained": 0, "level": 0, "below": 0, "constant": 0, "undefined": 0, **counts}


def row(algorithm: str, value: float = 0.95, seeds: int = 3, **others: Any) -> Any:
    return {
        "algorithm": algorithm,
        "preferences": "x",
        "centralised": False,
        "seeds": list(range(seeds)),
        "metrics": {"mean_scalarised": {"mean": value, "std": 0.0}},
        "trivial": {"mean_scalarised": 0.9},
        **others,
    }


def gain(mean: float, each: int = 3, **others: Any) -> Any:
    clients = {"better": 5, "level": 1, "worse": 4}
    values = {"interval": [-0.004, 0.028], "p": 0.1, "p_holm": 0.2, "clients": clients}
    return {"mean": mean, "std": 0.01, "each": [mean] * each, **values, **others}


def test_whether_federating_paid_is_said_with_its_doubt() -> None:
    rows = [
        row("no-communication", marks=marks(gained=10)),
        row("fedpref", marks=marks(gained=6, constant=4), paired={"no-communication": gain(0.012)}),
        row("cfl", 0.8, marks=marks(below=10), paired={"no-communication": gain(-0.15)}),
    ]
    verdict = comparison_verdict(rows, tests=2)
    assert verdict["sentences"] == [
        "Clients that gained over the trivial baseline (each counts once per seed, 3 times): "
        "no-communication 10 of 10, fedpref 6 of 10, cfl 0 of 10.",
        "Clients whose model gives every test sample the same answer: fedpref 4 of 10.",
        "Worse than the trivial baseline on average: cfl.",
        "fedpref: federating paid for 5 of 10 clients against learning alone (1 level, 4 worse "
        "off), mean +0.012, 95 % interval -0.004 to 0.028 over 3 seeds: too few to decide.",
        "cfl: federating paid for 5 of 10 clients against learning alone (1 level, 4 worse off), "
        "mean -0.15, 95 % interval -0.004 to 0.028 over 3 seeds: too few to decide.",
        "Attention: 3 seeds are few; take at least 5 before believing a difference.",
        "2 paired t-tests were made; p after Holm's correction accounts for that.",
    ]
    assert (verdict["seeds"], verdict["tests"], verdict["enough_seeds"]) == (3, 2, False)


def test_one_seed_decides_nothing() -> None:
    sentences = comparison_verdict([row("fedavg", seeds=1)], tests=0)["sentences"]
    last = "Attention: one seed decides nothing; take at least 5 before believing a difference."
    assert sentences[-1] == last


def test_entries_under_several_preferences_are_told_apart() -> None:
    rows = [
        row("fedavg", marks=marks(gained=1), preferences="same"),
        row("fedavg", marks=marks(gained=2), preferences="interior"),
    ]
    first = comparison_verdict(rows, tests=0)["sentences"][0]
    assert first.endswith(": fedavg (same) 1 of 1, fedavg (interior) 2 of 2.")


@pytest.mark.parametrize(
    ("difference", "end"),
    [
        (gain(0.012, 6), "over 6 seeds: not decided."),
        (gain(0.012, 6, p_holm=0.004), "better (p = 0.004 after Holm's correction)."),
        (gain(-0.012, 6, p_holm=0.004), "worse (p = 0.004 after Holm's correction)."),
        (gain(0.012, 6, interval=None, p_holm=None), "mean +0.012, the same in all 6 seeds."),
        (gain(0.012, 1, interval=None, p_holm=None), "mean +0.012; one seed gives no interval."),
    ],
)
def test_five_seeds_can_decide(difference: Any, end: str) -> None:
    seeds = len(difference["each"])
    rows = [
        row("no-communication", seeds=seeds),
        row("fedavg", seeds=seeds, paired={"no-communication": difference}),
    ]
    verdict = comparison_verdict(rows, tests=1)
    assert verdict["sentences"][0].endswith(end)
    assert verdict["enough_seeds"] == (seeds >= 5)
    assert ("Attention" in verdict["sentences"][-1]) == (seeds < 5)


def test_a_comparison_in_which_nobody_learns_alone_says_so() -> None:
    (first, *_) = comparison_verdict([row("fedavg", seeds=5), row("cfl", seeds=5)], 1)["sentences"]
    assert first == (
        "Nobody learns alone here, so whether federating pays is open: add no-communication."
    )
