"""What a release promises: a whole wheel, one version everywhere, lower bounds that are tested."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

from tests.wheel import faults, stale_versions

ROOT = Path(__file__).parents[1]
BOUND = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?(?:>=|==)([\w.]+)")


def test_a_wheel_that_lacks_a_file_or_has_one_too_many_is_named(tmp_path):
    wheel = tmp_path / "comity-0.0.0-py3-none-any.whl"
    source = ROOT / "src"
    with ZipFile(wheel, "w") as archive:
        for path in source.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.name != "py.typed":
                archive.writestr(path.relative_to(source).as_posix(), "")
        archive.writestr("tests/test_api.py", "")
        archive.writestr("comity-0.0.0.dist-info/RECORD", "")
    lacking, beside, version = faults(wheel)
    assert lacking == "lacks comity/py.typed"
    assert beside == "has tests/test_api.py beside the package"
    assert version.startswith("is not of version ")


def test_one_version_everywhere():
    assert stale_versions() == []


def test_the_lowest_versions_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    bounds = {found[1].lower(): found[2] for text in required if (found := BOUND.fullmatch(text))}
    assert len(bounds) == len({text.partition("[")[0].partition(">")[0] for text in required})
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()[1:]
    assert dict(line.split("==") for line in lines) == bounds
