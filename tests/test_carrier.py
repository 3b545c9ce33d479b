"""Messages carried by CFDP: what arrives is what was sent, or nothing."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("cfdppy", reason="cfdp-py is not installed: pip install 'comity[dev]'")

from benchmarks import carrier


@pytest.fixture(autouse=True)
def silent():
    logging.disable(logging.WARNING)  # cfdp-py reports every timer
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_what_arrives_is_what_was_sent(loss, tmp_path):
    content = bytes(range(256)) * 20
    (tmp_path / "sent").write_bytes(content)
    link = carrier.Link(loss, seed=3)
    assert any(
        carrier.carry(tmp_path / "sent", tmp_path / "got", link, carrier.Timers())
        for _ in range(carrier.ATTEMPTS)
    )
    assert (tmp_path / "got").read_bytes() == content
    assert link.sent > len(content)
    assert loss or link.lost == link.again == 0


def test_a_file_cut_by_an_outage_is_not_taken_until_it_is_whole(tmp_path):
    settings = {"problem": "german-credit-gender-dp", "clients": 2, "rounds": 1, "chunk": 1}
    result = carrier.outage(tmp_path / "home", {**settings, "algorithm": "fedavg"})
    assert not result["complete"]
    assert 0 < result["partial"] < result["size"]
    assert not result["taken"]
    assert result["again"]
