"""Run directories: what is written, read again, and refused."""

from __future__ import annotations

import numpy as np
import pytest

from comity.core.fleet import Fleet
from comity.core.storage import save_values
from comity.errors import UserError
from comity.runs import base
from comity.runs.directory import Run
from comity.runs.model_files import load_model
from comity.runs.spans import Spans
from tests.tiny import tiny

NAMED = {"problem": "tiny", "algorithm": "fedavg"}
"""What results have at least."""


@pytest.fixture
def run(tmp_path) -> Run:
    return Run.create(tmp_path / "run", tiny(clients=2, algorithm="fedavg"))


def test_a_new_run_holds_its_configuration_and_nothing_else(run):
    assert [path.name for path in run.path.iterdir()] == ["config.toml"]
    assert Run.open(run.path).configuration == tiny(clients=2, algorithm="fedavg")
    assert not run.finished
    assert run.history == []
    assert run.spans is None
    assert run.load_checkpoint() is None
    with pytest.raises(UserError, match=r"not finished. Go on with: comity resume"):
        _ = run.results


def test_existing_and_foreign_directories_are_refused(run, tmp_path):
    with pytest.raises(UserError, match=r"exists already.*comity resume"):
        Run.create(run.path, tiny())
    with pytest.raises(UserError, match=r"not a run directory: it has no config\.toml"):
        Run.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out: cannot create"):
        Run.create(tmp_path / "file" / "run", tiny())


def test_history_is_cut_back_to_a_checkpoint(run):
    for number in (1, 2, 3):
        run.append_history({"round": number})
    run.cut_history(2)
    assert run.history == [{"round": 1}, {"round": 2}]
    with pytest.raises(UserError, match="damaged: 2 of 4 rounds are left"):
        run.cut_history(4)


def test_the_history_is_parsed_once_until_it_changes(run, monkeypatch):
    parsed, entry = [], base._entry
    monkeypatch.setattr(
        base,
        "_entry",
        lambda path, number, line: parsed.append(number) or entry(path, number, line),
    )
    run.append_history({"round": 1})
    assert run.history == run.history == [{"round": 1}]
    run.history.clear()
    assert len(run.history) == 1
    assert parsed == [1]
    run.append_history({"round": 2})
    assert run.history == [{"round": 1}, {"round": 2}]
    run.cut_history(1)
    assert run.history == [{"round": 1}]
    assert parsed == [1, 1, 2, 1]


def test_equal_models_are_in_a_checkpoint_once(run):
    models = np.random.default_rng(1).standard_normal((50, 1000)).astype(np.float32)
    state = {"models": models, "kept": models.copy(), "start": np.repeat(models[:1], 50, axis=0)}
    run.save_checkpoint(state, {})
    assert (run.path / "checkpoint.safetensors").stat().st_size < models.nbytes + 10_000
    arrays, _ = Run.open(run.path).load_checkpoint()
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in state.items()
    }


def test_checkpoints_of_versions_that_wrote_all_rows_are_read(run):
    rows = np.ones((3, 40))
    marks = {"config": (run.path / "config.toml").read_text(), "history_sha256": ""}
    save_values(run.path / "checkpoint.safetensors", {"a": rows, "b": rows}, {"directory": marks})
    arrays, _ = run.load_checkpoint()
    assert sorted(arrays) == ["a", "b"]
    np.testing.assert_array_equal(arrays["b"], rows)


def test_checkpoints_come_back_as_they_were(run):
    run.save_checkpoint({"a": np.arange(3.0)}, {"seconds": 1.5})
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    np.testing.assert_array_equal(checkpoint[0]["a"], [0.0, 1.0, 2.0])
    assert checkpoint[1]["seconds"] == 1.5


def test_the_history_is_on_the_disk_before_the_checkpoint(run, monkeypatch):
    order = []
    monkeypatch.setattr(base, "sync", lambda path: order.append(path.name))
    monkeypatch.setattr(base, "save_values", lambda path, *_: order.append(path.name))
    run.append_history({"round": 1})
    run.save_checkpoint({}, {})
    assert order == ["history.jsonl", "checkpoint.safetensors"]


