from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.corpus.remains import BLOCK, STRIDE, WIDTH, files_below, marks, search, without

SECRET = (
    "The cellar of the old mill holds seventeen crates of amber, and nobody but the keeper knows the second door.\n"
    "仓库的第二道门只有看守人知道，里面存放着十七箱琥珀，任何人都不得擅自进入或者谈论它的位置。"
)
WANTED = marks([SECRET.encode()], text=True)


def found(path: Path) -> list[Path]:
    return [finding.place for finding in search([path], WANTED).findings]


def test_text_is_found_as_it_is_and_packed(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text(f"before {SECRET} after")
    (tmp_path / "answer.json").write_text(json.dumps({"quote": SECRET}, ensure_ascii=False))
    (tmp_path / "table.gz").write_bytes(gzip.compress(SECRET.encode()))
    with zipfile.ZipFile(tmp_path / "memo.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:t>{SECRET}</w:t>")
    np.savez_compressed(tmp_path / "stage.npz", records=np.frombuffer(SECRET.encode(), np.uint8))
    (tmp_path / "output.bin").write_bytes((tmp_path / "stage.npz").read_bytes() + b"0" * 64)
    pq.write_table(pa.table({"text": ["x", SECRET], "path": [["a"], [SECRET]]}), tmp_path / "chunks.parquet")
    result = search(list(files_below([tmp_path])), WANTED)
    assert {finding.place.name for finding in result.findings} == {path.name for path in tmp_path.iterdir()}
    assert (result.files, result.unreadable) == (7, ())


def test_text_in_a_deflated_stream_of_a_pdf_is_found(tmp_path: Path) -> None:
    drawn = f"BT /F1 12 Tf ({SECRET.splitlines()[0]}) Tj ET".encode()
    noise = np.random.default_rng(2).bytes(4000)

    def pdf(*streams: bytes) -> bytes:
        objects = [
            b"%d 0 obj\n<< /Filter /FlateDecode >>\nstream\r\n%b\r\nendstream\nendobj\n" % (number, stream)
            for number, stream in enumerate(streams)
        ]
        return b"%PDF-1.7\n" + b"".join(objects) + b"%%EOF\n"

    (tmp_path / "other.pdf").write_bytes(pdf(zlib.compress(noise), noise))
    (tmp_path / "whole.pdf").write_bytes(pdf(zlib.compress(noise), noise, zlib.compress(drawn)))
    (tmp_path / "cut.pdf").write_bytes(pdf(zlib.compress(drawn + noise))[:-2000])
    result = search(list(files_below([tmp_path])), WANTED)
    assert {finding.place.name for finding in result.findings} == {"whole.pdf", "cut.pdf"}
    assert result.unreadable == ()


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("The cellar of the new mill holds sixteen crates of coal. " * 2000)
    (tmp_path / "random.bin").write_bytes(np.random.default_rng(1).bytes(3 << 20))
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 broken PAR1")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b broken")
    result = search(list(files_below([tmp_path])), WANTED)
    assert result.findings == ()
    assert result.files == 5


@pytest.mark.parametrize("shift", [-40, -WIDTH, -1, 0])
def test_a_piece_across_two_blocks_is_found(tmp_path: Path, shift: int) -> None:
    piece = SECRET.encode()[: WIDTH + STRIDE - 1]
    path = tmp_path / "big.bin"
    path.write_bytes(b"." * (BLOCK + shift) + piece + b"." * 100)
    (finding,) = search([path], WANTED).findings
    assert finding.offset in range(BLOCK + shift, BLOCK + shift + STRIDE)


@given(st.integers(0, 60), st.text("abcdefgh 学习汉字", min_size=80, max_size=400))
def test_every_piece_as_long_as_promised_is_found(start: int, text: str) -> None:
    data = text.encode()
    piece = data[start : start + WIDTH + STRIDE - 1]
    if len(piece) < WIDTH + STRIDE - 1:
        return
    wanted = marks([data], text=True)
    assert len(without(wanted, [b"<<" + piece + b">>"])) < len(wanted)


def test_what_stays_elsewhere_is_no_mark() -> None:
    shared = b"This paragraph is printed at the end of every letter that we send."
    own = b"Only this letter says that the meeting was moved to the ninth floor."
    wanted = marks([own + b" " + shared], text=True)
    left = without(wanted, [b"Dear all. " + shared])
    assert len(left) == len(without(wanted, [shared])) < len(wanted)
    assert len(without(left, [own])) < len(left)


def test_windows_that_escaping_would_change_are_no_marks() -> None:
    assert len(marks([b'a "quoted" word \\ and\nlines'], text=True)) == 0
    assert len(marks([b"x" * (WIDTH - 1)], text=True)) == 0
    assert len(marks([b"\0" * 1000], text=False)) == 0
    assert len(marks([bytes(range(96))], text=False)) == 4


def test_a_search_leaves_the_locks_of_an_open_database_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "open.sqlite", isolation_level=None)
    database.execute("CREATE TABLE t (x)")
    database.execute("BEGIN EXCLUSIVE")
    search([tmp_path / "open.sqlite"], WANTED)
    other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('INSERT INTO t VALUES (1)')"
    done = subprocess.run([sys.executable, "-c", other, tmp_path / "open.sqlite"], capture_output=True, text=True)
    assert "database is locked" in done.stderr
    database.close()


def test_a_file_that_vanishes_is_gone_and_marks_do_not_depend_on_the_process(tmp_path: Path) -> None:
    assert search([tmp_path / "gone"], WANTED).files == 0
    assert marks([b"A sentence of 33 bytes, no more.."], text=True).tolist() == [10650734134908662286]
