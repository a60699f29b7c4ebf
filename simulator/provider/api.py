"""How an account's HTTP API is cut: under which paths mail is handed in, who may, and what is understood."""

from __future__ import annotations

from dataclasses import dataclass

#: Where single mails are handed in, and which header names the idempotency key there. The first is the usual one;
#: the others are there for senders that were written for services that say it so.
PATHS: dict[str, str] = {
    "/v1/emails": "Idempotency-Key",
    "/send": "X-Dedupe-Key",
    "/v3/emails": "X-Idempotency-Key",
}


#: How limits are told in every answer: by the IETF's draft, by its sixth version, by the older X- fields with a reset
#: in seconds or in seconds since 1970, or not at all.
RATE_FIELDS = ("ietf", "draft6", "x_seconds", "x_epoch", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRules:
    """The settings of an account's HTTP API."""

    api_key_required: bool = False
    """A request without an API key gets 401, one with a key that is no account's 403."""
    request_gzip: bool = False
    """Request bodies with `Content-Encoding: gzip` are understood; else they get 415."""
    keep_alive_s: float = 75.0
    """How long a connection may idle after an answer, in seconds."""
    rate_fields: str = "ietf"
    """One of `RATE_FIELDS`; an account without limits tells nothing."""
    aliases: tuple[tuple[str, str], ...] = ()
    """More paths for single mails, each with the header that names the idempotency key there."""

    def key_header(self, path: str) -> str | None:
        """Return the header that names the idempotency key at a path; None: no mail is handed in there."""
        known = PATHS.get(path)
        return known if known is not None else dict(self.aliases).get(path)
