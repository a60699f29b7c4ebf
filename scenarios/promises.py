"""The promises of the certification: one row each, with the level, the sentence, and the source it rests on.

This is the table to read (and to argue about) first. Which scenario puts a promise to the test says the
`promises(...)` mark on it; nothing here knows how a promise is tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

#: The wires a sender can be certified on.
PROFILES = ("http", "smtp")


class Level(StrEnum):
    """How binding a promise is, in the words of RFC 2119."""

    MUST = "MUST"
    SHOULD = "SHOULD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One requirement, on one or more wires."""

    name: str
    """Without the profile: `lost-answer.timeout`. `id_on` gives the full id."""
    family: str
    requirement: str
    source: str
    level: Level = Level.MUST
    profiles: tuple[str, ...] = PROFILES
    presumes: tuple[str, ...] = ()
    """Abilities without which the promise does not apply; it is then skipped, visibly."""
    fault: str = "none"
    """What the provider does to the mail, for the coverage table."""
    crash: str = "none"
    """What is done to the sender's processes meanwhile, for the coverage table."""
    quick: bool = False
    """Part of the short run that shows the heart of the matter."""

    def id_on(self, profile: str) -> str:
        """Return the id on one wire, for example `http.lost-answer.timeout`."""
        return f"{profile}.{self.name}"


_LOST = "A mail that the provider took, but whose answer {how}, is neither sent as a second mail nor reported as failed."
_DOUBT_SOURCE = (
    "RFC 1047; RFC 5321 4.5.3.2.6; RFC 9110 9.2.2; draft-ietf-httpapi-idempotency-key-header-07 2.6"
)

_EVERYWHERE = "{where}, {what}, whatever the provider does and at whatever point a process dies."

