"""Detectors of a few kilobytes with random weights, one for each kind of head, and the library's own scores of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import processors

from tests.making.small_models import TOKENS, word_tokenizer

MORE = ("mayor", "1932", "built", "years", "not", "it", "桥", "是", "年", "建", "的", ":", "?", ".", "。", "😀")


def save_detector(
    folder: Path, head: str, *, labels: Sequence[str] = ("LABEL_0", "LABEL_1"), kind: str = "bert", seed: int = 7
) -> Path:
    """Save a network with a head (`sequence`, `tokens`, `first_token`), its labels and a tokenizer."""
    import torch
    import transformers

    torch.manual_seed(seed)
    words = {"vocab_size": len(TOKENS) + len(MORE), "pad_token_id": 0}
    if head == "first_token":
        sizes: dict[str, Any] = {"d_model": 32, "d_ff": 64, "d_kv": 16, "num_layers": 2, "num_heads": 2}
        config = transformers.T5Config(**words, **sizes, decoder_start_token_id=0, num_labels=len(labels))
    else:
        bert = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = transformers.AutoConfig.for_model(kind, **words, **bert, max_position_embeddings=160)
    config.id2label = dict(enumerate(labels))
    config.label2id = {name: number for number, name in enumerate(labels)}
    network = _class_of(head).from_config(config)
    # Random heads of this size answer one half to everything.
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if name.startswith("classifier"):
                weights.mul_(40.0)
    network.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def library_logits(folder: Path, head: str, first: str, second: str | None = None) -> Any:
    """Return the logits that the library gives for one text or a pair, with its own tokenizer: shape (n, labels)."""
    import torch
    import transformers

    network = _class_of(head).from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(first, second, return_tensors="pt")
    if head == "first_token":
        inputs = {"input_ids": inputs["input_ids"]}
    with torch.inference_mode():
        logits = network(**inputs).logits[0]
    return logits.reshape(-1, logits.shape[-1]).double().numpy()


def _class_of(head: str) -> Any:
    import transformers

    return {
        "sequence": transformers.AutoModelForSequenceClassification,
        "tokens": transformers.AutoModelForTokenClassification,
        "first_token": transformers.AutoModelForTokenClassification,
    }[head]


def _tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer = word_tokenizer(MORE)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=160, model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
