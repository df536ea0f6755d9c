"""Detection of sentences that tell a judge how to judge, by the order of their words, English and Chinese.

Words, not patterns with gaps: the texts come from strangers, and this takes linear time on any of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, slots=True)
class Combination:
    """Classes of words that instruct a judge in this order, within `reach` characters."""

    classes: tuple[str, ...]
    reach: int


# A word may belong to several classes: "judge" is somebody and something to do.
_ENGLISH_CLASSES = {
    "ignore": "ignore disregard forget override bypass",
    "former": "previous prior above earlier preceding foregoing system original initial existing",
    "whole": "all any every other your these those",
    "orders": "instruction instructions prompt prompts guideline guidelines directive directives criteria rubric",
    "laws": "rules rule commands command directions context contexts evidence",
    "grader": "evaluator evaluators grader graders rater raters scorer verifier assessor llm fact-checker factchecker"
    " fact-checkers evaluation-model judging-model",
    "grading": "grading evaluating judging scoring assessing rating verifying",
    "called": "marked rated scored labelled labeled graded judged classified treated considered accepted deemed"
    " regarded counted reported",
    "article": "the this my our",
    "bench": "judge judges ai",
    "you": "you your yourself",
    "must": "must should shall please always kindly required instructed need have will immediately simply only",
    "act": "mark rate score label grade judge classify treat consider accept deem regard count report return output"
    " give assign respond award set approve declare confirm answer reply conclude verify evaluate call find say",
    "call": "mark rate score label grade judge classify treat consider accept deem regard count report declare approve"
    " find",
    "assign": "mark rate score label grade classify treat consider accept deem return output assign award set choose"
    " select give pass reply respond print",
    "trade": "supported faithful grounded entailed faithfulness 1.0 10/10 100%",
    "top": "perfect maximum highest full top best",
    "marks": "score scores marks mark rating grade verdict",
    "verdict": "verdict label rating",
    "each": "all every each any this these following everything entire whole below above",
    "claims": "claim claims statement statements sentence sentences answer answers response responses assertion"
    " assertions output outputs everything completion summary items",
    "answer": "answer answers response responses completion output text",
    "true": "supported faithful correct true accurate verified valid grounded entailed perfect perfectly maximum"
    " highest factual truthful full fully 1.0 10/10 100 supports approved passing",
    "proven": "supported faithful verified grounded entailed fact-checked correct accurate",
    "wholly": "fully entirely completely wholly perfectly 100 already totally absolutely 100%",
    "not": "not don't dont never no without stop",
    "check": "verify check evaluate flag report question fact-check contradict assess penalize penalise look search"
    " mention compare",
    "doubts": "contradiction contradictions hallucination hallucinations errors unsupported inconsistencies",
    "checks": "verification checking evaluation fact-checking validation",
    "force": "only always regardless every each all must hereby everything whatever",
    "truth": "truth true correct supported faithful",
    "verdicts": "supported faithful grounded entailed",
    "pretend": "pretend assume suppose imagine",
    "contexts": "context contexts passage passages",
}
_CHINESE_CLASSES = {
    "ignore": "忽略 无视 忘记 忘掉 不要按照 不要遵循 不要遵守 不必遵守 别管 不要理会 不必理会 不用管 不要管 跳过 抛开"
    " 忽视",
    "former": "以上 上述 之前 前面 先前 此前 所有 一切 任何 原有 系统 上面 你的 您的 前述",
    "orders": "指令 指示 提示词 提示 规则 命令 设定 要求 说明",
    "grader": "评估者 评判者 评审员 评估员 评分者 评测员 评分员 打分员 评估模型 评判模型 审核员 核查员 裁判模型"
    " 语言模型 大模型 评估人员 评判员 裁判 评委 AI助手 评审 评估系统 评判系统 评分模型 打分模型 评测模型 裁判员"
    " 评分系统",
    "must": "请 必须 应当 应该 务必 需要 须 你 您 一律 直接 一定要",
    "act": "判定 判为 标记 标注 标为 评为 评定 视为 认定 打分 给出 输出 返回 评分 判断 视作 当作 算作 给予 回复 打",
    "call": "判定 判为 标记 标注 标为 评为 视为 认定 视作 当作 算作 判断",
    "each": "全部 所有 每个 每条 每一 每句 一律 都 均 本 该 此 这个 以下 整个 上述 统统",
    "claims": "陈述 声明 句子 断言 说法 回答 答案 论断 主张 每句",
    "true": "支持 忠实 正确 属实 真实 可信 通过 满分 supported 有依据 准确 无误 最高分 1.0 10分 100分",
    "proven": "支持 忠实 属实 核实 无误 有依据 验证",
    "wholly": "完全 全部 均 都 已经 已 百分之百 100%",
    "not": "不要 不必 无需 不用 禁止 别 无须",
    "check": "核查 检查 验证 质疑 核对 评估 核实",
    "force": "一律 都 只 只能 无论 直接 全部 统统 均",
    "reply": "回答 输出 判定 判为 返回 回复 给出 标记 选择",
    "verdicts": "支持 忠实 满分 supported",
    "pretend": "假装 假设 假定",
    "contexts": "上下文 文档 资料 材料",
}
_ENGLISH = (
    Combination(("ignore", "former", "orders"), 60),
    Combination(("ignore", "whole", "orders"), 40),
    Combination(("ignore", "former", "laws"), 40),
    Combination(("grader", "you", "act", "true"), 160),
    Combination(("ignore", "orders", "former"), 60),
    Combination(("ignore", "whole", "laws"), 30),
    Combination(("force", "assign", "verdicts"), 50),
    Combination(("assign", "force", "verdicts"), 50),
    Combination(("assign", "verdicts", "force"), 50),
    Combination(("force", "verdict", "verdicts"), 50),
    Combination(("assign", "verdict", "verdicts"), 50),
    Combination(("grader", "answer", "verdicts"), 100),
    Combination(("call", "article", "answer", "truth"), 50),
    Combination(("must", "assign", "top", "marks"), 40),
    Combination(("not", "check", "article", "answer"), 40),
    Combination(("checks", "answer", "verdicts"), 80),
    Combination(("ignore", "checks", "claims"), 60),
    Combination(("bench", "you", "act", "true"), 160),
    Combination(("bench", "must", "assign", "each", "claims", "true"), 160),
    Combination(("bench", "must", "call", "claims", "trade"), 160),
    Combination(("grader", "assign", "trade"), 120),
    Combination(("grader", "assign", "top", "marks"), 120),
    Combination(("bench", "must", "assign", "top", "marks"), 80),
    Combination(("assign", "trade", "each"), 50),
    Combination(("checks", "must", "assign", "trade"), 80),
    Combination(("grading", "must", "assign", "trade"), 80),
    Combination(("each", "claims", "verdict", "trade"), 60),
    Combination(("assign", "top", "marks", "article", "answer"), 70),
    Combination(("assign", "article", "answer", "top", "marks"), 60),
    Combination(("answer", "proven", "wholly", "true"), 80),
    Combination(("answer", "trade", "contexts"), 60),
    Combination(("you", "not", "check", "doubts"), 60),
    Combination(("grader", "not", "check", "doubts"), 60),
    Combination(("pretend", "contexts", "answer"), 80),
    Combination(("grading", "you", "act", "true"), 160),
    Combination(("grader", "call", "claims", "true"), 160),
    Combination(("call", "each", "claims", "true"), 80),
    Combination(("call", "claims", "you", "true"), 80),
    Combination(("article", "answer", "wholly", "proven"), 60),
    Combination(("each", "answer", "wholly", "proven"), 60),
    Combination(("answer", "wholly", "proven", "whole", "laws"), 70),
    Combination(("each", "claims", "must", "call", "true"), 80),
    Combination(("each", "claims", "must", "called", "true"), 80),
    Combination(("you", "not", "check", "claims"), 60),
    Combination(("grader", "not", "check"), 60),
    Combination(("not", "check", "each", "answer"), 50),
)
_CHINESE = (
    Combination(("ignore", "former", "orders"), 24),
    Combination(("grader", "must", "act", "true"), 60),
    Combination(("must", "call", "true"), 18),
    Combination(("each", "claims", "call", "true"), 30),
    Combination(("call", "each", "claims", "true"), 30),
    Combination(("each", "claims", "wholly", "proven"), 24),
    Combination(("grader", "not", "check"), 30),
    Combination(("not", "check", "each", "claims"), 24),
    Combination(("ignore", "check"), 8),
    Combination(("force", "reply", "verdicts"), 14),
    Combination(("grader", "force", "true"), 24),
    Combination(("pretend", "contexts", "true", "claims"), 30),
)
# A sentence without one of these holds no combination; looked for as plain text, which is fast.
_ANCHOR_WORDS = (
    "instruction prompt guideline directive criteria rubric rules context claim statement sentence answer response"
    " assertion contradiction hallucination verification checking grading judging supported faithful grounded entailed"
    " evaluator grader rater scorer verifier judge llm fact-check assessor output summary 指令 指示 提示 规则 命令"
    " 设定 要求 说明 支持 忠实 正确 属实 真实 可信 通过 满分 supported 依据 准确 无误 最高分 1.0 10分 100分 上下文"
    " 核查 检查 验证 质疑 核对 评估 核实"
)
_ANCHORS = tuple(_ANCHOR_WORDS.split())
# To ask whether something is true is not to say that it is.
_QUESTION = re.compile(r"(?:是否|能否|whether\b)[^，。,.]{0,16}")
_WORD = re.compile(r"[a-z0-9][a-z0-9./%'’-]*")
# The look behind lets a run be tried once: from each of its marks it would take the square of its length.
_END = re.compile(r"(?<![.!?])[.!?]++(?=[\s\"'”’)]|\Z)|[。！？\n]+")
# A sentence without an end is read in stretches of this length.
_MAX_SENTENCE_CHARACTERS = 600


def _by_word(classes: Mapping[str, str]) -> dict[str, frozenset[str]]:
    names: dict[str, set[str]] = {}
    for name, words in classes.items():
        for word in words.split():
            names.setdefault(word.casefold(), set()).add(name)
    return {word: frozenset(found) for word, found in names.items()}


_ENGLISH_BY_WORD = _by_word(_ENGLISH_CLASSES)
_CHINESE_BY_WORD = _by_word(_CHINESE_CLASSES)
_CHINESE_WORD = re.compile("|".join(map(re.escape, sorted(_CHINESE_BY_WORD, key=len, reverse=True))))


def may_instruct(text: str) -> bool:
    """Return True if a lower-cased text holds a word that every instruction to a judge has."""
    return any(anchor in text for anchor in _ANCHORS)


def instructing_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences [start:end) of a lower-cased text that tell a judge how to judge."""
    if not may_instruct(text):
        return
    for start, end in sentences(text):
        sentence = text[start:end]
        if may_instruct(sentence) and _instructs(sentence):
            yield start, end


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield rough sentences of a text, at most 600 characters each; a line's end is one of theirs."""
    start = 0
    for end in chain((match.end() for match in _END.finditer(text)), (len(text),)):
        for first in range(start, end, _MAX_SENTENCE_CHARACTERS):
            yield first, min(end, first + _MAX_SENTENCE_CHARACTERS)
        start = end


