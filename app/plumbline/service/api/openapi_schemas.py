"""Schemas beside those that FastAPI finds itself, in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI


def add_schemas(app: FastAPI, schemas: Mapping[str, Any]) -> None:
    """Adds component schemas to the document, in FastAPI's documented way to extend it.

    https://fastapi.tiangolo.com/how-to/extending-openapi/
    """
    plain_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain_openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
