"""A PLAID index on disk, in the format of colbert-ai 0.2, so that its `Searcher` opens the folder.

``metadata.json`` and ``plan.json`` (settings and counts), ``centroids.pt``, ``ivf.pid.pt`` (for each centroid the
passages with a token there), ``buckets.pt`` and ``avg_residual.pt`` (what residual bits stand for), and for each chunk
of passages ``N.codes.pt``, ``N.residuals.pt``, ``N.metadata.json`` and ``doclens.N.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import IntArray, RagLabError, batches
from rag_lab.retrieval.late import kmeans
from rag_lab.retrieval.late.plaid import Plaid
from rag_lab.retrieval.late.residuals import Buckets, bits_for
from rag_lab.retrieval.late.vectors import TokenVectors

PASSAGES_A_CHUNK = 25_000
RESIDUALS_SAMPLED = 50_000


def save(plaid: Plaid, codes: IntArray, passages: TokenVectors, folder: Path) -> None:
    """Write what `Plaid.build` made of `passages`."""
    import torch

    total, dimension = passages.vectors.shape
    sampled = np.linspace(0, total - 1, min(total, RESIDUALS_SAMPLED)).astype(np.intp)
    residuals = passages.vectors[sampled].astype(np.float32) - plaid.centroids[codes[sampled]]
    buckets = Buckets.of(residuals, bits_for(dimension))
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(plaid.centroids).half(), folder / "centroids.pt")
    torch.save((torch.from_numpy(buckets.cutoffs), torch.from_numpy(buckets.weights)), folder / "buckets.pt")
    torch.save(torch.tensor([buckets.mean]), folder / "avg_residual.pt")
    # colbert-ai reads as far behind the last list as its longest one reaches.
    padded = np.concatenate([plaid.lists, np.zeros(int(plaid.list_lengths.max()), dtype=np.int32)])
    torch.save((torch.from_numpy(padded), torch.from_numpy(plaid.list_lengths)), folder / "ivf.pid.pt")
    offsets = passages.offsets
    chunks = list(batches(len(passages), PASSAGES_A_CHUNK))
    for number, chunk in enumerate(chunks):
        part = slice(int(offsets[chunk.start]), int(offsets[chunk.stop]))
        packed = buckets.pack(passages.vectors[part], codes[part], plaid.centroids)
        torch.save(torch.from_numpy(codes[part].copy()), folder / f"{number}.codes.pt")
        torch.save(torch.from_numpy(packed), folder / f"{number}.residuals.pt")
        _write(folder / f"doclens.{number}.json", passages.lengths[chunk].tolist())
        counts = {
            "passage_offset": chunk.start,
            "num_passages": chunk.stop - chunk.start,
            "num_embeddings": part.stop - part.start,
            "embedding_offset": part.start,
        }
        _write(folder / f"{number}.metadata.json", counts)
    config = {
        "dim": dimension,
        "nbits": buckets.bits,
        "kmeans_niters": kmeans.ITERATIONS,
        "similarity": "cosine",
        "interaction": "colbert",
        # colbert-ai looks for candidates with so many of a query's vectors only.
        "query_maxlen": 512,
    }
    plan = {"config": config, "num_chunks": len(chunks), "num_partitions": plaid.cells}
    mean = total / len(passages)
    _write(folder / "plan.json", plan | {"num_embeddings_est": total, "avg_doclen_est": mean})
    _write(folder / "metadata.json", plan | {"num_embeddings": total, "avg_doclen": mean})


def load(folder: Path) -> Plaid:
    """Read what a search needs. Raises `RagLabError` when files are missing, damaged or disagree."""
    import torch

    try:
        centroids = torch.load(folder / "centroids.pt", map_location="cpu").float().numpy()
        lists, lengths = torch.load(folder / "ivf.pid.pt", map_location="cpu")
        described = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        chunks = [
            json.loads((folder / f"{i}.metadata.json").read_text(encoding="utf-8"))
            for i in range(described["num_chunks"])
        ]
        passages = sum(chunk["num_passages"] for chunk in chunks)
        plaid = Plaid(centroids, lists.numpy()[: int(lengths.sum())], lengths.numpy(), passages)
    except Exception as error:  # noqa: BLE001 - a damaged archive fails in many ways
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(f"{folder}: not a readable PLAID index ({why}); build it again") from None
    top = int(plaid.lists.max(initial=-1))
    if len(plaid.list_lengths) != plaid.cells or len(plaid.lists) != plaid.list_lengths.sum() or top >= passages:
        raise RagLabError(f"{folder}: its lists do not fit its {plaid.cells} centroids and {passages} passages")
    return plaid


def _write(path: Path, what: Any) -> None:
    path.write_text(json.dumps(what) + "\n", encoding="utf-8")
