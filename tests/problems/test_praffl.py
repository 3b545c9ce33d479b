from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from comity.core.pareto import hypervolume
from comity.datasets.partition import PartitionSpec
from comity.datasets.shipped import shipped
from comity.datasets.synthetic import (
    TRAIN,
    draw,
    group_chance,
    label_chance,
    reference_hypervolume,
    synthetic,
)
from comity.errors import UserError
from comity.problems import find
from comity.problems.parity import commonest, parity_losses, parity_scores
from comity.problems.praffl import portions
from comity.problems.praffl_protocols import PROTOCOLS, QUINTILES

NAMES = [f"praffl-{data}{end}" for data in PROTOCOLS for end in ("", "-cov2")]
COLUMN = {"synthetic": "z", "compas": "sex-race", "bank": "age", "adult": "sex"}


def batch(group, label=None, weight=None):
    return {
        "label": torch.tensor(label or [0] * len(group)).float(),
        "group:a": torch.tensor(group),
        "weight": torch.ones(len(group)) if weight is None else torch.tensor(weight).float(),
    }


def losses_of(kind):
    return partial(parity_losses, column="group:a", kind=kind)


def scores_of(values):
    return partial(parity_scores, column="group:a", values=values)


def logits(answers):
    """Logits of hard answers."""
    return torch.tensor([[0.0, 1.0] if yes else [1.0, 0.0] for yes in answers])


def people(*counts):
    """Answers and groups, where each group has (yeses, size)."""
    answers, group = [], []
    for which, (yes, size) in enumerate(counts):
        answers += [1] * yes + [0] * (size - yes)
        group += [which] * size
    return logits(answers), group


def partitioned(data, clients=None, partition="paper", seed=1, sizes="equal"):
    return find(f"praffl-{data}").partitioned(
        clients or len(PROTOCOLS[data].portions), seed, partition, sizes
    )


# -- scores --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "apart"),
    [
        (((30, 100), (60, 100)), 0.15),
        (((30, 100), (60, 100), (10, 50)), 0.2),
        (((30, 100), (0, 0)), 0.3),  # nobody is there, so nobody gets a yes
    ],
)
def test_unfairness_is_the_distance_of_a_group_from_all(counts, apart):
    outputs, group = people(*counts)
    found = scores_of(len(counts))(outputs, batch(group))
    assert found[1].item() == pytest.approx(1 - apart, abs=1e-6)
    share = sum(yes for yes, _ in counts) / len(group)
    assert found[0].item() == pytest.approx(1 - share, abs=1e-6)


def test_scores_do_not_see_padding():
    scores = scores_of(2)
    whole = scores(logits([1, 0, 1]), batch([0, 1, 1], [1, 1, 0]))
    padded = scores(logits([1, 0, 1, 1]), batch([0, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 0]))
    np.testing.assert_allclose(whole, [1 / 3, 1 - 1 / 3], atol=1e-6)
    torch.testing.assert_close(padded, whole)


@pytest.mark.parametrize(("label", "answer"), [([1, 1, 0], 1), ([1, 0, 0], 0)])
def test_the_constant_gives_the_commonest_answer(label, answer):
    output = commonest(batch([0, 0, 1], label))
    assert output.argmax() == answer
    found = scores_of(2)(output.expand(3, 2), batch([0, 0, 1], label))
    np.testing.assert_allclose(found, [2 / 3, 1], atol=1e-6)


# -- losses --------------------------------------------------------------------------------

SLANTED = torch.tensor([[1.0, -1.0], [0.0, 0.0], [-1.0, 1.0], [-2.0, 2.0]])
LEVEL = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])


@pytest.mark.parametrize(
    ("outputs", "group", "printed", "covariance"),
    [
        (SLANTED, [0, 0, 1, 1], 0.625, 2 * 0.25),
        (LEVEL, [0, 1, 0, 1], 0.25, 0.0),  # independent, but the mean of squares is not zero
    ],
)
def test_fairness_losses_of_the_specification(outputs, group, printed, covariance):
    assert losses_of("printed")(outputs, batch(group))[1].item() == pytest.approx(printed)
    found = losses_of("cov2")(outputs, batch(group))[1].item()
    assert found == pytest.approx(covariance)


