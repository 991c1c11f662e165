"""ZIP archives within limits, for the office formats.

Nothing is believed that an archive says of itself: the declared sizes are checked before anything is read, and reading
stops where a member gives more than it may.
"""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO

from rag_lab.corpus.parsing.parsed import ParseError

MOST_ENTRIES = 10_000
MOST_BYTES = 512 * 2**20
LARGEST_MEMBER = 128 * 2**20
HIGHEST_RATIO = 200
"""Unpacked to packed bytes; XML of office files packs about 10 to 1, empty spreadsheets up to 100 to 1."""
_RATIO_FROM = 16 * 2**20
_CHUNK = 2**20


class Archive:
    """Members of a ZIP archive by name. Raises `ParseError` for what is no archive, cut, encrypted, or a bomb."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        self._left = MOST_BYTES
        if data.startswith(b"\xd0\xcf\x11\xe0"):
            raise ParseError(f"{name}: is encrypted or of an old format; save it without a password as .docx or .pptx")
        try:
            self._archive = zipfile.ZipFile(BytesIO(data))
            entries = self._archive.infolist()
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError) as error:
            raise ParseError(f"{name}: is no office file, or cut ({_one_line(error)}); get the file again") from None
        self._check(entries, len(data))
        self.names = frozenset(entry.filename for entry in entries)

    def _check(self, entries: list[zipfile.ZipInfo], packed: int) -> None:
        if len(entries) > MOST_ENTRIES:
            raise ParseError(f"{self._name}: holds {len(entries)} entries, more than {MOST_ENTRIES}; leave it out")
        total = sum(entry.file_size for entry in entries)
        if total > MOST_BYTES:
            raise ParseError(f"{self._name}: unpacks to {total} bytes, more than {MOST_BYTES}; leave it out")
        if total > max(_RATIO_FROM, HIGHEST_RATIO * packed):
            raise ParseError(f"{self._name}: {packed} bytes unpack to {total}, which is a ZIP bomb; leave it out")
        seen: set[str] = set()
        for entry in entries:
            if entry.filename in seen:
                raise ParseError(f"{self._name}: holds {entry.filename!r} twice; save it again")
            seen.add(entry.filename)

    def read(self, member: str) -> bytes:
        """Bytes of a member. Raises `ParseError` if it is missing, damaged, encrypted or too large."""
        try:
            with self._archive.open(member) as stream:
                chunks, size = [], 0
                while chunk := stream.read(_CHUNK):
                    size += len(chunk)
                    if size > min(LARGEST_MEMBER, self._left):
                        raise ParseError(f"{self._name}: {member} is larger than {LARGEST_MEMBER} bytes; leave it out")
                    chunks.append(chunk)
        except KeyError:
            raise ParseError(f"{self._name}: holds no {member}; save it again") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
            if "encrypted" in str(error):
                raise ParseError(f"{self._name}: is encrypted; save it without a password") from None
            raise ParseError(f"{self._name}: {member} is damaged ({_one_line(error)}); get the file again") from None
        self._left -= size
        return b"".join(chunks)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
