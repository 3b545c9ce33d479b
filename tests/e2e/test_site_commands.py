"""What a site's owner sees before anything is sent: check, keys, join without consent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from comity.federation.keys import read_certificate

BANKS = Path(__file__).parents[2] / "examples" / "banks"


@pytest.fixture
def bank(comity):
    """The directory of bank-c, with its rows, its file and the federation file."""
    for name in ("federation.toml", "bank-c.toml", "bank-c.csv"):
        shutil.copy(BANKS / name, comity.home)
    return comity.home


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def ask_for_scales(bank: Path) -> None:
    """Let the federation ask for a scale, and the site's policy allow it."""
    change(bank / "federation.toml", "scale = [38.6, 13.7]", 'scale = "federated"')
    with (bank / "bank-c.toml").open("a") as file:
        file.write('[policy]\nstatistics = ["size", "scales"]\n')


def test_check_says_what_would_leave(comity, bank):
    text = comity("check", "bank-c.toml").stdout
    rows = (bank / "bank-c.csv").read_text().splitlines()[1:]
    rich = sum(",Female," in row and row.endswith(">50K") for row in rows)
    poor = sum(",Female," in row for row in rows) - rich
    assert any(line.split() == ["sex", "=", "Female", str(poor), str(rich)]
               for line in text.splitlines())  # fmt: skip
    assert "rows, preference" in text
    assert "once" not in text


def test_check_tells_of_federated_scales(comity, bank):
    ask_for_scales(bank)
    found = json.loads(comity("check", "bank-c.toml", "--json").stdout)
    assert found["leaves"]["scales"] == ["age"]
    assert "count, sum, sum of squares: age" in comity("check", "bank-c.toml").stdout


def test_check_fails_where_the_policy_refuses(comity, bank):
    with (bank / "bank-c.toml").open("a") as file:
        file.write("[policy]\nleast_partners = 3\n")
    done = comity("check", "bank-c.toml", code=3)
    assert "policy.least_partners = 3: this federation has 2 other sites" in done.stderr


def test_keys_are_for_the_hosts_on_the_command_line(comity):
    comity("keys", "server", "--host", "federation.example.org", "--host", "10.0.0.7")
    hosts = read_certificate(comity.home / "server.crt").hosts
    assert {"federation.example.org", "10.0.0.7", "localhost", "127.0.0.1"} <= set(hosts)
    done = comity("keys", "bank-a", "--host", "example.org:8443", code=2)
    assert "host 'example.org:8443'" in done.stderr


def test_a_site_reads_all_that_leaves_before_it_agrees(comity, bank):
    ask_for_scales(bank)
    change(bank / "bank-c.toml", "federation =", 'key = "bank-c.key"\nfederation =')
    blocks = []
    for name in ("server", "bank-a", "bank-b", "bank-c"):
        printed = comity("keys", name).stdout
        blocks.append(printed[printed.index("[") :])
    change(bank / "federation.toml", "[sites.bank-a]\n\n[sites.bank-b]\n\n[sites.bank-c]\n", "")
    with (bank / "federation.toml").open("a") as file:
        file.write("\n".join(blocks))
    done = comity("join", "bank-c.toml", code=3)
    assert "Once: count, sum and sum of squares of age. Never: rows, preference." in done.stderr
    assert not (bank / "bank-c" / "agreed").exists()
