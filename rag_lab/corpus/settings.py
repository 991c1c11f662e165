"""The settings of a corpus: what may be chosen, and what is chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import Document, Encoder, RagLabError
from rag_lab.corpus.snapshot import FLAT, LATE_INDEXES

if TYPE_CHECKING:
    from rag_lab.corpus.chunking import Chunker
    from rag_lab.retrieval.late import LateEncoder
    from rag_lab.retrieval.sparse import SparseEncoder

ANALYZERS = ("auto", "en", "zh", "multilingual", "none")
BUILT_WITH = ("chunker", "context_prefix", "encoder", "analyzer", "factories", "colbert", "colbert_indexes", "splade")
DEFAULTS: Mapping[str, Any] = {
    "chunker": {"name": "blocks"},
    "context_prefix": None,
    "encoder": "auto",
    "analyzer": "auto",
    "factories": [FLAT],
    "colbert": "none",
    "colbert_indexes": ["exact", "auto"],
    "splade": [],
    "keep": 3,
    "freshness": {},
}


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a new corpus of this name; what is not given, or None, has its default.

    Raises RagLabError that names the setting.
    """
    chosen = {**DEFAULTS, **{key: value for key, value in given.items() if value is not None}}
    if unknown := sorted(chosen.keys() - DEFAULTS.keys()):
        raise RagLabError(f"corpus {name}, setting {unknown[0]}: unknown; use {', '.join(DEFAULTS)}")
    if type(chosen["keep"]) is not int or chosen["keep"] < 1:
        raise RagLabError(f"corpus {name}, setting keep: {chosen['keep']!r} must be a whole number from 1")
    if isinstance(chosen["chunker"], str):
        chosen["chunker"] = {"name": chosen["chunker"]}
    for key in ("chunker", "freshness"):
        if not isinstance(chosen[key], Mapping) or not all(isinstance(field, str) for field in chosen[key]):
            raise RagLabError(f"corpus {name}, setting {key}: {chosen[key]!r} is not a mapping of fields")
    chosen["chunker"] = {**DEFAULTS["chunker"], **chosen["chunker"]}
    for key, example in (("factories", FLAT), ("colbert_indexes", "exact"), ("splade", "org/model")):
        given_names = chosen[key]
        if not isinstance(given_names, list | tuple) or not all(isinstance(one, str) for one in given_names):
            raise RagLabError(
                f"corpus {name}, setting {key}: {given_names!r} is not a list of names such as [{example}]"
            )
        chosen[key] = list(given_names)
    if unknown := [kind for kind in chosen["colbert_indexes"] if kind not in LATE_INDEXES]:
        raise RagLabError(
            f"corpus {name}, setting colbert_indexes: {unknown[0]!r} is unknown; use {', '.join(LATE_INDEXES)}"
        )
    from rag_lab.metrics.freshness import Targets

    chosen["freshness"] = Targets.read(chosen["freshness"], f"corpus {name}, setting freshness").plain()
    try:
        chunker_of(chosen["chunker"])
    except RagLabError as error:
        raise RagLabError(f"corpus {name}, setting {str(error).removeprefix('snapshot.')}") from error
    if chosen["analyzer"] not in ANALYZERS:
        raise RagLabError(
            f"corpus {name}, setting analyzer: {chosen['analyzer']!r} is unknown; use one of {', '.join(ANALYZERS)}"
        )
    if chosen["encoder"] != "auto":
        encoder_of(chosen["encoder"])
    if chosen["colbert"] not in ("auto", "none"):
        late_encoder_of(chosen["colbert"])
    for model in chosen["splade"]:
        sparse_encoder_of(model)
    if chosen["context_prefix"] is not None:
        from rag_lab.corpus.prefixing import ContextPrefix

        place = f"corpus {name}, setting context_prefix"
        prefix = ContextPrefix.read(chosen["context_prefix"], place)
        prefix.writer(place)
        chosen["context_prefix"] = prefix.model_dump()
    return chosen


def built_with(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Of a corpus's settings those that a snapshot is built with, as they were chosen."""
    known = {**DEFAULTS, **stated}
    return {name: known[name] for name in BUILT_WITH}


def settled(stated: Mapping[str, Any], documents: Sequence[Document]) -> dict[str, Any]:
    """The settings to build with; "auto" is decided by the languages of the first documents and then stays."""
    settings = built_with(stated)
    languages = {document.language for document in documents} - {""}
    if settings["analyzer"] == "auto":
        settings["analyzer"] = next(iter(languages)) if languages in ({"en"}, {"zh"}) else "multilingual"
    for model in ("encoder", "colbert"):
        if settings[model] == "auto":
            settings[model] = "minilm" if languages <= {"en"} else "multilingual-e5"
    return settings


def chunker_of(settings: Mapping[str, Any]) -> Chunker:
    """The chunker of a setting. Raises RagLabError for one that cannot be."""
    from rag_lab.corpus.chunking import load_chunker

    return load_chunker(**settings)


def encoder_of(name: str) -> Encoder:
    """The encoder of this name. Raises RagLabError where there is none."""
    from rag_lab.retrieval import encoders

    return encoders.load_encoder(name)


def late_encoder_of(name: str) -> LateEncoder | None:
    """The late-interaction encoder of this name, None for "none". Raises RagLabError where there is none."""
    from rag_lab.retrieval import late

    return None if name == "none" else late.load_late_encoder(name)


def sparse_encoder_of(name: str) -> SparseEncoder:
    """The learned sparse encoder of this name. Raises RagLabError where there is none."""
    from rag_lab.retrieval import sparse

    return sparse.load_sparse_encoder(name)
