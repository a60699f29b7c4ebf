"""From evidence to outcome, by phase and code: two tables for HTTP, two for SMTP, and the few rules beside them.

The text of a reply never decides (RFC 5321 section 4.2) but in one place, where it can only soften: some providers
call "too fast" a refusal for good. The basic code beats the enhanced one; QUIT never counts, so there is no phase for
it. Codes that no table names go by their first digit (RFC 5321 section 4.2.1, RFC 9110 section 15).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import assert_never

from reference_sender.policy.evidence import (
    NO_LETTERS,
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
    401: TryLater(reason="the provider does not know our credentials", channel=True, lasting=True),
    402: TryLater(reason="the account is out of credit", channel=True, lasting=True),
    403: TryLater(reason="the account may not send", channel=True, lasting=True),
    404: TryLater(
        reason="there is nothing at this path: look at PROVIDER_URL and PROVIDER_PATH",
        channel=True,
        lasting=True,
    ),
    405: TryLater(
        reason="this path takes no mail: look at PROVIDER_URL and PROVIDER_PATH", channel=True, lasting=True
    ),
    406: TryLater(reason="the provider does not speak our language", channel=True, lasting=True),
    407: TryLater(reason="a proxy wants us to log in", channel=True, lasting=True),
    408: TryLater(reason="the provider did not receive the whole request in time"),
    409: TryLater(reason="an earlier request with this key is still in flight", doubt=True),
    410: TryLater(
        reason="there is nothing at this path any more: look at PROVIDER_PATH", channel=True, lasting=True
    ),
    411: TryLater(reason="something on the way takes our length away", channel=True, lasting=True),
    414: TryLater(
        reason="the path is too long: look at PROVIDER_URL and PROVIDER_PATH", channel=True, lasting=True
    ),
    # No status of HTTP; what some services say instead of 429.
    420: TryLater(reason="too many requests", channel=True, throttled=True),
    421: TryLater(reason="the connection leads to the wrong server", channel=True),
    425: TryLater(reason="too early"),
    426: TryLater(reason="the provider wants another protocol", channel=True, lasting=True),
    428: TryLater(
        reason="the provider misses a header: look at PROVIDER_KEY_HEADER", channel=True, lasting=True
    ),
    429: TryLater(reason="too many requests", channel=True, throttled=True),
    503: TryLater(reason="the provider is not available", channel=True),
}
HTTP_FIRST_DIGIT: dict[int, Outcome] = {
    1: Unknown(reason="an interim answer where a final one belongs"),
    3: TryLater(
        reason="a redirect, and redirects are not followed: look at PROVIDER_URL", channel=True, lasting=True
    ),
    4: Refused(reason="the provider refuses the request"),
    5: Unknown(reason="the provider failed, perhaps after it took the mail"),
}

_TOO_FAST = TryLater(reason="the provider says that we are too fast", channel=True, throttled=True)
_QUOTA = TryLater(reason="the quota at the provider is used up", channel=True, throttled=True)
_ACCOUNT = TryLater(reason="the provider lets this account send nothing", channel=True, lasting=True)
_IN_FLIGHT = TryLater(reason="an earlier request with this key is still in flight", doubt=True)
# A 4xx again says that the request is wrong, though not whether the mail was taken: it is looked up, never repeated.
_OTHER_BYTES = Unknown(
    reason="the provider knows our key with other bytes: find out who else uses this key", futile=True
)
_DONE = Unknown(reason="the provider has finished a request with this key before", futile=True)


def _named(outcome: Outcome, names: Iterable[str]) -> dict[str, Outcome]:
    return {plain(name): outcome for name in names}


def plain(name: str) -> str:
    """The name of an error as it is looked up: `Too_Many-Requests` is `toomanyrequests`, whoever writes it."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# The provider's own error names say more than the number they ride on: throttling comes as 400 and 403, and "still in
