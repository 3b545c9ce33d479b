"""Models that the page hands over: the bytes that ``comity export`` writes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import comity

PREFERENCE = [0.7, 0.3]


def exported(run: Path, target: Path, preference: list[float] | None) -> None:
    """Export client 1 in a new process: bytes of ONNX files may depend on what one did before."""
    script = "import sys, comity; comity.export(comity.open(sys.argv[1]), sys.argv[2], 1, {})"
    command = [sys.executable, "-c", script.format(preference), str(run), str(target)]
    subprocess.run(command, check=True, capture_output=True)


def downloaded(page, format: str, place: Path) -> Path:
    """Return the file that the button of a format downloads, under the name that it has."""
    with page.expect_download() as download:
        page.locator(f'a[data-format="{format}"]').click()
    target = place / download.value.suggested_filename
    download.value.save_as(target)
    return target


@pytest.mark.parametrize(("item", "preference"), [("praffl", PREFERENCE), ("fedpref", None)])
def test_files_equal_those_of_export(watched, address, runs, tmp_path, item, preference) -> None:
    run = comity.open(runs / item)
    at = {} if preference is None else {"w": ",".join(map(str, preference))}
    page = watched.view(address, "take-home", item=item, client=1, **at)
    for format in ("safetensors", "onnx"):
        content = downloaded(page, format, tmp_path)
        expected = tmp_path / format / content.name
        expected.parent.mkdir()
        exported(runs / item, expected, preference)
        assert content.read_bytes() == expected.read_bytes()
    card = downloaded(page, "card", tmp_path)
    assert card.read_bytes() == (tmp_path / "safetensors" / card.name).read_bytes()
    with zipfile.ZipFile(downloaded(page, "nnef", tmp_path)) as archive:
        files = {Path(name).name: archive.read(name) for name in archive.namelist()}
    directory = tmp_path / "model.nnef"
    comity.export(run, directory, 1, preference)
    written = {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert files.items() >= written.items()


def test_the_lines_that_are_shown_name_the_client_and_the_preference(watched, address) -> None:
    page = watched.view(address, "take-home", item="praffl", client=2, w="0.7,0.3")
    text = page.locator(".view").inner_text()
    assert "--client 2 --preference 0.7,0.3" in text
    assert "client=2" in text
    assert "preference=[0.7, 0.3]" in text
