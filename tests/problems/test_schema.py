from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import comity
from comity.algorithms import algorithms
from comity.configuration import configure, read_toml
from comity.errors import UserError
from comity.federation.clients import Clients
from comity.federation.messages import RoundRequest
from comity.problems import check_rows, find, resolved
from comity.problems.schema import SchemaProblem

pytestmark = pytest.mark.usefixtures("undrawn")

SIZES = (40, 61, 90)
PREFERENCES = [[0.7, 0.3], [0.5, 0.5], [0.9, 0.1]]
BANKS = Path(__file__).parents[2] / "examples" / "banks"


def schema(scale: object = (50.0, 10.0), **more: object) -> dict[str, object]:
    columns = {
        "age": {"type": "number", "scale": scale},
        "work": {"values": ["a", "b", "other"]},
        "hours": {"type": "number", "scale": (40, 8)},
        "sex": {"values": ["f", "m"], "sensitive": True},
    }
    return {"kind": "table", "label": "rich", "positive": "yes", "columns": columns, **more}


@pytest.fixture
def paths(tmp_path) -> list[str]:
    """The rows of three clients, whose people are of different ages."""
    for client, size in enumerate(SIZES):
        draw = random.Random(client)
        with (tmp_path / f"{client}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["sex", "age", "work", "hours", "rich", "name"])
            for _ in range(size):
                age, sex = draw.randint(18, 60) + 7 * client, draw.choice("fm")
                rich = "yes" if age + 9 * (sex == "m") + draw.gauss(0, 9) > 52 else "no"
                work = draw.choice(["a", "b", "z"])
                table.writerow([sex, age, work, draw.randint(20, 60), rich, "x"])
    return [str(tmp_path / f"{client}.csv") for client in range(len(SIZES))]


def only(values: list, client: int, empty: object) -> list:
    return [value if place == client else empty for place, value in enumerate(values)]


def run_values(problem: dict[str, object], **more: object) -> dict[str, object]:
    return {"problem": problem, "clients": 3, "rounds": 2, "chunk": 1, **more}


# -- the same rows at a site as in the simulation -------------------------------------------


@pytest.mark.parametrize("scale", [(50.0, 10.0), "federated"])
def test_a_site_learns_from_the_bits_of_the_simulation(paths, scale):
    whole = configure(run_values(schema(scale, rows=paths), preferences=PREFERENCES))
    simulated = whole.get_problem()
    statistics = []
    for client in range(3):
        alone = configure(run_values(schema(scale, rows=only(paths, client, "")))).get_problem()
        statistics.append(alone.scale_statistics(client))
    scales = alone.federated_scales(statistics) if scale == "federated" else {}
    for client in range(3):
        site = configure(
            run_values(
                schema(scale, rows=only(paths, client, ""), scales=scales),
                preferences=only(PREFERENCES, client, []),
            )
        )
        problem = site.get_problem()
        assert len(problem.samples().strata) == SIZES[client]
        assert set(problem.samples().silos) == {client}
        for part in ("train", "validation", "test"):
            here, there = (
                torch.from_numpy(getattr(p.client_rows()[client], part))
                for p in (problem, simulated)
            )
            assert len(here) == len(there) > 0
            for name, column in simulated.columns().items():
                assert torch.equal(problem.columns()[name][here], column[there])
        for other in {0, 1, 2} - {client}:
            assert len(problem.client_rows()[other].train) == 0
        first, second = (
            Clients(configuration, (client,)).round(RoundRequest(1, (client,), None))
            for configuration in (site, whole)
        )
        for name in first.models:
            assert torch.equal(first.models[name], second.models[name])


def test_scales_are_those_of_the_training_rows_of_all(paths):
    problem = configure(run_values(schema("federated", rows=paths))).get_problem()
    rows = np.concatenate([share.train for share in problem.client_rows()])
    ages = problem.samples().columns["inputs"][rows, 0].double().numpy()
    (mean, spread), hours = problem.scales()
    assert mean == pytest.approx(ages.mean(), rel=1e-12)
    assert spread == pytest.approx(ages.std(ddof=1), rel=1e-12)
    assert hours == (40, 8)
    inputs = problem.columns()["inputs"][rows].double()
    assert inputs[:, 0].mean() == pytest.approx(0, abs=1e-6)
    raw = problem.samples().columns["inputs"]
    assert problem.columns()["inputs"][0, 4] == (raw[0, 4] - 40) / 8  # after age and three works
    new = problem.inputs_of({"age": ["50"], "work": ["b"], "hours": ["48"], "sex": ["m"]})
    age = np.float32((50 - mean) / spread)
    assert new.tolist() == [[age, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]


def test_rows_keep_their_order_and_another_seed_splits_them_anew(paths):
    problem = configure(run_values(schema(rows=paths))).get_problem()
    with open(paths[1], newline="") as file:
        ages = [float(row["age"]) for row in csv.DictReader(file)]
    start = SIZES[0]
    assert problem.samples().columns["inputs"][start : start + SIZES[1], 0].tolist() == ages
    share = problem.client_rows()[1]
    rows = np.sort(np.concatenate([share.train, share.validation, share.test]))
    assert rows.tolist() == list(range(start, start + SIZES[1]))
    other = configure(run_values(schema(rows=paths), seed=2)).get_problem().client_rows()[1]
    assert not np.array_equal(other.test, share.test)


# -- a server without rows -----------------------------------------------------------------

SUITABLE = [
    name
    for name, algorithm in sorted(algorithms().items())
    if not algorithm.centralised
    and not algorithm.needs & {"classes", "rewards"}
    and name != "fedbn"
]


@pytest.mark.parametrize("algorithm", SUITABLE)
def test_a_server_without_rows_has_the_model_of_the_simulation(algorithm, paths):
    values = {"algorithm": algorithm, "preferences": [[]] * 3}
    server = configure(run_values(schema("federated"), **values))
    assert np.isnan(server.get_preferences()).all()
    assert len(server.get_problem().samples().strata) == 0
    whole = configure(run_values(schema("federated", rows=paths), **values))
    shapes = [
        {name: tensor.shape for name, tensor in c.get_module().state_dict().items()}
        for c in (server, whole)
    ]
    assert shapes[0] == shapes[1] != {}


def test_inputs_need_scales(paths):
    rows = only(paths, 1, "")
    problem = configure(run_values(schema("federated", rows=rows))).get_problem()
    with pytest.raises(UserError, match="scale of age is federated and not known here"):
        problem.columns()
    server = configure(run_values(schema("federated", scales={"age": [40, 9]}))).get_problem()
    assert server.columns()["inputs"].shape == (0, 7)
    assert server.strict_point() is None


# -- preferences and rows that are not known here ------------------------------------------


def test_a_simulation_needs_all_preferences_and_all_rows(paths, tmp_path):
    unknown = {"preferences": only(PREFERENCES, 2, [])}
    site = configure(run_values(schema(rows=paths), **unknown))
    assert site.get_preferences()[[2]].tolist() == [PREFERENCES[2]]
    assert configure(run_values(schema(rows=paths), **unknown)).preferences == [[], [], [0.9, 0.1]]
    with pytest.raises(UserError, match="preferences: that of client 0 is empty; a simulation"):
        comity.run(schema(rows=paths), rounds=1, out=tmp_path / "run", **unknown)
    partly = schema(rows=[paths[0], "", paths[2]])
    with pytest.raises(UserError, match="the rows of client 1 are not held here; a simulation"):
        comity.run(partly, rounds=1, out=tmp_path / "run")
    with pytest.raises(UserError, match="the rows of client 1 are not held here; a simulation"):
        comity.compare(partly, algorithms=["fedavg"], seeds=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_simulation_runs_to_its_end(paths, tmp_path):
    run = comity.run(
        schema("federated", rows=paths, name="three"),
        **{"algorithm": "fedpref", "rounds": 2, "preferences": PREFERENCES},
        supervised={"local_steps": 3},
        out=tmp_path / "run",
    )
    assert run.results["problem"] == "three"
    assert run.results["clients"] == 3
    assert [sum(parts) for parts in zip(*run.results["samples"].values(), strict=True)] == [*SIZES]
    assert set(run.results["per_client"][0]["objectives"]) == {"accuracy", "fairness"}
    assert any("cells of work count as other" in note for note in run.results["notes"])
    assert run.configuration.problem["rows"] == paths
    assert configure(read_toml(run.path / "config.toml")) == run.configuration


def test_a_file_that_has_changed_is_refused(paths):
    values = resolved(schema(rows=paths))
    Path(paths[1]).write_text(Path(paths[1]).read_text() + "m,30,a,40,no,x\n")
    with pytest.raises(UserError, match=r"1\.csv has changed since this run was configured"):
        configure(run_values(values))


# -- what is refused -----------------------------------------------------------------------


def test_paths_are_made_absolute_with_checksums_where_rows_are_held(paths, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    values = resolved(schema(rows=["", "1.csv", ""]))
    assert values["rows"] == ["", paths[1], ""]
    assert [len(digest) for digest in values["sha256"]] == [0, 64, 0]
    assert resolved(schema())["rows"] == []
    assert list(values["columns"]) == ["age", "work", "hours", "sex"]
    with pytest.raises(UserError, match=r"problem\.rows: cannot read .*absent\.csv"):
        resolved(schema(rows=["absent.csv"]))


def with_column(**column: object) -> dict[str, object]:
    values = schema()
    return {**values, "columns": {**values["columns"], "extra": column}}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({**schema(), "kind": "tabel"}, r"unknown problem.kind 'tabel'. Did you mean 'table'"),
        ({"kind": "table", "label": "rich", "positive": "yes"}, r"problem.columns .*required"),
        (with_column(type="number"), r"problem.columns.extra: say type = 'number' with scale"),
        (with_column(), r"problem.columns.extra: say type"),
        (with_column(type="number", scale=[1, 0]), r"problem.columns.extra.scale"),
        (with_column(type="number", scale=[1, 2], values=["a"]), r"columns.extra: say type"),
        (with_column(type="number", scale=[1, 2], sensitive=True), "needs values"),
        (with_column(values=["a", "a"]), "names a value twice"),
        (with_column(values=["a", "?"]), "stands for a missing cell"),
        (with_column(values=["a"], sensitive=True), "2 to 10 values, got 1"),
        (with_column(values=["a"], colour=1), "unknown setting of problem.columns.extra 'colour'"),
        (schema(label="sex"), r"problem.columns.sex: the label must have two values"),
        (schema(scales={"age": [1, 2]}), "only a column with scale = 'federated'"),
        (schema(metrics=["dp", "dp"]), "twice"),
        (schema(columns={"age": {"type": "number", "scale": [1, 2]}}), "must be sensitive"),
        (schema(sha256=["0" * 64]), "problem.sha256 has 1 entries, but problem.rows 0"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said(values, text):
    with pytest.raises(UserError, match=text):
        find(values)


def test_a_run_has_as_many_clients_as_paths_and_no_other_partition(paths):
    with pytest.raises(UserError, match=r"clients = 4, but problem.rows has 3 paths"):
        configure({**run_values(schema(rows=paths)), "clients": 4})
    with pytest.raises(UserError, match=r"partition = stratified does not go with problem table"):
        configure(run_values(schema(rows=paths), partition="stratified"))
    with pytest.raises(UserError, match=r"sizes = 1,2,3 does not go with problem table"):
        configure(run_values(schema(rows=paths), sizes="1,2,3"))


def test_a_client_without_enough_people_of_a_group_is_named(paths):
    kept = [line for line in Path(paths[1]).read_text().splitlines() if not line.startswith("f,")]
    Path(paths[1]).write_text("\n".join([*kept, "f,30,a,40,no,x", "f,50,a,40,yes,x"]) + "\n")
    with pytest.raises(UserError, match=r"1\.csv: client 1 has 2 rows of sex = f, but needs 3"):
        configure(run_values(schema(rows=paths)))
    report = check_rows(schema(), paths[1])
    assert [finding.text for finding in report.findings] == [
        "the file has 2 rows of sex = f, but needs 3 (to train, validate and test); get more rows, "
        "or agree on larger groups."
    ]
    assert report.counts["sex = f"] == {"no": 1, "yes": 1}


def test_own_rows_are_checked_against_the_schema(paths):
    report = check_rows(schema(), paths[0])
    assert (report.rows, report.findings, report.unused) == (SIZES[0], (), ("name",))
    assert list(report.counts) == ["sex = f", "sex = m"]
    assert sum(count for row in report.counts.values() for count in row.values()) == SIZES[0]
    with pytest.raises(UserError, match="kind is missing"):
        check_rows({"data": "adult"}, paths[0])
    lines = Path(paths[0]).read_text().splitlines()
    lines[2], lines[5], lines[7] = "fem,30,a,40,no,x", "m,old,a,40,no,x", ",20,a,40,late,x"
    lines[0] = "sex,age,work,hour,rich,name"
    Path(paths[0]).write_text("\n".join(lines) + "\n")
    report = check_rows(schema(), paths[0])
    assert [(finding.column, finding.row) for finding in report.findings] == [
        *[("age", 6), ("hours", None), ("sex", 3), ("sex", 8), ("rich", 8)]
    ]
    assert report.counts == {}


# -- the example ---------------------------------------------------------------------------


def test_three_banks_fit_their_federation():
    federation = read_toml(BANKS / "federation.toml")
    names = list(federation["sites"])
    sites = [read_toml(BANKS / f"{name}.toml") for name in names]
    assert [site["name"] for site in sites] == names
    rows = [BANKS / site["data"] for site in sites]
    for path in rows:
        assert check_rows(federation["problem"], path).findings == ()
    lines = [line for path in rows for line in path.read_text().splitlines()[1:]]
    assert len(lines) == 2400
    problem = find({**federation["problem"], "rows": list(map(str, rows))})
    assert isinstance(problem, SchemaProblem)
    assert len(problem.samples().strata) == 2400
    for site in sites:
        assert len(site["preference"]) == len(problem.objectives)
        assert sum(site["preference"]) == 1
