"""Contents of the site: the repository's own pages, at the repository's own paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("[A-Z]*.md", "docs/**/*.md", "benchmarks/**/*.md", "examples/*/*.md", "src/**/data/*.md")
BESIDE = (
    "docs/images/*",
    "benchmarks/results/*.json",
    "benchmarks/results/*.txt",
    "CITATION.cff",
    "examples/*.ipynb",
)


def on_files(files: Files, config: Any) -> Files:
    """Replace the files of one folder by those of the whole repository, so that links hold in both.

    Args:
        files: What was found below ``docs``; the theme's own files stay.
        config: The configuration of the site.
    """
    theme = [file for file in files if not Path(config.docs_dir, file.src_uri).is_file()]
    found = [File(path, str(ROOT), config.site_dir, config.use_directory_urls) for path in _paths()]
    return Files([*theme, *found])


def _paths() -> Iterator[str]:
    for pattern in (*PAGES, *BESIDE):
        for path in sorted(ROOT.glob(pattern)):
            yield path.relative_to(ROOT).as_posix()
