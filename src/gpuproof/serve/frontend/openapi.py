"""What the server takes and gives, as OpenAPI 3.0."""

from __future__ import annotations

from typing import Any

from gpuproof.serve.settings import Settings

_ERROR = {"$ref": "#/components/schemas/Error"}
_ERRORS = {
    "400": "the body cannot be decoded",
    "406": "the answer cannot be given in a form that Accept names",
    "413": "the body is too long",
    "415": "the body's content type is not read",
    "422": "the model refuses the data's shape or type",
    "429": "too many requests wait already; Retry-After says when to ask again",
    "500": "the handler failed; the server's log says where",
    "503": "no predictor is there to answer; Retry-After says when to ask again",
    "504": "no answer within the time-out",
}


def describe(settings: Settings, *, multi_model: bool) -> dict[str, Any]:
    """The server's OpenAPI description."""
    paths: dict[str, Any] = {
        "/ping": {"get": _plain("Whether the server is healthy", {"503": "loading, draining or broken"})},
        "/invocations": {"post": _inference("A prediction", settings)},
        "/metrics": {"get": _text("Counts and latencies, as Prometheus reads them")},
        "/execution-parameters": {"get": _plain("What batch transform should do", {})},
        "/openapi.json": {"get": _plain("This description", {})},
    }
    if multi_model:
        target = {"name": "X-Amzn-SageMaker-Target-Model", "in": "header", "required": True}
        invocations = _inference("A prediction of one model", settings, {"404": "there is no such model"})
        paths["/invocations"] = {"post": invocations}
        invocations["parameters"].append({**target, "schema": {"type": "string", "minLength": 1}})
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        missing = {"404": "there is no such model"}
        paths["/models"] = {
            "get": _plain("The loaded models", {"400": "no such page"}),
            "post": {
                **_plain(
                    "Load a model",
                    {
                        "400": "no model_name or url",
                        "404": "url is no folder",
                        "409": "it is loaded already",
                        "500": "its handler fails",
                        "503": "the server is starting; Retry-After says when to ask again",
                        "507": "it does not fit",
                    },
                ),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Load"}}},
                },
            },
        }
        paths["/models/{name}"] = {
            "parameters": [name],
            "get": _plain("A model", missing),
            "delete": _plain("Unload a model", missing),
        }
        paths["/models/{name}/invoke"] = {
            "parameters": [name],
            "post": _inference("A prediction of one model", settings, missing),
        }
    return {
        "openapi": "3.0.3",
        "info": {"title": "gpuproof serve", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {"type": "string"}},
                },
                "Load": {
                    "type": "object",
                    "required": ["model_name", "url"],
                    "properties": {
                        "model_name": {"type": "string", "pattern": r"^[^\u0000]+$"},
                        "url": {
                            "type": "string",
                            "pattern": r"^/[^\u0000]*$",
                            "description": "the model's folder",
                        },
                    },
                },
            }
        },
    }


def _plain(summary: str, errors: dict[str, str]) -> dict[str, Any]:
    return {
        "summary": summary,
        "responses": {
            "200": {"description": "fine", "content": {"application/json": {"schema": {"type": "object"}}}},
            **{
                status: {
                    "description": words,
                    "content": {"application/json": {"schema": {"type": "object"}}},
                }
                for status, words in errors.items()
            },
        },
    }


def _text(summary: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {"summary": summary, "responses": {"200": {"description": "fine", "content": content}}}


def _inference(summary: str, settings: Settings, errors: dict[str, str] | None = None) -> dict[str, Any]:
    # Whatever the handler gives: JSON, text or bytes.
    anything: dict[str, Any] = {"*/*": {"schema": {}}}
    headers = [
        ("Accept", f"the form of the answer; {settings.default_accept} where it is left out"),
        ("X-Amzn-SageMaker-Custom-Attributes", "handed to the handler"),
        ("X-Amzn-SageMaker-Inference-Id", "handed to the handler, and given back"),
        ("X-Gpuproof-Timeout", "seconds, to wait less than the server would"),
    ]
    return {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}
            for name, words in headers
            # OpenAPI leaves Accept to the response's media types.
            if name != "Accept"
        ],
        "requestBody": {
            "required": True,
            "description": f"At most {settings.max_payload} bytes, of a content type that the handler reads.",
            "content": {
                "application/json": {"schema": {}},
                "text/csv": {"schema": {"minLength": 1}},
                "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": {
            "200": {"description": "the prediction", "content": anything},
            **{
                status: {"description": words, "content": {"application/json": {"schema": _ERROR}}}
                for status, words in {**_ERRORS, **(errors or {})}.items()
            },
        },
    }