PROMISES: tuple[Promise, ...] = (
    # --- the answer is lost ---------------------------------------------------------------------------
    Promise(
        name="lost-answer.timeout",
        family="lost answer",
        requirement=_LOST.format(how="never comes"),
        source=_DOUBT_SOURCE,
        fault="accept_then_hang",
        quick=True,
    ),
    Promise(
        name="lost-answer.fin",
        family="lost answer",
        requirement=_LOST.format(how="is cut off by an orderly close (FIN)"),
        source=_DOUBT_SOURCE,
        fault="accept_then_hang_up",
        quick=True,
    ),
    Promise(
        name="lost-answer.rst",
        family="lost answer",
        requirement=_LOST.format(how="is cut off by a reset (RST)"),
        source=_DOUBT_SOURCE,
        fault="accept_then_reset",
    ),
    Promise(
        name="lost-answer.truncated",
        family="lost answer",
        requirement=_LOST.format(how="breaks off in the middle"),
        source=_DOUBT_SOURCE,
        fault="accept_then_truncate",
    ),
    Promise(
        name="lost-answer.malformed",
        family="lost answer",
        requirement=_LOST.format(how="is no answer of this protocol (HTTP: 200 with a broken body)"),
        source=_DOUBT_SOURCE,
        fault="accept_then_garble",
    ),
    Promise(
        name="lost-answer.server-error",
        family="lost answer",
        requirement=_LOST.format(how="is a 500 given after the mail was taken"),
        source="RFC 9110 9.2.2 and 15.6.1; draft-ietf-httpapi-idempotency-key-header-07 2.6",
        # A complete 4yz or 5yz after the dot means "not taken" (RFC 5321 4.2.5): no SMTP sender can know better.
        profiles=("http",),
        fault="accept_then_reply",
    ),
    Promise(
        name="lost-answer.then-refused",
        family="lost answer",
        requirement=(
            "A refusal that follows a lost answer says nothing about the earlier attempt: "
            "the mail is never reported as failed."
        ),
        source="RFC 1047; draft-ietf-httpapi-idempotency-key-header-07 2.6",
        fault="accept_then_hang_up, then refused",
        quick=True,
    ),
    # --- processes die --------------------------------------------------------------------------------
    Promise(
        name="crash.after-acceptance",
        family="crash",
        requirement=(
            "Killed after the provider took the mail and before the answer was stored, the sender "
            "neither sends a second mail nor forgets the first."
        ),
        source="RFC 1047; RFC 5321 6.1",
        fault="accept_then_hold",
        crash="kill -9 before the answer is stored",
        quick=True,
    ),
    Promise(
        name="crash.after-claim",
        family="crash",
        requirement=(
            "Killed after taking the mail in hand and before the provider took it, the sender still has it: "
            "after the restart it is sent, or visibly parked."
        ),
        source="RFC 5321 4.5.4.1 and 6.1",
        fault="hang before acceptance",
        crash="kill -9 before the provider took the mail",
        quick=True,
    ),
    Promise(
        name="crash.before-the-body",
        family="crash",
        level=Level.SHOULD,
        requirement=(
            "Killed before the first byte of the body left, the sender knows that nothing can have been taken: "
            "the mail is sent after the restart, without a person having to look."
        ),
        source="RFC 5321 3.3 (354 comes before the body) and 4.5.4.1",
        # Over HTTP the body leaves with the head: there is no moment in between.
        profiles=("smtp",),
        fault="hang before acceptance",
        crash="kill -9 before the provider took the mail",
    ),
    Promise(
        name="crash.before-wake-up",
        family="crash",
        requirement=(
            "A mail committed while nobody was there to be woken is sent once as soon as a worker starts."
        ),
        source="transactional outbox: the commit is the hand-over",
        crash="kill -9 after the commit, before any worker knows",
    ),
    # --- the business transaction ---------------------------------------------------------------------
    Promise(
        name="business.rollback",
        family="business",
        requirement="A business transaction that is rolled back sends nothing.",
        source="transactional outbox: no commit, no mail",
        presumes=("rollback",),
        quick=True,
    ),
    Promise(
        name="business.same-event-twice",
        family="business",
        requirement="The same business event enqueued twice reaches the provider once.",
        source="draft-ietf-httpapi-idempotency-key-header-07 1; a unique key in the outbox",
        presumes=("dedupe",),
    ),
    Promise(
        name="business.equal-content",
        family="business",
        requirement="Two business events with equal content to the same person are two mails.",
        source="RFC 5322 3.6.4: identity is the sender's intention, not the content",
    ),
    # --- codes ----------------------------------------------------------------------------------------
    Promise(
        name="temporary.then-success",
        family="reply codes",
        requirement="A temporary refusal (4yz, 503) is tried again, and the mail is accepted once.",
        source="RFC 5321 4.2.1 and 4.5.4.1; RFC 9110 15.6.4",
        fault="reply 451 / 503",
        quick=True,
    ),
    Promise(
        name="temporary.same-identity",
        family="reply codes",
        requirement="All attempts of one mail carry the same Message-ID and, over HTTP, the same idempotency key.",
        source="RFC 5322 3.6.4; draft-ietf-httpapi-idempotency-key-header-07 2.2",
        fault="reply 451 / 503",
    ),
    Promise(
        name="refused.recipient",
        family="reply codes",
        requirement="A recipient refused for good (550) is tried once, and the mail is then reported as failed.",
        source="RFC 5321 4.2.1 (5yz: do not repeat)",
        profiles=("smtp",),
        fault="reply 550 at RCPT",
        quick=True,
    ),
    Promise(
        name="refused.content",
        family="reply codes",
        requirement="Content refused for good (554 after the dot) is tried once, and the mail is then reported as failed.",
        source="RFC 5321 4.2.1 and 4.2.5",
        profiles=("smtp",),
        fault="reply 554 at the dot",
    ),
    Promise(
        name="refused.400",
        family="reply codes",
        requirement="A mail refused with 400 is tried once, and then reported as failed.",
        source="RFC 9110 15.5.1",
        profiles=("http",),
        fault="reply 400",
        quick=True,
    ),
    Promise(
        name="refused.422",
        family="reply codes",
        requirement="A mail refused with 422 is tried once, and then reported as failed.",
        source="RFC 9110 15.5.21",
        profiles=("http",),
        fault="reply 422",
    ),
    # --- pace -----------------------------------------------------------------------------------------
    Promise(
        name="pace.retry-after-seconds",
        family="pace",
        requirement="After 429 with Retry-After in seconds, the mail does not come back earlier.",
        source="RFC 6585 4; RFC 9110 10.2.3",
        profiles=("http",),
        fault="reply 429, Retry-After seconds",
    ),
    Promise(
        name="pace.retry-after-date",
        family="pace",
        requirement="After 429 with Retry-After as an HTTP-date, the mail does not come back earlier.",
        source="RFC 6585 4; RFC 9110 10.2.3",
        profiles=("http",),
        fault="reply 429, Retry-After date",
    ),
    Promise(
        name="pace.outage",
        family="pace",
        requirement="An outage (503, 421) longer than the longest pause between attempts loses and fails nothing.",
        source="RFC 5321 4.5.4.1 and 3.8; RFC 9110 15.6.4",
        fault="reply 421 / 503 for a while",
    ),
    # --- several recipients ---------------------------------------------------------------------------
    Promise(
        name="recipients.one-refused",
        family="recipients",
        requirement=(
            "With one of three recipients refused for good, the other two get the mail once, "
            "and the third is reported as failed."
        ),
        source="RFC 5321 3.3 and 4.2.1",
        presumes=("multi-recipient",),
        fault="refuse_recipients 550",
    ),
    Promise(
        name="recipients.one-later",
        family="recipients",
        requirement="With one of three recipients refused for now, all three get the mail once in the end.",
        source="RFC 5321 3.3 and 4.5.4.1",
        presumes=("multi-recipient",),
        profiles=("smtp",),
        fault="refuse_recipients 450",
    ),
    # --- processes side by side -----------------------------------------------------------------------
    Promise(
        name="workers.two",
        family="workers",
        requirement="Two workers on one outbox send each of thirty mails once, some of them after a refusal.",
        source="claiming a row is exclusive",
        fault="reply 451 / 503 and slow, every nth",
        crash="two workers",
    ),
    Promise(
        name="workers.sigterm",
        family="workers",
        requirement=(
            "Asked to stop (SIGTERM) in the middle of a send, the worker stores that answer and exits in time; "
            "nothing is sent twice."
        ),
        source="POSIX SIGTERM; twelve-factor IX (disposability)",
        presumes=("drain",),
        fault="accept_then_hold",
        crash="SIGTERM mid-send",
    ),
    # --- delivery -------------------------------------------------------------------------------------
    Promise(
        name="dropped.not-resent",
        family="delivery",
        requirement="A mail that the provider accepted and then dropped is flagged by the ledger, not sent again.",
        source="RFC 5321 4.2.5 and 6.1: after 2yz the responsibility is the provider's",
        fault="accept_then_drop",
    ),
    # --- real mail ------------------------------------------------------------------------------------
    Promise(
        name="content.real-mail",
        family="content",
        requirement=(
            "Attachment, inline image, non-ASCII subject and names, lines that begin with dots and long lines "
            "arrive as they were given."
        ),
        source="RFC 5321 4.5.2; RFC 5322 2.1.1; RFC 2045; RFC 2047",
        quick=True,
    ),
    Promise(
        name="content.large",
        family="content",
        requirement="A mail with an attachment of 10 MB arrives once and whole.",
        source="RFC 5321 4.5.3.1.7; RFC 2045",
    ),
    Promise(
        name="content.same-bytes",
        family="content",
        requirement="When a mail is sent again after a lost answer, it is sent with the same bytes.",
        source="draft-ietf-httpapi-idempotency-key-header-07 2.4; RFC 5322 3.6.4",
        fault="accept_then_hang_up",
    ),
    # --- the gate in front of a provider --------------------------------------------------------------
    Promise(
        name="gate.rate",
        family="gate",
        requirement="All workers together hand over no more mails a second than the limit that they are told to keep.",
        source="RFC 6585 4: limits belong to the account, not to a worker; [limits] of the sender's file",
        presumes=("rate-limit",),
        crash="two workers",
    ),
    Promise(
        name="gate.retry-after",
        family="gate",
        requirement="After 429 with Retry-After, no worker brings other mail before that time is over.",
        source="RFC 6585 4; RFC 9110 10.2.3",
        profiles=("http",),
        presumes=("rate-limit",),
        fault="reply 429, Retry-After seconds",
        crash="two workers",
    ),
    Promise(
        name="gate.breaker",
        family="gate",
        requirement=(
            "A provider that answers nobody (503, 421) is asked by few, however many mails and workers wait; "
            "when it is back, everything arrives without anybody's help."
        ),
        source="RFC 5321 4.5.4.1 (a queue must not press on a host that is down); circuit breaker",
        presumes=("breaker",),
        fault="reply 421 / 503 for a while",
        crash="two workers",
    ),
    Promise(
        name="gate.urgent",
        family="gate",
        requirement="A login code is handed over at once, also while newsletters fill every place they may fill.",
        source="capacity for urgent mail is reserved, not only ordered; [limits] of the sender's file",
        presumes=("priority",),
        fault="slow",
    ),
    Promise(
        name="gate.expired",
        family="gate",
        requirement=(
            "A mail whose time was over before the provider would take it is not sent, and is reported as ended."
        ),
        source="a login code that comes too late is worse than none; RFC 2852 (deliver by)",
        presumes=("expiry", "status"),
        fault="reply 451 / 503 for a while",
    ),
    Promise(
        name="gate.expired-last-moment",
        family="gate",
        requirement=(
            "A mail whose time ends between the begin of its attempt and the first byte of its body is not sent, "
            "and is reported as ended."
        ),
        source="RFC 5321 3.3: until the body, nothing is handed over; RFC 2852 (deliver by)",
        # Over HTTP the body leaves with the head: there is no moment in between.
        profiles=("smtp",),
        presumes=("expiry", "status"),
        fault="slow at RCPT",
    ),
    # --- what the provider tells afterwards -----------------------------------------------------------
    Promise(
        name="webhooks.genuine",
        family="webhooks",
        requirement=(
            "A webhook whose signature does not fit, or whose timestamp is an hour old, is not acknowledged; "
            "the same event told as it should be is heard."
        ),
        source="Standard Webhooks: verifying signatures, timestamp tolerance; RFC 2104",
        profiles=("http",),
        presumes=("webhooks", "status"),
        fault="webhook_bad_signature, webhook_stale",
    ),
    Promise(
        name="webhooks.kept",
        family="webhooks",
        requirement="An event that was acknowledged is known after whoever acknowledged it was killed.",
        source="Standard Webhooks: a 2xx ends the delivery; RFC 9110 15.3",
        profiles=("http",),
        presumes=("webhooks", "status"),
        crash="kill -9 after the 2xx",
    ),
    Promise(
        name="webhooks.worse-news",
        family="webhooks",
        requirement="A hard bounce is not made undone by a `delivered` that comes at the same moment or behind it.",
        source="Standard Webhooks: deliveries may come out of order and more than once",
        profiles=("http",),
        presumes=("webhooks", "status"),
        fault="webhook_conflict",
    ),
    Promise(
        name="webhooks.neighbours",
        family="webhooks",
        requirement="An item of a batch that nobody can read costs itself: the rest is heard, and nothing is refused.",
        source="Standard Webhooks: endpoints that keep failing are disabled",
        profiles=("http",),
        presumes=("webhooks", "status"),
        fault="webhook_malformed in a batch",
    ),
    Promise(
        name="webhooks.unknown-mail",
        family="webhooks",
        requirement="Events of mails that nobody sent are acknowledged, and disturb nothing.",
        source="Standard Webhooks: endpoints that keep failing are disabled",
        profiles=("http",),
        presumes=("webhooks", "status"),
        fault="webhook_unknown",
    ),
    Promise(
        name="webhooks.early",
        family="webhooks",
        requirement="An event that comes before the answer about its mail is stored is not lost.",
        source="no order is promised between an answer and a webhook",
        profiles=("http",),
        presumes=("webhooks", "status"),
        fault="webhook_early",
    ),
    Promise(
        name="webhooks.settles-doubt",
        family="webhooks",
        level=Level.SHOULD,
        requirement="A mail in doubt of which the provider tells something is reported as accepted.",
        source="RFC 1047: the doubt is about the answer; an event is evidence",
        profiles=("smtp",),
        presumes=("webhooks", "status"),
        fault="accept_then_hang_up",
    ),
    # --- every cell of the matrix, in the simulated world -----------------------------------------------
    Promise(
        name="exhaustive.keys",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where the provider honours keys", what="each promised mail is accepted exactly once"
        ),
        source="draft-ietf-httpapi-idempotency-key-header-07 2; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.keys-forgotten",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where keys are forgotten and mails can be looked up",
            what="each promised mail is accepted exactly once",
        ),
        source="draft-ietf-httpapi-idempotency-key-header-07 2.3; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.lookup",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where there are no keys and the look-up lags behind",
            what="each promised mail is accepted exactly once",
        ),
        source="RFC 9110 9.2.2; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.at-most-once",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Over SMTP with at-most-once",
            what="no mail is accepted twice and each doubtful one is parked",
        ),
        source="RFC 1047; RFC 5321 4.2.5; docs/proof.md",
        profiles=("smtp",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.at-least-once",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Over SMTP with at-least-once",
            what="no mail is lost and there is at most one more copy for each attempt in doubt",
        ),
        source="RFC 1047; RFC 5321 4.2.5; docs/proof.md",
        profiles=("smtp",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.limited",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where the sender was told a limit",
            what="the limit is kept by all workers together and each promised mail is accepted exactly once",
        ),
        source="RFC 6585 4; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.batches",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where several mails go in one request",
            what="each of them is accepted exactly once and fails only over a refusal of its own",
        ),
        source="RFC 4918 13 (a result for each member); draft-ietf-httpapi-idempotency-key-header-07 2; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.spare",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where a second provider stands in",
            what="no mail is accepted twice and none goes over that the first one may have taken",
        ),
        source="RFC 9110 9.2.2; RFC 1047; docs/proof.md",
        profiles=("http",),
        presumes=("python-world",),
        fault="every behaviour",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.webhooks",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where the provider tells what becomes of its mails",
            what="what was acknowledged is known and nothing is believed that nobody told",
        ),
        source="Standard Webhooks: a 2xx ends the delivery; docs/webhooks.md",
        profiles=("http",),
        presumes=("python-world", "webhooks"),
        fault="every storm of webhooks",
        crash="every crash point",
    ),
    Promise(
        name="exhaustive.webhooks-in-doubt",
        family="exhaustive",
        requirement=_EVERYWHERE.format(
            where="Where SMTP lost the answer and an event tells what became of the mail",
            what="the mail is not left in doubt and never sent again",
        ),
        source="RFC 1047: the doubt is about the answer; an event is evidence; docs/webhooks.md",
        profiles=("smtp",),
        presumes=("python-world", "webhooks"),
        fault="every storm of webhooks",
        crash="every crash point",
    ),
)

