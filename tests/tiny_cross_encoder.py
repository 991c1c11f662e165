"""Tiny random models in folders, for tests of rerankers."""

from __future__ import annotations

from pathlib import Path

WORDS = ["pump", "valve", "lamp", "sensor", "wheel", "axle"]


def make(folder: Path, kind: str, labels: int = 1, activation: str = "") -> Path:
    """A random two-layer model of a kind of transformers, with a tokenizer of a few words."""
    import torch
    import transformers

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(tokens))
    tokenizer = transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=96)
    torch.manual_seed(0)
    if kind.startswith("Bert"):
        config = transformers.BertConfig(
            vocab_size=len(tokens), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=96, num_labels=labels, initializer_range=0.6,
        )  # fmt: skip
        if activation:
            config.sentence_transformers = {"activation_fn": activation, "version": "4.0.0"}
    else:
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = transformers.LlamaConfig(vocab_size=len(tokens), **sizes)
    getattr(transformers, kind)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
