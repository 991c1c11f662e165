"""Generators by name: from contexts to answers, abstentions and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rag_lab.contracts import Generator, RagLabError

Factory: TypeAlias = Callable[..., Generator]


def load_generator(name: str, **options: Any) -> Generator:
    """A generator by name.

    "extractive" quotes (options: threshold, idf, encoder, which may be an encoder's name); "smollm2" is the packaged
    language model; any other name is a model on the hub or a folder (options: dtype, device, batch_size, time_limit_s,
    progress).
    """
    try:
        factory: Factory = GENERATORS.get(name, _language_model)
        return factory(name, **options)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise RagLabError(f"generator {name}: {str(error).split('() ')[-1]}") from error
        raise RagLabError(f"generator {name}: an option has the wrong type ({error})") from error


def _extractive(_: str, encoder: Any = None, **options: Any) -> Generator:
    from rag_lab.generation.extractive import ExtractiveReader

    if not (encoder is None or isinstance(encoder, str) or hasattr(encoder, "encode_queries")):
        raise RagLabError(f"generator extractive: encoder is {encoder!r}; give the name of one")
    if not isinstance(options.get("idf", {}), Mapping | None):
        raise RagLabError(f"generator extractive: idf is {options['idf']!r}; give a mapping of terms or leave it out")
    if isinstance(encoder, str):
        from rag_lab.retrieval.encoders import load_encoder

        encoder = load_encoder(encoder)
    return ExtractiveReader(encoder=encoder, **options)


def _language_model(name: str, **options: Any) -> Generator:
    from rag_lab.generation.language_model import LanguageModel

    return LanguageModel.load(name, **options)


GENERATORS: dict[str, Factory] = {"extractive": _extractive, "smollm2": _language_model}
