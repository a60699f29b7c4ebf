"""The OpenAPI document of the control API, made of the very rows that route and check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from simulator import __version__, shapes
from simulator.servers.control.endpoint import Answer, Endpoint, Missing, Parameter
from simulator.servers.control.problems import PROBLEM

_REF = "#/components/schemas/{name}"

#: What may be refused anywhere, and why.
REFUSED_ANYWHERE: Mapping[int, str] = {
    400: "A parameter or the body cannot be read.",
    401: "The admin token is missing or wrong.",
    403: "Without an admin token only this machine may command, and no page of another site.",
    503: "The ledger cannot be read or written just now.",
}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints."""
    rows = list(endpoints)
    wanted = [shapes.Problem]
    for row in rows:
        wanted += [row.gives.shape] if row.gives.shape is not None else []
        wanted += row.takes.shapes if row.takes is not None else ()
    found, components = msgspec.json.schema_components(wanted, ref_template=_REF)
    schemas = dict(zip(map(id, wanted), found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.whole_path, {})[row.method.lower()] = _operation(row, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mailproof simulator: control API",
            "version": __version__,
            "description": "How tests, harnesses and people command a running simulator.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{}, {"admin_token": []}],
        "paths": paths,
        "components": {
            "schemas": _closed(
                components,
                taken=[shape for row in rows if row.takes is not None for shape in row.takes.shapes],
            ),
            "securitySchemes": {
                "admin_token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of `simulator serve --admin-token`; without one, none is needed.",
                }
            },
        },
    }


def _operation(row: Endpoint, schemas: Mapping[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": row.does.__name__,
        "summary": row.says,
        "tags": [row.path.split("/")[1].partition(".")[0]],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
                for name in re.findall(r"{(\w+)}", row.path)
            ),
            *(_parameter(each) for each in row.every_parameter),
        ],
        "responses": {"200": _answer(row.gives, schemas)},
    }
    if row.takes is not None:
        first, *others = (schemas[id(shape)] for shape in row.takes.shapes)
        schema = {"anyOf": [first, *others]} if others else first
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    for status, says in _refusals(row).items():
        operation["responses"][str(status)] = {
            "description": says,
            "content": {PROBLEM: {"schema": schemas[id(shapes.Problem)]}},
        }
    return operation


def _refusals(row: Endpoint) -> dict[int, str]:
    more: dict[int, str] = {}
    if row.of_account and row.missing is Missing.REFUSED:
        more[404] = "There is no such account."
    if "{" in row.path:
        more[404] = "There is no such account, or no such thing in it."
    if row.takes is not None:
        more[413] = "The body is too large."
        more[422] = "The body is JSON, but not what is wanted here; the detail says where."
    return dict(sorted({**REFUSED_ANYWHERE, **more}.items()))


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.says,
        "schema": dict(parameter.schema),
    }


def _answer(answer: Answer, schemas: Mapping[int, Any]) -> dict[str, Any]:
    content = {}
    each: Answer | None = answer
    while each is not None:
        content[each.media_type] = {"schema": schemas[id(each.shape)] if each.shape is not None else {}}
        each = each.otherwise
    return {
        "description": answer.says or (answer.shape.__doc__ or HTTPStatus.OK.phrase).strip(),
        "content": content,
    }


def _closed(components: dict[str, Any], taken: list[Any]) -> dict[str, Any]:
    """Say of what we take that nothing else may be in it; what we give may grow."""
    _, inside = msgspec.json.schema_components(taken, ref_template=_REF)
    for name in inside:
        if components[name].get("type") == "object":
            components[name]["additionalProperties"] = False
    return dict(sorted(components.items()))