def test_the_first_loss_is_the_mean_cross_entropy():
    found = losses_of("printed")(SLANTED, batch([0, 0, 1, 1], [0, 0, 1, 0]))[0]
    margins = np.array([2.0, 0.0, 2.0, -4.0])  # of the right logit above the wrong one
    assert found.item() == pytest.approx(np.log1p(np.exp(-margins)).mean(), abs=1e-6)


@pytest.mark.parametrize("kind", ["printed", "cov2"])
def test_losses_do_not_see_padding(kind):
    losses = losses_of(kind)
    whole = losses(SLANTED, batch([0, 0, 3, 1], [0, 1, 1, 0]))
    padded = losses(
        torch.cat([SLANTED, torch.full((2, 2), 9.0)]),
        batch([0, 0, 3, 1, 4, 4], [0, 1, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0]),
    )
    torch.testing.assert_close(padded, whole)


@pytest.mark.parametrize("kind", ["printed", "cov2"])
def test_clients_and_preferences_can_be_mapped_over(kind):
    """Clients are an axis of everything, preferences a further one of the outputs."""
    losses, scores = (
        losses_of(kind),
        scores_of(2),
    )
    outputs = torch.randn(3, 5, 4, 2, generator=torch.Generator().manual_seed(1))
    one = batch([0, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0])
    several = {name: torch.stack([column] * 3) for name, column in one.items()}
    for judge in (losses, scores, grad(lambda *given: losses(*given).sum())):
        found = vmap(vmap(judge, in_dims=(0, None)))(outputs, several)
        single = torch.stack([torch.stack([judge(o, one) for o in each]) for each in outputs])
        torch.testing.assert_close(found, single)


# -- data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "width", "train", "test", "groups", "positive"),
    [
        ("synthetic", 3, 3500, 1500, None, None),
        ("compas", 448, 5049, 2165, [2775, 3044, 743, 652], 0.549),
        ("bank", 38, 31647, 13564, [11111, 7602, 8537, 9642, 8319], 0.117),
        ("adult", 107, 32561, 16281, [16192, 32650], 0.239),
    ],
)
def test_data_have_the_papers_sizes(data, width, train, test, groups, positive):
    problem = partitioned(data)
    columns, shares = problem.samples().columns, problem.client_rows()
    group = columns[f"group:{COLUMN[data]}"]
    assert columns["inputs"].shape == (train + test, width)
    assert columns["inputs"].isfinite().all()
    np.testing.assert_array_equal(columns["inputs"][:, -1], group)
    learned = np.concatenate([rows for s in shares for rows in (s.train, s.validation)])
    tested = np.concatenate([s.test for s in shares])
    assert (len(learned), len(tested)) == (train, test)
    assert len(np.union1d(learned, tested)) == train + test
    if groups is not None:
        assert group.bincount().tolist() == groups
        assert columns["label"].mean().item() == pytest.approx(positive, abs=5e-4)


