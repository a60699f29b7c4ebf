"""Several providers: a TOML file with a table for each, in their order, and routes that say which mail goes where.

    [[provider]]
    name = "main"
    provider_url = "https://api.example.com"
    provider_api_key = "$MAIN_KEY"     # from the environment
    rate_per_s = 50

    [[provider]]
    name = "spare"
    transport = "smtp"
    smtp_host = "mail.example.net"

    [[route]]
    class = ["code", "alarm"]          # and, or instead: sender = ["@news.example.org"], domain = ["gmail.com"]
    to = ["main", "spare"]             # the later ones stand in while the first is shut

A provider's table holds options by their names; what it does not say is as for all. Mail that no route is about goes to
the first provider. Must not hold: which options there are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference_sender.option import Option
from reference_sender.policy.classes import MailClass
from reference_sender.policy.routes import Route
from reference_sender.policy.settings import InvalidSettings

_ROUTE_KEYS = ("class", "sender", "domain", "to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """What the file says: options of each provider by its name, in order, and the routes."""

    options: Mapping[str, Mapping[str, Any]]
    routes: tuple[Route, ...]


def read_providers(path: Path, options: Sequence[Option], environment: Mapping[str, str]) -> Providers:
    """Read the file. `options`: those that a provider may have. Raises InvalidSettings with one sentence."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(
            f"the file of providers {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"the file of providers {str(path)!r} is no TOML: {error}") from error
    return providers_from(document, options, environment)


def providers_from(
    document: Mapping[str, Any], options: Sequence[Option], environment: Mapping[str, str]
) -> Providers:
    """The same from what the file holds."""
    if unknown := sorted(document.keys() - {"provider", "route"}):
        raise InvalidSettings(
            f"[{unknown[0]}] is no table of a file of providers; there are provider and route"
        )
    known = {option.name: option for option in options}
    tables = _tables(document, "provider")
    if not tables:
        raise InvalidSettings("the file of providers names none; begin with [[provider]] and a name")
    told: dict[str, Mapping[str, Any]] = {}
    for table in tables:
        name = table.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidSettings('a [[provider]] has no name; give it one, like name = "main"')
        if name in told:
            raise InvalidSettings(
                f"there are two providers {name!r}; mails in doubt stay with a name, so it must be one's own"
            )
        told[name] = {
            key: _value(name, key, value, known, environment) for key, value in table.items() if key != "name"
        }
    return Providers(options=told, routes=tuple(_route(each, told) for each in _tables(document, "route")))


def _tables(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise InvalidSettings(f"{name} must be written as [[{name}]], once for each")
    return tables


def _value(
    provider: str, key: str, value: Any, known: Mapping[str, Option], environment: Mapping[str, str]
) -> Any:
    option = known.get(key)
    if option is None:
        raise InvalidSettings(f"provider {provider!r} has {key!r}, which is no option of a provider")
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in environment:
            raise InvalidSettings(
                f"provider {provider!r}: {key} is in {value}, and the environment has no such variable"
            )
        value = environment[value[1:]]
    wanted = (int, float) if option.kind is float else option.kind
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise InvalidSettings(f"provider {provider!r}: {key} must be {_KINDS[option.kind]}")
    if option.choices and value not in option.choices:
        raise InvalidSettings(
            f"provider {provider!r}: {key} is {value!r}; it must be one of {', '.join(option.choices)}"
        )
    return value


_KINDS = {str: "a text", int: "a whole number", float: "a number"}


def _route(table: Mapping[str, Any], providers: Mapping[str, Any]) -> Route:
    if unknown := sorted(table.keys() - set(_ROUTE_KEYS)):
        raise InvalidSettings(f"a [[route]] has {unknown[0]!r}; there are {', '.join(_ROUTE_KEYS)}")
    classes, senders, domains, to = (_texts(table, key) for key in _ROUTE_KEYS)
    if not to:
        raise InvalidSettings('a [[route]] does not say where to; give it to = ["NAME"]')
    for name in to:
        if name not in providers:
            raise InvalidSettings(
                f"a [[route]] leads to {name!r}, and the providers are {', '.join(providers)}"
            )
    for name in classes:
        if name not in set(MailClass):
            raise InvalidSettings(
                f"a [[route]] is about the class {name!r}; there are {', '.join(MailClass)}"
            )
    return Route(
        to=to,
        classes=classes,
        senders=tuple(each.lower() for each in senders),
        domains=tuple(each.lower() for each in domains),
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise InvalidSettings(f"a [[route]]: {key} must be a list of texts")
    return tuple(texts)
