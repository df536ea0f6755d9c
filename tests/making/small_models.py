"""Sentence-transformers models of a few kilobytes with random weights, made on the spot: every kind of network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = ("the", "bridge", "was", "opened", "in", "two", "railway", "tracks", "cross", "river", "and", "people", "warm")


TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)


def word_tokenizer(more: Sequence[str] = ()) -> Tokenizer:
    """A token for each of `WORDS` and `more`, numbered from 5; a beginning (2) and an end (3) around a text.

    Each Chinese character is a word.
    """
    vocabulary = {token: number for number, token in enumerate((*TOKENS, *more))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def save_small_model(folder: Path, kind: str, *, name: str = "model", words: Sequence[str] = ()) -> Path:
    """A model of the kind (`bert`, `roberta`, `distilbert`, `mpnet`) in the folder, with a tokenizer of a few words.

    Args:
        name: of the folder in it.
        words: that the tokenizer knows besides `WORDS`.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(_save_network(folder, kind, words)), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu").save(str(folder / name))
    return folder / name


def save_sparse_model(folder: Path) -> Path:
    """A SparseEncoder that weighs the tokens of a text by a table."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    weights = torch_weights(len(TOKENS))
    module = SparseStaticEmbedding(_fast_tokenizer(()), weight=weights, frozen=True)
    SparseEncoder(modules=[module], device="cpu").save(str(folder))
    return folder


def torch_weights(count: int) -> Any:
    import torch

    return torch.linspace(0.1, 2.0, count)


def _save_network(folder: Path, kind: str, words: Sequence[str]) -> Path:
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(7)
    small = {"vocab_size": len(TOKENS) + len(words), "max_position_embeddings": 64, "pad_token_id": 0}
    sizes = {
        "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2},
    }.get(kind, {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2})
    config = AutoConfig.for_model(kind, **small, **sizes)
    AutoModel.from_config(config).save_pretrained(folder / "network")
    _fast_tokenizer(words).save_pretrained(folder / "network")
    return folder / "network"


def _fast_tokenizer(words: Sequence[str]) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(words), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=32,
    )  # fmt: skip
