"""Names of clients: given, of the data's silos, or of files."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import comity
from comity.configuration import check_complete, configure
from comity.errors import UserError

PEOPLE = {"problem": "german-credit-gender-dp", "clients": 2, "rounds": 1}
HEART = {"problem": "heart-disease-gender-dp", "clients": 4, "partition": "natural", "rounds": 1}


@pytest.mark.parametrize("names", ["north,south", ["north", "south"]])
def test_names_are_a_list_or_a_text(names):
    configuration = configure({**PEOPLE, "names": names})
    assert configuration.get_names() == ("north", "south")
    assert configuration.named(1) == "client 1 (south)"


def test_clients_without_names_have_numbers():
    configuration = configure(PEOPLE)
    assert configuration.get_names() == ("0", "1")
    assert configuration.named(1) == "client 1"
    assert configuration.client_number("1") == configuration.client_number(1) == 1


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["north"], "1 names for 2 clients"),
        (["north", " "], "client 1 is ' '"),
        (["north", "so\nuth"], "printable"),
        (["north", "north"], "'north' occurs twice"),
        (["1", "south"], "'1' is the number of another client than 0"),
    ],
)
def test_names_that_do_not_tell_clients_apart_are_refused(names, fault):
    with pytest.raises(UserError, match=f"names: .*{fault}"):
        configure({**PEOPLE, "names": names})


def test_a_silo_names_its_client_and_a_given_name_wins():
    silos = ("cleveland", "hungarian", "switzerland", "va")
    assert configure(HEART).get_names() == silos
    assert configure({**HEART, "names": "a,b,c,d"}).get_names() == ("a", "b", "c", "d")
    assert configure({**HEART, "partition": "stratified"}).names == []


def table(tmp_path, banks):
    path = tmp_path / "loans.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["bank", "sex", "income", "repaid"])
        for row in range(80):
            bank, sex = banks[row % len(banks)], "fm"[row // 2 % 2]
            writer.writerow([bank, sex, row / 4, "yes" if row % 3 else "no"])
    return {"data": str(path), "label": "repaid", "sensitive": ["sex"], "client": "bank"}


def test_numbers_of_silos_are_not_taken_for_numbers_of_clients(tmp_path):
    values = {"problem": table(tmp_path, ["1", "2"]), "clients": 2, "partition": "natural"}
    assert configure(values).get_names() == ("silo 1", "silo 2")


def schema(tmp_path, names) -> dict[str, Any]:
    paths = []
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [f"{row},{'fm'[row // 2 % 2]},{'yes' if row % 3 else 'no'}" for row in range(60)]
        path.write_text("\n".join(["age,sex,repaid", *lines]) + "\n")
        paths.append(str(path))
    columns = {
        "age": {"type": "number", "scale": [30, 10]},
        "sex": {"values": ["f", "m"], "sensitive": True},
    }
    return {
        "kind": "table",
        "label": "repaid",
        "positive": "yes",
        "columns": columns,
        "rows": paths,
    }


def test_files_name_their_clients_if_their_names_differ(tmp_path):
    problem = schema(tmp_path, ["north.csv", "south.csv"])
    assert configure({"problem": problem}).get_names() == ("north", "south")
    problem = schema(tmp_path, ["a/rows.csv", "b/rows.csv"])
    assert configure({"problem": problem}).names == []
    problem = schema(tmp_path, ["1.csv", "2.csv"])
    assert configure({"problem": problem}).names == []
    some = {**problem, "rows": [problem["rows"][0], ""]}
    part = configure({"problem": some, "clients": 2, "names": "here,there"})
    with pytest.raises(UserError, match=r"the rows of client 1 \(there\) are not held here"):
        check_complete(part)


def test_models_are_found_by_name(tmp_path):
    problem = table(tmp_path, ["Nord", "BancoSur"])
    run = comity.run(
        problem, algorithm="fedavg", clients=2, partition="natural", rounds=1, out=tmp_path / "run"
    )
    assert [row["name"] for row in run.results["per_client"]] == ["BancoSur", "Nord"]
    first, named = run.model(0).state_dict(), run.model(client="BancoSur").state_dict()
    assert all((first[name] == named[name]).all() for name in first)
    rows = {"sex": ["f"], "income": ["30"]}
    assert comity.predict(run, rows, client="Nord") == comity.predict(run, rows, client=1)
    with pytest.raises(UserError, match=r"unknown client 'BancSur'\. Did you mean 'BancoSur'\?"):
        run.model("BancSur")
    with pytest.raises(UserError, match=r"client = 2: .* it has 0 to 1 \(BancoSur, Nord\)\."):
        run.model(2)
