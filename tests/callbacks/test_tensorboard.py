"""Event files of TensorBoard, read back with TensorBoard's own reader."""

from __future__ import annotations

import sys

import pytest

from comity.callbacks import TensorBoard
from comity.errors import UserError
from tests.callbacks.logged import logged_run, trained

reader = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="the extra tensorboard is not installed",
)


def test_scalars_are_those_of_history_and_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = logged_run(tmp_path / "some" / "run", TensorBoard("logs"))
    read = reader.EventAccumulator("logs/some/run")
    read.Reload()
    points = read.Scalars("trained/accuracy")
    assert [point.step for point in points] == [1, 2]
    assert [point.value for point in points] == pytest.approx(trained(run, "accuracy"))
    (volume,) = read.Scalars("result/hypervolume")
    assert volume.value == pytest.approx(run.results["metrics"]["hypervolume"])
    assert volume.step == 2
    (settings,) = read.Tensors("settings/text_summary")
    assert b'"algorithm": "fedavg"' in settings.tensor_proto.string_val[0]
    (verdict,) = read.Tensors("verdict/text_summary")
    assert run.results["verdict"]["sentences"][0].encode() in verdict.tensor_proto.string_val[0]


def test_a_missing_library_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(UserError, match=r"TensorBoard is not installed.*comity\[tensorboard\]"):
        TensorBoard(tmp_path)
