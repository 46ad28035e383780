"""The OpenAPI document of the API, made for the model that is served: it names columns and categories."""

from typing import Any

from ascertain._core.version import __version__
from ascertain.estimator.consultation import MOST_STEPS
from ascertain.serve.limits import Limits
from ascertain.tables.columns import LARGEST

_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_AMOUNT = {"type": "number", "minimum": 0}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def document(description: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Give the document.

    Parameters
    ----------
    description
        The model, as `ascertain.serve.api.describe` gives it.
    limits
        How much the server takes on.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Ascertain: {description['title']}",
            "version": __version__,
            "description": " ".join([description["purpose"], *description["cautions"]]),
        },
        "paths": {
            "/api/health": {"get": _get("health", "Whether the server is there", "Health")},
            "/api/model": {"get": _get("model", "What the model is, takes and is for", "Model")},
            "/api/advice": {"post": _advice(limits)},
        },
        "components": {"schemas": _schemas(description), "responses": _refusals()},
    }


def _get(name: str, summary: str, schema: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": _content(summary, schema), **_references(400, 421, 429)},
    }


def _advice(limits: Limits) -> dict[str, Any]:
    return {
        "operationId": "advice",
        "summary": "What to measure next for a case, and what to predict",
        "description": (
            "The whole case is sent every time: the server keeps nothing of it. A case that does not fit the "
            "model (an unknown column, a column twice, a value that it does not take) is refused with 422. "
            f"A request may have {limits.body:,} bytes."
        ),
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _reference("schemas", "Case")}},
        },
        "responses": {
            "200": _content("The answer", "Answer"),
            **_references(400, 408, 413, 415, 421, 422, 429, 503),
        },
    }


def _schemas(description: dict[str, Any]) -> dict[str, Any]:
    classes, actions = description["classes"], [action["name"] for action in description["actions"]]
    by_class = _object(dict.fromkeys(classes, _SHARE))
    interval = {"type": "array", "items": _SHARE, "minItems": 2, "maxItems": 2}
    option = {
        "action": {"enum": actions},
        "columns": _TEXTS,
        "cost": _AMOUNT,
        "score": {"type": ["number", "null"], "description": "the policy's: the higher, the sooner"},
        "benefit": {**_AMOUNT, "description": "bits that it is expected to tell about the class"},
        "affordable": {"type": "boolean"},
        "skipped": {"type": "boolean"},
    }
    answer = {
        "recommended": {"enum": [*actions, None], "description": "an action; null: to stop"},
        "why": {"enum": [None, "policy", "budget", "nothing left"], "description": "it is to stop"},
        "options": {"type": "array", "items": _object(option), "description": "the best first"},
        "prediction": {"enum": classes},
        "probabilities": by_class,
        "ranges": {
            **_object(dict.fromkeys(classes, interval)),
            "description": "of each probability, with all the rest known (90%)",
        },
        "spent": _AMOUNT,
        "budget": _AMOUNT,
        "left": _AMOUNT,
        "outside": {**_TEXTS, "description": "columns whose value was not met in training"},
        "course": {
            "type": "array",
            "items": by_class,
            "description": "the probabilities at the start and after each step",
        },
        "case": {**_reference("schemas", "Case"), "description": "as it was understood"},
    }
    return {
        "Health": _object({"status": {"const": "ok"}, "version": _TEXT}),
        "Model": _model(),
        "Case": _case(description["columns"], actions),
        "Answer": _object(answer),
        "Error": _object({"error": {**_TEXT, "description": "what is wrong, and what to do"}}),
    }


def _case(columns: list[dict[str, Any]], actions: list[str]) -> dict[str, Any]:
    entry = {
        "values": {
            "type": "object",
            "properties": {column["name"]: _value(column) for column in columns},
            "additionalProperties": False,
            "description": "values that were entered together, by column",
        },
        "skipped": {"enum": [*actions, None], "description": "an action that cannot be taken now"},
    }
    return {
        "type": "object",
        "properties": {
            "budget": {
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": LARGEST,
                "description": "what may be spent; null: what the policy was trained for",
            },
            "entries": {
                "type": "array",
                "maxItems": MOST_STEPS,
                "items": {"type": "object", "properties": entry, "additionalProperties": False},
                "description": "the steps so far",
            },
        },
        "additionalProperties": False,
    }


def _value(column: dict[str, Any]) -> dict[str, Any]:
    """Say what a column takes: its own type, or a text as a person may type it."""
    if column["kind"] == "empty":
        return {"not": {}}
    own: dict[str, dict[str, Any]] = {
        "number": {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
        "boolean": {"type": "boolean"},
        "category": {"enum": column["categories"]},
    }
    typed = {"type": ["string", "number", "boolean"], "description": "as typed; refused if it is not clear"}
    return {"anyOf": [own[column["kind"]], typed]}


def _model() -> dict[str, Any]:
    number = {"type": ["number", "null"]}
    column = {
        "name": _TEXT,
        "kind": {"enum": ["number", "boolean", "category", "empty"]},
        "categories": {"type": ["array", "null"], "items": _TEXT},
        "low": {**number, "description": "the least in training"},
        "high": {**number, "description": "the largest in training"},
        "known": {"type": "boolean", "description": "observed from the start, at no cost"},
        "action": {"type": ["string", "null"], "description": "by which it is acquired"},
    }
    action = {"name": _TEXT, "columns": _TEXTS, "cost": _AMOUNT}
    return _object(
        {
            "title": _TEXT,
            "purpose": _TEXT,
            "cautions": _TEXTS,
            "provenance": {"type": "object", "additionalProperties": _TEXT},
            "classes": _TEXTS,
            "budget": _AMOUNT,
            "columns": {"type": "array", "items": _object(column)},
            "actions": {"type": "array", "items": _object(action)},
        }
    )


def _refusals() -> dict[str, Any]:
    words = {
        400: "No JSON, or no single Host",
        408: "The request did not arrive in time",
        413: "The request is too large",
        415: "The request is not application/json",
        421: "The server does not answer to this Host",
        422: "The case does not fit the model",
        429: "Too many requests of this client",
        503: "Too many requests at a time",
    }
    found = {f"Refused{status}": _content(text, "Error") for status, text in words.items()}
    for status in (429, 503):
        found[f"Refused{status}"]["headers"] = {
            "Retry-After": {"required": True, "schema": {"type": "integer"}, "description": "seconds"}
        }
    return found


def _references(*statuses: int) -> dict[str, Any]:
    return {str(status): _reference("responses", f"Refused{status}") for status in statuses}


def _reference(kind: str, name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _content(text: str, schema: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {"application/json": {"schema": _reference("schemas", schema)}},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """Describe an object that has just these keys, always."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
