"""The data sets that come with the package: what each is for, and proof that it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import as_file, files

from comity.datasets.columns import Columns, read_columns
from comity.datasets.tables import Attribute, Table, make_table, renamed
from comity.errors import UserError, unknown


@dataclass(frozen=True)
class Dataset:
    """A shipped data set: its file, what is learned from it, and counts that a whole copy has."""

    title: str
    file: str
    sha256: str
    rows: int
    positives: int
    """Rows whose label is 1."""
    counts: Mapping[str, Mapping[str, int]]
    """Rows in some of the groups, by sensitive attribute, or ``{"site": …}`` by site."""
    label: str
    attributes: Mapping[str, Attribute]
    positive: str | None = None
    features: tuple[str, ...] = ()
    """The inputs; empty for all columns but label, site and those to ``drop``."""
    drop: tuple[str, ...] = ()
    site: str | None = None
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What the codes in a column stand for; an empty name makes a cell missing."""
    notes: tuple[str, ...] = ()


DATASETS = {
    "adult": Dataset(
        title="Adult: does a person earn more than 50,000 dollars a year (US census, 1994)",
        file="adult.csv.gz",
        sha256="9653a39fc84ab1a35bd443daad61a6c7294ef9eac5b7b14601e36937915e3836",
        rows=48_842,
        positives=11_687,
        counts={"gender": {"female": 16_192}, "race": {"white": 41_762}},
        label="income",
        positive=">50K",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["Female"], "male": ["Male"]}},
            "race": {"column": "race", "groups": {"not white": "*", "white": ["White"]}},
        },
        drop=("fnlwgt", "split"),
        notes=(
            "the official training and test parts are pooled",
            "the census weight fnlwgt is no input",
        ),
    ),
    "compas": Dataset(
        title="COMPAS: does a defendant not reoffend within two years (Broward County, 2013-14)",
        file="compas_two_years_no_names.csv.gz",
        sha256="5014b7f6f9e5096968c3b1393dd5bdde13709cf3590ecced53ca39779baeef16",
        rows=7_214,
        positives=3_963,
        counts={"gender": {"female": 1_395}, "race": {"African-American": 3_696}},
        label="two_year_recid",
        positive="0",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["Female"], "male": ["Male"]}},
            "race": {
                "column": "race",
                "groups": {"African-American": ["African-American"], "other": "*"},
            },
        },
        features=(
            "sex",
            "age",
            "age_cat",
            "race",
            "juv_fel_count",
            "juv_misd_count",
            "juv_other_count",
            "priors_count",
            "c_charge_degree",
            "c_charge_desc",
        ),
        notes=("label 1 is not to reoffend",),
    ),
    "law-school": Dataset(
        title="Law School: does a graduate pass the bar at the first attempt (LSAC, 1991-97)",
        file="law_school.csv.gz",
        sha256="4898d87cd56277ed7ff56f32509c69edec89d37f5b575538649f0b8dcd4669ec",
        rows=21_791,
        positives=19_360,
        counts={"gender": {"female": 9_537}, "race": {"white": 18_285}},
        label="first_pf",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["female"], "male": ["male"]}},
            "race": {"column": "race", "groups": {"not white": "*", "white": ["White"]}},
        },
        features=("race", "sex", "LSAT", "UGPA", "region_first", "ZFYA"),
        site="region_first",
        names={
            "sex": {"1": "female", "2": "male"},
            # one graduate cannot be a site; in the largest region the row weighs least
            "region_first": {"PO": "NE"},
        },
        notes=(
            "sander_index is no input: it is a sum of LSAT and UGPA",
            "the one row of region PO counts as region NE",
        ),
    ),
    "credit-default": Dataset(
        title="Credit Default: will a card holder miss the next payment (Taiwan, 2005)",
        file="credit_card_default.csv.gz",
        sha256="613a82c1635dd999528a04966e77d42445c21201422a2e12a6b434c90631a14b",
        rows=30_000,
        positives=6_636,
        counts={"gender": {"female": 18_112}},
        label="default payment next month",
        attributes={
            "gender": {"column": "SEX", "groups": {"female": ["female"], "male": ["male"]}}
        },
        drop=("ID",),
        names={
            "SEX": {"1": "male", "2": "female"},
            "EDUCATION": {
                "1": "graduate school",
                "2": "university",
                "3": "high school",
                "4": "other",
                "0": "undocumented",
                "5": "undocumented",
                "6": "undocumented",
            },
            "MARRIAGE": {"1": "married", "2": "single", "3": "other", "0": "undocumented"},
        },
        notes=("undocumented codes of EDUCATION (0, 5, 6) are one category",),
    ),
    "bank-marketing": Dataset(
        title="Bank Marketing: does a customer take a term deposit (Portugal, 2008-10)",
        file="bank_marketing_full.csv.gz",
        sha256="ceed48fb08f3fcc3fbb8fa98005db59772e08c28ff5d06b0c2ea73b219ce468d",
        rows=45_211,
        positives=5_289,
        counts={"marital": {"married": 27_214}},
        label="y",
        attributes={
            "age": {"column": "age", "groups": {"under 25 or over 60": "*", "25 to 60": "25..60"}},
            "marital": {
                "column": "marital",
                "groups": {"not married": "*", "married": ["married"]},
            },
        },
        drop=("day", "month"),
        notes=(
            "day and month of the call are no inputs",
            "duration, an input, is known only when the call is over",
        ),
    ),
    "german-credit": Dataset(
        title="German credit: is a borrower a good risk (a German bank, 1973-75)",
        file="german_credit.csv.gz",
        sha256="811779c2fd523f5ddcc60132eb519297587145a3a257ed5ea8a608a91288e9f1",
        rows=1_000,
        positives=700,
        counts={"gender": {"female": 310}},
        label="credit_risk",
        positive="1",
        attributes={
            # A95 would be single women, but there are none in the data
            "gender": {
                "column": "personal_status_sex",
                "groups": {"female": ["A92"], "male": ["A91", "A93", "A94"]},
            },
            "age": {"column": "age", "groups": {"up to 25": "<= 25", "over 25": "> 25"}},
        },
        notes=("gender follows the original code table, which is known to be wrong in part",),
    ),
    "heart-disease": Dataset(
        title="Heart disease: is a patient ill, at four hospitals (1981-87)",
        file="heart_disease_4_hospitals.csv.gz",
        sha256="4551055c3d16ebda4ae44f65e04e8c765d3cb5634c803ca1cc6bf9c3fb86fe27",
        rows=920,
        positives=509,
        counts={"site": {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}},
        label="num",
        positive="ill",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["female"], "male": ["male"]}}
        },
        site="site",
        names={
            "num": {"0": "well", "1": "ill", "2": "ill", "3": "ill", "4": "ill"},
            "sex": {"0.0": "female", "1.0": "male"},
            "cp": {
                "1.0": "typical angina",
                "2.0": "atypical angina",
                "3.0": "other pain",
                "4.0": "no symptoms",
            },
            "restecg": {"0.0": "normal", "1.0": "ST-T", "2.0": "hypertrophy"},
            "slope": {"1.0": "up", "2.0": "flat", "3.0": "down"},
            "thal": {"3.0": "normal", "6.0": "fixed", "7.0": "reversible"},
            # no living patient has a cholesterol or blood pressure of 0
            "chol": {"0.0": ""},
            "trestbps": {"0.0": ""},
        },
        notes=("a cholesterol or blood pressure of 0 counts as missing",),
    ),
}


