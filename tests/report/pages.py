"""A reader of pages, and text that must never get into one unescaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

EVIL = "<script>alert('&')</script>"


class Page(HTMLParser):
    """A page's tables as lists of rows, and its images."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.images: list[dict[str, str | None]] = []
        self.scripts: list[dict[str, str | None]] = []
        self._open = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "img":
            self.images.append(dict(attrs))
        elif tag == "script":
            self.scripts.append(dict(attrs))
        self._open = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.tables[-1][-1][-1] += data.replace("★\u00a0", "★ ").replace("±\u00a0", "± ")

    def table(self, first: str) -> list[list[str]]:
        return next(table for table in self.tables if table[0][0] == first)
