"""Search the disk for what is left of removed documents, without keeping their text.

From everything that was made of a document (its original, its text, its chunks, its vectors) a *mark* is taken every
`STRIDE` bytes: a 64-bit hash of `WIDTH` bytes. Every window of every file is then hashed and looked up, so a piece of
``WIDTH + STRIDE - 1`` bytes in a row is found wherever it lies. Marks do not hold the text they are made of; they only
confirm a piece of it to who can guess the whole piece. They are kept: a search may be repeated at any time.

Files are searched as they are, and once more unpacked where their format packs bytes: Parquet, NumPy archives, ZIP
(office files), gzip, deflated streams of PDF. Windows that also occur in documents which stay are no marks, and neither
are windows with a character that JSON escapes. Files are read by a process of its own: closing a database file that
this process has open as well would end its locks, which POSIX keeps by process.

What is not seen: text in another encoding or spelling (UTF-16, base64, ``\\u`` escapes, other case, the terms
of an analyser), what a PDF draws with the glyphs of an embedded font, pictures of text, what is encrypted, and what
is packed inside of something else (an office file among other originals, an archive in an archive). Nor is anything
seen outside of the folders that are given. So terms are asked for in Lucene itself (`rag_lab.corpus.purge`), which also
writes whatever held a purged document anew without it; the search is the check of that, and not what removes.

The hash is a polynomial in a random odd base modulo 2**64 over random byte values (Karp
and Rabin 1987); with 10,000 marks a gigabyte gives a false finding with a probability of about one in a million.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import shake_256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, RagLabError

Hashes = npt.NDArray[np.uint64]

WIDTH = 24
STRIDE = 24
BLOCK = 1 << 20
LARGEST_UNPACKED = 1 << 30
_SIEVE_BITS = 22
_ESCAPED = np.isin(np.arange(256), [*range(0x20), 0x22, 0x5C, 0x7F])
_ZIP, _GZIP, _PARQUET, _PDF = b"PK\x03\x04", b"\x1f\x8b", b"PAR1", b"%PDF"
_PDF_STREAM = re.compile(rb"(?<!end)stream\r?\n")


@dataclass(frozen=True, slots=True)
class Finding:
    """Pieces of a removed document in a file; `offset` is the first byte, in the file or in what it packs."""

    place: Path
    offset: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Search:
    """What a search came to; `searched` counts bytes as they were looked at, unpacked ones too."""

    findings: tuple[Finding, ...]
    files: int
    searched: int
    unreadable: tuple[Path, ...] = ()


def marks(pieces: Iterable[bytes], *, text: bool) -> Hashes:
    """Sorted distinct marks of some pieces. Of a `text` only windows without characters that JSON escapes are taken."""
    found = [np.zeros(0, dtype=np.uint64)]
    for piece in pieces:
        hashes = _windows(piece)
        if not len(hashes):
            continue
        usable = ~_covered(_ESCAPED[np.frombuffer(piece, dtype=np.uint8)]) if text else _varied(piece)
        found.append(hashes[_every(usable)])
    return np.unique(np.concatenate(found))


def without(hashes: Hashes, pieces: Iterable[bytes]) -> Hashes:
    """The marks that are no window of any of these pieces."""
    known = _Lookup(hashes)
    seen = np.zeros(len(hashes), dtype=bool)
    for piece in pieces:
        for start in range(0, len(piece), BLOCK):
            windows = _windows(piece[start : start + BLOCK + WIDTH - 1])
            seen[known.positions(windows)[1]] = True
    return hashes[~seen]


def search(files: Sequence[Path], hashes: Hashes, advance: Callable[[int], None] = lambda _: None) -> Search:
    """Look for marks in files. A file that vanishes meanwhile is gone, one that cannot be read is reported.

    Raises `RagLabError` when the process that reads them fails.
    """
    findings: list[Finding] = []
    unreadable: list[Path] = []
    count = total = 0
    with tempfile.TemporaryFile() as given:
        np.save(given, hashes)
        given.write(json.dumps([os.fsencode(path).hex() for path in files]).encode())
        given.seek(0)
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE) as reader:
            for line in reader.stdout or ():
                found = json.loads(line)
                advance(1)
                if found["state"] == "unreadable":
                    unreadable.append(files[found["file"]])
                elif found["state"] == "read":
                    count += 1
                    total += found["size"]
                    findings += [Finding(files[found["file"]], at, pieces) for at, pieces in found["found"]]
    if reader.returncode:
        raise RagLabError(f"search for remains: its process ended with status {reader.returncode}; search again")
    return Search(tuple(findings), count, total, tuple(unreadable))


def main() -> None:
    """The reading process: marks and paths on standard input, a line of JSON on standard output for each file."""
    known = _Lookup(np.load(sys.stdin.buffer))
    for number, path in enumerate(json.load(sys.stdin.buffer)):
        answer = _look(Path(os.fsdecode(bytes.fromhex(path))), known)
        sys.stdout.write(json.dumps({"file": number, **answer}) + "\n")
        sys.stdout.flush()


def _look(path: Path, known: _Lookup) -> dict[str, Any]:
    """What one file holds: the offset and number of marks in each of its layers that has any."""
    try:
        with path.open("rb") as file:
            layers = [_found(layer, known) for layer in (_blocks(file), *_unpacked(path))]
    except FileNotFoundError:
        return {"state": "gone"}
    except OSError:
        return {"state": "unreadable"}
    size = sum(size for _, _, size in layers)
    return {"state": "read", "size": size, "found": [(at, pieces) for at, pieces, _ in layers if pieces]}


def files_below(folders: Iterable[Path]) -> Iterator[Path]:
    """All regular files below some folders, in order; links are not followed."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path


