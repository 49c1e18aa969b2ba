"""OpenAPI 3.0 description of the server's HTTP API."""

from __future__ import annotations

from typing import Any

from gpuproof.serve.settings import Settings

_ERROR = {"$ref": "#/components/schemas/Error"}
_ERRORS = {
    "400": "the body cannot be decoded",
    "406": "the response cannot be encoded in any type listed in Accept",
    "413": "the body is too large",
    "415": "the content type of the body is not supported",
    "422": "the model rejects the shape or type of the data",
    "429": "too many requests are waiting; try again after Retry-After seconds",
    "500": "the handler failed; see the server's log",
    "503": "no worker is available; try again after Retry-After seconds",
    "504": "no response within the timeout",
}


def describe(settings: Settings, *, multi_model: bool) -> dict[str, Any]:
    """The server's OpenAPI description."""
    paths: dict[str, Any] = {
        "/ping": {"get": _plain("Whether the server is healthy", {"503": "loading, draining or broken"})},
        "/invocations": {"post": _inference("A prediction", settings)},
        "/metrics": {"get": _text("Counters and latencies in Prometheus's text format")},
        "/execution-parameters": {"get": _plain("Parameters for batch transform", {})},
        "/openapi.json": {"get": _plain("This description", {})},
    }
    if multi_model:
        target = {"name": "X-Amzn-SageMaker-Target-Model", "in": "header", "required": True}
        invocations = _inference("A prediction by one model", settings, {"404": "the model is not loaded"})
        paths["/invocations"] = {"post": invocations}
        invocations["parameters"].append({**target, "schema": {"type": "string", "minLength": 1}})
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        missing = {"404": "the model is not loaded"}
        paths["/models"] = {
            "get": _plain("The loaded models", {"400": "invalid next_page_token"}),
            "post": {
                **_plain(
                    "Load a model",
                    {
                        "400": "model_name or url is missing",
                        "404": "url is not a folder",
                        "409": "the model is loaded already",
                        "500": "the handler fails",
                        "503": "the server is starting; try again after Retry-After seconds",
                        "507": "not enough memory for the model",
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
            "post": _inference("A prediction by one model", settings, missing),
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
            "200": {
                "description": "success",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            **{
                status: {
                    "description": text,
                    "content": {"application/json": {"schema": {"type": "object"}}},
                }
                for status, text in errors.items()
            },
        },
    }


def _text(summary: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {"summary": summary, "responses": {"200": {"description": "success", "content": content}}}


def _inference(summary: str, settings: Settings, errors: dict[str, str] | None = None) -> dict[str, Any]:
    from gpuproof.serve.codecs import registry  # imports parsers, which the frontend needs for this only

    # The handler decides: JSON, text or bytes.
    anything: dict[str, Any] = {"*/*": {"schema": {}}}
    headers = [
        ("Accept", f"media type of the response; {settings.default_accept} if missing"),
        ("X-Amzn-SageMaker-Custom-Attributes", "passed to the handler"),
        ("X-Amzn-SageMaker-Inference-Id", "passed to the handler, and returned"),
        ("X-Gpuproof-Timeout", "timeout in seconds, if lower than the server's"),
    ]
    return {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
            for name, text in headers
            # In OpenAPI, the media types of the response define Accept.
            if name != "Accept"
        ],
        "requestBody": {
            "required": True,
            "description": f"At most {settings.max_payload} bytes, of a content type that the handler supports.",
            "content": {
                codec.media_type: {"schema": codec.schema}
                for codec in registry.CODECS
                if codec.schema is not None
            },
        },
        "responses": {
            "200": {"description": "the prediction", "content": anything},
            **{
                status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
                for status, text in {**_ERRORS, **(errors or {})}.items()
            },
        },
    }
