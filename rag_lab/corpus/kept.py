"""Kept parts: the originals of a change set and what parsing made of them, in one folder.

A part holds the bytes of all its originals one after the other, one line of JSON for each parsed document, and all
offsets in one array. Nothing is compressed, so a search through the bytes on disk finds what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import Block, BlockKind, IntArray, RagLabError
from rag_lab.corpus.parsing.parsed import Parsed
from rag_lab.store import Store, digest, verify

KIND = "kept"
FORMAT = "kept-1"


@dataclass(frozen=True, eq=False)
class Kept:
    """One source as it came and as it was parsed; `content` is the SHA-256 of `data`."""

    data: bytes
    parsed: Parsed

    @property
    def content(self) -> str:
        """SHA-256 of the original."""
        return sha256(self.data).hexdigest()


def write_part(store: Store, entries: Sequence[Kept]) -> str:
    """Write a part and return its key; entry i has position i."""
    lines = [_line(entry) for entry in entries]
    key = digest(FORMAT, [entry.content for entry in entries], [sha256(line).hexdigest() for line in lines])

    def build(at: Path) -> Mapping[str, Any]:
        (at / "originals.bin").write_bytes(b"".join(entry.data for entry in entries))
        (at / "parsed.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        offsets = [_offsets(entry.parsed) for entry in entries]
        np.save(at / "offsets.npy", np.concatenate([np.zeros(0, np.int32), *offsets]))
        sizes = [(len(e.data), len(line) + 1, len(o)) for e, line, o in zip(entries, lines, offsets, strict=True)]
        np.save(at / "sizes.npy", np.array(sizes, dtype=np.int64).reshape(-1, 3))
        return {"format": FORMAT, "documents": len(entries)}

    store.publish(KIND, key, build)
    return key


class Part:
    """An opened part. Raises RagLabError when a file is gone or no longer what was written."""

    def __init__(self, store: Store, key: str) -> None:
        folder = store.path(KIND, key)
        verify(folder)
        self._originals = folder / "originals.bin"
        self._lines = folder / "parsed.jsonl"
        sizes = np.load(folder / "sizes.npy")
        self._ends = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(sizes, axis=0)])
        self._offsets = np.load(folder / "offsets.npy")
        self.key = key

    def __len__(self) -> int:
        return len(self._ends) - 1

    def data(self, position: int) -> bytes:
        """The original of an entry."""
        return self._slice(self._originals, position, 0)

    def parsed(self, position: int) -> Parsed:
        """What parsing made of it."""
        plain = json.loads(self._slice(self._lines, position, 1).decode("utf-8", "surrogatepass"))
        if plain["original"] is None:
            plain["original"] = self.data(position).decode("utf-8", "surrogatepass")
        start, end = self._ends[position : position + 2, 2]
        offsets = self._offsets[start:end]
        plain["offsets"] = offsets if len(offsets) else np.arange(len(plain["text"]) + 1, dtype=np.int32)
        plain["blocks"] = tuple(_block(block) for block in plain["blocks"])
        return Parsed(**plain | {name: tuple(plain[name]) for name in ("hidden", "notes")})

    def entry(self, position: int) -> Kept:
        """Both."""
        return Kept(self.data(position), self.parsed(position))

    def _slice(self, path: Path, position: int, column: int) -> bytes:
        if not 0 <= position < len(self):
            raise RagLabError(f"{path}: has {len(self)} entries and no number {position}; add the source again")
        start, end = self._ends[position : position + 2, column].tolist()
        with path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


def rewrite_part(store: Store, key: str, without: Iterable[int]) -> tuple[str, dict[int, int]]:
    """Write a part again without some of its entries; return its key and the new position of each entry that stays.

    The old part is left for the caller to remove. Without any entry left the key is empty and no part is written.
    """
    part, gone = Part(store, key), set(without)
    staying = [position for position in range(len(part)) if position not in gone]
    if not staying:
        return "", {}
    return write_part(store, [part.entry(p) for p in staying]), {old: new for new, old in enumerate(staying)}


def _line(entry: Kept) -> bytes:
    parsed = entry.parsed
    same = parsed.original.encode("utf-8", "surrogatepass") == entry.data
    plain = {
        "text": parsed.text,
        "title": parsed.title,
        "language": parsed.language,
        "parser": parsed.parser,
        "original": None if same else parsed.original,
        "blocks": [asdict(block) for block in parsed.blocks],
        "metadata": dict(parsed.metadata),
        "removed": dict(parsed.removed),
        "hidden": list(parsed.hidden),
        "notes": list(parsed.notes),
    }
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "surrogatepass")


def _offsets(parsed: Parsed) -> IntArray:
    """The offsets, none where every character stands at its own place."""
    offsets = np.asarray(parsed.offsets, dtype=np.int32)
    return offsets[:0] if np.array_equal(offsets, np.arange(len(parsed.text) + 1)) else offsets


def _block(plain: Mapping[str, Any]) -> Block:
    return Block(
        BlockKind(plain["kind"]),
        (plain["span"][0], plain["span"][1]),
        tuple(plain["section_path"]),
        plain["level"],
        plain["page"],
        (plain["lead"][0], plain["lead"][1]) if plain["lead"] else None,
    )
