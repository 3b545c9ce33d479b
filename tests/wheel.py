"""Look into a built wheel: ``python -m tests.wheel dist``, part of ``make release``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from zipfile import ZipFile

from comity.version import __version__

ROOT = Path(__file__).parents[1]
MOST_MEGABYTES = 25.0
"""Three quarters are pictures of digits and of CIFAR-10."""


def faults(wheel: Path) -> list[str]:
    """Return what is wrong with a wheel: files that lack or are too many, size, version.

    Args:
        wheel: The file.
    """
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file())
    wanted = {
        path.relative_to(source).as_posix() for path in files if "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    said = [f"lacks {name}" for name in sorted(wanted - found)]
    said += [f"has {name} beside the package" for name in sorted(found - wanted)]
    megabytes = wheel.stat().st_size / 1e6
    if megabytes > MOST_MEGABYTES:
        said.append(f"has {megabytes:.1f} MB, more than {MOST_MEGABYTES:g}")
    if f"-{__version__}-" not in wheel.name:
        said.append(f"is not of version {__version__}")
    return said


def stale_versions() -> list[str]:
    """Return the files that speak of another version than the package's."""
    changes = (ROOT / "CHANGELOG.md").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    said = []
    if f"\n## {__version__}\n" not in changes:
        said.append(f"CHANGELOG.md has no section {__version__}")
    if re.search(rf"^version: {re.escape(__version__)}$", citation, re.MULTILINE) is None:
        said.append(f"CITATION.cff is not of version {__version__}")
    return said


def main() -> None:
    """Print the faults of the only wheel in a directory; exit with 1 if there are any."""
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    said = [*(f"{wheel.name} {fault}" for fault in faults(wheel)), *stale_versions()]
    print("\n".join(said) or f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, complete")
    sys.exit(bool(said))


if __name__ == "__main__":
    main()
