"""The Markdown summary of a run as one comment on a pull request (GitHub) or merge request (GitLab), kept up to date.

    python -m plumbline.integrations.review_comment summary.md [NAME]

GitHub: GITHUB_TOKEN and the variables of Actions. GitLab: PLUMBLINE_GITLAB_TOKEN and those of merge request pipelines.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from plumbline.client.connection import JSON_HEADERS, Connection, RequestSpec
from plumbline.client.failures import ClientError, Refused, Retries
from plumbline.ground.errors import ConfigurationError, PlumblineError

# GitHub takes 65,536 characters
_MOST_CHARACTERS: Final = 60_000
_PAGE: Final = 100
_MOST_PAGES: Final = 20
_TIMEOUT_SECONDS: Final = 30.0
_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class ReviewThread:
    """The comments of one pull or merge request; `edits`: where one is changed, and by which method."""

    api: str
    comments: str
    edits: str
    method: str
    token: str


def find_thread(variables: Mapping[str, str]) -> ReviewThread | None:
    """Return the thread that the variables of a pipeline name; None: the run is of no pull or merge request.

    Raises:
        ConfigurationError: there is no token.
    """
    if number := variables.get("CI_MERGE_REQUEST_IID"):
        project = quote(variables["CI_PROJECT_ID"], safe="")
        notes = f"/projects/{project}/merge_requests/{quote(number, safe='')}/notes"
        return ReviewThread(
            variables["CI_API_V4_URL"], notes, notes, "PUT", _token(variables, "PLUMBLINE_GITLAB_TOKEN")
        )
    event = variables.get("GITHUB_EVENT_PATH")
    said = json.loads(Path(event).read_text(encoding="utf-8")) if event else {}
    if "pull_request" not in said:
        return None
    number = str(int(said["pull_request"]["number"]))
    issues = f"/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    api = variables.get("GITHUB_API_URL", "https://api.github.com")
    token = _token(variables, "GITHUB_TOKEN")
    return ReviewThread(api, f"{issues}/{number}/comments", f"{issues}/comments", "PATCH", token)


async def write_comment(thread: ReviewThread, summary: str, *, name: str) -> str:
    """Write the comment, or replace the one that an earlier run of this name wrote; return `written` or `replaced`."""
    mark = f"<!-- plumbline: {name.replace('--', '-')} -->"
    if len(summary) > _MOST_CHARACTERS:
        summary = f"{summary[:_MOST_CHARACTERS]}\n\n… cut; the whole is in the summary of the run."
    body = json.dumps({"body": f"{mark}\n{summary}"}).encode()
    connection = Connection(thread.api, api_key=thread.token, timeout=_TIMEOUT_SECONDS, retries=Retries())
    try:
        for page in range(1, _MOST_PAGES + 1):
            params = {"per_page": _PAGE, "page": page}
            comments: list[dict[str, Any]] = json.loads(
                await connection.answer(RequestSpec("GET", thread.comments, params=params))
            )
            ours = next((each for each in comments if str(each.get("body", "")).startswith(mark)), None)
            if ours is not None:
                path = f"{thread.edits}/{int(ours['id'])}"
                await connection.answer(RequestSpec(thread.method, path, headers=JSON_HEADERS, content=body))
                return "replaced"
            if len(comments) < _PAGE:
                break
        written = RequestSpec("POST", thread.comments, headers=JSON_HEADERS, content=body, is_repeatable=False)
        await connection.answer(written)
        return "written"
    finally:
        await connection.close()


def main(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Write the comment; return 1, with one line on standard error, if that fails."""
    try:
        thread = find_thread(variables)
        if thread is None:
            sys.stderr.write("plumbline: no comment: this run is of no pull or merge request\n")
            return 0
        summary = Path(arguments[0]).read_text(encoding="utf-8")
        name = arguments[1] if len(arguments) > 1 else "answers"
        done = asyncio.run(write_comment(thread, summary, name=name))
    except Refused as error:
        hint = "; may the token write comments? That of a fork's pull request may not"
        said = f"{error.status} {error.title}"
        sys.stderr.write(f"plumbline: no comment: {said}{hint if error.status in (401, 403) else ''}\n")
        return _FAILED
    except (ClientError, PlumblineError, OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"plumbline: no comment: {error}\n")
        return _FAILED
    sys.stderr.write(f"plumbline: comment {done}\n")
    return 0


def _token(variables: Mapping[str, str], name: str) -> str:
    if not (token := variables.get(name, "")):
        raise ConfigurationError(f"{name} is not set")
    return token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