@pytest.mark.parametrize(
    ("data", "clients", "tests", "slack"),
    [
        ("compas", [3747, 1302], [1606, 559], 0),
        ("adult", [20129, 12432], None, 0),
        ("bank", [14302, 5699, 11646], None, 5),
        ("synthetic", [1342, 1186, 972], None, 0),
    ],
)
def test_clients_have_the_papers_sizes(data, clients, tests, slack):
    shares = partitioned(data).client_rows()
    sizes = [len(s.train) + len(s.validation) for s in shares]
    np.testing.assert_allclose(sizes, clients, atol=slack)
    assert [len(s.train) for s in shares] == [size * 9 // 10 for size in sizes]
    if tests is not None:
        assert [len(s.test) for s in shares] == tests


def test_rows_to_test_with_are_those_of_the_data():
    split = np.array(shipped("adult")["split"])
    for share in partitioned("adult").client_rows():
        assert set(split[share.test]) == {"test"}
        assert set(split[np.concatenate([share.train, share.validation])]) == {"train"}
    assert min(s.test.min() for s in partitioned("compas").client_rows()) == 5049
    one, other = (
        np.concatenate([s.test for s in partitioned("bank", seed=n).client_rows()]) for n in (1, 2)
    )
    np.testing.assert_array_equal(np.sort(one), np.sort(other))
    assert one.min() < 100  # shuffled


def test_positive_rates_of_adult():
    columns, label = shipped("adult"), find("praffl-adult").samples().columns["label"]
    test = torch.tensor([part == "test" for part in columns["split"]])
    assert label[~test].mean().item() == pytest.approx(0.241, abs=5e-4)
    assert label[test].mean().item() == pytest.approx(0.236, abs=5e-4)


def test_groups_are_those_of_the_data():
    compas, group = shipped("compas"), find("praffl-compas").samples().columns["group:sex-race"]
    pairs = zip(compas["sex"], compas["race"], strict=True)
    wanted = [2 * (sex == "Female") + (race == "African-American") for sex, race in pairs]
    assert group.tolist() == wanted
    ages = np.array(shipped("bank-marketing")["age"], dtype=float)
    assert np.quantile(ages, (0.2, 0.4, 0.6, 0.8)).tolist() == list(QUINTILES)
    group = find("praffl-bank").samples().columns["group:age"].numpy()
    assert [ages[group == which].max() for which in range(4)] == list(QUINTILES)


@pytest.mark.parametrize(("data", "numbers"), [("compas", 5), ("bank", 5), ("adult", 6)])
def test_numbers_are_scaled_with_training_rows_alone(data, numbers):
    problem = partitioned(data)
    before, after = problem.samples().columns["inputs"], problem.columns()["inputs"]
    changed = (before != after).any(dim=0)
    assert changed.sum() == numbers
    assert not changed[-1]  # the group stays what it is
    train = np.concatenate([s.train for s in problem.client_rows()])
    seen, old = after[train][:, changed], before[train][:, changed]
    assert (seen.amin(0) == 0).all()
    assert (seen.amax(0) == 1).all()
    wanted = (before[:, changed] - old.amin(0)) / (old.amax(0) - old.amin(0))
    torch.testing.assert_close(after[:, changed], wanted)


def test_synthetic_inputs_are_not_scaled():
    problem = partitioned("synthetic")
    torch.testing.assert_close(problem.columns()["inputs"], problem.samples().columns["inputs"])


@pytest.mark.parametrize("data", PROTOCOLS)
def test_new_rows_of_the_original_file_are_encoded(data):
    problem = pickle.loads(pickle.dumps(find(f"praffl-{data}")))
    if data == "synthetic":
        points, group, _ = draw(5000)
        columns = {"x1": points[:, 0], "x2": points[:, 1], "z": group}
        columns = {name: list(map(str, cells.tolist())) for name, cells in columns.items()}
    else:
        columns = shipped("bank-marketing" if data == "bank" else data)
    inputs = problem.samples().columns["inputs"].numpy()
    np.testing.assert_array_equal(problem.encode(columns), inputs)
    some = {name: cells[7:9] for name, cells in columns.items()}
    np.testing.assert_array_equal(problem.encode(some), inputs[7:9])


def test_new_rows_whose_group_cannot_be_told_are_refused():
    columns = {name: cells[:2] for name, cells in shipped("compas").items()}
    with pytest.raises(UserError, match=r"row 3, column 'sex' is 'female', which is not"):
        find("praffl-compas").encode(columns | {"sex": ["Male", "female"]})


def test_a_missing_charge_is_no_input():
    problem, columns = find("praffl-compas"), shipped("compas")
    row = columns["c_charge_desc"].index("")
    found = problem.encode({name: cells[row - 1 : row + 1] for name, cells in columns.items()})
    charges = found[:, 10:-1]  # after the numbers, age_cat and c_charge_degree
    assert charges.sum(axis=1).tolist() == [1, 0]
    assert problem.samples().notes == PROTOCOLS["compas"].notes != ()


# -- clients -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "clients", "wanted"),
    [
        ("paper", 3, [[0.5, 0.2], [0.3, 0.4], [0.2, 0.4]]),
        ("even", 3, [[0.33, 0.33], [0.33, 0.33], [0.34, 0.34]]),
        ("iid", 3, [[0.33, 0.33], [0.33, 0.33], [0.34, 0.34]]),
        ("strong", 3, [[0.7, 0.1], [0.1, 0.8], [0.2, 0.1]]),
        ("even", 4, [[0.25, 0.25]] * 4),
        ("paper", 2, [[0.75, 0.25], [0.25, 0.75]]),
        ("paper", 1, [[1, 1]]),
    ],
)
def test_portions_of_synthetic_clients(partition, clients, wanted):
    problem = partitioned("synthetic", clients, partition)
    one = problem.samples().columns["group:z"].numpy() == 1
    for parts in (("train", "validation"), ("test",)):
        held = [np.concatenate([getattr(s, part) for part in parts]) for s in problem.client_rows()]
        counts = np.array([[one[rows].sum(), (~one[rows]).sum()] for rows in held])
        np.testing.assert_allclose(counts / counts.sum(axis=0), wanted, atol=2e-3)


