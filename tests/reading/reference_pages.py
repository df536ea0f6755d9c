"""Pages of docs/reference/ that are made from the code: HTTP, commands, Python. `make pages` writes them."""

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import plumbline
import plumbline.client
from plumbline.cli.main import COMMANDS, build_parser
from plumbline.client.samples import OptionFields
from plumbline.ground.settings import Settings
from plumbline.judging.tiers.tier import TierName
from plumbline.main import create_app
from plumbline.schemas.language import explain_flags
from plumbline.schemas.problem import VALIDATION
from plumbline.service.api.problems import KIND_BY_ERROR
from plumbline.service.api.responses import PROBLEM_MEDIA_TYPE

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_MADE = "Made by `make pages` from the code."
_COMMON_PROBLEMS = ("400", "401", "403", "408", "413", "415", "422", "429", "500", "503")
_MOST_VALUES = 12  # of an enumeration; longer ones have a guide
_FEWEST_SHARED = 3  # options of two commands, for the later one to refer to the earlier
_SCALARS = {"string", "integer", "number", "boolean", "tier"}
_COMMON_PARAMETERS = {"lang", "job_id"}
_TAGS = {"evaluation": "Evaluations", "jobs": "Jobs", "retrieval": "Retrieval", "operations": "Operations"}
# In docs of its own, with examples
_OF_RETRIEVAL = ("evaluate", "compare", "fuse")
_NEXT = {
    "http": "Guides: [score many rows](../how-to/many-rows.md), [read a result](../how-to/results.md).",
    "cli": "Guides: [many rows](../how-to/many-rows.md), [gate a pull request](../how-to/gate-a-pull-request.md).",
    "python": "Guide with examples: [the Python client](../how-to/client.md).",
}


def http_page() -> str:
    """Build the reference of the HTTP API from its OpenAPI document."""
    app = create_app(Settings(warm_up=False, data_dir=Path("/nonexistent/no-jobs")))
    document = app.openapi()
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    lines = [
        "# HTTP API",
        f"{_MADE} `/docs` of the service shows the same with samples to send, `/openapi.json` as OpenAPI.",
        _NEXT["http"],
        "With keys configured, send `Authorization: Bearer KEY` or `X-API-Key: KEY`. Operations under `/v1` take the\n"
        "query parameter `lang` (`en`, `zh`; default: `Accept-Language`, else that of the answer; problems: English). "
        "`?` marks a field that is optional, and a type that may be null.",
        "Every failure is `application/problem+json` ([Problem](#problem)): under `/v1`\n"
        f"{', '.join(_COMMON_PROBLEMS)}, and those that an operation names.",
    ]
    for tag, title in _TAGS.items():
        lines.append(f"## {title}")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag]:
                    lines.extend(_operation(path, method, operation))
    lines.append("## Kinds of problems")
    lines.append("`type` is `urn:plumbline:problem:` and the name.")
    kinds = sorted((kind.status, kind.slug, kind.title) for kind in {*KIND_BY_ERROR.values(), VALIDATION})
    lines.append(_list(f"{status} `{name}`: {title}" for status, name, title in kinds))
    lines.append("## Schemas")
    described: dict[str, str] = {}
    for name in sorted(schemas):
        lines.extend(_schema(name, schemas[name], described))
    return _page(lines)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield operation["description"]
    yield _list(
        f"`{each['name']}`{'' if each.get('required') else '?'} ({each['in']}): "
        f"{_sentence(each.get('description', ''))}{_kind(_of(each))}"
        for each in operation.get("parameters", ())
        if each["name"] not in _COMMON_PARAMETERS
    )
    if body := operation.get("requestBody"):
        kinds = (f"`{media}`: {_kind(content['schema'])}" for media, content in body["content"].items())
        yield f"Body: {'; '.join(kinds)}."
    answers, failures = [], []
    for status, answer in operation["responses"].items():
        if [*answer.get("content", ())] == [PROBLEM_MEDIA_TYPE]:
            failures.append(status)
            continue
        bodies = " or ".join(
            _kind(content["schema"]) if media == "application/json" else f"`{media}`"
            for media, content in answer.get("content", {}).items()
        )
        said = answer["description"].removesuffix(".")
        said = "" if said == "Successful Response" else f" ({said})"
        answers.append(f"{status}: {bodies or 'no body'}{said}")
    others = sorted({*failures} - {*_COMMON_PROBLEMS}) if path.startswith("/v1") else sorted(failures)
    problems = f" Problems: {', '.join(others)}." if others else ""
    yield f"Answers {'; '.join(answers)}.{problems}"


