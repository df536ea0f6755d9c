"""MCP: a server with tools by which an agent checks its answer before it gives it."""

import asyncio
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from plumbline.ground.errors import PlumblineError
from plumbline.ground.version import VERSION
from plumbline.integrations.checker import Checker
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.explanation import explain, summarize
from plumbline.schemas.result_upgrade import upgrade_result

_INSTRUCTIONS = (
    "Before you give an answer that rests on retrieved passages, call check_answer with the answer and those passages. "
    "If `passed` is false, correct or leave out the sentences in `unsupported`. If it is null, that is "
    "no pass: it was not judged, or the tier is unsure; see `explanation`."
)


def build_server(checker: Checker) -> MCPServer:
    """Return the server; `run()` serves standard input and output, `run("streamable-http", port=...)` loopback."""
    server = MCPServer("plumbline", instructions=_INSTRUCTIONS, version=VERSION, log_level="ERROR")

    @server.tool()  # type: ignore[untyped-decorator]
    async def check_answer(answer: str, contexts: list[str], question: str = "") -> dict[str, Any]:
        """Check each sentence of an answer against the passages that it rests on."""
        try:
            return summarize(await asyncio.to_thread(checker.check, answer, contexts, question=question))
        except PlumblineError as error:
            raise ToolError(str(error)) from error

    @server.tool()  # type: ignore[untyped-decorator]
    def explain_result(result: dict[str, Any]) -> str:
        """Explain a result of Plumbline, as its API and result files have it, in words."""
        try:
            return explain(EvaluationResult.model_validate(upgrade_result(result.get("result", result))))
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise ToolError(f"this is no result of Plumbline: {place}: {error.errors()[0]['msg']}") from None

    return server
