"""Texts of ours that reach callers inside results and problems, and flags, read from the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import plumbline
from plumbline.ground import errors
from plumbline.judging.text.injection import KINDS

PACKAGE = Path(plumbline.__file__).parent
# Failures of tiers are in results, and faults of rows in their errors; other details are of the service.
_EVERYWHERE = {"TierFailure": 1, "CallFailure": 1, "BadRow": 0, "file_error": 0}
_IN_SERVICE = {
    name: 0
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.PlumblineError) and name not in ("ConfigurationError",)
}
_OF_SERVICE = (
    "service/", "retrieval/", "rows/jobs/", "rows/records/", "rows/row_scorer.py", "rows/evaluation_wire.py",
    "schemas/",
)  # fmt: skip
# Said to who runs the service: its start, its files
_BESIDE = ("service/access/keys.py", "rows/records/result_table.py")


def uncoded_texts() -> list[str]:
    """Return where a failure that callers read is raised with a sentence in place of a code and fields."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        is_service = place.startswith(_OF_SERVICE) and place not in _BESIDE
        argument_by_name = _EVERYWHERE | (_IN_SERVICE if is_service else {})
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = node.args[argument_by_name.get(node.func.id, len(node.args)) :]
            if given and any(isinstance(each, ast.Constant | ast.JoinedStr) for each in _values(given[0])):
                found.append(f"{place}:{node.lineno}")
    return found


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression can be: itself, or either branch."""
    if isinstance(node, ast.IfExp):
        yield from (*_values(node.body), *_values(node.orelse))
    else:
        yield node


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
