"""The head of a request: whose it is, which key it brings, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from starlette.types import Scope

from simulator.dialects.native.keys import read_key
from simulator.provider.answer import Reason, Refused, Reply
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail, Provider, Setup

#: RFC 9110, section 7.2, and RFC 3986, section 3.2.2; empty where what is asked for has no authority.
_HOST = re.compile(
    rb"(?:\[[0-9A-Za-z:.~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?\Z"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known of a request before its body."""

    path: str
    headers: dict[bytes, bytes]
    """Lower-case names; of several with one name the first."""
    account: str
    setup: Setup
    detail: Detail
    trouble: Refused | Reply | None = None
    """What the request is refused for, as soon as anybody asks."""

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


def read_head(scope: Scope, provider: Provider, now: datetime) -> Head:
    """Read a head. Whatever is wrong with it is in `Head.trouble`; the account is known in any case."""
    path: str = scope["path"]
    headers = dict(reversed(scope["headers"]))  # The first of a name counts.
    credential = _credential(headers)
    account = provider.account_of(credential if isinstance(credential, str) else None)
    setup = provider.account(account, now).setup
    trouble = _turned_away(provider, credential, setup.api.api_key_required and account == DEFAULT_ACCOUNT)
    # RFC 9112, section 3.2.
    if b"host" not in headers and scope["http_version"] != "1.0":
        trouble = Reply(code=400, text="the Host header is missing; HTTP/1.1 needs one")
    elif len(headers) < len(scope["headers"]) and [name for name, _ in scope["headers"]].count(b"host") > 1:
        # Whoever stands in front may have gone by the other one.
        trouble = Reply(code=400, text="there is more than one Host header; give one")
    elif _HOST.match(headers.get(b"host", b"")) is None:
        trouble = Reply(
            code=400, text="the Host header is no host; give a name or an address, and a port if need be"
        )
    elif headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        # RFC 9112, section 6.1.
        trouble = Reply(code=501, text="of the transfer codings only chunked is known here")
    key = None
    if setup.keys.carrier != "body":
        name = (setup.keys.header or setup.api.key_header(path) or "Idempotency-Key").lower().encode()
        found = _key(scope, headers, name, setup)
        if isinstance(found, Refused):
            trouble = trouble or found
        else:
            key = found
    return Head(
        path=path,
        headers=headers,
        account=account,
        setup=setup,
        detail=Detail(credential=credential if isinstance(credential, str) else None, key=key),
        trouble=trouble,
    )


def _key(scope: Scope, headers: dict[bytes, bytes], name: bytes, setup: Setup) -> str | Refused | None:
    value = headers.get(name)
    if value is None:
        return None
    # Of most names there is one.
    if len(headers) < len(scope["headers"]) and any(
        other == name and each != value for other, each in scope["headers"]
    ):
        detail = f"{name.decode()} is given twice with different values; give it once"
        return Refused(reason=Reason.INVALID, detail=detail)
    return read_key(value.decode("latin-1"), form=setup.keys.form, max_chars=setup.keys.max_chars)


def _credential(headers: dict[bytes, bytes]) -> str | Refused | None:
    """Return the API key; None if there is none (the default account); a refusal if it is no API key."""
    given = headers.get(b"authorization")
    if given is None:
        return None
    scheme, _, token = given.decode("latin-1").strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        detail = "the Authorization header must be: Bearer <api key>"
        return Refused(reason=Reason.CREDENTIAL_MISSING, detail=detail)
    return token.strip()


def _turned_away(
    provider: Provider, credential: str | Refused | None, required: bool
) -> Refused | Reply | None:
    """Say why whoever comes with this credential is not let in. `required`: the default account takes nobody."""
    if isinstance(credential, Refused):
        return credential
    if required and credential is None:
        return Refused(
            reason=Reason.CREDENTIAL_MISSING,
            detail="an API key is required: send Authorization: Bearer <api key>",
        )
    if required:
        return Refused(reason=Reason.CREDENTIAL_UNKNOWN, detail="this API key is not known here", code=403)
    return provider.turned_away(credential)
