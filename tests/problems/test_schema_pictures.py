from __future__ import annotations

import numpy as np
import pytest
import torch

import comity
from comity.algorithms import algorithms
from comity.configuration import configure
from comity.errors import UserError
from comity.problems import check_rows

pytestmark = pytest.mark.usefixtures("undrawn")

CLASSES = ["cat", "dog", "owl"]


def description(**more: object) -> dict[str, object]:
    values = {"kind": "pictures", "classes": CLASSES, "shape": [1, 6, 5], "network": "mlp"}
    return {**values, **more}


def pictures(size: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2 + seed, size)  # the first client has no owls
    images = draw.integers(0, 200, (size, 6, 5)).astype(np.uint8)
    images[np.arange(size), labels] = 255
    return {"images": images, "labels": labels}


@pytest.fixture
def paths(tmp_path) -> list[str]:
    for client in range(2):
        np.savez(tmp_path / f"{client}.npz", **pictures(20 + 10 * client, client))
    return [str(tmp_path / f"{client}.npz") for client in range(2)]


def test_a_site_has_the_pictures_of_the_simulation(paths, tmp_path):
    whole = configure({"problem": description(rows=paths), "algorithm": "fedavg"}).get_problem()
    for client in range(2):
        rows = [path if place == client else "" for place, path in enumerate(paths)]
        site = configure({"problem": description(rows=rows), "algorithm": "fedavg"}).get_problem()
        for part in ("train", "validation", "test"):
            here, there = (getattr(p.client_rows()[client], part) for p in (site, whole))
            assert len(here) > 0
            for name, column in whole.columns().items():
                assert torch.equal(site.columns()[name][here], column[there])
        assert len(site.client_rows()[1 - client].train) == 0
    run = comity.run(description(rows=paths), algorithm="fedavg", rounds=1, out=tmp_path / "run")
    assert run.results["clients"] == 2
    with pytest.raises(UserError, match="the rows of client 0 are not held here"):
        comity.run(description(rows=["", paths[1]]), algorithm="fedavg", out=tmp_path / "no")


def test_own_pictures_are_checked(paths, tmp_path):
    report = check_rows(description(), paths[0])
    assert (report.rows, report.findings) == (20, ())
    counts = np.bincount(pictures(20, 0)["labels"], minlength=3)
    assert [row["pictures"] for row in report.counts.values()] == counts.tolist()
    assert list(report.counts) == CLASSES
    np.savez(tmp_path / "few.npz", **{k: v[:2] for k, v in pictures(20, 0).items()})
    (finding,) = check_rows(description(), tmp_path / "few.npz").findings
    assert finding.text.startswith("the file has 2 rows of any kind, but needs 3")
    (finding,) = check_rows(description(shape=[1, 5, 6]), paths[0]).findings
    assert "bytes (uint8) of 1 x 5 x 6, got uint8 of 1 x 6 x 5" in finding.text


@pytest.mark.parametrize("network", ["mlp", "cnn"])
@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedrep", "fedcp", "fedpac", "fedrod"])
def test_a_server_without_pictures_has_the_declared_model(name, network):
    assert not algorithms()[name].centralised
    problem = description(network=network, shape=[3, 16, 16])
    configuration = configure({"problem": problem, "algorithm": name, "clients": 3})
    assert len(configuration.get_module().state_dict()) > 0
    outputs = configuration.get_problem().model()(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))
    assert outputs.shape == (2, 3)


def test_a_directory_with_a_folder_per_class(tmp_path):
    from PIL import Image

    for number, name in enumerate(["dog", "cat", "dog", "owl"]):
        (tmp_path / "own" / name).mkdir(parents=True, exist_ok=True)
        pixels = np.full((6, 5), 10 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "own" / name / f"{number}.png")
    values = {"problem": description(rows=[str(tmp_path / "own")]), "algorithm": "fedavg"}
    samples = configure(values).get_problem().samples()
    assert samples.columns["label"].tolist() == [0, 1, 1, 2]
    assert samples.columns["inputs"][:, 0, 0, 0].tolist() == [10, 0, 20, 30]
    (tmp_path / "own" / "owl").rename(tmp_path / "own" / "cow")
    with pytest.raises(UserError, match=r"cow: is no class; the classes are cat, dog, owl"):
        configure(values)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        (
            {"images": np.zeros((4, 5, 6), np.uint8)},
            "bytes .uint8. of 1 x 6 x 5, got uint8 of 1 x 5 x 6",
        ),
        ({"images": np.zeros((4, 6, 5))}, "got float64 of"),
        (
            {"labels": np.zeros(3, np.int64)},
            r"one whole number per picture, got int64 of shape \(3,\)",
        ),
        (
            {"labels": np.array([0, 1, 3, 0])},
            r"picture 2 has the label 3, but .* 0 to 2: cat, dog, owl",
        ),
        ({"labels": np.array([object()] * 4)}, "an .npz file with the arrays images and labels"),
    ],
)
def test_wrong_files_are_refused(arrays, text, tmp_path):
    right = {"images": np.zeros((4, 6, 5), np.uint8), "labels": np.zeros(4, np.int64)}
    np.savez(tmp_path / "own.npz", **{**right, **arrays})
    with pytest.raises(UserError, match=text):
        configure({"problem": description(rows=[str(tmp_path / "own.npz")]), "algorithm": "fedavg"})
