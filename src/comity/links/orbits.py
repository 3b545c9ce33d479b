"""A contact plan from orbital elements: passes over ground stations, and between satellites.

Uses skyfield (``comity[space]``) with the time scale that it contains: nothing is fetched.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import Faults, UserError
from comity.links.contacts import Contact, ContactPlan
from comity.links.settings import DAY, SECOND
from comity.settings import Settings, setting

OLD_DAYS = 14
"""Age of elements in days from which a plan comes with a warning."""
EARTH_KM = 6_378.137
CLEAR_KM = 80.0
"""Height above ground that a line of sight between satellites keeps."""
_GRID = 30 * SECOND
_STEPS = 16
"""Halvings of a grid interval: 30 s / 2^16 is below a millisecond."""
_STATION_COLUMNS = ("name", "latitude", "longitude", "height")


class Passes(Settings):
    """What makes a contact."""

    days: float = setting(3.0, "length of the plan", above=0, at_most=60)
    start: str = setting("", "its beginning, as an ISO date; default: the newest elements' epoch")
    uplink: int = setting(9600, "bit/s from a station to a satellite", at_least=1)
    downlink: int = setting(9600, "bit/s from a satellite to a station or satellite", at_least=1)
    mask: float = setting(10.0, "least elevation above the horizon, degrees", at_least=0, below=90)
    between: bool = setting(False, "contacts between satellites, too")
    reach: float = setting(5000.0, "largest distance between satellites, km", above=0)


@dataclass(frozen=True)
class OrbitPlan:
    """A contact plan, when it begins, and what to know about it."""

    plan: ContactPlan
    start: datetime
    warnings: tuple[str, ...]


def plan_from_orbits(elements: Path, stations: Path, passes: Passes) -> OrbitPlan:
    """Return the contacts of satellites with ground stations, and with each other if wanted.

    Args:
        elements: Orbital elements: TLE with a line for the name, or OMM as CSV, JSON or XML. Names
            become nodes: call them ``operator/unit``.
        stations: CSV with name, latitude, longitude (degrees) and height (m). A name without a
            slash becomes ``ground/NAME``.
        passes: What makes a contact.

    Raises:
        UserError: skyfield is missing, or a file is wrong.
    """
    api, scale = _skyfield()
    satellites = _satellites(elements, scale)
    sites = _stations(stations, api)
    start = _start(passes.start, satellites)
    contacts = [
        contact
        for satellite in satellites
        for name, site in sites.items()
        for contact in _passes_over(satellite, name, site, (scale, start), passes)
    ]
    if passes.between:
        contacts += _between(satellites, start, passes)
    if not contacts:
        raise UserError(
            f"no satellite of {elements} rises {passes.mask:g} degrees above a station within "
            f"{passes.days:g} days: lower --mask, or plan more --days."
        )
    plan = ContactPlan.of(contacts)
    unseen = [satellite.name for satellite in satellites if satellite.name not in plan.nodes]
    warnings = tuple(f"{name} has no contact, so the plan has no such client." for name in unseen)
    return OrbitPlan(plan, start, _ages(satellites, start) + warnings)


def _skyfield() -> tuple[Any, Any]:
    """Return skyfield's interface and its built-in time scale."""
    try:
        from skyfield import api
    except ImportError:
        raise UserError(
            "comity contacts needs skyfield: pip install 'comity[space]'. A contact plan that you "
            "have as CSV needs nothing."
        ) from None
    return api, api.load.timescale(builtin=True)


# -- files ---------------------------------------------------------------------------------


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{what} {path} cannot be read: {reason}.") from None


def _satellites(path: Path, scale: Any) -> list[Any]:
    """Return skyfield's satellites of a file, sorted by name."""
    text = _text(path, "elements")
    faults = Faults(str(path))
    satellites: dict[str, Any] = {}
    for where, make in _entries(path, text, scale):
        with faults.gathered():
            try:
                satellite = make()
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise UserError(f"{where} is not a set of elements ({error}).") from None
            if not satellite.name or satellite.name in satellites:
                raise UserError(f"{where}: give each satellite a name of its own.")
            if satellite.model.error:
                raise UserError(f"{where}: the elements of {satellite.name} make no orbit.")
            satellites[satellite.name] = satellite
    faults.refuse()
    if not satellites:
        raise UserError(f"{path} holds no orbital elements: TLE, or OMM as CSV, JSON or XML.")
    return [satellites[name] for name in sorted(satellites)]