def test_shares_that_come_out_even_are_even():
    """1,357 rows for training are of group 0: 59 for each of 23 clients."""
    problem = partitioned("synthetic", 23, "even")
    group = problem.samples().columns["group:z"]
    for share in problem.client_rows():
        assert (group[np.append(share.train, share.validation)] == 0).sum() == 59


def test_clients_are_of_the_papers_kinds():
    """Those above 25, four fifths of the private sector, half of those without a loan."""
    ages = np.array(shipped("compas")["age"], dtype=float)
    older, younger = (ages[s.test] for s in partitioned("compas").client_rows())
    assert younger.max() == 25 < older.min() == 26
    for data, file, column, value, wanted in (
        ("adult", "adult", "workclass", "Private", [0.8, 0.2]),
        ("bank", "bank-marketing", "loan", "no", [0.5, 0.1, 0.4]),
    ):
        first = np.array(shipped(file)[column]) == value
        counts = np.array([first[s.test].sum() for s in partitioned(data).client_rows()])
        np.testing.assert_allclose(counts / counts.sum(), wanted, atol=1e-3)


@pytest.mark.parametrize("data", ["synthetic", "bank"])
@pytest.mark.parametrize("clients", [10, 20])
def test_many_clients_differ_evenly(data, clients):
    found = portions(data, PartitionSpec(clients, 1, "paper", "equal"))
    np.testing.assert_allclose(found.sum(axis=0), 1)
    np.testing.assert_allclose(found[0], [1.5 / clients, 0.5 / clients])
    np.testing.assert_allclose(np.diff(found, axis=0, n=2), 0, atol=1e-12)
    assert len(partitioned(data, clients).client_rows()) == clients


@pytest.mark.parametrize("data", ["compas", "adult"])
def test_clients_that_are_what_they_are_can_be_mixed(data):
    shares = partitioned(data, 5, "even").client_rows()
    sizes = [len(s.train) for s in shares]
    assert len(sizes) == 5
    assert max(sizes) - min(sizes) <= 2


def test_a_deal_depends_on_its_seed_and_mixes_kinds_in_every_part():
    problem = find("praffl-compas")
    shares, again, other = (
        problem.partition(problem.samples(), PartitionSpec(2, seed, "even", "equal"))
        for seed in (1, 1, 2)
    )
    for one, same, different in zip(shares, again, other, strict=True):
        for part in ("train", "validation", "test"):
            np.testing.assert_array_equal(getattr(one, part), getattr(same, part))
            assert len(np.setdiff1d(getattr(one, part), getattr(different, part)))
        held, others = (np.append(s.train, s.validation) for s in (one, different))
        assert len(np.setdiff1d(held, others))  # not just another validation part
    group = find("praffl-synthetic").samples().columns["inputs"][:, -1]
    for share in partitioned("synthetic").client_rows():
        parts = [group[rows].mean().item() for rows in (share.train, share.validation)]
        assert parts[0] == pytest.approx(parts[1], abs=0.15)


