"""Models to take home: the very bytes that `comity export` writes."""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from comity.errors import UserError
from comity.report.card import export
from comity.runs.directory import Run

FORMATS = ("safetensors", "onnx", "nnef", "card")
_TIME = (1980, 1, 1, 0, 0, 0)  # in archives: equal models have equal bytes


def taken(
    run: Run, client: int, format: str, preference: Sequence[float] | None = None
) -> tuple[str, bytes]:
    """Return the name and the bytes of a model's file, or of its card.

    A directory (nnef) is returned as a zip archive. The card is that of the .safetensors file, or
    of the .onnx file where the model has layers that the former cannot describe.

    Args:
        run: A finished run.
        client: Number of the client.
        format: safetensors, onnx, nnef or card.
        preference: One weight per objective, for models that take any; None: the client's own.
    """
    if format not in FORMATS:
        raise UserError(f"format = {format}: must be one of {', '.join(FORMATS)}.")
    plain = re.sub(r"[^\w.+=-]", "_", run.path.resolve().name, flags=re.ASCII)
    stem = f"{plain}-client-{run.client(client)}"
    with tempfile.TemporaryDirectory() as place:
        if format == "card":
            target = _with_card(run, Path(place) / stem, client, preference)
            card = target.with_suffix(".card.md")
            return card.name, card.read_bytes()
        target = export(run, Path(place) / f"{stem}.{format}", client, preference)
        if target.is_dir():
            return f"{target.name}.zip", _zipped(target)
        return target.name, target.read_bytes()


def _with_card(run: Run, stem: Path, client: int, preference: Sequence[float] | None) -> Path:
    """Write a model with its card in the first format that can describe it."""
    try:
        return export(run, stem.with_name(f"{stem.name}.safetensors"), client, preference)
    except UserError:
        return export(run, stem.with_name(f"{stem.name}.onnx"), client, preference)


def _zipped(directory: Path) -> bytes:
    """Return a directory's files as an archive without times."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                name = file.relative_to(directory.parent).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _TIME), file.read_bytes())
    return content.getvalue()