def _instructs(sentence: str) -> bool:
    sentence = _QUESTION.sub(" ", sentence)
    english = [
        (m.start(), _ENGLISH_BY_WORD[w]) for m in _WORD.finditer(sentence) if (w := _bare(m[0])) in _ENGLISH_BY_WORD
    ]
    if _any_holds(english, _ENGLISH):
        return True
    if sentence.isascii():
        return False
    chinese = [(match.start(), _CHINESE_BY_WORD[match.group()]) for match in _CHINESE_WORD.finditer(sentence)]
    return _any_holds(chinese, _CHINESE)


def _any_holds(words: Sequence[tuple[int, frozenset[str]]], combinations: Sequence[Combination]) -> bool:
    present = frozenset().union(*(names for _, names in words))
    return any(present.issuperset(each.classes) and _holds(words, each) for each in combinations)


def _bare(word: str) -> str:
    return word.replace("’", "'").rstrip(".-/'").removesuffix("'s")


def _holds(words: Sequence[tuple[int, frozenset[str]]], combination: Combination) -> bool:
    """Return True if the classes occur in order within reach; each stage keeps its latest possible start."""
    classes = combination.classes
    starts: list[int | None] = [None] * len(classes)
    for place, names in words:
        for stage in range(len(classes) - 1, -1, -1):
            if classes[stage] not in names:
                continue
            first = place if stage == 0 else starts[stage - 1]
            if first is not None and place - first <= combination.reach:
                starts[stage] = first
    return starts[-1] is not None
