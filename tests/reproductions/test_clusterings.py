"""Clusters by round: hand-made histories, and short runs through the command line."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import comity
from comity.errors import UserError
from comity.reproductions.clusterings import SHARED, TABLES, by_round, needs, plan

TINY = [
    *("--set", "rounds=5", "--set", "dqn.local_steps=16", "--set", "dqn.learning_starts=8"),
    *("--set", "dqn.batch_size=8", "--workers", 1, "--out", "r"),
]
GROUPS = [[0.2, 0.8], [0.2, 0.8], [0.9, 0.1], [0.9, 0.1]]


def made(*partitions, preferences=GROUPS):
    """A run with these clusters after its rounds, and an entry for the last delivery."""
    history = [{"clusters": clusters} for clusters in (*partitions, partitions[-1])]
    configuration = SimpleNamespace(
        clients=4, rounds=len(partitions), get_preferences=lambda: np.array(preferences)
    )
    return SimpleNamespace(history=history, configuration=configuration)


def test_sizes_and_agreement_of_each_seed_by_round():
    """The Rand index by hand: 6 pairs of 4 clients, 2 of them of equal preferences."""
    whole, groups, crossed = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    rounds = by_round([made(whole, groups, None), made(whole, crossed, [[0], [2], [1, 3]])])
    assert [entry["round"] for entry in rounds] == [1, 2, 3]
    assert [entry["sizes"] for entry in rounds] == [
        [[4], [4]],
        [[2, 2], [2, 2]],
        [[2, 2], [2, 1, 1]],  # a round without mixing leaves clusters as they were
    ]
    # crossed: (0 - 2·2/6) / (2 - 2·2/6); one pair, crossed: (0 - 1·2/6) / (3/2 - 1·2/6)
    expected = [[0, 0], [1, -0.5], [1, -2 / 7]]
    assert [entry["adjusted_rand"] for entry in rounds] == [pytest.approx(e) for e in expected]


def test_there_is_no_agreement_where_all_preferences_differ():
    different = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]
    (entry,) = by_round([made([[0, 1, 2, 3]], preferences=different)])
    assert entry == {"round": 1, "sizes": [[4]]}


def test_preferences_decide_the_number_of_clients():
    plans = plan("thesis-4.3.5", only="halfcheetah").plans
    assert {name: (p["clients"], p["preferences"]) for name, p in plans.items()} == {
        "shared-3-3-3": (9, ["shared:3,3,3"]),
        "shared-1-4-3-2": (10, ["shared:1,4,3,2"]),
    }
    plans = plan("thesis-4.3.5").plans
    assert [p["clients"] for p in plans.values()] == [20, 20]
    assert {p["keep"] for p in plans.values()} == {"last"}
    assert SHARED["lunar-lander"] == ("shared:5,5,5,5", "shared:2,3,6,9")
    ((name, values),) = plan("thesis-A.12").plans.items()
    assert (name, values["algorithms"], "clients" in values) == ("dirichlet", ["cfl"], False)


def test_the_cost_is_that_of_the_plan():
    # 2 rows, 2 kinds of preferences, 3 seeds
    assert needs("thesis-4.3.5").hours["deep-sea-treasure"] == pytest.approx(12 * 0.028)
    assert needs("thesis-A.12").hours["lunar-lander"] == pytest.approx(3 * 0.86)
    for about in TABLES.values():
        assert about.findings.keys() == needs("thesis-A.12").hours.keys()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"only": "adult-gender-dp"}, "problem of this table"),
        ({"rows": ["fedavg"]}, r"fedavg forms none\. Valid: cfl, fedpref"),
        ({"rows": ["fedpref[clusters"]}, "is not NAME"),
        ({"preferences": ["dirichlet"]}, "needs groups with equal preferences, not 'dirichlet'"),
        ({"preferences": ["shared:3,x"]}, "not 'shared:3,x'"),
        ({"clients": 5}, r"clients: shared:5,5,5,5 has 20 clients; leave it out"),
    ],
)
def test_what_shows_no_groups_or_clusters_is_refused(values, words):
    with pytest.raises(UserError, match=words):
        plan("thesis-4.3.5", **values)


def test_other_distributions_of_figure_a_12():
    assert list(plan("thesis-A.12", preferences=["gaussian"]).plans) == ["gaussian"]
    with pytest.raises(UserError, match="distribution of this table"):
        plan("thesis-A.12", preferences=["shared:2,2"])


def test_clusters_that_always_stall_end_as_single_clients(call):
    """A huge threshold splits every cluster as soon as patience allows; none never does."""
    entries = ["fedpref[threshold=1000,patience=1]", "fedpref[threshold=0]"]
    arguments = ["reproduce", "thesis-4.3.5", "--preferences", "shared:2,2", "--seeds", 2, *TINY]
    said = call(*arguments, "--rows", ",".join(entries))
    assert "clusters at the end" in said
    assert "Rand index, round 5" in said
    assert "has pictures only (groups largely intact at round 25" in " ".join(said.split())
    table = json.loads((call.home / "r" / "thesis-4.3.5.json").read_text())
    assert [row["algorithm"] for row in table["rows"]] == entries
    split, together = table["rows"]
    assert split["shown"] == [5], "rounds 15 and 25 were not run"
    assert [entry["round"] for entry in split["rounds"]] == [1, 2, 3, 4, 5]
    assert split["rounds"][-1]["sizes"] == [[1, 1, 1, 1]] * 2
    assert together["rounds"][-1]["sizes"] == [[4], [4]]
    seeds = comity.open(call.home / "r" / "shared-2-2").runs[entries[0], "shared:2,2"]
    for place, run in enumerate(seeds):
        for entry, line in zip(split["rounds"], run.history, strict=False):
            labels = [
                next(i for i, members in enumerate(line["clusters"]) if client in members)
                for client in range(4)
            ]
            expected = adjusted_rand_score([0, 0, 1, 1], labels)
            assert entry["adjusted_rand"][place] == pytest.approx(expected)
    pictures = {path.name for path in (call.home / "r").glob("*.png")}
    assert pictures == {
        "thesis-4.3.5.png",
        "thesis-4.3.5-sizes.png",
        "similarity-fedpref_threshold=1000_patience=1_shared_2_2.png",
        "similarity-fedpref_threshold=0_shared_2_2.png",
    }
    said = call(*arguments, "--rows", "cfl", code="2")
    assert "holds no runs of cfl" in said


def test_sizes_of_the_clusters_of_cfl(call):
    said = call("reproduce", "thesis-A.12", "--seeds", 1, "--set", "clients=3", *TINY)
    assert "sizes at the end" in said
    assert "Rand index" not in said
    assert "clusters rarely split" in " ".join(said.split())
    (row,) = json.loads((call.home / "r" / "thesis-A.12.json").read_text())["rows"]
    assert (row["algorithm"], row["preferences"], row["clients"]) == ("cfl", "dirichlet", 3)
    assert all(sum(sizes) == 3 for entry in row["rounds"] for sizes in entry["sizes"])
    assert {path.name for path in (call.home / "r").glob("*.png")} == {
        "thesis-A.12.png",
        "thesis-A.12-sizes.png",
    }