BY_NAME: dict[str, Promise] = {promise.name: promise for promise in PROMISES}

#: What no sender can be certified for, whatever its results, and why.
NOT_CLAIMABLE: dict[str, str] = {
    "exactly once over SMTP": (
        "After the final dot a lost answer looks the same whether the mail was taken or not (RFC 1047). "
        "A sender can choose at-most-once and park the mail, or at-least-once and risk bounded extra copies."
    ),
    "exactly once over HTTP without idempotency keys": (
        "After the last byte of the request the same holds: without a key or a look-up nobody can know."
    ),
}


def of_id(promise_id: str) -> tuple[Promise, str]:
    """Return the promise of a full id and its profile. Raises `KeyError` for an id nobody promised."""
    profile, _, name = promise_id.partition(".")
    promise = BY_NAME[name]
    if profile not in promise.profiles:
        raise KeyError(promise_id)
    return promise, profile


def on_profiles(profiles: Iterable[str]) -> Iterator[tuple[Promise, str]]:
    """Yield every promise with each of these profiles it is made on, in the order of the table."""
    wanted = tuple(profiles)
    for promise in PROMISES:
        for profile in wanted:
            if profile in promise.profiles:
                yield promise, profile


def selected(promise_id: str, pattern: str | None) -> bool:
    """Tell whether a `--select` pattern means this promise: a wildcard over the id, or a part of it."""
    if pattern is None:
        return True
    return any(
        fnmatchcase(promise_id, part) or (part in promise_id and not set(part) & set("*?["))
        for part in (each.strip() for each in pattern.split(","))
        if part
    )
