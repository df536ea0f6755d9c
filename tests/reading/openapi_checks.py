"""What Schemathesis is to check beside its own: it loads this by name, as `tests/running/schemathesis.toml` says."""

import json
import re
from typing import Any, Final

import jsonschema_rs
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.core.parameters import ParameterLocation

_LINES: Final = "application/x-ndjson"
_TEXT: Final = (_LINES, "application/jsonl")
schemathesis.serializer.alias(list(_TEXT), "text/plain")

# What a request that fits its schema may yet be refused for, by the words of the refusal: rules between fields, and
# what is in texts and files.
# A whole number is written without a point.
_NUMBERS: Final = (r"Expected `int.*`, got `float`", r"Input should be a valid integer")
_JSON: Final = (r"has a (key with a )?NUL character or a lone surrogate", *_NUMBERS)
_JUDGES: Final = (
    *_JSON,
    r"no judge is named",
    r"metrics: unknown metric",
    r"criteria: the criterion '.*' is there twice",
    r"messages: ",
)
_MEASURES: Final = (
    r"unknown measure",
    r"measure .* (needs a|takes no|has the) cutoff",
    r"measure .* (takes no|has wrong) parameters",
)
_CONVENTIONS: Final = (
    r"^id_pattern: only the id_rule 'regex' has a pattern",
    r"the id rule '\w+' needs a pattern",
    r"the pattern (is not one that RE2 takes|has \d+ groups)",
    r"^ties: ('average' needs dedupe|'.*' has no closed form over tied orders)",
    r"found the grade \d+(, above max_rel|; ndcg_exp takes)",
    r"^gain_map: (ndcg_gains needs the gains|no gain for the grade)",
    r"judged queries are missing from the run; add them, or set missing_queries",
    r"one id was expected, and the list .* holds \d+ UUIDs",
    r"is ranked more than once",
)
_RETRIEVAL: Final = (
    *_MEASURES,
    *_CONVENTIONS,
    *_NUMBERS,
    r"a run has either 'results' or 'llm_outputs'",
    r"two runs are named",
    r"there is no (judgment|row)",
    # What a row or a list holds.
    r"^/(qrels|runs/\d+)/.*(wanted|not a finite|listed twice|has a second row|two grades|one rank|a whole number)",
)
_HAN: Final = re.compile("[\u4e00-\u9fff]")
_RULES: Final[dict[str, tuple[str, ...]]] = {
    "evaluate": (*_JUDGES, r"the contexts have \d+ characters together"),
    "evaluate_batch": _JUDGES,
    "submit_job": (
        *_JUDGES,
        r"(choices|columns) stand in the query for rows sent as lines alone",
        r"this Idempotency-Key was used with another request",
        r"^/file: (the file is empty|its suffix is none of|the part has no file name)",
    ),
    "get_job_report": (r"expected a score and its bound", r"unknown (score|tier)", r"expected a number from 0 to 1"),
    "evaluate_retrieval": (*_RETRIEVAL, r"^(qrels|run)\b[^:]*(:\d+)?: "),
    "compare_retrieval": (
        *_RETRIEVAL,
        r"^baseline .* is none of the runs",
        r"a comparison needs at least one query",
        r"was evaluated on other queries",
    ),
    "fuse_retrieval": (
        *_RETRIEVAL,
        r"takes no weights; expected one of",
        r"expected one weight for each of \d+ runs",
        r"weights must be finite, not negative and not all 0",
        r"has no parameter",
        r"parameter '\w+' of \w+ must be 0 or more",
    ),
}


@schemathesis.hook
def filter_case(context: HookContext, case: Case[Any]) -> bool:
    """Lines are text: what is not cannot be sent, and becomes text on its way."""
    return case.media_type not in _TEXT or isinstance(case.body, str | bytes)


@schemathesis.check
def refused_by_a_rule(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """A request that fits its schema is refused with 422 for a known rule between its fields, and for nothing else."""
    if not _fits(case) or response.status_code != 422:
        return None
    said = _said(response)
    if _HAN.search(said):  # the rules are told by their English words; the Chinese ones stand beside them
        return None
    rules = _RULES.get(_operation_id(case), ())
    assert any(re.search(rule, said) for rule in rules), f"the schema does not say this, and no rule does: {said}"
    return None


@schemathesis.check
def error_in_its_place(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """A batch that does not fit its schema is refused, or has an error in the place of a result."""
    if _operation_id(case) != "evaluate_batch" or not _has_wrong_body(case) or response.status_code != 200:
        return None
    content = response.content
    is_lines = _media_type(response) == _LINES
    summary = json.loads(content.splitlines()[-1] if is_lines else content)["summary"]
    assert summary["errors"] > 0, "taken without an error"
    return None


@schemathesis.check
def lines_fit_their_schema(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """Each line of an answer in lines is one of those that the document names."""
    if response.status_code != 200 or _media_type(response) != _LINES:
        return None
    document: dict[str, Any] = case.operation.schema.raw_schema
    schema = case.operation.definition.raw["responses"]["200"]["content"][_LINES]["schema"]["contentSchema"]
    validator = jsonschema_rs.validator_for({**schema, "components": document["components"]})
    for line in response.content.splitlines():
        validator.validate(json.loads(line))
    return None


def _operation_id(case: Case[Any]) -> str:
    return str(case.operation.definition.raw.get("operationId"))


def _fits(case: Case[Any]) -> bool:
    """Whether every part of the request fits its schema."""
    if case.meta is None:
        return False
    modes = (case.meta.generation.mode, *(part.mode for part in case.meta.components.values()))
    return all(mode.is_positive for mode in modes)


def _has_wrong_body(case: Case[Any]) -> bool:
    body = None if case.meta is None else case.meta.components.get(ParameterLocation.BODY)
    return body is not None and body.mode.is_negative


def _media_type(response: Response) -> str:
    return ",".join(response.headers.get("content-type", [])).partition(";")[0]


def _said(response: Response) -> str:
    """The problem's words and those of its fields."""
    problem = response.json()
    return "; ".join([problem["detail"], *(each["detail"] for each in problem.get("errors", []))])
