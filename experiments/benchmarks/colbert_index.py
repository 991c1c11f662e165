"""How much faster rag_lab builds a ColBERT index than colbert-ai's `Indexer`, encoding included.

    python experiments/benchmarks/colbert_index.py [FOLDER] [--passages N] [--minutes 60]

Both index the same texts of a BEIR folder (SciFact under RAG_LAB_DATA, or beside the project) with the same weights:
all-MiniLM-L6-v2 and the projection of rag_lab's late encoder, saved as a ColBERT checkpoint. colbert-ai runs in a child
process, as it would alone: float32, its batches, 4 bits. When the child dies, or takes longer than --minutes, the
benchmark stops with its last lines. Its extension is compiled before the clock runs, and both models are loaded.
rag_lab's time ends when the index and the token vectors, with which it ranks exactly, are on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

DATA = Path(os.environ.get("RAG_LAB_DATA", Path(__file__).parents[3] / "shared" / "data"))
MAX_TOKENS = 256
BITS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA / "scifact")
    parser.add_argument("--passages", type=int, default=None, help="only so many")
    parser.add_argument("--minutes", type=float, default=60, help="the longest that colbert-ai may take")
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stock:
        stock(options.stock)
        return
    lines = (options.folder / "corpus.jsonl").read_text(encoding="utf-8").split("\n")
    documents = [json.loads(line) for line in lines if line][: options.passages]
    texts = [f"{document.get('title') or ''} {document['text']}".strip() for document in documents]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        save_checkpoint(work / "checkpoint")
        (work / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        theirs = watched([sys.executable, __file__, "--stock", str(work)], work, options.minutes * 60)
        steps = ours(work / "rag_lab", texts)
        size = {side: sum(path.stat().st_size for path in (work / side).rglob("*") if path.is_file()) for side in SIDES}
    mine = sum(steps.values())
    print(f"{len(texts)} passages, {', '.join(f'{step} {seconds:.1f} s' for step, seconds in steps.items())}")
    print(f"colbert-ai {theirs:.1f} s, rag_lab {mine:.1f} s: {theirs / mine:.1f} times as fast")
    print(f"on disk: colbert-ai {size['colbert-ai'] / 1e6:.0f} MB, rag_lab {size['rag_lab'] / 1e6:.0f} MB")


SIDES = ("colbert-ai", "rag_lab")


def ours(folder: Path, texts: list[str]) -> dict[str, float]:
    """Seconds of each step of rag_lab."""
    from rag_lab.retrieval.late import LateIndex, load_late_encoder

    encoder = load_late_encoder("minilm")
    encoder.encode_passages(texts[:1])
    folder.mkdir()
    marks = [time.perf_counter()]
    passages = encoder.encode_passages(texts)
    marks.append(time.perf_counter())
    index = LateIndex.build(passages, "plaid")
    marks.append(time.perf_counter())
    index.save(folder)
    np.save(folder / "vectors.npy", passages.vectors)
    marks.append(time.perf_counter())
    return dict(zip(("encode", "cluster", "write"), np.diff(marks).tolist(), strict=True))


def watched(command: list[str], work: Path, seconds: float) -> float:
    """Run colbert-ai's part and return its seconds. A child that dies, or takes too long, ends the benchmark."""
    log = work / "stock.log"
    began = time.monotonic()
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as child:
        while child.poll() is None and time.monotonic() - began < seconds:
            time.sleep(1)
        late = child.poll() is None
        if late:
            child.kill()
    if late or child.returncode:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        reason = f"took longer than {seconds / 60:.0f} minutes" if late else f"died with {child.returncode}"
        raise SystemExit(f"colbert-ai's part {reason}; its last lines:\n{last}")
    return float((work / "seconds").read_text())


def stock(work: Path) -> None:
    """colbert-ai's part, in a process of its own that starts no other."""
    from rag_lab.retrieval.late.colbert_ai import remove_stale_locks

    remove_stale_locks()
    from colbert import Indexer
    from colbert.infra import ColBERTConfig, Run, RunConfig
    from colbert.modeling.checkpoint import Checkpoint

    texts = json.loads((work / "texts.json").read_text(encoding="utf-8"))
    checkpoint = str(work / "checkpoint")
    Checkpoint(checkpoint, ColBERTConfig(checkpoint=checkpoint), verbose=0)
    with Run().context(RunConfig(root=str(work / "colbert-ai"), nranks=1, avoid_fork_if_possible=True)):
        config = ColBERTConfig(nbits=BITS, doc_maxlen=MAX_TOKENS, avoid_fork_if_possible=True)
        began = time.perf_counter()
        Indexer(checkpoint, config, verbose=1).index("index", texts)
        (work / "seconds").write_text(str(time.perf_counter() - began))


def save_checkpoint(folder: Path) -> None:
    """MiniLM and its projection as a ColBERT checkpoint."""
    from safetensors.torch import load_file, save_file

    from rag_lab.retrieval.encoders.minilm import model_folder
    from rag_lab.retrieval.late.projections import stored_projection

    source = model_folder()
    folder.mkdir()
    for path in source.iterdir():
        if path.suffix in (".json", ".txt") and path.is_file():
            shutil.copy(path, folder)
    weights = {f"bert.{name}": tensor for name, tensor in load_file(source / "model.safetensors").items()}
    import torch

    projection = stored_projection("minilm")
    weights["linear.weight"] = torch.from_numpy(projection.T.copy())
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    settings = {"dim": projection.shape[1], "doc_maxlen": MAX_TOKENS, "mask_punctuation": True}
    (folder / "artifact.metadata").write_text(json.dumps(settings), encoding="utf-8")


if __name__ == "__main__":
    main()