@lru_cache(maxsize=len(DATASETS))
def dataset(name: str) -> Table:
    """A shipped data set, encoded; its copy is checked first."""
    columns = shipped(name)
    what = DATASETS[name]
    left_out = {what.label, what.site, *what.drop}
    table = make_table(
        name,
        renamed(columns, what.names),
        label=what.label,
        positive=what.positive,
        sensitive=what.attributes,
        features=what.features or [column for column in columns if column not in left_out],
        client=what.site,
        missing="category",
    )
    _check(name, what, table)
    return replace(table, notes=(*table.notes, *what.notes), names=what.names)


def shipped(name: str) -> Columns:
    """The columns of a shipped data set as they are in its file, which is checked first."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    what = DATASETS[name]
    with as_file(files("comity.datasets.data") / what.file) as path:
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != what.sha256:
            raise _damaged(name, f"{what.file} is absent or not the file that was shipped")
        return read_columns(path, name)


def _check(name: str, what: Dataset, table: Table) -> None:
    """Compare a table's counts with those that the data set is known to have."""
    found = {"rows": len(table.label), "positives": int(table.label.sum())}
    expected = {"rows": what.rows, "positives": what.positives}
    codings = {key: (table.sensitive[key], names) for key, names in table.attribute_values.items()}
    if table.silos is not None:
        codings["site"] = table.silos, table.silo_names
    for coding, counts in what.counts.items():
        codes, names = codings[coding]
        for group, count in counts.items():
            expected[group] = count
            found[group] = int((codes == names.index(group)).sum())
    for key, count in expected.items():
        if found[key] != count:
            raise _damaged(name, f"{found[key]:,} {key} instead of {count:,}")


def _damaged(name: str, why: str) -> UserError:
    return UserError(f"data set {name}: its copy is damaged ({why}); install comity again.")