@pytest.mark.parametrize(
    ("data", "clients", "partition", "sizes", "message"),
    [
        ("synthetic", 3, "strnog", "equal", r"praffl-synthetic 'strnog'\. Did you mean 'strong'\?"),
        ("synthetic", 3, "natural", "equal", r"'natural'\. Valid: even, iid, paper, strong\."),
        ("compas", 2, "strong", "equal", r"'strong'\. Valid: even, iid, paper\."),
        ("compas", 3, "paper", "equal", r"has 2 clients, got 3; say clients = 2, or partition = "),
        ("bank", 4, "strong", "equal", r"has 3 clients, got 4; say clients = 3"),
        ("bank", 3, "paper", "3,2,1", r"sizes: '3,2,1' means nothing for praffl-bank"),
        ("synthetic", 4000, "even", "equal", r"client 0 gets . rows .*have fewer clients"),
    ],
)
def test_a_deal_that_cannot_be_is_refused(data, clients, partition, sizes, message):
    with pytest.raises(UserError, match=message):
        partitioned(data, clients, partition, sizes=sizes).client_rows()


# -- synthetic people ----------------------------------------------------------------------


def test_group_chances_of_the_specification():
    points = np.array([[0, 0], [1, 0], [2, 2], [-2, -2]], dtype=float)
    wanted = [0.5465089184, 0.7695726319, 0.9686575135, 0.1228372261]
    np.testing.assert_allclose(group_chance(points), wanted, atol=1e-10)


def test_synthetic_people_are_those_of_the_specification():
    points, group, label = draw(400_000, seed=1)
    assert label.mean() == pytest.approx(0.6, abs=0.003)
    assert group.mean() == pytest.approx(0.5995, abs=0.003)
    assert label[group == 0].mean() == pytest.approx(0.262, abs=0.003)
    assert label[group == 1].mean() == pytest.approx(0.826, abs=0.003)
    np.testing.assert_allclose(np.cov(points[label == 0].T), [[10, 1], [1, 3]], atol=0.15)
    yes = label_chance(points) > 0.5
    accuracy = (yes == label).mean()
    apart = max(abs(yes[group == which].mean() - yes.mean()) for which in (0, 1))
    assert accuracy == pytest.approx(0.879, abs=0.003)
    assert apart == pytest.approx(0.388, abs=0.003)
    assert hypervolume(np.array([[accuracy, 1 - apart]]), (0, 0)) == pytest.approx(0.538, abs=0.003)


def test_synthetic_data_are_always_the_same():
    points, group, label = draw(5000)
    table = synthetic()
    np.testing.assert_array_equal(table.inputs, np.column_stack([points, group]).astype("float32"))
    np.testing.assert_array_equal(table.label, label)
    assert max(np.concatenate([s.train for s in partitioned("synthetic").client_rows()])) < TRAIN


def test_the_reference_of_the_specification():
    assert reference_hypervolume() == pytest.approx(0.855, abs=0.002)


# -- problems ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_problems_are_the_papers(name):
    problem = find(name)
    data = name.split("-")[1]
    assert [o.name for o in problem.objectives] == ["accuracy", "fairness"]
    assert problem.reference_point == (0.0, 0.0)
    assert problem.fair_loss == ("cov2" if name.endswith("cov2") else "printed")
    assert ("covariance" in problem.title) == name.endswith("cov2")
    assert problem.attributes == {f"group:{COLUMN[data]}": len(PROTOCOLS[data].values)}
    assert problem.run_defaults == {
        "clients": 3 if data in ("synthetic", "bank") else 2,
        "rounds": 10,
        "partition": "paper",
        "split_ratio": "paper",
        "keep_scope": "federation",
    }
    assert problem.defaults == {
        "learning_rate": 5e-3,
        "batch_size": 128,
        "weight_decay": 1e-4,
        "normalise": "none",
        "local_epochs": 30,
    }


def test_the_network_is_the_papers():
    model = find("praffl-compas").model()
    assert [tuple(p.shape) for p in model.parameters()] == [(4, 448), (4,), (2, 4), (2,)]
    assert isinstance(model[1], torch.nn.ReLU)


def test_the_trivial_line_of_the_specification():
    """The mean over clients of their majority rates; a constant is perfectly fair."""
    for data, wanted in (("compas", 0.567), ("adult", 0.760)):
        found = partitioned(data).trivial(range(2), 1, 1)
        np.testing.assert_allclose(found[:, 1], 1)
        assert found[:, 0].mean() == pytest.approx(wanted, abs=1e-3)