def _entries(path: Path, text: str, scale: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the place of each set of elements, and what makes a satellite of it."""
    from sgp4 import omm
    from skyfield.api import EarthSatellite

    head = text.lstrip()[:1]
    if head in ("<", "[", "{") or "MEAN_MOTION" in text.partition("\n")[0]:
        try:
            if head == "<":
                tables = list(omm.parse_xml(io.StringIO(text)))
            elif head in ("[", "{"):
                content = json.loads(text)
                tables = content if isinstance(content, list) else [content]
            else:
                tables = list(omm.parse_csv(io.StringIO(text)))
        except (ValueError, SyntaxError, KeyError) as error:
            raise UserError(f"{path} is not an OMM file: {error}.") from None
        for number, table in enumerate(tables, 1):
            yield f"entry {number}", partial(_from_omm, EarthSatellite, scale, table)
        return
    lines = [(n, line.rstrip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    name = ""
    for (number, line), (_, following) in zip(lines, [*lines[1:], (0, "")], strict=True):
        if line.startswith("1 ") and len(line) >= 68:
            pair = line, following, name
            yield f"line {number}", partial(_from_tle, EarthSatellite, scale, *pair)
            name = ""
        elif not (line.startswith("2 ") and len(line) >= 68):
            name = line.removeprefix("0 ").strip()


def _from_omm(make: Any, scale: Any, table: dict[str, Any]) -> Any:
    """Return the satellite of an OMM entry, whose numbers may be texts."""
    satellite = make.from_omm(scale, {name: str(value) for name, value in table.items()})
    satellite.name = str(table.get("OBJECT_NAME", "")).strip()
    return satellite


def _from_tle(make: Any, scale: Any, first: str, second: str, name: str) -> Any:
    """Return the satellite of two lines; a wrong checksum is refused."""
    for number, line in (("1", first), ("2", second)):
        digits = sum(int(c) if c.isdigit() else c == "-" for c in line[:68])
        if not line.startswith(f"{number} ") or len(line) < 69 or str(digits % 10) != line[68]:
            raise ValueError(f"line {number} of {name or 'the set'} has a wrong checksum")
    return make(first, second, name or first[2:7].strip(), scale)


def _stations(path: Path, api: Any) -> dict[str, Any]:
    """Return the places of the ground stations by name."""
    reader = csv.DictReader(io.StringIO(_text(path, "stations")))
    if sorted(reader.fieldnames or ()) != sorted(_STATION_COLUMNS):
        raise UserError(f"{path}: the columns must be {', '.join(_STATION_COLUMNS)}.")
    faults, sites = Faults(str(path)), {}
    for row in reader:
        with faults.gathered():
            name = (row["name"] or "").strip()
            name = name if "/" in name else f"ground/{name}"
            try:
                latitude, longitude, height = (float(row[c]) for c in _STATION_COLUMNS[1:])
            except (TypeError, ValueError):
                raise UserError(
                    f"line {reader.line_num}: latitude, longitude and height must be numbers."
                ) from None
            if not (abs(latitude) <= 90 and abs(longitude) <= 360 and abs(height) < 10_000):
                raise UserError(f"line {reader.line_num}: no place on Earth.")
            if name in sites or name == "ground/":
                raise UserError(f"line {reader.line_num}: give each station a name of its own.")
            sites[name] = api.wgs84.latlon(latitude, longitude, elevation_m=height)
    faults.refuse()
    if not sites:
        raise UserError(f"{path} has no station.")
    return sites


def _start(text: str, satellites: Sequence[Any]) -> datetime:
    """Return the beginning of the plan, in UTC: as given, or the newest epoch."""
    if not text:
        newest: datetime = max(satellite.epoch.utc_datetime() for satellite in satellites)
        return newest.replace(microsecond=0)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"--start {text}: give a date like 2026-03-01T12:00:00Z.") from None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)


def _ages(satellites: Sequence[Any], start: datetime) -> tuple[str, ...]:
    """Return one sentence if elements are old at the start."""
    ages = {
        satellite.name: abs(start - satellite.epoch.utc_datetime()) / timedelta(days=1)
        for satellite in satellites
    }
    old = [name for name, age in ages.items() if age > OLD_DAYS]
    if not old:
        return ()
    worst = max(old, key=lambda name: ages[name])
    return (
        f"elements of {len(old)} of {len(ages)} satellites are more than {OLD_DAYS} days from the "
        f"start, those of {worst} {ages[worst]:.0f} days: passes may be minutes off.",
    )


# -- geometry ------------------------------------------------------------------------------


def _passes_over(
    satellite: Any, name: str, site: Any, clock: tuple[Any, datetime], passes: Passes
) -> list[Contact]:
    """Return the passes of one satellite over one station, both directions."""
    scale, start = clock
    begin, end = scale.from_datetime(start), scale.from_datetime(start + _length(passes))
    times, events = satellite.find_events(site, begin, end, altitude_degrees=passes.mask)
    spans, rise = [], 0 if _elevation(satellite, site, begin) > passes.mask else None
    for time, event in zip(times, events, strict=True):
        moment = round((time.utc_datetime() - start) / timedelta(milliseconds=1))
        if event == 0:
            rise = moment
        elif event == 2 and rise is not None:
            spans.append((rise, moment))
            rise = None
    if rise is not None:  # cut at the end of the plan
        spans.append((rise, round(passes.days * DAY)))
    return [
        Contact(rise, set_, source, target, rate)
        for rise, set_ in spans
        if set_ > rise
        for source, target, rate in (
            (satellite.name, name, passes.downlink),
            (name, satellite.name, passes.uplink),
        )
    ]


def _elevation(satellite: Any, site: Any, time: Any) -> float:
    return float((satellite - site).at(time).altaz()[0].degrees)


def _length(passes: Passes) -> timedelta:
    return timedelta(milliseconds=round(passes.days * DAY))


def _between(satellites: Sequence[Any], start: datetime, passes: Passes) -> list[Contact]:
    """Return the contacts between satellites that see each other, both directions."""
    from sgp4.api import jday

    end = round(passes.days * DAY)
    grid = np.append(np.arange(0, end, _GRID, dtype=np.float64), end)
    day, fraction = jday(*start.timetuple()[:5], start.second + start.microsecond / 1e6)

    def positions(satellite: Any, times: FloatArray) -> FloatArray:
        days = np.full(len(times), day)
        _, places, _ = satellite.model.sgp4_array(days, fraction + times / DAY)
        return np.asarray(places)

    places = [positions(satellite, grid) for satellite in satellites]
    contacts = []
    for (one, here), (two, there) in combinations(zip(satellites, places, strict=True), 2):
        margin = _margin(here, there, passes.reach)
        seen = margin > 0
        edges = np.flatnonzero(seen[1:] != seen[:-1])
        low, high = grid[edges], grid[edges + 1]
        for _ in range(_STEPS):
            middle = (low + high) / 2
            now = _margin(positions(one, middle), positions(two, middle), passes.reach) > 0
            same = now == seen[edges]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        times = np.concatenate([[0.0] * int(seen[0]), high, [end] * int(seen[-1])])
        for begin_at, end_at in np.rint(times).astype(int).reshape(-1, 2).tolist():
            if end_at > begin_at:
                contacts += [
                    Contact(begin_at, end_at, a.name, b.name, passes.downlink)
                    for a, b in ((one, two), (two, one))
                ]
    return contacts


def _margin(here: FloatArray, there: FloatArray, reach: float) -> FloatArray:
    """Return by how many km two places see each other: distance, and height of the line of sight.

    Args:
        here: Places (times, 3) in km from the centre of the Earth.
        there: Those of the other satellite.
        reach: Largest distance in km.
    """
    line = there - here
    distance = np.linalg.norm(line, axis=1)
    share = -np.einsum("ij,ij->i", here, line) / np.maximum(distance, 1e-9) ** 2
    nearest = here + np.clip(share, 0, 1)[:, None] * line
    height = np.linalg.norm(nearest, axis=1) - EARTH_KM - CLEAR_KM
    return np.asarray(np.minimum(reach - distance, height))
