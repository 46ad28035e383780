"""The OpenAPI document of the API, made for the model that is served: it names columns and categories."""

from typing import Any

from pydantic.json_schema import models_json_schema

from ascertain._core.version import __version__
from ascertain.estimator._consultation import Case
from ascertain.serve._limits import Limits
from ascertain.serve._replies import AnswerReply, ColumnReply, ErrorReply, HealthReply, ModelReply
from ascertain.tables._columns import LARGEST

_SCHEMAS = "#/components/schemas/"
_REFUSALS = {
    400: "Not valid JSON, or not exactly one Host",
    403: "The request comes from a page of another server",
    408: "The request did not arrive in time",
    413: "The request is too large",
    415: "The request is not application/json",
    421: "The server does not answer to this Host",
    422: "The case does not fit the model",
    429: "Too many requests from this client",
    503: "Too many requests at a time",
}
_RETRY = {"Retry-After": {"required": True, "schema": {"type": "integer"}, "description": "seconds"}}


def document(model: ModelReply, limits: Limits) -> dict[str, Any]:
    """Make the document of a server for `model` under `limits`."""
    advice = _operation(AnswerReply, "advice", 408, 413, 415, 422, 503) | {
        "description": (
            "Send the whole case every time: the server keeps nothing of it. A case that does not fit the "
            "model (an unknown column, a column twice, a value that cannot be used) is refused with 422. "
            f"A request may have {limits.body:,} bytes."
        ),
        "requestBody": {"required": True, **_json(Case)},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Ascertain: {model.title}",
            "version": __version__,
            "description": " ".join([model.purpose, *model.cautions]),
        },
        "paths": {
            "/api/health": {"get": _operation(HealthReply, "health")},
            "/api/model": {"get": _operation(ModelReply, "model")},
            "/api/advice": {"post": advice},
        },
        "components": {"schemas": _schemas(model)},
    }


def _operation(reply: type, name: str, *refusals: int) -> dict[str, Any]:
    responses = {"200": {"description": reply.__doc__, **_json(reply)}}
    for status in (400, 403, 421, 429, *refusals):
        headers = {"headers": _RETRY} if status in (429, 503) else {}
        responses[str(status)] = {"description": _REFUSALS[status], **_json(ErrorReply), **headers}
    return {"operationId": name, "summary": reply.__doc__, "responses": responses}


def _json(content: type) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": _SCHEMAS + content.__name__}}}}


def _schemas(model: ModelReply) -> dict[str, Any]:
    """The schemas of requests and replies, narrowed to the actions, classes and columns of the model."""
    sent = (HealthReply, ModelReply, Case, AnswerReply, ErrorReply)
    _, found = models_json_schema([(each, "validation") for each in sent], ref_template=_SCHEMAS + "{model}")
    schemas = found["$defs"]
    actions, classes = [action.name for action in model.actions], list(model.classes)
    entry, answer = schemas["Entry"]["properties"], schemas["AnswerReply"]["properties"]
    entry["values"] = {
        "type": "object",
        "properties": {column.name: _value(column) for column in model.columns},
        "additionalProperties": False,
        "description": "values that were entered together, by column",
    }
    case = schemas["Case"]["properties"]
    setups, columns = [each.name for each in model.setups], [column.name for column in model.columns]
    case["costs"]["propertyNames"] = {"enum": [*actions, *setups]}
    case["costs"]["additionalProperties"] |= {"minimum": 0}
    case["forbid"]["items"] |= {"enum": [*dict.fromkeys([*actions, *columns, *setups])]}
    entry["skipped"] |= {"enum": [*actions, None], "description": "an action that cannot be taken now"}
    schemas["OptionReply"]["properties"]["action"]["enum"] = actions
    for action in (answer["recommended"], schemas["AheadReply"]["properties"]["then"]):
        action["enum"] = [*actions, None]
    answer["prediction"]["enum"] = classes
    for by_class in (answer["probabilities"], answer["ranges"], answer["course"]["items"]):
        by_class |= {"required": classes, "propertyNames": {"enum": classes}}
    return dict(schemas)


def _value(column: ColumnReply) -> dict[str, Any]:
    """What a column takes: its own type, or a text as a person may type it."""
    if column.kind == "empty":
        return {"not": {}}
    own: dict[str, dict[str, Any]] = {
        "number": {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
        "boolean": {"type": "boolean"},
        "category": {"enum": column.categories},
        "date": {"type": "string", "format": "date"},
    }
    typed = {"type": ["string", "number", "boolean"], "description": "as typed; refused if it is not clear"}
    return {"anyOf": [own[column.kind], typed]}
