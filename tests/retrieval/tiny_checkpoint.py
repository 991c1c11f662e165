"""A ColBERT checkpoint with random weights, in the format of colbert-ai."""

import json
import string

LETTERS = [*string.ascii_lowercase, *string.digits]
VOCABULARY = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *string.punctuation]
CLS, SEP, MASK, Q, D = 4, 5, 6, 1, 2


def save_checkpoint(folder, projected=True, broken=False):
    """A ColBERT checkpoint with random weights: two layers, 32 dimensions, passages of 24 and queries of 16 tokens."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    size = BertConfig(len(VOCABULARY), 32, 2, 4, 64, max_position_embeddings=48, initializer_range=0.5)
    model = BertModel(size)
    if projected:
        model.linear = torch.nn.Linear(32, 32, bias=False)
        weights = {f"bert.{name}" if name != "linear.weight" else name: w for name, w in model.state_dict().items()}
        if broken:
            weights["linear.weight"] = torch.full((32, 32), torch.nan)
        model.save_pretrained(folder, state_dict=weights)
    else:
        model.save_pretrained(folder)
    settings = {"dim": 32, "doc_maxlen": 24, "query_maxlen": 16, "mask_punctuation": True}
    (folder / "artifact.metadata").write_text(json.dumps(settings), encoding="utf-8")
    return str(folder)
