"""The site: one page per document, every public name in the reference, no broken link."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import comity

ROOT = Path(__file__).parents[1]
DIRECTIVE = re.compile(r"^::: comity\.(?:api\.)?(\w+)\n(.*?)(?=^::: |\Z)", re.DOTALL | re.MULTILINE)


def test_the_reference_has_every_public_name_once_with_an_example():
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    sections = [found for page in pages for found in DIRECTIVE.findall(page.read_text())]
    assert sorted(name for name, _ in sections) == sorted(set(comity.__all__) - {"__version__"})
    for name, text in sections:
        (example,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert re.search(rf"\bcomity\.{name}\b", example), name


def test_the_contents_name_every_document():
    contents = (ROOT / "mkdocs.yml").read_text()
    pages = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    missing = [str(page) for page in pages if f": {page.as_posix()}\n" not in contents]
    assert missing == []


def test_it_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    running = (tmp_path / "docs" / "reference" / "running.html").read_text()
    assert 'id="comity.run"' in running
    assert "The run directory, which must not exist" in running  # an argument, described
    for page in tmp_path.rglob("*.html"):  # nothing is fetched from elsewhere
        text = page.read_text()
        assert not re.search(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//', text), page
        assert not re.search(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text), page
