"""What models make of the texts of a segment: one vector each, a vector a token, or weighted terms.

Whatever the model, it gives each text some entries, as arrays that run side by side (`Series`). They are kept in a part
of the store beside the segment, under a key of the segment and the model's version. Texts that are known from another
segment are copied, each distinct text is encoded once, and the blocks in which that is done are kept until the part is
there, so an interrupted encoding goes on. Arrays are put together piece by piece in files that are mapped: none of them
has to fit into the memory.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import CacheUse, Encoder, IntArray, RagLabError, batches
from rag_lab.corpus.chunk_table import ChunkKeys, TextKeys, gone, read_chunks, read_keys, read_text_keys
from rag_lab.progress import progress_bar
from rag_lab.retrieval.dense import text_numbers
from rag_lab.retrieval.late.vectors import JointEncoder, LateEncoder, TokenVectors, ranges
from rag_lab.retrieval.sparse.vectors import SparseEncoder, SparseVectors
from rag_lab.store import Store, digest, manifest, verify

if TYPE_CHECKING:
    from rag_lab.corpus.segment import Segment

FORMAT = "encoded-1"
VECTORS, TOKEN_VECTORS, IMPACTS = "vectors", "token_vectors", "impacts"
KINDS = (VECTORS, TOKEN_VECTORS, IMPACTS)
"""Kinds of parts, in the store, that hold what a model made."""
EMBEDDING, TOKENS, SPARSE = "embedding", "token vectors", "sparse vectors"
"""Names of the caches of what models made, in a `CacheUse`."""
ENCODING = "encoding"
"""Kind of the entries with blocks of an encoding that is not finished."""
ENCODING_BLOCK = 512
ENTRIES_A_BLOCK = 1 << 16
LENGTHS = "lengths"

Make: TypeAlias = Callable[[str, tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
"""Where an array of that name, shape and type is to be written."""


@dataclass(frozen=True, eq=False)
class Series:
    """Entries of texts, one text after another: how many each has, ``[n]``, and arrays ``[lengths.sum(), ...]``."""

    lengths: IntArray
    arrays: Mapping[str, npt.NDArray[Any]]

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``[n + 1]``: the entries of text i lie in ``offsets[i]:offsets[i + 1]``."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths, dtype=np.int64)])

    def bytes_of(self, rows: slice) -> list[bytes]:
        """The entries of neighbouring texts, for each array."""
        start, stop = self.offsets[rows.start], self.offsets[rows.stop]
        return [np.ascontiguousarray(array[start:stop]).tobytes() for array in self.arrays.values()]

    @classmethod
    def read(cls, folder: Path) -> Series:
        """A part of the store, mapped."""
        try:
            about = manifest(folder)
            arrays = {name: _load(folder / f"{name}.npy", bool(about["entries"])) for name in about["arrays"]}
            ragged = (folder / f"{LENGTHS}.npy").is_file()
            lengths = np.load(folder / f"{LENGTHS}.npy") if ragged else np.ones(about["texts"], dtype=np.int32)
        except OSError as error:
            raise gone(folder) from error
        return cls(lengths, arrays)


def _load(path: Path, mapped: bool) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None)
    return found.view(np.ndarray)


@dataclass(frozen=True, eq=False)
class Model:
    """A model as a part is made with it. `slot` is what the part is to a segment: its kind and, where a segment may
    have several of a kind, the model. `label` is that of the progress bar, `cache` the name of what is known."""

    slot: str
    name: str
    version: str
    dimension: int
    label: str
    cache: str
    encode: Callable[[Sequence[str]], Series]

    @property
    def kind(self) -> str:
        """The kind of part in the store."""
        return kind_of(self.slot)

    @property
    def about(self) -> dict[str, Any]:
        """What a part says of its model."""
        return {"encoder": self.name, "encoder_version": self.version, "dimension": self.dimension}


@dataclass(frozen=True, eq=False)
class Beside:
    """Another model of which the vectors come from the same pass; `blocks` names those that were made so."""

    model: Model
    encode: Callable[[Sequence[str]], tuple[Series, Series]]
    blocks: set[str] = field(default_factory=set)


def kind_of(slot: str) -> str:
    """The kind of part, in the store, that fills a slot."""
    return slot.partition(":")[0]


def dense_model(encoder: Encoder) -> Model:
    """One vector a text."""

    def encode(texts: Sequence[str]) -> Series:
        return _checked_vectors(encoder, texts, encoder.encode_passages(texts))

    return Model(VECTORS, encoder.name, encoder.version, encoder.dimension, "encoding passages", EMBEDDING, encode)


def late_model(encoder: LateEncoder) -> Model:
    """A vector a token."""

    def encode(texts: Sequence[str]) -> Series:
        return _checked_tokens(encoder, texts, encoder.encode_passages(texts))

    return Model(TOKEN_VECTORS, encoder.name, encoder.version, encoder.dimension, "encoding tokens", TOKENS, encode)


def beside(dense: Encoder, late: LateEncoder) -> Beside | None:
    """The vectors of `dense` from the pass that makes the token vectors, where `late` runs the same model."""
    if not isinstance(late, JointEncoder) or late.dense.version != dense.version:
        return None

    def encode(texts: Sequence[str]) -> tuple[Series, Series]:
        tokens, vectors = late.encode_both(texts)
        return _checked_tokens(late, texts, tokens), _checked_vectors(dense, texts, vectors)

    return Beside(dense_model(dense), encode)


def _checked_vectors(encoder: Encoder, texts: Sequence[str], vectors: npt.NDArray[np.floating]) -> Series:
    if vectors.shape != (len(texts), encoder.dimension):
        raise RagLabError(
            f"encoder {encoder.name}: gave vectors of shape {vectors.shape} for {len(texts)} chunks, "
            f"not {(len(texts), encoder.dimension)}"
        )
    return Series(np.ones(len(texts), dtype=np.int32), {"vectors": vectors.astype(np.float32)})


def _checked_tokens(encoder: LateEncoder, texts: Sequence[str], made: TokenVectors) -> Series:
    if len(made) != len(texts) or made.dimension != encoder.dimension or made.vectors.dtype != np.float16:
        raise RagLabError(
            f"late encoder {encoder.name}: gave token vectors of {len(made)} texts, {made.dimension} dimensions "
            f"and type {made.vectors.dtype} for {len(texts)} chunks, not of {len(texts)}, {encoder.dimension} and "
            "float16"
        )
    if not np.isfinite(made.vectors).all():
        raise RagLabError(f"late encoder {encoder.name}: gave token vectors with NaN or infinity")
    arrays = {"vectors": made.vectors, "tokens": made.tokens.astype(np.int32)}
    return Series(made.lengths.astype(np.int32), arrays)


def as_token_vectors(series: Series, encoder: str, version: str) -> TokenVectors:
    """The series that `late_model` makes, as late interaction takes it."""
    return TokenVectors(series.arrays["vectors"], series.lengths, series.arrays["tokens"], encoder, version)


def sparse_model(encoder: SparseEncoder) -> Model:
    """Weighted terms; a segment may have those of several models."""

    def encode(texts: Sequence[str]) -> Series:
        made = encoder.encode_passages(texts)
        if len(made) != len(texts) or (made.impacts < 1).any():
            raise RagLabError(
                f"sparse encoder {encoder.name}: gave terms of {len(made)} texts for {len(texts)} chunks, or impacts "
                "below 1"
            )
        arrays = {"terms": made.terms.astype(np.int32), "impacts": made.impacts.astype(np.int32)}
        return Series(made.lengths.astype(np.int32), arrays)

    slot = f"{IMPACTS}:{encoder.name}"
    return Model(slot, encoder.name, encoder.version, encoder.vocabulary, "weighing terms", SPARSE, encode)


def as_sparse_vectors(series: Series, encoder: str, version: str) -> SparseVectors:
    """The series that `sparse_model` makes, as impact search takes it."""
    return SparseVectors(series.lengths, series.arrays["terms"], series.arrays["impacts"], encoder, version)


# --- making parts ---------------------------------------------------------------------------------------------------


def encode(
    segment: Segment,
    model: Model,
    known: Iterable[Segment],
    progress: bool,
    beside: Beside | None = None,
    just_made: Collection[str] = (),
) -> tuple[Segment, CacheUse]:
    """The segment with what a model makes of its texts, and how many of its chunks had to be encoded for that.

    Texts that a segment among `known` has entries of are not encoded again, nor is what the store has, and a text that
    several chunks share is encoded once. What `beside` makes is kept in blocks for its model, which is encoded next:
    then `just_made` names them, for they count as encoded.
    """
    store, key = segment.store, _key(model.slot, segment.key, model.version)
    blocks = _Blocks(store, key)
    encoded = 0

    def run(name: str, texts: Sequence[str]) -> Series:
        if beside is None:
            return model.encode(texts)
        made, other = beside.encode(texts)
        _Blocks(store, _key(beside.model.slot, segment.key, beside.model.version)).write(name, other)
        beside.blocks.add(name)
        return made

    def build(at: Path) -> Mapping[str, Any]:
        nonlocal encoded
        verify(segment.folder)
        sources, part, place, encoded = _sources(segment, model, known, blocks, run, just_made, progress)
        return model.about | _write(at, sources, part, place)

    store.publish(model.kind, key, build)
    blocks.clear()
    use = CacheUse(model.cache, segment.chunks - encoded, encoded)
    return replace(segment, encoded={**segment.encoded, model.slot: key}), use


def merge(merged: Segment, segments: Sequence[Segment]) -> Segment:
    """The segment that several were put together to, with what all of them have."""
    for slot in segments[0].encoded if segments else ():
        if not all(slot in segment.encoded for segment in segments):
            continue
        folders = [segment.store.path(kind_of(slot), segment.encoded[slot]) for segment in segments]
        about = manifest(folders[0])

        def build(at: Path, folders: Sequence[Path] = folders, about: Mapping[str, Any] = about) -> Mapping[str, Any]:
            for folder in folders:
                verify(folder)
            keys = read_keys([segment.part for segment in segments])
            model = {name: about[name] for name in ("encoder", "encoder_version", "dimension")}
            return model | _write(at, [Series.read(folder) for folder in folders], keys.part, keys.place)

        key = _key(slot, merged.key, about["encoder_version"])
        merged.store.publish(kind_of(slot), key, build)
        merged = replace(merged, encoded={**merged.encoded, slot: key})
    return merged


def gather(segments: Sequence[Segment], slot: str, keys: ChunkKeys, on_disk: bool) -> Series:
    """What fills a slot, in the order of rows: row i is the one at ``place[i]`` of ``segments[part[i]]``.

    One whole segment in its own order is mapped. Others are copied, `on_disk` into a file without a name.
    """
    series = [segment.read(slot) for segment in segments]
    if len(series) == 1 and len(series[0].lengths) == len(keys):
        return series[0]
    make = _unnamed_files(segments[0].store.root) if on_disk else _in_memory
    return _assembled(series, keys.part, keys.place, make)


def _key(slot: str, segment: str, version: str) -> str:
    return digest(FORMAT, kind_of(slot), segment, version)


def _sources(
    segment: Segment,
    model: Model,
    known: Iterable[Segment],
    blocks: _Blocks,
    run: Callable[[str, Sequence[str]], Series],
    just_made: Collection[str],
    progress: bool,
) -> tuple[list[Series | _Block], IntArray, IntArray, int]:
    """Where the entries of each row of a segment without dead are: series, and for each row which of them it lies in
    and where. The last value is how many texts were encoded."""
    keys = read_text_keys(segment.folder)
    numbers = text_numbers(keys)
    first = np.unique(numbers, return_index=True)[1]
    distinct = np.sort(first)
    part, place = np.zeros(len(distinct), dtype=np.int32), np.zeros(len(distinct), dtype=np.int32)
    wanted = {keys[row].tobytes(): i for i, row in enumerate(distinct.tolist())}
    sources: list[Series | _Block] = []
    for other in known:
        if found := _known(other, model, wanted):
            part[list(found)], place[list(found)] = len(sources), list(found.values())
            sources.append(other.read(model.slot))
    missing, encoded = sorted(wanted.values()), 0
    table = read_chunks([segment.part])
    with progress_bar(model.label, len(missing), progress) as advance:
        for block in batches(len(missing), ENCODING_BLOCK):
            some = missing[block]
            name = digest([keys[distinct[i]].tolist() for i in some])
            texts = [table.indexed_text(int(distinct[i])) for i in some]
            made = blocks.read(name)
            encoded += len(some) if made is None or name in just_made else 0
            if made is None:
                made = run(name, texts)
                blocks.write(name, made)
            part[some], place[some] = len(sources), np.arange(len(some))
            sources.append(_Block(blocks, name, made.lengths, partial(model.encode, texts)))
            advance(len(some))
    position = np.empty(len(keys), dtype=np.int64)
    position[distinct] = np.arange(len(distinct))
    row_of = position[first[numbers]]
    return sources or [model.encode([])], part[row_of], place[row_of], encoded


def _known(other: Segment, model: Model, wanted: dict[bytes, int]) -> dict[int, int]:
    """For wanted texts that another segment has sound entries of the row there; they are struck from `wanted`."""
    if not wanted or model.slot not in other.encoded:
        return {}
    keys: TextKeys = read_text_keys(other.folder)
    halves = np.array([np.frombuffer(key, dtype=np.int64)[0] for key in wanted])
    likely = np.flatnonzero(np.isin(keys[:, 0], halves)).tolist()
    rows = {keys[row].tobytes(): row for row in likely if keys[row].tobytes() in wanted}
    part = (model.kind, other.encoded[model.slot])
    if not rows or not other.store.intact(*part):
        return {}
    if manifest(other.store.path(*part))["encoder_version"] != model.version:
        return {}
    return {wanted.pop(key): row for key, row in rows.items()}


# --- blocks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """Blocks of a part that is being encoded, by a digest of their texts."""

    store: Store
    key: str

    def read(self, name: str) -> Series | None:
        kept = self.store.read(ENCODING, self.key, f"{name}.npz")
        if kept is None:
            return None
        with np.load(io.BytesIO(kept), allow_pickle=False) as arrays:
            return Series(arrays[LENGTHS], {name: arrays[name] for name in arrays if name != LENGTHS})

    def write(self, name: str, series: Series) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, lengths=series.lengths, **dict[str, Any](series.arrays))
        self.store.write(ENCODING, self.key, f"{name}.npz", buffer.getvalue())

    def clear(self) -> None:
        self.store.remove(ENCODING, self.key)


@dataclass(frozen=True, eq=False)
class _Block:
    """A block of which only the lengths stay in memory; made again if a purge took it away meanwhile."""

    blocks: _Blocks
    name: str
    lengths: IntArray
    make: Callable[[], Series]

    def read(self) -> Series:
        found = self.blocks.read(self.name)
        return self.make() if found is None else found


# --- putting together -----------------------------------------------------------------------------------------------


def _write(at: Path, sources: Sequence[Series | _Block], part: IntArray, place: IntArray) -> dict[str, Any]:
    """Write rows of some series into a folder; return what its manifest says of them."""

    def make(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        path = at / f"{name}.npy"
        if not shape[0]:
            np.save(path, np.zeros(shape, dtype))
            return np.zeros(shape, dtype)
        mapped = np.lib.format.open_memmap(path, "w+", dtype, shape)
        with path.open("r+b") as file:
            _reserve(file, path.stat().st_size)
        return mapped

    series = _assembled(sources, part, place, make)
    if (series.lengths != 1).any():
        np.save(at / f"{LENGTHS}.npy", series.lengths)
    entries = int(series.lengths.sum())
    return {"arrays": list(series.arrays), "texts": len(series.lengths), "entries": entries}


def _assembled(sources: Sequence[Series | _Block], part: IntArray, place: IntArray, make: Make) -> Series:
    """The series whose row i is the one at ``place[i]`` of ``sources[part[i]]``, in arrays that `make` gives."""
    lengths = np.empty(len(place), dtype=np.int32)
    for number, source in enumerate(sources):
        mine = part == number
        lengths[mine] = source.lengths[place[mine]]
    made = Series(lengths, {})
    for number, source in enumerate(sources):
        series = source.read() if isinstance(source, _Block) else source
        if not made.arrays:
            total = int(lengths.sum())
            made = replace(made, arrays={n: make(n, (total, *a.shape[1:]), a.dtype) for n, a in series.arrays.items()})
        mine = np.flatnonzero(part == number)
        for block in _blocks_of_entries(lengths[mine]):
            rows = mine[block]
            to = ranges(made.offsets[rows], lengths[rows])
            there = ranges(series.offsets[place[rows]], lengths[rows])
            for name, array in series.arrays.items():
                made.arrays[name][to] = array[there]
    return made


def _blocks_of_entries(lengths: IntArray) -> list[slice]:
    """Neighbouring rows in blocks of some `ENTRIES_A_BLOCK` entries, at least one row each."""
    block = (np.cumsum(lengths, dtype=np.int64) - 1) // ENTRIES_A_BLOCK
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(lengths)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _in_memory(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:  # noqa: ARG001 - one interface
    return np.empty(shape, dtype)


def _unnamed_files(folder: Path) -> Make:
    """Arrays in files that nobody else sees, and that are gone with the last reference to them."""

    def make(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:  # noqa: ARG001 - one interface
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if not size:
            return np.zeros(shape, dtype)
        with tempfile.TemporaryFile(dir=folder) as file:
            _reserve(file, size)
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)

    return make


def _reserve(file: BinaryIO, size: int) -> None:
    """Have the disk keep room: a full one is then an error here, and no signal when a mapped page is written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)