def _of(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = parameter.get("schema") or next(iter(parameter["content"].values()))["schema"]
    return schema


def _schema(name: str, schema: Mapping[str, Any], described: dict[str, str]) -> Iterator[str]:
    """Yield a schema; a field that an earlier one describes in the same words refers to that."""
    yield f"### {name}"
    if schema.get("description"):
        # What a docstring says of each field stands in /openapi.json.
        yield re.split(r"\n\n(?=Args:| {4})", str(schema["description"]))[0]
    required = set(schema.get("required", ()))
    short: dict[str, list[str]] = {}
    long: list[str] = []
    for field, each in schema.get("properties", {}).items():
        shown = f"`{field}`{'' if field in required else '?'}"
        kind, text = _kind(each), _cell(each.get("description", ""))
        first = described.setdefault(f"{field} {text}", name)
        if not text or first != name:
            short.setdefault(f"as in [{first}](#{first.lower()})" if text else kind, []).append(shown)
        else:
            long.append(f"{shown}: {text}" if _names_values(each, text) else f"{shown} ({kind}): {text}")
    yield "; ".join(f"{', '.join(fields)}: {kind}" for kind, fields in short.items()) + ("." if short else "")
    yield _list(long)


def _names_values(schema: Mapping[str, Any], text: str) -> bool:
    """Return whether a description already names every value that is allowed."""
    values = [value for each in (schema, *schema.get("anyOf", ())) for value in each.get("enum", ())]
    return bool(values) and all(f"`{value}`" in text for value in values)


def _kind(schema: Mapping[str, Any]) -> str:
    """Name the type of a value, with a link to a schema."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = [*dict.fromkeys(_kind(each) for each in schema[several])]
            is_nullable = kinds[1:] == ["null"] and kinds[0] in _SCALARS
            return f"{kinds[0]}?" if is_nullable else " or ".join(kinds)
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        shown = "string" if len(values) > _MOST_VALUES else ", ".join(f"`{each}`" for each in values)
        return "tier" if {*TierName} <= {*values} else shown
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_kind(values)}" if isinstance(values, dict) and values else "object"
    return str(kind or "any")


def cli_page() -> str:
    """Build the reference of the commands from their parsers."""
    lines = [
        "# Commands",
        f"{_MADE} `plumbline COMMAND --help` says the same. Settings come from the [environment](settings.md).",
        _NEXT["cli"],
    ]
    first: dict[str, str] = {}
    for name, parser in (each for command in COMMANDS for each in _commands(build_parser([command]))):
        lines.append(f"{'###' if ' ' in name.removeprefix('plumbline ') else '##'} {name}")
        texts = [_text(text) for text in (parser.description, parser.epilog) if text]
        lines.extend(text for text in texts if first.setdefault(text, name) == name)
        for group in parser._action_groups:
            options = [each for each in group._group_actions if not isinstance(each, argparse._HelpAction)]
            rows = [
                f"{_option(each)}: {_cell(_help(each, parser))}"
                for each in options
                if each.help != argparse.SUPPRESS and not isinstance(each, argparse._SubParsersAction)
            ]
            if rows:
                if group.title not in {"options", "positional arguments"}:
                    lines.append(f"**{group.title}**{f': {group.description}' if group.description else ''}")
                lines.append(_list(_once(name, rows, first)))
    return _page(lines)


def _once(command: str, rows: list[str], first: dict[str, str]) -> list[str]:
    """Replace options that an earlier command describes in the same words by their names and a link to it."""
    earlier: dict[str, list[str]] = {}
    for row in rows:
        if (described := first.setdefault(row, command)) != command:
            earlier.setdefault(described, []).append(row)
    shared = {name: same for name, same in earlier.items() if len(same) >= _FEWEST_SHARED}
    kept = [row for row in rows if not any(row in same for same in shared.values())]
    for name, same in shared.items():
        options = ", ".join(f"`{row[1:].split(' ')[0].strip('`,:')}`" for row in same)
        kept.append(f"as for [`{name}`](#{name.replace(' ', '-')}): {options}")
    return kept


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help for each in action._choices_actions}
            for name, command in action.choices.items():
                command.description = command.description or f"{_upper(helps.get(name) or name)}."
                yield command.prog, command
                yield from _commands(command)


def _option(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    choices = "{" + ", ".join(map(str, action.choices or ())) + "}"
    value = "" if action.nargs == 0 else f" {action.metavar or (choices if action.choices else action.dest.upper())}"
    names = [each for each in action.option_strings if not each.startswith("--no-")] or action.option_strings
    return ", ".join(f"`{name}{value if name.startswith('--') or len(names) == 1 else ''}`" for name in names)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""


def python_page() -> str:
    """Build the reference of the Python client and of the measures from their docstrings."""
    lines = [
        "# Python",
        f"{_MADE} {_NEXT['python']} `AsyncPlumbline`, `AsyncJobs` and `AsyncJob` have the same methods with `await`.\n"
        "Errors: [when something goes wrong](../how-to/client.md).",
    ]
    functions = {"plumbline.evaluate": plumbline.evaluate}
    functions |= {f"plumbline.retrieval.{name}": getattr(plumbline.retrieval, name) for name in _OF_RETRIEVAL}
    for name, function in functions.items():
        lines.extend(_function(name, function, "##", doc=_doc(function)))
    for name in ("Plumbline", "Jobs", "Job", "Row", "Retries"):
        lines.extend(_class(name))
    options = typing.get_type_hints(OptionFields)
    lines.append("## OptionFields")
    lines.append("All that a request may choose; [EvaluationOptions](http.md#evaluationoptions) says what each means.")
    lines.append(
        _table("argument | type |", (f"`{name}` | `{_cell(_annotation(kind))}`" for name, kind in options.items()))
    )
    return _page(lines)


def _class(name: str) -> Iterator[str]:
    """Yield a class; what the blocking one leaves unsaid its twin for asyncio says."""
    kind, twin = getattr(plumbline.client, name), getattr(plumbline.client, f"Async{name}", None)
    yield f"## {name}"
    yield _text(_twin_doc(kind, twin))
    if name not in {"Job", "Jobs", "Row"}:
        yield f"```text\n{name}{_signature(kind)}\n```"
    for member_name, member in inspect.getmembers(kind):
        doc = _twin_doc(member, getattr(twin, member_name, None))
        if member_name.startswith("_"):
            continue
        if inspect.isfunction(member):
            yield from _function(f"{name}.{member_name}", member, "###", doc=doc)
        elif isinstance(member, property) and doc:
            yield f"### {name}.{member_name}"
            yield _text(doc)


def _twin_doc(thing: object, twin: object) -> str:
    """Return the docstring, with the arguments that its twin's names; the twin's where it refers to that."""
    own, other = _doc(thing), _doc(twin) if twin is not None else ""
    if not own or own.startswith("As `Async"):
        return other
    return f"{own}\n\nArgs:{other.partition('Args:')[2]}" if inspect.isclass(thing) and "Args:" in other else own


def _function(name: str, function: Callable[..., Any], level: str, *, doc: str) -> Iterator[str]:
    yield f"{level} {name}"
    yield f"```text\n{name.rpartition('.')[2]}{_signature(function)}\n```"
    if doc:
        yield _text(doc)


def _signature(function: Callable[..., Any]) -> str:
    """Format a signature with a line for each argument."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    shown = [_parameter(each) for each in parameters]
    first = next((place for place, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)
    if first is not None:
        shown.insert(first, "*")
    is_class = inspect.isclass(function)
    result = "" if is_class else f" -> {_annotation(signature.return_annotation)}"
    if len(", ".join(shown)) < 80:
        return f"({', '.join(shown)}){result}"
    return "(\n" + "".join(f"    {each},\n" for each in shown) + f"){result}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    default = parameter.default
    if default is parameter.empty:
        shown = ""
    elif isinstance(default, (str, int, float, bool, tuple, type(None))):
        shown = f" = {default!r}"
    else:
        shown = f" = {type(default).__name__}()"
    return f"{stars}{parameter.name}: {_annotation(parameter.annotation)}{shown}"


def _annotation(annotation: Any) -> str:
    """Write a type without its modules, an `Unpack` by the name of its mapping."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    text = annotation if isinstance(annotation, str) else str(annotation)
    text = re.sub(r"\*<class '([\w.]+)'>|typing\.Unpack\[([\w.]+)\]", r"\1\2", text)
    text = re.sub(r"(?<!Literal\[)(?<!, )'(\w+)'", r"\1", text.replace("~", ""))
    return re.sub(r"(?<![\w.])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _text(text: str) -> str:
    """Make Markdown of a docstring: its lists of arguments and errors become lists."""
    text = inspect.cleandoc(text)
    text = re.sub(r"^(Args|Raises|Returns|Yields):$", r"**\1**\n", text, flags=re.MULTILINE)
    return re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(text: str) -> str:
    return f"{_cell(text)} " if text else ""


def _list(rows: Iterable[str]) -> str:
    return "\n".join(f"- {row}" for row in rows)


def _table(head: str, rows: "Iterator[str] | list[str]") -> str:
    lines = [f"| {row} |" for row in rows]
    columns = head.count("|") + (not head.endswith("|"))
    return "\n".join([f"| {head}", "|" + "---|" * columns, *lines]) if lines else ""


def _page(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


_FLAGS_HEAD = """# 标记

断言和结果的 `flags` 里的短代码，表示得出判定的途中遇到的情况。
网页和中文报告里有同样的说明。由 `make pages` 从代码生成。

| 标记 | 说明 |
|---|---|
"""


def chinese_flags_page() -> str:
    """Build the Chinese reference of flags from what pages and reports say of them."""
    flags = {"judge_said_..." if name == "judge_said" else name: text for name, text in explain_flags("zh").items()}
    return _FLAGS_HEAD + "".join(f"| `{name}` | {text} |\n" for name, text in flags.items())


PAGES: Mapping[str, Callable[[], str]] = {
    "http.md": http_page,
    "cli.md": cli_page,
    "python.md": python_page,
    "flags.zh.md": chinese_flags_page,
}
