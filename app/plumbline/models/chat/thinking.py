"""Takes out what a model wrote to itself before its reply."""

import re

# Tags that templates of open models use: DeepSeek, Qwen and most others; Seed-OSS; Magistral.
_THOUGHT = re.compile(
    r"\s*(?:<(?P<tag>think|thinking|thought|reasoning|seed:think)>.*?(?:</(?P=tag)>|\Z)|\[think\].*?(?:\[/think\]|\Z))\s*",
    re.IGNORECASE | re.DOTALL,
)
# OpenAI's harmony form, where the server did not read it: channels, of which `final` is the reply.
_HARMONY_STARTS = ("<|channel|>", "<|start|>")
_HARMONY_FINAL = re.compile(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_HARMONY_END = re.compile(r"<\|(?:end|return)\|>")
_STARTS_OF_A_REPLY = ("{", "[{", "```")


def without_thinking(content: str) -> str:
    """The reply alone, stripped; empty when the model only thought.

    A closing tag without an opening one ends a thought that the server's template opened; but a text that starts as a
    reply is one, and keeps what it quotes.
    """
    text = content.strip()
    if text.startswith(_HARMONY_STARTS):
        return _final_channel(text)
    while thought := _THOUGHT.match(text):
        text = text[thought.end() :]
    if not text.startswith(_STARTS_OF_A_REPLY):
        before, closing, after = text.partition("</think>")
        if closing and before:
            return after.strip()
    return text


def _final_channel(text: str) -> str:
    found = _HARMONY_FINAL.search(text)
    return _HARMONY_END.split(text[found.end() :], maxsplit=1)[0].strip() if found else ""
