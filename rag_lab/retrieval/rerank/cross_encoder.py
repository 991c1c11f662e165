"""A cross-encoder: question and passage in one input, one score (Nogueira and Cho, arXiv 1901.04085).

Any sentence-transformers `CrossEncoder` by hub name or folder, with its own activation, prompt and length limit, in
float32. A matrix product is split by its shape, so the last digits of a score would depend on the pairs beside it: the
width of a batch therefore depends on its pairs' own lengths alone (a multiple of `WIDTH`), and batches of one width
have one number of rows (a multiple of `ROWS`, so that no row is at a ragged edge), the last filled up with copies. On a
CPU each batch runs on one thread, several at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import FloatArray, IntArray, RagLabError, batches
from rag_lab.retrieval.encoders.recipe import bytes_digest
from rag_lab.retrieval.encoders.sentence import model_bytes, prompt_of, quiet_loading
from rag_lab.retrieval.encoders.texts import for_model
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.rerank.reranker import Pairs, Scored

WIDTH, ROWS = 32, 8
TOKENS_A_BATCH = {"cpu": 1024, "cuda": 1 << 15}
PAIRS_A_BLOCK = 4096
LENGTHS_A_BLOCK = 256


class CrossEncoderReranker:
    """A `Reranker` on a cross-encoder. `batch_tokens`: about how many tokens are computed together."""

    def __init__(self, name: str, device: str | None = None, batch_tokens: int | None = None) -> None:
        self.name = name
        self._model = _load(name, device)
        kind = str(self._model.device.type)
        self._batch_tokens = batch_tokens or TOKENS_A_BATCH.get(kind, TOKENS_A_BATCH["cpu"])
        self._on_cpu = kind == "cpu"
        self._prompt = prompt_of(self._model, "query")
        activation = f"{self._model.activation_fn} {self._prompt} {self._model.max_seq_length}".encode()
        weights = bytes_digest([*model_bytes(self._model), activation])
        self.version = f"{weights}-{kind}-{self._batch_tokens}-{ROWS}x{WIDTH}"

    def score(self, pairs: Pairs) -> Scored:
        """The model's score of each pair."""
        started = time.perf_counter()
        rows = np.unique(pairs.rows)
        passages = dict(zip(rows.tolist(), (for_model(pairs.texts[row]) for row in rows.tolist()), strict=True))
        questions = [for_model(query) for query in pairs.queries]
        inputs = [
            [questions[query], passages[row]]
            for query, row in zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True)
        ]
        score = np.zeros(len(inputs))
        for part in batches(len(inputs), PAIRS_A_BLOCK):
            score[part] = self._score(inputs[part])
        ms = (time.perf_counter() - started) * 1000
        return Scored(score, np.ones(len(pairs), dtype=bool), pairs.shares(ms))

    def _score(self, inputs: Sequence[list[str]]) -> FloatArray:
        scores = np.zeros(len(inputs))
        groups = list(self._groups(self._lengths(inputs)))
        features = (self._features([inputs[i] for i in filled], width) for _, filled, width in groups)
        found = each_on_one_thread(self._forward, features) if self._on_cpu else map(self._forward, features)
        for (members, _, _), values in zip(groups, found, strict=True):
            scores[members] = values[: len(members)]
        return scores

    def _lengths(self, inputs: Sequence[list[str]]) -> IntArray:
        """Tokens of each pair as the model takes it, ``[pairs]``."""
        order = np.array(sorted(range(len(inputs)), key=lambda i: len(inputs[i][0]) + len(inputs[i][1])), dtype=np.intp)
        lengths = np.zeros(len(inputs), dtype=np.int32)
        for part in batches(len(order), LENGTHS_A_BLOCK):
            mask = self._model.preprocess([inputs[i] for i in order[part]], prompt=self._prompt)["attention_mask"]
            lengths[order[part]] = mask.sum(dim=1).numpy()
        return lengths

    def _groups(self, lengths: IntArray) -> Iterator[tuple[list[int], list[int], int]]:
        """Batches, longest first: the pairs, the same filled up with copies, and their width in tokens."""
        limit = self._model.max_seq_length or int(lengths.max(initial=0))
        widths = np.minimum(-(-lengths // WIDTH) * WIDTH, np.maximum(limit, lengths))
        for width in np.unique(widths)[::-1].tolist():
            members = np.flatnonzero(widths == width).tolist()
            rows = ROWS * max(1, self._batch_tokens // (ROWS * width))
            for part in batches(len(members), rows):
                group = members[part]
                yield group, group + [group[0]] * (rows - len(group)), width

    def _features(self, inputs: list[list[str]], width: int) -> Any:
        padded = {"text": {"padding": "max_length", "max_length": width}}
        features = self._model.preprocess(inputs, prompt=self._prompt, processing_kwargs=padded)
        place = self._model.device
        return {name: value.to(place) if hasattr(value, "to") else value for name, value in features.items()}

    def _forward(self, features: Any) -> FloatArray:
        import torch

        with torch.inference_mode():
            values = self._model.activation_fn(self._model(features)["scores"])
        found: FloatArray = values.reshape(-1).float().cpu().numpy().astype(np.float64)
        return found


def load_cross_encoder(name: str) -> CrossEncoderReranker:
    """The cross-encoder of that hub name or folder; the last few are kept, a folder that changed is read again.

    Raises `RagLabError`, in one line, when nothing of that name can be loaded or it is not a cross-encoder.
    """
    return _kept(name, _stamps(Path(name).expanduser()))


@lru_cache(maxsize=2)
def _kept(name: str, _: tuple[tuple[str, int, int], ...]) -> CrossEncoderReranker:
    return CrossEncoderReranker(name)


def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of every file of a folder, nothing for a hub name."""
    if not folder.is_dir():
        return ()
    files = [(file, file.stat()) for file in sorted(folder.rglob("*")) if file.is_file()]
    return tuple((str(file), state.st_size, state.st_mtime_ns) for file, state in files)


def _load(name: str, device: str | None) -> Any:
    from sentence_transformers import CrossEncoder

    try:
        with quiet_loading():
            model = CrossEncoder(name, device=device)
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(
            f"reranker {name!r} cannot be loaded ({why}); name late, listwise, the folder of a sentence-transformers "
            "CrossEncoder, or one on the hub that can be reached"
        ) from None
    fault = _fault(model)
    if fault:
        raise RagLabError(f"reranker {name!r} is no cross-encoder: {fault}")
    return model.eval()


def _fault(model: Any) -> str:
    """Why a model that was loaded as a cross-encoder is none, empty if it is one.

    The library takes any checkpoint, and makes up the weights of the head that it lacks.
    """
    declared, loaded = (model.config.architectures or ["model of no stated kind"])[0], type(model.model).__name__
    if declared.endswith("ForCausalLM") and not model.module_kwargs:
        return f"it is a language model ({declared}); make it the experiment's writer and name listwise"
    if declared != loaded:
        return f"it is a {declared}, without a head that scores pairs; train one, or name another checkpoint"
    if model.num_labels != 1:
        return f"it gives {model.num_labels} values for a pair, where a reranker gives one; name another checkpoint"
    return ""
