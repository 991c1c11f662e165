"""What decides a vector, apart from its text: the identity that indexes and caches go by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """`weights`: a digest of model and tokenizer; `passages`: the precision in which passages are encoded."""

    weights: str
    pooling: str
    normalised: bool
    max_tokens: int | None
    query_prefix: str = ""
    passage_prefix: str = ""
    passages: str = "float32"

    @property
    def version(self) -> str:
        """``MODEL+PRECISION``: a digest of all fields but `passages`, then `passages`.

        The precision of passages is part of the identity of stored vectors, but not a reason to refuse a search:
        a query may meet passages of the same model in another precision (see `same_model`).
        """
        fields = asdict(self)
        precision = fields.pop("passages")
        return f"{bytes_digest([json.dumps(fields, sort_keys=True).encode()])}+{precision}"


def same_model(version: str, other: str) -> bool:
    """Whether vectors of two versions lie in one space."""
    return version.partition("+")[0] == other.partition("+")[0]


def bytes_digest(parts: Iterable[bytes | memoryview]) -> str:
    """16 hexadecimal digits of SHA-256 over `parts`."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()[:16]


def state_bytes(state: Mapping[str, Any]) -> Iterator[bytes]:
    """Names, shapes and values of a model's parameters as loaded (`state_dict`), in order of names."""
    import torch

    for key, tensor in sorted(state.items()):
        yield f"{key}{tuple(tensor.shape)}{tensor.dtype}".encode()
        yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def files_digest(paths: Iterable[Path]) -> str:
    """Digest over the contents of files, in the order given."""
    return bytes_digest(path.read_bytes() for path in paths)
