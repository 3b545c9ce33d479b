"""Contact plans from orbital elements, checked by plain SGP4 and sidereal time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

from comity.errors import UserError
from comity.links.orbits import Passes, plan_from_orbits

pytest.importorskip("skyfield")

FIELDS = (
    "OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,"
    "ARG_OF_PERICENTER,MEAN_ANOMALY,EPHEMERIS_TYPE,CLASSIFICATION_TYPE,NORAD_CAT_ID,"
    "ELEMENT_SET_NO,REV_AT_EPOCH,BSTAR,MEAN_MOTION_DOT,MEAN_MOTION_DDOT"
)


def entry(name: str, number: int, inclination: float, node: float, anomaly: float) -> str:
    return (
        f"{name},2026-{number:03d}A,2026-03-01T00:00:00.000000,15.2,0.0005,{inclination},{node},"
        f"0,{anomaly},0,U,{90000 + number},1,1,0,0,0"
    )


SATELLITES = [entry("north/1", 1, 97.5, 10, 0), entry("north/2", 2, 97.5, 10, 20),
              entry("south/1", 3, 51.6, 200, 40)]  # fmt: skip
STATIONS = "name,latitude,longitude,height\nlux,49.6,6.1,300\nground/svalbard,78.2,15.4,450\n"
START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def files(tmp_path):
    elements, stations = tmp_path / "orbits.csv", tmp_path / "stations.csv"
    elements.write_text("\n".join([FIELDS, *SATELLITES]) + "\n")
    stations.write_text(STATIONS)
    return elements, stations


def models(elements):
    from sgp4 import omm
    from sgp4.api import Satrec

    result = {}
    with elements.open() as file:
        for fields in omm.parse_csv(file):
            result[fields["OBJECT_NAME"]] = model = Satrec()
            omm.initialize(model, fields)
    return result


def place(model, milliseconds):
    """Return where a satellite is, in km in the frame of SGP4, and the sidereal angle."""
    from sgp4.api import jday

    day, fraction = jday(2026, 3, 1, 0, 0, 0)
    fraction += milliseconds / 86_400_000
    _, position, _ = model.sgp4(day, fraction)
    days = day - 2451545.0 + fraction
    return np.array(position), np.radians((280.46061837 + 360.98564736629 * days) % 360)


def elevation(model, milliseconds, latitude, longitude, height):
    position, angle = place(model, milliseconds)
    phi, theta = np.radians(latitude), np.radians(longitude) + angle
    a, e2 = 6378.137, 0.00669437999014
    n = a / np.sqrt(1 - e2 * np.sin(phi) ** 2)
    across, up = (n + height / 1000) * np.cos(phi), (n * (1 - e2) + height / 1000) * np.sin(phi)
    site = np.array([across * np.cos(theta), across * np.sin(theta), up])
    zenith = np.array([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])
    line = position - site
    return np.degrees(np.arcsin(line @ zenith / np.linalg.norm(line)))


def test_passes_begin_and_end_at_the_mask(files):
    plan = plan_from_orbits(*files, Passes(days=1)).plan
    satellites = models(files[0])
    sites = {"ground/lux": (49.6, 6.1, 300), "ground/svalbard": (78.2, 15.4, 450)}
    assert set(plan.nodes) == {*satellites, *sites}
    down = [c for c in plan.contacts if c.source in satellites]
    assert len(down) > 30
    for contact in down:
        for moment in (contact.start, contact.end):
            if 0 < moment < 86_400_000:
                angle = elevation(satellites[contact.source], moment, *sites[contact.target])
                assert angle == pytest.approx(10, abs=0.1)
        middle = (contact.start + contact.end) / 2
        assert elevation(satellites[contact.source], middle, *sites[contact.target]) > 10
    # and none is missing
    for name, model in satellites.items():
        for station, site in sites.items():
            mine = [c for c in down if (c.source, c.target) == (name, station)]
            for moment in range(0, 86_400_000, 60_000):
                if elevation(model, moment, *site) > 10.5:
                    assert any(c.start <= moment <= c.end for c in mine)


def test_both_directions_have_their_rates(files):
    plan = plan_from_orbits(*files, Passes(days=1, uplink=1200, downlink=9600)).plan
    rates = {(c.source.startswith("ground"), c.rate) for c in plan.contacts}
    assert rates == {(True, 1200), (False, 9600)}
    assert len(plan.contacts) % 2 == 0


def test_a_pass_under_way_at_the_start_counts_from_zero_and_the_last_is_cut(files):
    whole = plan_from_orbits(*files, Passes(days=1)).plan
    first = next(c for c in whole.contacts if c.start > 3_600_000)
    middle = (first.start + first.end) // 2
    text = (START + timedelta(milliseconds=middle)).isoformat()
    after = plan_from_orbits(*files, Passes(days=0.5, start=text)).plan
    (same,) = [
        c
        for c in after.contacts
        if (c.source, c.target) == (first.source, first.target) and c.start == 0
    ]
    assert same.end == pytest.approx(first.end - middle, abs=300)
    before = plan_from_orbits(*files, Passes(days=middle / 86_400_000)).plan
    assert before.end == middle
    assert any(c.end == middle and c.source == first.source for c in before.contacts)


def test_satellites_see_each_other_within_reach_and_above_the_air(files):
    passes = Passes(days=1, between=True, reach=4000)
    plan = plan_from_orbits(*files, passes).plan
    satellites = models(files[0])
    sideways = [c for c in plan.contacts if {c.source, c.target} <= set(satellites)]
    pairs = {(c.source, c.target) for c in sideways}
    assert ("north/1", "south/1") in pairs
    assert {(b, a) for a, b in pairs} == pairs

    def sees(contact, moment):
        here, there = (place(satellites[n], moment)[0] for n in (contact.source, contact.target))
        height = min(
            np.linalg.norm(here + share * (there - here)) for share in np.linspace(0, 1, 201)
        )
        return np.linalg.norm(there - here) <= 4000 and height >= 6378.137 + 80

    crossing = [c for c in sideways if c.source == "north/1" and c.target == "south/1"]
    for contact in crossing:
        assert sees(contact, (contact.start + contact.end) / 2)
        assert sees(contact, contact.start + 500)
        assert contact.start == 0 or not sees(contact, contact.start - 500)
        assert contact.end == 86_400_000 or not sees(contact, contact.end + 500)
    assert all(one.end < two.start for one, two in pairwise(crossing))


def test_tle_and_json_give_the_same_plan(files, tmp_path):
    import csv
    import json

    from sgp4.exporter import export_tle

    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    document = tmp_path / "orbits.json"
    document.write_text(json.dumps(rows))
    lines = [
        line for name, model in models(files[0]).items() for line in (name, *export_tle(model))
    ]
    tle = tmp_path / "orbits.tle"
    tle.write_text("\n".join(lines) + "\n")
    plan = plan_from_orbits(*files, Passes(days=0.5)).plan
    assert plan_from_orbits(document, files[1], Passes(days=0.5)).plan == plan
    other = plan_from_orbits(tle, files[1], Passes(days=0.5)).plan
    assert other.nodes == plan.nodes
    assert len(other.contacts) == len(plan.contacts)
    broken = lines[1][:20] + ("1" if lines[1][20] != "1" else "2") + lines[1][21:]
    tle.write_text("\n".join([lines[0], broken, *lines[2:]]))
    with pytest.raises(UserError, match=r"orbits.tle: line 2 .*wrong checksum"):
        plan_from_orbits(tle, files[1], Passes())


def test_old_elements_come_with_a_warning(files):
    assert plan_from_orbits(*files, Passes(days=0.5, start="2026-03-10")).warnings == ()
    (warning,) = plan_from_orbits(*files, Passes(days=0.5, start="2026-03-21")).warnings
    assert "3 of 3 satellites" in warning
    assert "20 days" in warning


@pytest.mark.parametrize(
    ("elements", "stations", "part"),
    [
        (None, "name,latitude\n", "columns must be"),
        (None, "name,latitude,longitude,height\na,x,0,0\nb,99,0,0\n", r"2 faults: \(1\) line 2"),
        (None, "name,latitude,longitude,height\n", "no station"),
        ("nothing here\n", None, "holds no orbital elements"),
        ("[1, 2", None, "not an OMM file"),
        ('[{"OBJECT_NAME": "a"}]', None, "entry 1 is not a set of elements"),
    ],
)
def test_wrong_files_are_refused(files, elements, stations, part):
    for path, text in zip(files, (elements, stations), strict=True):
        if text is not None:
            path.write_text(text)
    with pytest.raises(UserError, match=part):
        plan_from_orbits(*files, Passes())


def test_a_satellite_without_a_contact_is_named(files):
    made = plan_from_orbits(*files, Passes(days=0.5, start="2026-03-03"))
    names = set(made.plan.nodes)
    missing = [name for name in ("north/1", "north/2", "south/1") if name not in names]
    assert made.warnings == tuple(
        f"{name} has no contact, so the plan has no such client." for name in missing
    )
    high = plan_from_orbits(*files, Passes(days=0.2, mask=40))
    assert len(high.plan.clients("ground/*")) < 3
    assert len(high.warnings) == 3 - len(high.plan.clients("ground/*"))


def test_a_plan_without_a_pass_is_refused(files):
    with pytest.raises(UserError, match="lower --mask"):
        plan_from_orbits(*files, Passes(days=0.001, mask=89))


def test_without_skyfield_one_sentence_is_said(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "skyfield", None)
    with pytest.raises(UserError, match=r"needs skyfield: pip install 'comity\[space\]'"):
        plan_from_orbits(*files, Passes())
