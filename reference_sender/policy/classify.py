"""From evidence to outcome, by phase and code: two tables for HTTP, two for SMTP, and the few rules beside them.

The text of a reply never decides (RFC 5321 section 4.2); the basic code beats the enhanced one; QUIT never counts,
so there is no phase for it. Codes that no table names go by their first digit (RFC 5321 section 4.2.1, RFC 9110
section 15).
"""

from __future__ import annotations

from typing import assert_never

from reference_sender.policy.evidence import (
    Accepted,
    Evidence,
    Outcome,
    Phase,
    Refused,
    TryLater,
    Unknown,
    Wire,
)

# HTTP: 4xx says that the request is wrong, 5xx that the service has a problem. Only a 5xx that is documented as
# "not processed" is a definite no; a 500 may come from a service that took the mail and then stumbled.
# A 4xx refuses a mail for good only if it is about this mail: 400, 413, 415, 422. A wrong path, a wrong method or a
# proxy in between meets every mail alike: that is the channel, a person mends it, and the queue must outlive it.
HTTP_CODES: dict[int, Outcome] = {
    303: Unknown(reason="303 points to the result of a request that may have been carried out"),
    401: TryLater(reason="the provider does not know our credentials", channel=True),
    402: TryLater(reason="the account is out of credit", channel=True),
    403: TryLater(reason="the account may not send", channel=True),
    404: TryLater(
        reason="there is nothing at this path: look at PROVIDER_URL and PROVIDER_PATH", channel=True
    ),
    405: TryLater(reason="this path takes no mail: look at PROVIDER_URL and PROVIDER_PATH", channel=True),
    406: TryLater(reason="the provider does not speak our language", channel=True),
    407: TryLater(reason="a proxy wants us to log in", channel=True),
    408: TryLater(reason="the provider did not receive the whole request in time"),
    409: TryLater(reason="an earlier request with this key is still in flight", doubt=True),
    410: TryLater(reason="there is nothing at this path any more: look at PROVIDER_PATH", channel=True),
    411: TryLater(reason="something on the way takes our length away", channel=True),
    414: TryLater(reason="the path is too long: look at PROVIDER_URL and PROVIDER_PATH", channel=True),
    421: TryLater(reason="the connection leads to the wrong server", channel=True),
    425: TryLater(reason="too early"),
    426: TryLater(reason="the provider wants another protocol", channel=True),
    428: TryLater(reason="the provider misses a header: look at PROVIDER_KEY_HEADER", channel=True),
    429: TryLater(reason="too many requests", channel=True),
    503: TryLater(reason="the provider is not available", channel=True),
}
HTTP_FIRST_DIGIT: dict[int, Outcome] = {
    1: Unknown(reason="an interim answer where a final one belongs"),
    3: TryLater(reason="a redirect, and redirects are not followed: look at PROVIDER_URL", channel=True),
    4: Refused(reason="the provider refuses the request"),
    5: Unknown(reason="the provider failed, perhaps after it took the mail"),
}
# The provider's own error names say more than the number they ride on.
HTTP_PROBLEMS: dict[str, Outcome] = {
    "key_reused": Unknown(reason="the provider knows our key with other bytes"),
    # We always send one, so it travels under the wrong name.
    "key_required": TryLater(reason="the provider finds no key: look at PROVIDER_KEY_HEADER", channel=True),
}

# SMTP before the mail itself: whatever goes wrong here is about the line or the account, never about one mail.
SMTP_CHANNEL_PHASES = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH})
SMTP_CODES: dict[int, Outcome] = {
    421: TryLater(reason="the server closes the channel", channel=True),  # RFC 5321 section 4.2.2: anywhere
    530: TryLater(reason="the server wants us to log in or to use TLS", channel=True),
    534: TryLater(reason="the server wants another way to log in", channel=True),
    535: TryLater(reason="the server does not accept our login", channel=True),
    538: TryLater(reason="the server wants TLS before login", channel=True),
}
SMTP_PHASE_CODES: dict[tuple[Phase, int], Outcome] = {
    # RFC 5321 section 4.5.3.1.10: in this place 552 means "too many recipients", to be treated as 452.
    (Phase.RCPT, 552): TryLater(reason="too many recipients for now"),
}
SMTP_FIRST_DIGIT: dict[int, Outcome] = {
    4: TryLater(reason="the server cannot take it now"),
    5: Refused(reason="the server refuses it for good"),
}


def classify(evidence: Evidence) -> Outcome:
    """What this attempt means. Total: every evidence has an outcome."""
    match evidence.wire:
        case Wire.HTTP:
            return _classify_http(evidence)
        case Wire.SMTP:
            return _classify_smtp(evidence)
        case _:
            assert_never(evidence.wire)


def _classify_http(evidence: Evidence) -> Outcome:
    code = evidence.code
    if code is None:
        return _without_reply(evidence, channel=evidence.phase is Phase.CONNECT)
    if evidence.problem in HTTP_PROBLEMS:
        return HTTP_PROBLEMS[evidence.problem]
    if code in HTTP_CODES:
        return HTTP_CODES[code]
    if code // 100 == 2:
        return _http_success(evidence)
    return HTTP_FIRST_DIGIT.get(code // 100, Unknown(reason="a status code that does not exist"))


def _http_success(evidence: Evidence) -> Outcome:
    if evidence.recipient_code is not None:
        # Partial success: the request went well, but not for this recipient. The codes in such bodies are SMTP's.
        if evidence.recipient_code // 100 == 4:
            return TryLater(reason="the provider cannot take this recipient now")
        return Refused(reason="the provider refuses this recipient")
    if evidence.provider_id is None:
        # A proxy's login page is a 200, too. Without the id we could not even ask about this mail later.
        return Unknown(reason="a success without a readable id")
    return Accepted(reason="accepted", provider_id=evidence.provider_id)


def _classify_smtp(evidence: Evidence) -> Outcome:
    code, phase = evidence.code, evidence.phase
    if code is None:
        return _without_reply(evidence, channel=phase in SMTP_CHANNEL_PHASES)
    if phase in SMTP_CHANNEL_PHASES:
        return TryLater(reason="the server does not let us in", channel=True)
    if code in SMTP_CODES:
        return SMTP_CODES[code]
    if (phase, code) in SMTP_PHASE_CODES:
        return SMTP_PHASE_CODES[phase, code]
    if code // 100 in SMTP_FIRST_DIGIT:
        # Also after the dot: a complete 4yz or 5yz there is a definite "not delivered" (RFC 5321 section 4.2.5).
        return SMTP_FIRST_DIGIT[code // 100]
    if phase is Phase.SENT and code // 100 == 2:
        return Accepted(reason="accepted", provider_id=evidence.provider_id or str(code))
    if phase in {Phase.BODY, Phase.SENT}:
        return Unknown(reason="an answer that has no meaning at this place")
    return TryLater(reason="an answer that has no meaning at this place; nothing of the mail had left")


def _without_reply(evidence: Evidence, *, channel: bool) -> Outcome:
    if evidence.phase is Phase.SENT:
        return Unknown(reason=f"no readable answer after the last byte ({evidence.trouble})")
    # The last byte never left us, so there is nothing that anybody could have accepted.
    return TryLater(reason=f"broken off before the mail was complete ({evidence.trouble})", channel=channel)
