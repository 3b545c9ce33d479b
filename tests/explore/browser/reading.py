"""Numbers, tables and files of the page, as a test reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def shown(value: float, digits: int = 3) -> str:
    """A number as the page prints it."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, as the page prints it."""
    return ("+" if value > 0 else "") + shown(value, digits)


def table(page: Any, name: str) -> list[list[str]]:
    """The cells of a table by its caption, heading first."""
    return page.get_by_role("region", name=name, exact=True).evaluate(
        "region => [...region.querySelectorAll('tr')]"
        ".map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


def downloaded(page: Any, button: str, path: Path) -> str:
    """The text that a button saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    download.value.save_as(path)
    return path.read_bytes().decode()


def figure_table(page: Any, title: str) -> list[list[str]]:
    """The table beside a figure, heading first."""
    figure = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))
    figure.get_by_role("button", name="Table").click()
    return table(page, title)
