from __future__ import annotations

import gzip

import numpy as np
import pytest

from comity.datasets.files import read_idx
from comity.errors import UserError
from tests.datasets.formats import idx


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_are_read(tmp_path, pack):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "file").write_bytes(pack(idx(array)))
    assert (read_idx(tmp_path / "file") == array).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole IDX file"),
        (b"\0\0\x08", "not a whole IDX file"),
        (b"\0\0\x08\0", "not a whole IDX file"),
        (b"\0\0\x08\x03\0\0", "not a whole IDX file"),
        (idx(np.zeros((2, 3)))[:-1], r"not a whole IDX file of bytes \(17 bytes"),
        (idx(np.zeros((2, 3))) + b"\0", "not a whole IDX file"),
        (b"\0\0\x0d" + idx(np.zeros(4))[3:], "not a whole IDX file"),
        (gzip.compress(idx(np.zeros((2, 3))), mtime=0)[:-9], "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match=rf"file.* {message}.*Get the file again"):
        read_idx(tmp_path / "file")
