from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import vmap

from comity.core.fleet import Fleet
from comity.core.running import forward
from comity.datasets.album import Album
from comity.errors import UserError
from comity.problems import find
from comity.problems.multitask import LeNet, multi_task, overlaid


def few():
    """Forty images of one brightness each, which says what their class is."""
    values = np.arange(40, dtype=np.uint8)
    pixels = np.broadcast_to(values[:, None, None, None] + 1, (40, 1, 28, 28))
    return Album(pixels, (values % 10).astype(np.int64))


FEW = multi_task("few", few, samples=20)


# -- pictures ------------------------------------------------------------------------------


def test_pictures_are_two_images_that_overlap():
    left, right = np.zeros((2, 1, 28, 28), dtype=np.uint8)
    # rows and columns 0, 1, 3, 4, 5, 7, 8, … of the canvas are kept, 2 and 6 are not
    left[0, 0, 1], left[0, 2, 2], left[0, 7, 7], left[0, 8, 8] = 10, 99, 50, 90
    right[0, 1, 1], right[0, 2, 2], right[0, 0, 5], right[0, 26, 3] = 200, 30, 99, 7
    expected = np.zeros((28, 28), dtype=np.uint8)
    expected[0, 1] = 10
    expected[5, 5] = 200  # both at 7, 7: the right one is brighter
    expected[6, 6] = 90  # both at 8, 8: the left one is
    expected[25, 7] = 7  # at 32, 9
    assert (overlaid(left, right)[0] == expected).all()


def test_an_image_is_in_one_picture_only():
    samples = multi_task("few", few, samples=20).samples()
    inputs, labels = samples.columns["inputs"], samples.columns["labels"]
    assert (inputs.shape, inputs.dtype) == ((20, 1, 28, 28), torch.float32)
    corners = (255 * torch.stack([inputs[:, 0, 0, 0], inputs[:, 0, 25, 25]], 1)).round().long() - 1
    assert sorted(corners.flatten().tolist()) == list(range(40))
    assert (labels == corners % 10).all()
    assert (samples.strata == (labels[:, 0] * 10 + labels[:, 1]).numpy()).all()


def test_pictures_are_always_the_same_and_fewer_are_the_first_of_many():
    many, fewer = (multi_task("few", few, samples=n).samples().columns for n in (20, 5))
    assert (many["inputs"][:5] == fewer["inputs"]).all()


@pytest.mark.parametrize("count", [0, 21])
def test_more_pictures_than_pairs_are_refused(count):
    with pytest.raises(UserError, match=rf"samples = {count}: must be from 1 to 20, .* 40 images"):
        multi_task("few", few, samples=count).samples()


def test_nothing_is_read_before_it_is_needed():
    def source():
        raise AssertionError("read")

    problem = multi_task("lazy", source).partitioned(2, 1, "stratified", "equal")
    assert [objective.name for objective in problem.objectives] == [
        "left-accuracy",
        "right-accuracy",
    ]
    with pytest.raises(AssertionError, match="read"):
        problem.client_rows()


# -- learning and judging ------------------------------------------------------------------


def batch(labels, weight):
    return {"labels": torch.tensor(labels), "weight": torch.tensor(weight)}


def test_losses_and_scores_of_each_head():
    outputs = torch.zeros(3, 2, 10)
    outputs[0, 0, 4] = outputs[1, 0, 4] = outputs[1, 1, 9] = 2.0
    seen = batch([[4, 1], [5, 9], [0, 0]], [1.0, 1.0, 0.0])  # the last one is padding
    # -log softmax of 2 and of 0 beside one 2, and of 0 among zeros
    hit, miss, even = np.log(np.exp(2) + 9) - 2, np.log(np.exp(2) + 9), np.log(10)
    expected = [(hit + miss) / 2, (even + hit) / 2]
    assert FEW.losses(outputs, seen).tolist() == pytest.approx(expected, rel=1e-5)
    assert FEW.scores(outputs, seen).tolist() == [0.5, 0.5]
    assert FEW.scores(outputs, {**seen, "weight": torch.ones(3)}).tolist() == pytest.approx(
        [2 / 3, 2 / 3]  # of a tie the first class is the answer
    )


def test_the_constant_answer_is_the_commonest():
    seen = batch([[4, 1], [4, 9], [0, 9]], [1.0, 1.0, 1.0])
    assert FEW.constant(seen).argmax(dim=1).tolist() == [4, 9]
    problem = multi_task("few", few, samples=20).partitioned(1, 1, "stratified", "equal")
    assert problem.trivial([0], 1, 1).shape == (1, 2)


def test_a_fleet_of_networks_answers_as_each_does():
    modules = [LeNet(), LeNet()]
    fleet = Fleet.cat([Fleet.of(module, 1) for module in modules])
    inputs, labels = torch.rand(2, 4, 1, 28, 28), torch.randint(10, (2, 4, 2))
    outputs = forward(modules[0])(fleet.tensors, inputs)
    assert outputs.shape == (2, 4, 2, 10)
    found = vmap(FEW.losses)(outputs, {"labels": labels, "weight": torch.ones(2, 4)})
    for row, module in enumerate(modules):
        torch.testing.assert_close(outputs[row], module(inputs[row]))
        alone = FEW.losses(outputs[row], {"labels": labels[row], "weight": torch.ones(4)})
        torch.testing.assert_close(found[row], alone)


def test_a_round_is_about_one_pass_for_two_clients():
    problem = find("multi-mnist")
    shares = problem.partitioned(2, 1, "stratified", "equal").client_rows()
    assert [len(share.train) for share in shares] == [7000, 7000]
    assert problem.defaults["local_steps"] == 27
    assert problem.defaults["total_steps"] == 30 * 27
