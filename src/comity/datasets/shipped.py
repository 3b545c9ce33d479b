"""Tables that come with the package: what is learned from each, and proof that it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import as_file, files

from comity.datasets.attributes import AttributeDescription
from comity.datasets.columns import read_columns
from comity.datasets.files import damaged
from comity.datasets.reading import PLAIN_CSV, Columns
from comity.datasets.roles import Roles
from comity.datasets.schema import renamed
from comity.datasets.tables import Table, make_table
from comity.errors import unknown


@dataclass(frozen=True)
class Dataset:
    """A shipped table: its file, what is learned from it, and counts that a whole copy has."""

    title: str
    file: str
    sha256: str
    """Checksum of the file."""
    rows: int
    positives: int
    """Number of rows whose label is 1."""
    counts: Mapping[str, Mapping[str, int]]
    """Rows with some of the values, by sensitive attribute, or ``{"silo": …}`` by silo."""
    label: str
    """Column to predict."""
    licence: str
    """Licence of the data, so far as it is known."""
    attributes: Mapping[str, AttributeDescription]
    """Sensitive attributes by name."""
    positive: str | None = None
    """Value of the label that counts as 1."""
    features: tuple[str, ...] = ()
    """Columns to learn from; empty for all but label, silo and those to ``drop``."""
    drop: tuple[str, ...] = ()
    silo: str | None = None
    """Column with the silo of each row."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of the codes in a column; an empty name makes a cell missing."""
    notes: tuple[str, ...] = ()
    """Remarks on the data."""


DATASETS = {
    "adult": Dataset(
        title="Adult: does a person earn more than 50,000 dollars a year (US census, 1994)",
        file="adult.csv.gz",
        sha256="9653a39fc84ab1a35bd443daad61a6c7294ef9eac5b7b14601e36937915e3836",
        rows=48_842,
        positives=11_687,
        counts={"gender": {"female": 16_192}, "race": {"white": 41_762}},
        licence="CC BY 4.0",
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
        licence="none stated by the publisher",
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
        licence="none stated by the publisher",
        label="first_pf",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["female"], "male": ["male"]}},
            "race": {"column": "race", "groups": {"not white": "*", "white": ["White"]}},
        },
        features=("race", "sex", "LSAT", "UGPA", "region_first", "ZFYA"),
        silo="region_first",
        names={
            "sex": {"1": "female", "2": "male"},
            # one graduate cannot be a silo; in the largest region the row weighs least
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
        counts={"gender": {"female": 18_112}, "age": {"up to 25": 3_871}},
        licence="CC BY 4.0",
        label="default payment next month",
        attributes={
            "gender": {"column": "SEX", "groups": {"female": ["female"], "male": ["male"]}},
            "age": {"column": "AGE", "groups": {"up to 25": "<= 25", "over 25": "> 25"}},
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
        licence="CC BY 4.0",
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
        licence="CC BY 4.0",
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
        counts={"silo": {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}},
        licence="CC BY 4.0",
        label="num",
        positive="ill",
        attributes={
            "gender": {"column": "sex", "groups": {"female": ["female"], "male": ["male"]}}
        },
        silo="site",
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
    """Return a shipped table, encoded; its copy is checked first."""
    columns = shipped(name)
    description = DATASETS[name]
    left_out = {description.label, description.silo, *description.drop}
    table = make_table(
        name,
        renamed(columns, description.names),
        Roles(
            description.label,
            description.attributes,
            description.positive,
            description.features or [name for name in columns if name not in left_out],
            client=description.silo,
            missing="category",
        ),
        PLAIN_CSV,
    )
    _check(name, description, table)
    notes = (*table.notes, *description.notes)
    schema = replace(table.schema, names=description.names)
    return replace(table, notes=notes, schema=schema)


def shipped(name: str) -> Columns:
    """Return the columns of a shipped table as they are in its file, which is checked first."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return shipped_columns(name, DATASETS[name].file, DATASETS[name].sha256)


def shipped_columns(name: str, file: str, sha256: str) -> Columns:
    """Return the columns of a file that comes with the package.

    Args:
        name: Name of the data set, for messages.
        file: Name of the file.
        sha256: Checksum of a whole copy.
    """
    with as_file(files("comity.datasets.data") / file) as path:
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise damaged(name, f"{file} is absent or not the file that was shipped")
        return read_columns(path, name, PLAIN_CSV)


def _check(name: str, description: Dataset, table: Table) -> None:
    """Compare a table's counts with those that a whole copy has."""
    counts = {"rows": len(table.label), "positives": int(table.label.sum())}
    expected = {"rows": description.rows, "positives": description.positives}
    codings = {key: (table.sensitive[key], names) for key, names in table.attribute_values.items()}
    if table.silos is not None:
        codings["silo"] = table.silos, table.silo_names
    for coding, known in description.counts.items():
        codes, names = codings[coding]
        for value, count in known.items():
            expected[value] = count
            counts[value] = int((codes == names.index(value)).sum())
    for key, count in expected.items():
        if counts[key] != count:
            raise damaged(name, f"{counts[key]:,} {key} instead of {count:,}")
