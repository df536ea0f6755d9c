"""Makes a language model of one small layer with weights drawn by chance, as a GGUF file: `python tiny_gguf.py PATH`.

It writes rubbish in whatever form a grammar holds it to. Run it where the package `gguf` is installed.
"""

import sys

import gguf
import numpy as np

_WIDTH, _HEADS, _INNER, _CONTEXT = 32, 2, 64, 32_768
_SPECIAL = ("<unk>", "<s>", "</s>")


def write(path: str) -> None:
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    # The bytes, then the characters that JSON is made of.
    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *map(chr, range(33, 127)), "\u2581"]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (len(tokens) - len(kinds))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    shapes = {
        "token_embd.weight": (len(tokens), _WIDTH),
        "output.weight": (len(tokens), _WIDTH),
        **{f"blk.0.attn_{name}.weight": (_WIDTH, _WIDTH) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": (_INNER, _WIDTH) for name in ("gate", "up")},
        "blk.0.ffn_down.weight": (_WIDTH, _INNER),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(0, 0.2, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1])