# flight" and "other bytes" share 409. They count from 400 on; under a 2xx a name is a body that contradicts itself.
HTTP_PROBLEMS: dict[str, Outcome] = {
    # We always send one, so it travels under the wrong name.
    **_named(
        TryLater(reason="the provider finds no key: look at PROVIDER_KEY_HEADER", channel=True, lasting=True),
        ("key_required",),
    ),
    **_named(_OTHER_BYTES, ("key_reused", "invalid_idempotent_request")),
    **_named(_IN_FLIGHT, ("key_in_flight", "concurrent_idempotent_requests")),
    # It says yes to an earlier request, without the id; the look-up has it.
    **_named(_DONE, ("key_done",)),
    **_named(
        Refused(reason="the provider refuses this key since an earlier request failed"), ("key_failed",)
    ),
    **_named(
        _TOO_FAST,
        (
            *("rate_limited", "rate_limit_exceeded", "rate_exceeded", "too_many_requests", "limit_exceeded"),
            *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
            *("TooManyRequestsException", "ACCOUNT_THROTTLED", "RequestLimitExceeded", "SlowDown"),
        ),
    ),
    # Of the account, not of the mail, under a 400 as Amazon has it: the queue must outlive it.
    **_named(
        _ACCOUNT,
        (
            *("AccountSuspendedException", "SendingPausedException", "AccountSendingPausedException"),
            *("ConfigurationSetSendingPausedException", "ACCOUNT_SUSPENDED", "ACCOUNT_SENDING_PAUSED"),
            *("CONFIGURATION_SET_SENDING_PAUSED", "account_under_validation", "not_enough_credits"),
        ),
    ),
    **_named(
        _QUOTA,
        ("quota_exceeded", "daily_quota_exceeded", "monthly_quota_exceeded", "ACCOUNT_DAILY_QUOTA_EXCEEDED"),
    ),
}

# SMTP before the mail itself: whatever goes wrong here is about the line or the account, never about one mail.
SMTP_CHANNEL_PHASES = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH})
SMTP_CODES: dict[int, Outcome] = {
    421: TryLater(reason="the server closes the channel", channel=True),  # RFC 5321 section 4.2.2: anywhere
    454: TryLater(reason="the server says that we are too fast", channel=True, throttled=True),
    530: TryLater(reason="the server wants us to log in or to use TLS", channel=True, lasting=True),
    534: TryLater(reason="the server wants another way to log in", channel=True, lasting=True),
    535: TryLater(reason="the server does not accept our login", channel=True, lasting=True),
    538: TryLater(reason="the server wants TLS before login", channel=True, lasting=True),
}
# Of a 4yz only: the whole system takes nothing just now, or is congested (RFC 3463 sections 3.4 and 3.5).
SMTP_SYSTEM = frozenset({"4.3.2", "4.4.5"})
# A 5yz with which some providers say "too fast" or "too much for today"; with others it is a refusal. Here, and
# nowhere else, words decide, and only towards trying again: to be wrong costs a few attempts that are counted.
SMTP_THROTTLES = frozenset({(550, "5.7.0"), (550, "5.7.1"), (550, "5.4.5"), (554, "5.7.0"), (554, "5.7.1")})
_TOO_MUCH = re.compile(
    r"too (?:many|fast)|throttl"
    r"|\b(?:rate|sending|hourly|daily|quota)\b.{0,40}(?:limit|exceed|(?<!be )reached|used up|exhausted)",
    re.IGNORECASE,
)
# Not those of a mailbox, which may be full by its own quota (RFC 3463 section 3.3).
_OF_MAILBOX = re.compile(r"[45]\.2\.")
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
    if code >= 400 and evidence.problem is not None and plain(evidence.problem) in HTTP_PROBLEMS:
        return HTTP_PROBLEMS[plain(evidence.problem)]
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


def _is_too_much(evidence: Evidence) -> bool:
    if _OF_MAILBOX.match(evidence.enhanced or ""):
        return False
    return _TOO_MUCH.search(evidence.answer or "") is not None


def _classify_smtp(evidence: Evidence) -> Outcome:
    code, phase = evidence.code, evidence.phase
    if code is None:
        return _without_reply(evidence, channel=phase in SMTP_CHANNEL_PHASES)
    if phase in SMTP_CHANNEL_PHASES:
        # A 4yz passes by itself, also at AUTH (RFC 4954 section 6: 454); a 5yz is about us and not about now.
        return TryLater(reason="the server does not let us in", channel=True, lasting=code // 100 == 5)
    if code in SMTP_CODES:
        return SMTP_CODES[code]
    if code // 100 == 4 and evidence.enhanced in SMTP_SYSTEM:
        return TryLater(reason="the whole system takes no mail now", channel=True)
    if code // 100 in SMTP_FIRST_DIGIT and _is_too_much(evidence):
        if code // 100 == 4:
            return TryLater(reason="too much for now, says the server", throttled=True)
        if (code, evidence.enhanced) in SMTP_THROTTLES:
            return TryLater(reason="a refusal whose words say: too much for now")
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
    if evidence.trouble == NO_LETTERS:
        return Refused(reason="an address is not ASCII, and so it cannot be sent by SMTP (RFC 6531)")
    if evidence.phase is Phase.SENT:
        return Unknown(reason=f"no readable answer after the last byte ({evidence.trouble})")
    # The last byte never left us, so there is nothing that anybody could have accepted.
    return TryLater(reason=f"broken off before the mail was complete ({evidence.trouble})", channel=channel)
