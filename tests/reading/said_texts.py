"""Texts of ours that reach callers inside results and problems, read from the code with what it fills in as `⟨n⟩`."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import plumbline
from plumbline.ground import errors
from plumbline.judging.text.injection import KINDS

PACKAGE = Path(plumbline.__file__).parent
# Failures of tiers are in results; the details of the others are of the service and of what it stores.
_TIERS = frozenset({"TierFailure", "CallFailure"})
_PROBLEMS = frozenset(
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.PlumblineError) and name not in ("ConfigurationError",)
)
_IN_SERVICE = ("service/", "rows/jobs/", "rows/row_scorer.py", "rows/evaluation_wire.py", "schemas/")
_IN_RESULTS = (*_IN_SERVICE, "judging/", "models/", "ground/", "rows/", "retrieval/", "assembly.py")
# Said to who runs the service: its start, its files
_BESIDE = ("service/access/keys.py",)
_WARNING_NAMES = frozenset({"warning", "warnings", "missing"})
_SAYING_FUNCTIONS = (
    "_warning",
    "_why_silent",
    "_doubts",
    "_complaint",
    "_why_too_dear",
    "_find_unread",
    "pause_reason",
)
_MOST_FORMS = 16
_WORD = re.compile(r"(?<!⟨)[^\W\d]")


def said_texts() -> dict[str, str]:
    """Return each text once, with the file that says it."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for node in _saying(ast.parse(path.read_text(encoding="utf-8")), place):
            for text in filter(_WORD.search, _forms(node)):
                found.setdefault(text, place)
    return found


def _saying(tree: ast.Module, place: str) -> Iterator[ast.expr]:
    is_service = place.startswith(_IN_SERVICE) and place not in _BESIDE
    is_in_results = place.startswith(_IN_RESULTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _said_in_call(node, is_service=is_service)
        if is_in_results:
            for each in _said_beside(node):
                yield from _texts_in(each)


def _said_in_call(node: ast.Call, *, is_service: bool) -> Iterator[ast.expr]:
    """Yield the text of a failure, of a problem's kind, or of a validation."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    is_second = name in _TIERS or (is_service and name == "PydanticCustomError")
    place = 2 if name == "ProblemKind" else 1 if is_second else 0 if is_service and name in _PROBLEMS else None
    if place is not None and len(node.args) > place:
        yield node.args[place]


def _said_beside(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what becomes warnings, reasons and details."""
    if isinstance(node, ast.Call):
        yield from (each.value for each in node.keywords if each.arg in ("warnings", "detail"))
        if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in _WARNING_NAMES:
            yield from node.args
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is not None and any(getattr(each, "id", "") in _WARNING_NAMES for each in targets):
            yield node.value
    elif isinstance(node, ast.FunctionDef) and node.name.endswith(_SAYING_FUNCTIONS):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return | ast.Assign) and inner.value is not None:
                yield inner.value


def _texts_in(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the outermost texts of an expression with a blank between words, as names and codes have none."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        if any(" " in text for text in _forms(node)):
            yield node
    elif isinstance(node, ast.IfExp):
        yield from (*_texts_in(node.body), *_texts_in(node.orelse))
    elif not isinstance(node, ast.Compare | ast.Subscript):
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                yield from _texts_in(each)


def _forms(node: ast.expr) -> list[str]:
    """Return the texts that an expression can be, up to what is filled in; none where it is no text of its own."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.IfExp):
        return _forms(node.body) + _forms(node.orelse)
    if not isinstance(node, ast.JoinedStr):
        return []
    parts: list[list[str]] = []
    for number, each in enumerate(node.values):
        if isinstance(each, ast.Constant):
            parts.append([str(each.value)])
        else:
            value = each.value if isinstance(each, ast.FormattedValue) else each
            choices = [_choices(value.body), _choices(value.orelse)] if isinstance(value, ast.IfExp) else [[]]
            given = list(itertools.chain.from_iterable(choices))
            parts.append(given or [f"⟨{number}⟩"])
    return ["".join(form) for form in itertools.islice(itertools.product(*parts), _MOST_FORMS)]


def _choices(node: ast.expr) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else _forms(node)


_FLAG = re.compile(r"[a-z]+(?:_[a-z]+)*")
# Names of fields and kinds of sentences that stand in the same expressions
_NO_FLAGS = frozenset({"claims", "sentences", "markup"})


def said_flags() -> set[str]:
    """Return the flags that the judging code gives to claims and results, those of constants included."""
    found: set[str] = set()
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((PACKAGE / "judging").rglob("*.py"))]
    constants = {
        target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for tree in trees:
        for node in ast.walk(tree):
            for expression in _flag_expressions(node):
                for each in ast.walk(expression):
                    value = each.value if isinstance(each, ast.Constant) else constants.get(getattr(each, "id", ""))
                    if isinstance(value, str) and _FLAG.fullmatch(value):
                        found.add(value)
    return (found | set(KINDS)) - _NO_FLAGS


def _flag_expressions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        yield from (each.value for each in node.keywords if each.arg in ("flags", "flag"))
        is_kept = isinstance(node.func, ast.Attribute) and "flags" in ast.unparse(node.func.value)
        if name == "with_flags" or is_kept:
            yield from node.args
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is not None and any("flags" in ast.unparse(each) for each in targets):
            yield node.value
