"""How far each tier agrees with people, through the service's own path, beside scores that know nothing.

    python -m benchmarks.agreement LABELS.jsonl --tier lexical --tier embedding --out agreement.json

LABELS holds one JSON object a line: contexts, answer, label (1 faithful, 0 not); optional question, dataset, task,
lang and doc (rows of one doc are drawn together for the intervals). GROUPS is a JSON object of group name to list of
data sets; each task of the rows is a group of its own. Rows that a tier does not score are counted by reason and
count in no figure of that tier; differences to a baseline are on the rows that the tier scored. Nothing is sent
anywhere, except to BASE_URL by tier llm. Progress goes to standard error; the last line of standard output is JSON.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from benchmarks.agreement_scores import Baseline, Outcome, auroc_difference, baseline_scores, score_rows
from benchmarks.agreement_table import print_agreement, print_datasets
from plumbline.extras.calibration.figures import Agreement, ScoredRows, measure_agreement
from plumbline.extras.calibration.labels import LabelledRow, Labels, read_labels
from plumbline.ground.errors import ConfigurationError, InvalidInput, PlumblineError
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.text.words import detect_language
from plumbline.judging.tiers.tier import TierName

Groups = Mapping[str, Collection[str]]

_SHOWN_PROBLEMS = 5
_DIGITS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error for what the user can fix."""
    arguments = _parser().parse_args(argv)
    # The bundled weights or none: a benchmark downloads nothing.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    configure_logging("WARNING")
    try:
        report = _run(arguments)
        if arguments.out:
            text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
            arguments.out.write_text(f"{text}\n", encoding="utf-8")
    except (PlumblineError, OSError) as error:
        print(f"agreement: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, ensure_ascii=False, allow_nan=False))
    return 0


def _run(arguments: argparse.Namespace) -> dict[str, object]:
    started = time.perf_counter()
    settings = _settings(arguments)
    labels = read_labels(arguments.labels)
    _print_problems(labels)
    rows, left_out = _choose(labels.rows, arguments)
    groups = _groups(rows, arguments.groups)
    report: dict[str, object] = {
        "labels": arguments.labels.name,
        "rows": len(rows),
        "datasets": len({row.dataset for row in rows}),
        "left_out": {"bad_lines": len(labels.problems), **left_out},
        "draws": arguments.draws,
    }
    baselines = baseline_scores([row.sample for row in rows], arguments.baselines)
    measured = {
        name: measure_agreement(
            _scored(rows, baseline.scores),
            scale=baseline.scale,
            groups=groups,
            draws=arguments.draws,
        )
        for name, baseline in baselines.items()
    }
    for name, agreement in measured.items():
        print(
            f"baseline {name}: {baselines[name].seconds} s, macro AUROC {agreement.macro.auroc.value}", file=sys.stderr
        )
    report["baselines"] = {
        name: {"seconds": baselines[name].seconds, **asdict(agreement)} for name, agreement in measured.items()
    }
    tiers: dict[str, object] = {}
    for tier in dict.fromkeys(TierName(name) for name in arguments.tier):
        tiers[tier.value], measured[tier.value] = _tier(
            tier, rows, settings=settings, baselines=baselines, groups=groups, arguments=arguments
        )
    print_datasets(measured)
    report["tiers"] = tiers
    report["seconds"] = round(time.perf_counter() - started, 1)
    return {name: _rounded(value) for name, value in report.items()}


def _tier(
    tier: TierName,
    rows: Sequence[LabelledRow],
    *,
    settings: Settings,
    baselines: Mapping[str, Baseline],
    groups: Groups,
    arguments: argparse.Namespace,
) -> tuple[dict[str, object], Agreement]:
    started = time.perf_counter()
    concurrency = arguments.concurrency or (16 if tier is TierName.LLM else 4)
    outcomes = asyncio.run(
        score_rows(rows, tier, settings, concurrency=concurrency, deadline_seconds=arguments.deadline)
    )
    seconds = time.perf_counter() - started
    refused = Counter(each.reason for each in outcomes if each.score is None)
    answered = [place for place, each in enumerate(outcomes) if each.score is not None]
    if not answered:
        raise InvalidInput(f"tier {tier} scored none of {len(rows)} rows: {dict(refused)}; expected one at least")
    kept = [rows[place] for place in answered]
    scored = _scored(kept, [outcomes[place].score or 0.0 for place in answered])
    agreement = measure_agreement(scored, groups=groups, draws=arguments.draws)
    over = {
        name: asdict(
            auroc_difference(
                scored, _scored(kept, [baseline.scores[place] for place in answered]), draws=arguments.draws
            )
        )
        for name, baseline in baselines.items()
    }
    print_agreement(tier, agreement, over=over)
    account = {
        "answered": len(answered),
        "refused": dict(refused.most_common()),
        "seconds": round(seconds, 1),
        **_account(outcomes),
        "auroc_over_baseline": over,
    }
    print(f"{len(answered)} rows scored in {seconds:.1f} s; not scored: {dict(refused) or 'none'}\n")
    return {**account, **asdict(agreement)}, agreement


def _account(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """What answered, with which flags, and what it used."""
    return {
        "models": dict(Counter(each.model for each in outcomes if each.model)),
        "flags": dict(Counter(flag for each in outcomes for flag in each.flags).most_common()),
        "calls": sum(each.usage.calls for each in outcomes),
        "prompt_tokens": sum(each.usage.prompt_tokens for each in outcomes),
        "completion_tokens": sum(each.usage.completion_tokens for each in outcomes),
    }


def _scored(rows: Sequence[LabelledRow], scores: Sequence[float]) -> ScoredRows:
    return ScoredRows(
        scores=np.asarray(scores, dtype=np.float64),
        labels=np.asarray([row.label for row in rows], dtype=np.int64),
        datasets=[row.dataset for row in rows],
        clusters=[row.cluster for row in rows],
    )


def _choose(
    rows: Sequence[LabelledRow], arguments: argparse.Namespace
) -> tuple[tuple[LabelledRow, ...], dict[str, int]]:
    """The rows asked for, equal contexts next to each other, and how many were left out and why."""
    skipped = {name for name in arguments.skip.split(",") if name}
    unknown = skipped - {row.dataset for row in rows}
    if unknown:
        raise InvalidInput(f"--skip names {sorted(unknown)[0]!r}; expected data sets of {arguments.labels.name}")
    left_out: Counter[str] = Counter()
    taken: Counter[tuple[str, int]] = Counter()
    chosen = []
    for row in rows:
        if row.dataset in skipped:
            left_out["skipped_dataset"] += 1
        elif arguments.lang and arguments.lang != (row.lang or detect_language(row.sample.answer)):
            left_out["other_language"] += 1
        elif arguments.limit_per_label and taken[row.dataset, row.label] >= arguments.limit_per_label:
            left_out["over_limit"] += 1
        else:
            taken[row.dataset, row.label] += 1
            chosen.append(row)
    if not chosen:
        raise InvalidInput(f"no row of {arguments.labels.name} is left: {dict(left_out)}; expected one at least")
    return tuple(sorted(chosen, key=lambda row: (row.sample.contexts, row.row))), dict(left_out)


def _groups(rows: Sequence[LabelledRow], path: Path | None) -> Groups:
    by_task: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.task:
            by_task[f"task {row.task}"].add(row.dataset)
    return {**by_task, **(_read_groups(path) if path else {})}


def _read_groups(path: Path) -> Groups:
    expected = "a JSON object of group name to list of data sets"
    try:
        groups = json.loads(path.read_bytes())
    except ValueError as error:
        raise InvalidInput(f"is not JSON ({error}); expected {expected}", place=path.name) from error
    if not isinstance(groups, dict):
        raise InvalidInput(f"holds no object; expected {expected}", place=path.name)
    for name, members in groups.items():
        if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
            raise InvalidInput(f"group {name!r} is no list of strings; expected {expected}", place=path.name)
    return groups


def _settings(arguments: argparse.Namespace) -> Settings:
    knobs: dict[str, object] = {"warm_up": False, "calibration": arguments.calibration}
    if TierName.LLM in arguments.tier:
        if not arguments.base_url or not arguments.model:
            raise ConfigurationError("--tier llm needs --base-url and --model")
        key = os.environ.get(arguments.api_key_env) if arguments.api_key_env else None
        if arguments.api_key_env and not key:
            raise ConfigurationError(f"--api-key-env: variable {arguments.api_key_env} is not set; set it to the key")
        knobs |= {"llm_provider": "generic", "llm_base_url": arguments.base_url, "llm_model": arguments.model}
        # Those of the environment would send rows elsewhere.
        knobs |= {"llm_api_key": key, "llm_fallbacks": (), "llm_judges": None}
    try:
        return Settings.model_validate(knobs)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{place}: {first['msg']}") from None


def _print_problems(labels: Labels) -> None:
    for problem in labels.problems[:_SHOWN_PROBLEMS]:
        print(problem, file=sys.stderr)
    if len(labels.problems) > _SHOWN_PROBLEMS:
        print(f"and {len(labels.problems) - _SHOWN_PROBLEMS} more bad lines", file=sys.stderr)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("--tier", action="append", required=True, choices=[tier.value for tier in TierName])
    parser.add_argument("--base-url", help="OpenAI-compatible address of tier llm")
    parser.add_argument("--model", help="model of tier llm")
    parser.add_argument("--api-key-env", help="environment variable that holds the key of tier llm")
    parser.add_argument("--calibration", type=Path, help="calibration file in place of the built-in one")
    parser.add_argument("--skip", default="", help="data sets left out, separated by commas")
    parser.add_argument("--limit-per-label", type=_positive, help="first rows of each data set and label")
    parser.add_argument("--lang", choices=["en", "zh"], help="rows of this language (that of the answer without lang)")
    parser.add_argument("--groups", type=Path, help="JSON file: group name to list of data sets")
    parser.add_argument("--baselines", choices=["all", "none", "cheap"], default="cheap", help="all: with a model's")
    parser.add_argument("--draws", type=_positive, default=1_000, help="bootstrap draws (default: %(default)s)")
    parser.add_argument("--concurrency", type=_positive, help="rows under way at one time (default: llm 16, others 4)")
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds for one row (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="file for the same JSON, indented")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too small; expected 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
