"""Problems whose clients have data, on samples small enough to count by hand."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from comity.errors import UserError
from comity.problems import DataProblem, Objective, Samples, find
from comity.problems.data import batch_of
from comity.problems.own_table import table_problem

LABEL = np.array([1, 1, 1, 0] * 10)
NEEDED = {label: (f"label {label}", np.array([label])) for label in (0, 1)}


def samples() -> Samples:
    """Forty samples; three of four are ones, and each holds its own number."""
    columns = {
        "inputs": torch.arange(40.0).reshape(40, 1),
        "label": torch.from_numpy(LABEL).float(),
    }
    return Samples(columns, LABEL, NEEDED)


def losses(outputs, batch):
    error = ((outputs.squeeze(-1) - batch["label"]) ** 2 * batch["weight"]).sum()
    return torch.stack([error, 1 + error]) / batch["weight"].sum()


def scores(outputs, batch):
    """The share of right answers, and the mean of the answers."""
    yes = (outputs.squeeze(-1) > 0.5).float()
    right = (yes == batch["label"]).float()
    return torch.stack([(x * batch["weight"]).sum() for x in (right, yes)]) / batch["weight"].sum()


PROBLEM = DataProblem(
    name="forty",
    title="Forty samples",
    objectives=(Objective("right", "share", "right"), Objective("yes", "share", "yes")),
    reference_point=(0.0, 0.0),
    samples=samples,
    network=lambda found: nn.Linear(found.columns["inputs"].shape[1], 1),
    losses=losses,
    scores=scores,
    constant=lambda batch: batch["label"].mean().round().reshape(1),
)
HALF = np.full((3, 2), 0.5)


def test_data_must_be_dealt_out_first():
    for ask in (PROBLEM.client_rows, lambda: PROBLEM.trivial([0], 1, 1)):
        with pytest.raises(UserError, match="problem forty: its data have not been dealt out"):
            ask()
    assert PROBLEM.partitioned(2, 1, "stratified", "equal").client_rows()
    assert PROBLEM.partition_spec is None, "a problem is not changed by dealing it out"


def test_a_deal_is_every_row_once_by_clients_seed_partition_and_sizes():
    def rows(*spec):
        return [
            np.concatenate([s.train, s.validation, s.test]).tolist()
            for s in PROBLEM.partitioned(*spec).client_rows()
        ]

    even = rows(2, 1, "stratified", "equal")
    assert sorted(np.concatenate(even)) == list(range(40))
    assert [len(part) for part in even] == [20, 20]
    assert [LABEL[part].sum() for part in even] == [15, 15]
    assert rows(2, 1, "stratified", "equal") == even
    assert rows(2, 2, "stratified", "equal") != even
    assert [len(part) for part in rows(2, 1, "stratified", "3,1")] == [30, 10]
    with pytest.raises(UserError, match="'label 0' has 10 rows, too few for 4 clients"):
        rows(4, 1, "stratified", "equal")


def test_the_architecture_follows_the_samples():
    assert PROBLEM.model().weight.shape == (1, 1)


def test_the_constant_answer_is_learned_from_training_and_judged_on_test_samples():
    """Client 0 of the natural ones has ones mostly, client 1 zeros: each answers its own."""

    def two_sites():
        silos = np.array([0] * 20 + [1] * 20)
        label = np.array([1] * 16 + [0] * 4 + [1] * 4 + [0] * 16)
        columns = {**samples().columns, "label": torch.from_numpy(label).float()}
        return Samples(columns, label, NEEDED, silos, ("east", "west"))

    partitioned = replace(PROBLEM, samples=two_sites).partitioned(2, 1, "natural", "equal")
    found = partitioned.trivial([0, 1], 1, 1)
    label = two_sites().columns["label"].numpy()
    ones = [label[share.test].mean() for share in partitioned.client_rows()]
    np.testing.assert_allclose(found, [[ones[0], 1.0], [1 - ones[1], 0.0]])
    assert ones[0] > 0.5 > ones[1]
    np.testing.assert_allclose(partitioned.trivial([1], 1, 1), found[1:])


def test_several_clients_are_judged_as_each_alone():
    outputs = torch.tensor([[[0.9], [0.1], [0.7]], [[0.2], [0.8], [0.9]]])
    batch = {
        "label": torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]),
        "weight": torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]),  # the last one only fills up
    }
    found = PROBLEM.evaluate_outputs(outputs, batch)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3], [1.0, 0.5]])


def test_a_batch_of_some_rows_has_full_weight():
    batch = batch_of(samples().columns, np.array([3, 5]))
    assert batch["inputs"].tolist() == [[3.0], [5.0]]
    assert batch["label"].tolist() == [0.0, 1.0]
    assert batch["weight"].tolist() == [1.0, 1.0]


def test_measures_of_a_plain_problem():
    vectors = np.array([[0.5, 0.4], [0.25, 1.0], [0.2, 0.3]])
    found = PROBLEM.measures(vectors, np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    assert found["mean_scalarised"] == pytest.approx((0.5 + 1.0 + 0.25) / 3)
    assert found["hypervolume"] == pytest.approx(0.5 * 0.4 + 0.25 * 0.6)
    assert found["cardinality"] == 2
    assert found["right"] == pytest.approx(0.95 / 3)
    assert found["yes"] == pytest.approx(1.7 / 3)
    assert found["dropped"] == 0.0
    assert "strict_hypervolume" not in found
    assert "undefined" not in found
    assert "igd" not in found


def test_what_does_not_count_or_is_not_defined_is_told_apart():
    picky = replace(
        PROBLEM, counted=lambda vectors: vectors[:, 1] < 1, strict_point=lambda: (0.25, 0.25)
    )
    vectors = np.array([[0.5, 0.5], [0.75, 1.0], [0.9, np.nan], [0.5, 0.25]])
    found = picky.measures(vectors, np.full((4, 2), 0.5))
    assert (found["dropped"], found["undefined"]) == (0.25, 0.25)
    assert found["hypervolume"] == pytest.approx(0.25)
    assert found["strict_hypervolume"] == pytest.approx(0.0625)
    assert found["right"] == pytest.approx(2.65 / 4)
    assert found["yes"] == pytest.approx(1.75 / 3), "of those for whom it is defined"
    assert found["mean_scalarised"] == pytest.approx((0.5 + 0.875 + 0.375) / 3)
    assert picky.counts(vectors).tolist() == [True, False, False, True]
    everything = picky.trivial_measures(vectors[:2], HALF[:2])
    assert (everything["dropped"], everything["hypervolume"]) == (0.0, pytest.approx(0.75))


def test_measures_where_nothing_counts():
    picky = replace(PROBLEM, counted=lambda vectors: np.zeros(len(vectors), dtype=bool))
    found = picky.measures(np.array([[0.5, 1.0]] * 3), HALF)
    assert (found["dropped"], found["hypervolume"], found["cardinality"]) == (1.0, 0.0, 0.0)
    assert (found["expected_utility"], found["sparsity"]) == (0.0, 0.0)
    assert found["mean_scalarised"] == pytest.approx(0.75)


# -- functions and methods -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Forty(DataProblem):
    """The same problem as a subclass, with a setting."""

    bias: bool = True

    def samples(self):
        return samples()

    def network(self, samples):
        return nn.Linear(1, 1, bias=self.bias)

    def losses(self, outputs, batch):
        return losses(outputs, batch)

    def scores(self, outputs, batch):
        return scores(outputs, batch)

    def constant(self, batch):
        return PROBLEM.constant(batch)


FORTY = Forty(
    name="forty", title="Forty", objectives=PROBLEM.objectives, reference_point=(0.0, 0.0)
)


def test_a_subclass_is_what_functions_make():
    ours, theirs = (p.partitioned(2, 1, "stratified", "equal") for p in (FORTY, PROBLEM))
    assert [s.test.tolist() for s in ours.client_rows()] == [
        s.test.tolist() for s in theirs.client_rows()
    ]
    np.testing.assert_array_equal(ours.trivial([0, 1], 1, 1), theirs.trivial([0, 1], 1, 1))
    assert ours.columns().keys() == theirs.columns().keys()
    assert (ours.strict_point(), ours.features(), ours.defines("undefined")) == (None, (), False)
    assert ours.undefined(batch_of(samples().columns, np.arange(3))).tolist() == [False, False]


def test_a_function_takes_the_place_of_a_method():
    other = replace(FORTY, network=lambda found: nn.Linear(1, 5), undefined=lambda batch: None)
    assert other.model().weight.shape == (5, 1)
    assert other.defines("undefined")
    assert (
        replace(other, bias=False).partitioned(2, 1, "stratified", "equal").model().bias is not None
    )
    assert FORTY.model().weight.shape == (1, 1), "the problem itself is as it was"
    assert replace(FORTY, bias=False).model().bias is None


def test_problems_are_values():
    partitioned = FORTY.partitioned(2, 1, "stratified", "equal")
    again = FORTY.partitioned(2, 1, "stratified", "equal")
    assert (partitioned, hash(partitioned)) == (again, hash(again))
    assert partitioned.client_rows() is again.client_rows(), "rows are distributed once per process"
    assert partitioned != FORTY.partitioned(2, 2, "stratified", "equal")
    assert replace(PROBLEM, losses=lambda outputs, batch: None) != PROBLEM
    copy = pickle.loads(pickle.dumps(replace(partitioned, scores=scores)))
    assert copy == replace(partitioned, scores=scores)
    assert copy.scores is scores


def test_what_every_problem_needs_is_named():
    with pytest.raises(TypeError, match="problem bare: samples is missing; pass it as a function"):
        DataProblem(name="bare", title="", objectives=(), reference_point=())
    with pytest.raises(UserError, match="problem forty has no table, so rows of a file mean"):
        PROBLEM.inputs_of({})


# -- scaling -------------------------------------------------------------------------------


def people(change: dict[int, float] | None = None) -> DataProblem:
    """Eighty people with an age that is easy to sum, and changes to it by row."""
    age = [float(i % 10) for i in range(80)]
    for row, value in (change or {}).items():
        age[row] = value
    sex, paid = ["f", "m"] * 40, ["yes", "yes", "no", "no"] * 20
    columns = {"age": age, "sex": sex, "paid": paid}
    problem = table_problem(columns, label="paid", sensitive=["sex"], features=["age", "sex"])
    return problem.partitioned(2, 3, "stratified", "equal")


def test_numbers_are_scaled_by_all_training_rows_and_nothing_else():
    problem = people()
    train = np.concatenate([share.train for share in problem.client_rows()])
    assert len(train) == 56
    age = np.array([i % 10 for i in range(80)], dtype=float)
    wanted = (age - age[train].mean()) / age[train].std(ddof=1)
    inputs = problem.columns()["inputs"].numpy()
    np.testing.assert_allclose(inputs[:, 0], wanted, rtol=1e-5, atol=1e-6)
    # sex is 0 or 1 and stays so
    np.testing.assert_array_equal(inputs[:, 1:], [[1, 0], [0, 1]] * 40)
    raw = problem.samples().columns["inputs"][:, 0]
    np.testing.assert_array_equal(raw, age.astype(np.float32))  # what was read is kept


@pytest.mark.parametrize(
    ("part", "seen"), [("test", False), ("validation", False), ("train", True)]
)
def test_an_outlier_moves_the_scale_only_if_it_is_trained_on(part, seen):
    before = people()
    row = int(getattr(before.client_rows()[1], part)[0])
    after = people({row: 1e4})
    others = [i for i in range(80) if i != row]
    same = np.array_equal(
        before.columns()["inputs"][others].numpy(), after.columns()["inputs"][others].numpy()
    )
    assert same == (not seen)


def test_a_number_that_never_varies_is_no_division_by_zero():
    problem = people(dict.fromkeys(range(80), 5.0))
    inputs = problem.columns()["inputs"]
    assert inputs[:, 0].tolist() == [0.0] * 80


def test_before_they_are_dealt_out_columns_are_as_they_were_read():
    problem = find("german-credit-gender-dp")
    torch.testing.assert_close(problem.columns()["inputs"], problem.samples().columns["inputs"])
    partitioned = problem.partitioned(3, 1, "stratified", "equal")
    assert (partitioned.columns()["inputs"] != problem.columns()["inputs"]).any()
