"""A rehearsal over Flower, with real processes, TLS and keyed SuperNodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.federation.flower import flower
from tests.federation.processes import with_path

pytestmark = flower

BANKS = Path(__file__).parents[2] / "examples" / "banks"


def test_a_rehearsal_over_flower_equals_the_simulation_and_ends(comity):
    banks = comity.home / "banks"
    shutil.copytree(BANKS, banks)
    federation = banks / "federation.toml"
    text = federation.read_text()
    federation.write_text(text.replace("rounds = 20\n", "rounds = 2\n"))
    assert federation.read_text() != text
    done = comity(
        *("rehearse", federation, "--transport", "flower", "--out", "out", "--json"), seconds=900
    )
    assert not with_path(comity.home)
    results = json.loads(done.stdout)
    assert results["transport"] == "flower"
    assert results["rounds"] == 2
    assert results["absences"] == []
    assert results["equal_to_simulation"] is True
    status = json.loads((comity.home / "out" / "server" / "status.json").read_text())
    assert status["events"] == []
    assert {site["last_round"] for site in status["sites"].values()} == {4}, "all answered the end"
    log = (comity.home / "out" / "server" / "flower" / "flower.log").read_text()
    assert "running on https://127.0.0.1:" in log
    registered = json.loads((comity.home / "out/server/flower/registered.json").read_text())
    nodes = {name: node for name, (node, _) in registered.items()}
    assert sorted(nodes) == ["bank-a", "bank-b", "bank-c"]
    for node in nodes.values():
        assert f"Activated node_id={node}" in log