def test_a_history_that_is_not_that_of_the_checkpoint_is_refused(run):
    for number in (1, 2):
        run.append_history({"round": number, "bytes": 17})
    run.save_checkpoint({}, {"seconds": 1.0})
    run.append_history({"round": 3, "bytes": 17})
    path = run.path / "history.jsonl"
    whole = path.read_bytes()
    again = Run.open(run.path)
    again.load_checkpoint()
    again.cut_history(2)  # what was written after the checkpoint is cut
    assert len(again.history) == 2
    path.write_bytes(whole.replace(b"17", b"18", 1))  # as long as before, and still JSON
    with pytest.raises(UserError, match="its 2 rounds are not those of the checkpoint"):
        again.cut_history(2)
    path.write_bytes(whole[:40])
    with pytest.raises(UserError, match="damaged: 2 of 3 rounds are left"):
        again.cut_history(3)


def test_an_edited_configuration_is_refused_by_its_field(run):
    run.save_checkpoint({}, {})
    config = run.path / "config.toml"
    text = config.read_text()
    config.write_text("# a comment changes nothing\n" + text)
    assert Run.open(run.path).load_checkpoint() is not None
    for before, after, words in (
        ("seed = 1", "seed = 3", "seed is 3, it was 1"),
        ('keep = "best"', 'keep = "last"', "keep is 'last', it was 'best'"),
        ("local_steps = 48", "local_steps = 49", r"dqn\.local_steps is 49, it was 48"),
        ("guard = false\n", "", "guard is not set, it was False"),
    ):
        assert before in text
        config.write_text(text.replace(before, after))
        with pytest.raises(UserError, match=words):
            Run.open(run.path).load_checkpoint()


@pytest.mark.parametrize("line", ["{", "[]", "null", "3", "\xff"])
def test_a_damaged_line_of_the_history_is_named(run, line):
    run.append_history({"round": 1})
    with (run.path / "history.jsonl").open("ab") as file:
        file.write(line.encode("latin-1"))
    with pytest.raises(UserError, match=r"history\.jsonl is damaged: line 2"):
        _ = run.history


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"problem": {"a": []}}'])
def test_results_that_are_none_are_named(run, text):
    (run.path / "results.json").write_text(text)
    with pytest.raises(UserError, match=r"results\.json is damaged"):
        _ = run.results


def test_models_are_not_written_through_a_link(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run.path / "models").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="models is a link"):
        run.save_models(Fleet.of(run.configuration.get_module(), 2))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_vectors_have_nan_where_a_score_is_undefined(run):
    clients = [
        {"objectives": {"treasure": 8.2, "time": -3.0}},
        {"objectives": {"treasure": None, "time": -1.0}, "objectives_last": {"a": 1.0, "b": 2.0}},
    ]
    run.save_results({**NAMED, "per_client": clients}, 2.5, {"clients": 2.0, "server": 0.25})
    np.testing.assert_array_equal(run.vectors, [[8.2, -3.0], [np.nan, -1.0]])
    np.testing.assert_array_equal(run.vectors_last, [[8.2, -3.0], [1.0, 2.0]])
    assert run.seconds == 2.5
    assert run.spent == {"clients": 2.0, "server": 0.25}
    assert run.finished


def test_damaged_results_are_named(run):
    (run.path / "results.json").write_text("{")
    with pytest.raises(UserError, match=r"results\.json is damaged"):
        _ = run.results


def test_spans_and_models_come_back_as_they_were(run):
    spans = Spans(np.array([[0.5, 0.5]]), np.ones((2, 1, 2)))
    run.save_spans(spans)
    assert run.spans is not None
    np.testing.assert_array_equal(run.spans.vectors, spans.vectors)
    template = run.configuration.get_module()
    fleet = Fleet.of(template, 2).clone()
    fleet.tensors["0.weight"][1] += 1.0
    run.save_models(fleet)
    second = load_model(run.path / "models" / "client-1.safetensors", template)
    np.testing.assert_array_equal(
        second.state_dict()["0.weight"].numpy(), fleet["0.weight"][1].numpy()
    )


def test_clients_and_preferences_that_a_run_lacks_are_named(run):
    run.save_results({**NAMED, "per_client": [{"client": 0}, {"client": 1}]}, 0.0)
    with pytest.raises(UserError, match=r"client = 2: .* it has 0 to 1"):
        run.model(2)
    with pytest.raises(UserError, match=r"2 objectives .* got 3 weights"):
        run.model_for(0, [0.2, 0.3, 0.5])
    with pytest.raises(UserError, match="a model of fedavg takes no preference"):
        run.model_for(0, [0.5, 0.5])
