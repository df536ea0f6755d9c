"""Parts of the documents that are made from the code: settings, answers of the service, figures. `make pages`."""

import asyncio
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plumbline.assembly import build_encoder
from plumbline.ground.settings import Settings, load_settings, variable_name
from plumbline.judging.tiers.calibration import highest_score
from plumbline.judging.tiers.tier import TierName
from tests.reading.reference_pages import PAGES as REFERENCE_PAGES
from tests.reading.reference_pages import REFERENCE

ROOT = Path(__file__).parents[2]
SETTINGS = REFERENCE / "settings.md"
CHINESE_SETTINGS = REFERENCE / "settings.zh.md"
_CHINESE = Path(__file__).with_name("settings.zh.toml")
RESULTS = ROOT / "docs" / "how-to" / "results.md"
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
# A request by curl, and the answer that is printed next.
EXAMPLE = re.compile(r"/v1/evaluations .*?-d '(\{.*?\})' \|.*?```json\n(.*?)\n```", re.DOTALL)
_HEAD = """# Settings

All settings are environment variables, defaults in brackets; a wrong value stops the start with one line.
Made by `make pages` from the code.
"""
_CHINESE_HEAD = """# 配置项

所有配置都是环境变量，括号内为默认值；值有误时启动失败并用一行说明原因。由 `make pages` 从代码生成。
"""
_CHINESE_GROUPS = {
    "Access": "访问控制",
    "The judge": "评判模型",
    "The embedding model": "句向量模型",
    "The detector": "检测模型",
    "Limits of requests": "请求的限制",
    "Jobs and data": "后台任务与数据",
    "Scores": "评分",
    "The service": "服务",
}
_KEY = re.compile(r"API key for (.+), where that provider is chosen and has no key of its own\.")
# By the beginning of the name after PLUMBLINE_; the first that fits.
_GROUPS = {
    "Access": ("API_KEYS", "ALLOW_", "KEY", "TRUSTED_", "CORS_", "READYZ_"),
    "The judge": (
        *("LLM_", "DASHSCOPE_", "OPENAI_", "DEEPSEEK_", "GEMINI_", "MOONSHOT_", "ZHIPUAI_", "SILICONFLOW_"),
        *("OPENROUTER_", "AZURE_OPENAI_", "PROMPTS_", "CACHE_"),
    ),
    "The embedding model": ("EMBEDDING_", "WARM_UP"),
    "The detector": ("DETECTOR",),
    "Limits of requests": ("MAX_", "BODY_"),
    "Jobs and data": ("DATA", "JOB_", "ROW_"),
    "Scores": ("THRESHOLD", "CALIBRATION", "DEADLINE_"),
    "The service": ("",),
}


def settings_page() -> str:
    """Build the reference of settings: a list for each group, in the order of the code."""
    return _HEAD + _settings_lists({}, lambda english: english)


def chinese_settings_page() -> str:
    """Build the same in Chinese; raises KeyError for a description that has no Chinese text."""
    texts = tomllib.loads(_CHINESE.read_text(encoding="utf-8"))

    def chinese(english: str) -> str:
        key = _KEY.fullmatch(english)
        return f"选用 {key[1].replace(' and ', '、')} 而没有另设密钥时的 API 密钥。" if key else texts[english]

    return _CHINESE_HEAD + _settings_lists(_CHINESE_GROUPS, chinese)


def _settings_lists(titles: Mapping[str, str], text: Callable[[str], str]) -> str:
    rows: dict[str, list[str]] = {group: [] for group in _GROUPS}
    for name, field in Settings.model_fields.items():
        variable = variable_name(name)
        short = variable.removeprefix("PLUMBLINE_")
        group = next(group for group, starts in _GROUPS.items() if short.startswith(starts))
        rows[group].append(f"- `{variable}`{_default(field.default)}: {text(field.description or '')}\n")
    return "".join(f"\n## {titles.get(group, group)}\n\n{''.join(lines)}" for group, lines in rows.items())


def excerpt(result: dict[str, Any]) -> str:
    """Format the lines of a result that matter first."""
    claims = [f"        {json.dumps(_brief(each), ensure_ascii=False)}" for each in result["claims"]]
    shown = {"tier": result["tier"], "faithfulness": round(result["faithfulness"], 2), "passed": result["passed"]}
    lines = [f"    {json.dumps(name)}: {json.dumps(value)}," for name, value in shown.items()]
    return "\n".join(["{", *lines, '    "claims": [', ",\n".join(claims), "    ]", "}"])


def highest_scores() -> str:
    """Say the highest score of each tier, in English."""
    llm, embedding, lexical = (
        f"{highest_score(tier):g} in tier {tier}" for tier in TierName if tier is not TierName.DETECTOR
    )
    return f"The highest score is {llm}, {embedding} and {lexical}:"


def _brief(claim: dict[str, Any]) -> dict[str, Any]:
    return {name: claim[name] for name in ("text", "verdict", "reason") if name in claim}


def _default(value: object) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f" (`{str(value).lower()}`)"
    return f" (`{value:g}`)" if isinstance(value, float) else f" (`{value}`)"


async def _update_answers(text: str, client: Any, *, whole: bool) -> str:
    for sent, printed in EXAMPLE.findall(text):
        result = (await client.post("/v1/evaluations", json=json.loads(sent))).json()
        if whole:
            # Seconds differ from run to run
            for attempt, before in zip(
                result["trace"]["attempts"],
                json.loads(printed)["trace"]["attempts"],
                strict=False,
            ):
                attempt["seconds"] = before["seconds"]
        text = text.replace(printed, json.dumps(result, indent=4, ensure_ascii=False) if whole else excerpt(result))
    return text


async def _write_answers() -> None:
    from tests.running.service import plain_settings, running

    # The same on every processor.
    encoder = build_encoder(load_settings().model_copy(update={"embedding_precision": "fp32"}))
    try:
        async with running(plain_settings(deadline_seconds=60), encoder=encoder) as client:
            for path in (RESULTS, *READMES):
                text = path.read_text(encoding="utf-8")
                path.write_text(await _update_answers(text, client, whole=path == RESULTS), encoding="utf-8")
    finally:
        await encoder.aclose()


def headings(text: str) -> Iterator[str]:
    """Yield the anchors of a page's headings, as GitHub makes them."""
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


PAGES = {SETTINGS: settings_page, CHINESE_SETTINGS: chinese_settings_page} | {
    REFERENCE / name: build for name, build in REFERENCE_PAGES.items()
}


if __name__ == "__main__":
    for path, build in PAGES.items():
        path.write_text(build(), encoding="utf-8")
    asyncio.run(_write_answers())
    sys.stdout.write("written: docs/reference/, and the answers in docs/how-to/results.md and both READMEs\n")
