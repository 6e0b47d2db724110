"""What the OpenAPI document says beyond what the framework sees: bodies that routes read themselves, errors.

A route that reads its body itself, to refuse a large one early or to check a signature over its very bytes,
shows the framework no model; and every refusal here is `{"ok": false, "error": …}`, not the framework's own.
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel

from ci.hud.server.http import STORE_RETRY_S

REF = "#/components/schemas/{model}"
LEAST_ERROR = 400


class Refusal(BaseModel):
    """The answer to whatever is not taken or cannot be told."""

    ok: Literal[False]
    error: str


class ResultsRefusal(BaseModel):
    """The same of `/api/crcr/results`, as HUD words it."""

    error: str


# What any route may come to.
_EVERYWHERE = {"503": f"the store failed; Retry-After is {STORE_RETRY_S}"}
_OF_BODIES = {"408": "the body took longer than a minute", "413": "the body is too large"}


def body_of(model: type[BaseModel], *, security: str = "HTTPBearer") -> dict[str, Any]:
    """What the document says of a route that reads its body by itself.

    Args:
        model: of the body.
        security: the scheme that opens the route.
    """
    content = {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}
    return {"security": [{security: []}], "requestBody": {"required": True, "content": content}}


def add_document(app: FastAPI, *models: type[BaseModel], secret_header: str, reads_closed: bool) -> None:
    """Complete the OpenAPI document.

    Args:
        app: with all its routes.
        models: bodies that `body_of` names.
        secret_header: of the relay in front.
        reads_closed: whether reading takes a token.
    """
    made = app.openapi
    schemas: dict[str, Any] = {}
    bodies: tuple[type[BaseModel], ...] = (*models, Refusal, ResultsRefusal)
    for model in bodies:
        schema = model.model_json_schema(ref_template=REF)
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}

    def whole() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = made()
        parts = document.setdefault("components", {})
        parts["schemas"] = {**parts.get("schemas", {}), **schemas}
        for unused in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(unused, None)
        parts["securitySchemes"] = {
            "HTTPBearer": {"type": "http", "scheme": "bearer"},
            "Relay": {"type": "apiKey", "in": "header", "name": secret_header},
        }
        for operations in document["paths"].values():
            for method, operation in operations.items():
                _add_errors(operation, method, reads_closed=reads_closed)
        return document

    app.openapi = whole  # type: ignore[method-assign]  # the way FastAPI documents


def _add_errors(operation: dict[str, Any], method: str, *, reads_closed: bool) -> None:
    answers = operation["responses"]
    told = _EVERYWHERE | (_OF_BODIES if "requestBody" in operation else {})
    for status, description in told.items():
        answers.setdefault(status, {"description": description})
    if method == "get" and reads_closed and "security" not in operation:
        operation["security"] = [{"HTTPBearer": []}]
        answers.setdefault("401", {"description": "reading takes the token of hud.read_token"})
    relay = operation.get("security") == [{"Relay": []}]
    schema = {"$ref": REF.format(model="ResultsRefusal" if relay else "Refusal")}
    for status, answer in answers.items():
        if int(status) >= LEAST_ERROR:
            answer["content"] = {"application/json": {"schema": schema}}