# --- hashing --------------------------------------------------------------------------------------------------------


@cache
def _tables() -> tuple[Hashes, Hashes, Hashes]:
    """A random value for each byte, and the powers of the base and of its inverse up to a block's length."""
    drawn = np.frombuffer(shake_256(b"marks of removed documents").digest(8 * 257), dtype="<u8").astype(np.uint64)
    base, length = int(drawn[256]) | 1, BLOCK + WIDTH
    return drawn[:256], _powers(base, length), _powers(pow(base, -1, 2**64), length)


def _powers(base: int, length: int) -> Hashes:
    powers = np.full(length, np.uint64(base), dtype=np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint64)


def _windows(data: bytes) -> Hashes:
    """The hash of every window of `data`, which is no longer than a block and its overlap; a longer one is cut."""
    if len(data) < WIDTH:
        return np.zeros(0, dtype=np.uint64)
    if len(data) > BLOCK + WIDTH - 1:
        parts = range(0, len(data) - WIDTH + 1, BLOCK)
        return np.concatenate([_windows(data[at : at + BLOCK + WIDTH - 1]) for at in parts])
    values, powers, inverse = _tables()
    sums = np.empty(len(data) + 1, dtype=np.uint64)
    sums[0] = 0
    np.cumsum(values[np.frombuffer(data, dtype=np.uint8)] * powers[: len(data)], out=sums[1:])
    mixed: Hashes = (sums[WIDTH:] - sums[:-WIDTH]) * inverse[: len(data) - WIDTH + 1]
    return mixed ^ (mixed >> np.uint64(29))


def _covered(bad: BoolArray) -> BoolArray:
    """Windows that hold a bad byte."""
    counts = np.concatenate([[0], np.cumsum(bad)])
    return np.asarray(counts[WIDTH:] > counts[:-WIDTH])


def _varied(data: bytes) -> BoolArray:
    """Windows with at least a third of their neighbouring bytes different: runs of zeros say nothing."""
    points = np.frombuffer(data, dtype=np.uint8)
    changes = np.concatenate([[0], np.cumsum(points[1:] != points[:-1])])
    return np.asarray(changes[WIDTH - 1 :] - changes[: len(points) - WIDTH + 1] >= WIDTH // 3)


def _every(usable: BoolArray) -> npt.NDArray[np.int64]:
    """Positions of usable windows, at least a stride apart, each as early as can be."""
    chosen, at = [], 0
    places = np.flatnonzero(usable)
    while at < len(places):
        chosen.append(int(places[at]))
        at = int(np.searchsorted(places, places[at] + STRIDE))
    return np.array(chosen, dtype=np.int64)


class _Lookup:
    """Marks in a form that takes a few nanoseconds a window: a sieve of their low bits before the exact look."""

    def __init__(self, hashes: Hashes) -> None:
        self._sorted = hashes
        self._sieve = np.zeros(1 << _SIEVE_BITS, dtype=bool)
        self._sieve[self._low(hashes)] = True

    @staticmethod
    def _low(hashes: Hashes) -> npt.NDArray[np.int64]:
        return np.asarray(hashes & np.uint64((1 << _SIEVE_BITS) - 1), dtype=np.int64)

    def positions(self, windows: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which windows are marks, and which marks they are."""
        likely = np.flatnonzero(self._sieve[self._low(windows)])
        if not len(likely) or not len(self._sorted):
            return likely[:0], likely[:0]
        place = np.minimum(np.searchsorted(self._sorted, windows[likely]), len(self._sorted) - 1)
        same = self._sorted[place] == windows[likely]
        return likely[same], place[same]


def _found(blocks: Iterable[tuple[int, bytes]], known: _Lookup) -> tuple[int, int, int]:
    """First offset and number of marks in a stream, and its size."""
    first, pieces, size = -1, 0, 0
    for offset, block in blocks:
        hits, _ = known.positions(_windows(block))
        pieces += len(hits)
        if len(hits) and first < 0:
            first = offset + int(hits[0])
        size = offset + len(block)
    return first, pieces, size


# --- reading --------------------------------------------------------------------------------------------------------


def _blocks(stream: Any) -> Iterator[tuple[int, bytes]]:
    """Blocks of a stream with their offsets; each begins with the last bytes of the one before."""
    held, offset = b"", 0
    while block := stream.read(BLOCK):
        data = held + block
        yield offset, data
        held = data[-(WIDTH - 1) :]
        offset += len(data) - len(held)


def _unpacked(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    """What a file packs, as further streams; nothing for other files, or for what cannot be unpacked."""
    with path.open("rb") as file:
        head = file.read(4)
    if head == _PARQUET:
        yield from _parquet_columns(path)
    elif head == _ZIP:
        yield from _zip_members(path)
    elif head[:2] == _GZIP:
        yield _gzip_blocks(path)
    elif head == _PDF:
        yield from _pdf_streams(path)


def _parquet_columns(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return
    for column in table.itercolumns():
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    yield _blocks(io.BytesIO(buffer))


def _zip_members(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size <= LARGEST_UNPACKED:
                    with archive.open(member) as stream:
                        yield _blocks(io.BytesIO(stream.read()))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        return


def _pdf_streams(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    data = path.read_bytes()
    for match in _PDF_STREAM.finditer(data):
        end = data.find(b"endstream", match.end())
        with suppress(zlib.error):
            packed = data[match.end() : end if end >= 0 else len(data)]
            yield _blocks(io.BytesIO(zlib.decompressobj().decompress(packed, LARGEST_UNPACKED)))


def _gzip_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(path) as stream:
            yield from _blocks(stream)
    except (gzip.BadGzipFile, EOFError):
        return
