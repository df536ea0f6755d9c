"""Two runs side by side at `/runs/compare`: the answers that moved, their changed words marked."""

import asyncio
import re
from collections import Counter
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from rapidfuzz.distance import Indel
from starlette.responses import Response

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.job import Job
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.report.comparison import MOVE_KINDS, ComparisonTally, Move, compare_runs
from plumbline.rows.report.result_lines import UNSUPPORTED, Claim, ResultRow, RowResult, Scored, read_head, read_line
from plumbline.rows.report.text_blocks import Piece
from plumbline.service.api.dependencies import JobReportsDep, JobStoreDep, TenantDep
from plumbline.service.api.job_answers import result_lines
from plumbline.service.api.jobs import checked_id
from plumbline.service.web.pages import render_page
from plumbline.service.web.run_pages import RUNS_PATH, run_of, texts_of

_MOVES_OF_A_PAGE: Final = 20
# A kind with more moves lists its largest.
_MOST_MOVES: Final = 10_000
_MOST_REASONS: Final = 3
# Longer answers are shown unmarked: an alignment takes a bit for each pair of words.
_MOST_WORDS: Final = 8_000
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORDS: Final = re.compile(rf"[{_HAN}]|[^\W{_HAN}]+|\s+|.", re.DOTALL)


class _CompareQuery(BaseModel, frozen=True):
    before: str = ""
    now: str = ""
    kind: str = ""
    reason: str = ""
    after: int = Field(default=0, ge=0, le=_MOST_MOVES * len(MOVE_KINDS))


class ShownSide(NamedTuple):
    """One of the two answers; `faults`: its first claims without support, if it is the one that they explain."""

    scored: Scored
    pieces: tuple[Piece, ...]
    faults: tuple[Claim, ...]


class ShownMove(NamedTuple):
    move: Move
    question: str
    before: ShownSide
    now: ShownSide


router = APIRouter(prefix=RUNS_PATH, include_in_schema=False)


@router.get("/compare")
async def show_comparison(
    request: Request,
    store: JobStoreDep,
    tenant: TenantDep,
    reports: JobReportsDep,
    query: Annotated[_CompareQuery, Query()],
) -> Response:
    if not query.before or not query.now:
        raise InvalidInput(CodedText("two_runs_expected"))
    before, now = [await store.get(tenant, checked_id(each)) for each in (query.before, query.now)]
    loop = asyncio.get_running_loop()

    def compare() -> tuple[ComparisonTally, list[Move]]:
        tally = compare_runs(
            *(map(read_head, result_lines(store, each, loop)) for each in (before, now)), most=_MOST_MOVES
        )
        kind, reason = query.kind, query.reason
        return tally, [each for each in tally.moves() if kind in ("", each.kind) and reason in ("", each.reason)]

    tally, moves = await reports.in_turn(compare)
    shown = moves[query.after :][:_MOVES_OF_A_PAGE]
    counts = {kind: sum(n for (found, _), n in tally.counts.items() if found == kind) for kind in MOVE_KINDS}
    return render_page(
        request,
        "run_comparison.html",
        before=run_of(before),
        now=run_of(now),
        comparison=tally.comparison(),
        moves=await _show_moves(store, before, now, shown),
        kinds=[(kind, count) for kind, count in counts.items() if count],
        reasons=Counter({reason: n for (kind, reason), n in tally.counts.items() if reason and query.kind == kind}),
        query=query,
        following=query.after + _MOVES_OF_A_PAGE if len(moves) > query.after + _MOVES_OF_A_PAGE else None,
    )


async def _show_moves(store: JobStore, before: Job, now: Job, moves: list[Move]) -> list[ShownMove]:
    sides = []
    for job, rows in ((before, [each.before.row for each in moves]), (now, [each.now.row for each in moves])):
        lines = await store.read_rows(job.tenant, job.id, rows)
        read = (read_line(each.line) for each in lines)
        results = {row.row: row.result for row in read if isinstance(row, ResultRow)}
        sides.append([(results.get(row), (await texts_of(store, job, row))[0]) for row in rows])
    shown = []
    for move, (old, old_texts), (new, new_texts) in zip(moves, *sides, strict=True):
        pieces = await asyncio.to_thread(mark_changes, _answer(old, old_texts), _answer(new, new_texts))
        passes = move.kind == "passes_now"
        shown.append(
            ShownMove(
                move,
                next((texts.question for texts in (new_texts, old_texts) if texts is not None), ""),
                ShownSide(move.before, pieces[0], _faults(old) if passes else ()),
                ShownSide(move.now, pieces[1], () if passes else _faults(new)),
            )
        )
    return shown


def _answer(result: RowResult | None, texts: Sample | None) -> str:
    """Return the answer; of lost rows what the claims hold of it."""
    if texts is not None:
        return texts.answer
    return " ".join(dict.fromkeys(claim.text for claim in result.claims)) if result else ""


def _faults(result: RowResult | None) -> tuple[Claim, ...]:
    found = [claim for claim in result.claims if claim.verdict in UNSUPPORTED] if result else []
    return tuple(sorted(found, key=lambda claim: UNSUPPORTED.index(claim.verdict))[:_MOST_REASONS])


def mark_changes(before: str, now: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return both texts in pieces; `changed` are the words, or Chinese characters, that the other does not have."""
    old, new = _WORDS.findall(before), _WORDS.findall(now)
    if max(len(old), len(new)) > _MOST_WORDS:
        return (Piece(before),), (Piece(now),)
    # difflib takes seconds for repeated words
    blocks = Indel.opcodes(old, new).as_matching_blocks()
    # Space between changed words changes with them
    kept = [each for each in blocks if "".join(old[each.a : each.a + each.size]).strip()]
    return _pieces(old, [(each.a, each.size) for each in kept]), _pieces(new, [(each.b, each.size) for each in kept])


def _pieces(words: list[str], kept: list[tuple[int, int]]) -> tuple[Piece, ...]:
    pieces, position = [], 0
    for start, size in (*kept, (len(words), 0)):
        changed = "".join(words[position:start])
        pieces += [Piece(changed, "changed"), Piece("".join(words[start : start + size]))]
        position = start + size
    return tuple(piece for piece in pieces if piece.text)
