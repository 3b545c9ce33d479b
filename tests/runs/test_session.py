"""The simulation of a charter, and a site whose server is silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from comity.configuration import read_toml
from comity.configuration.federation_file import FederationFile, read_federation, read_site
from comity.errors import RefusedError, UserError
from comity.federation.site import Membership
from comity.runs.join import agree, enter, join
from comity.runs.session import start_session

BANKS = Path(__file__).parents[2] / "examples" / "banks"
NAMES = ("bank-a", "bank-b", "bank-c")


def charter(home: Path, **others: Any) -> FederationFile:
    values = {**read_toml(BANKS / "federation.toml"), "rounds": 2, **others}
    (home / "charter.toml").write_text(tomli_w.dumps(values))
    return read_federation(home / "charter.toml")


def site(home: Path, name: str, preference: list[float]) -> Path:
    values = {
        "name": name, "federation": "charter.toml", "preference": preference,
        "data": str(BANKS / f"{name}.csv"),
    }  # fmt: skip
    path = home / f"{name}.toml"
    path.write_text(tomli_w.dumps(values))
    return path


def test_without_site_files_all_rows_are_stand_ins_and_preferences_are_drawn(tmp_path):
    run, strangers = start_session(charter(tmp_path), [], "same:0.6,0.4", tmp_path / "run")
    assert strangers == list(NAMES)
    assert run.configuration.get_preferences().tolist() == [[0.6, 0.4]] * 3
    assert run.configuration.names == list(NAMES)
    assert run.configuration.chunk == 1
    for name in NAMES:
        assert len((tmp_path / "run-stand-ins" / f"{name}.csv").read_text().splitlines()) == 301


def test_site_files_give_rows_and_preferences_and_the_rest_is_as_without_them(tmp_path):
    file = charter(tmp_path)
    drawn, _ = start_session(file, [], None, tmp_path / "drawn")
    own = read_site(site(tmp_path, "bank-b", [0.9, 0.1]))
    run, strangers = start_session(file, [own], None, tmp_path / "run")
    assert strangers == ["bank-a", "bank-c"]
    before, after = (one.configuration.get_preferences() for one in (drawn, run))
    assert after[1].tolist() == [0.9, 0.1]
    assert (after[[0, 2]] == before[[0, 2]]).all()
    problem = run.configuration.problem
    assert isinstance(problem, dict)
    assert problem["rows"][1] == str(BANKS / "bank-b.csv")
    assert not (tmp_path / "run-stand-ins" / "bank-b.csv").exists()


def test_a_site_of_another_charter_is_refused(tmp_path):
    file = charter(tmp_path)
    path = site(tmp_path, "bank-b", [0.9, 0.1])
    own = read_site(path)
    other = charter(tmp_path, seed=2)
    assert other.identity != file.identity
    with pytest.raises(UserError, match="'bank-b' is a site of another federation file"):
        start_session(other, [own], None, tmp_path / "run")
    assert not (tmp_path / "run").exists()


class SilentTransport:
    """A site's end on which nothing ever arrives."""

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        while not ended():
            time.sleep(0.01)

    def close(self) -> None:
        pass


def test_a_site_ends_once_the_server_has_been_silent_for_too_long(tmp_path):
    charter(tmp_path, session={"server_silent": 0.05})
    file = read_site(site(tmp_path, "bank-b", [0.9, 0.1]))
    agree(file)
    member = enter(file, Membership(1, file.federation.identity))
    with pytest.raises(RefusedError, match=r"silent for more than 0.05 s .* keeps its state"):
        join(member, SilentTransport())
