"""The shapes of the JSON that the control API takes and gives: one typed dictionary per noun.

The server builds them, the client hands them on, and the OpenAPI document is made of them. What is in a field is
said here, beside its type; which words it may have comes from the enumerations the provider itself works with.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from simulator.provider.deliveries import State
from simulator.provider.fate import Fate, Happening
from simulator.provider.ledger import AttemptState, Sent, ToldBy
from simulator.provider.obligations import Reported
from simulator.provider.signing import Scheme

MAX_LINE_CHARS = 2_000
MAX_COPIES = 1_000_000

#: A moment in UTC, ISO 8601.
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


def _says(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema or None)


#: Leads to the next page of a list.
Next = Annotated[str | None, _says("`after` of the next page; null: this is the last one.")]
#: Names and addresses: text on one line, because they end in logs and in databases that know no NUL.
Line = Annotated[str, Meta(min_length=1, max_length=MAX_LINE_CHARS, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Problem(TypedDict):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, _says("One sentence: what was given, and what would be right.")]


# --- the provider -----------------------------------------------------------------------------------


class Health(TypedDict):
    """Whether all is well."""

    status: Annotated[Literal["ok", "failing"], _says("`failing` while the ledger cannot be written.")]
    version: str
    seed: int
    accounts: list[str]
    trouble: Annotated[str | None, _says("What the last write failed of.")]


class Clock(TypedDict):
    """What time it is for the account."""

    account: str
    now: Time
    ahead_s: Annotated[float, _says("How far that is ahead of real time, in seconds.")]


class ClockAdvance(TypedDict):
    """By how much the clock is moved ahead."""

    advance_s: Annotated[float, Meta(ge=0, description="In seconds.")]


class ClockSet(TypedDict):
    """The instant the clock is moved to; not before what it says now."""

    now: Time


class AccountMade(TypedDict):
    """An account that there is now."""

    account: Annotated[str, _says("Its name: the API key or SMTP user of its senders.")]
    made: Annotated[bool, _says("Whether it was made just now; false: it was there.")]


class WasReset(TypedDict):
    """What was forgotten."""

    reset: Annotated[str, _says("The account that begins anew.")]


class Released(TypedDict):
    """What was let go."""

    released: Annotated[int, _says("How many answers were held.")]


Rule = dict[str, Any] | str
"""A rule in the plan language, a table (docs/faults.md) or a line (docs/plans.md)."""


class PlanGiven(TypedDict, total=False):
    """A whole plan in the plan language, see docs/faults.md; what is left out has its usual value."""

    seed: int
    plan: Annotated[str | list[str], _says("Names of plans that come along; their rules come last.")]
    rules: Annotated[list[Rule], _says("Those under `rule`, as TOML calls them, come behind them.")]
    idempotency: dict[str, Any]
    limits: dict[str, Any]
    limit: list[dict[str, Any]]
    smtp: dict[str, Any]
    http: dict[str, Any]
    batch: dict[str, Any]
    magic: dict[str, Any]
    webhooks: dict[str, Any]
    returns: dict[str, Any]
    greylist: dict[str, Any] | None
    replay: Annotated[list[dict[str, Any]], _says("What struck in a former run, as `GET replay` gives it.")]


class RulesToAdd(TypedDict):
    """Rules in the plan language, to be appended."""

    rules: Annotated[list[Rule], _says("May be called `rule`, as in TOML.")]


class ReplayShown(TypedDict):
    """How far a replay is."""

    recorded: Annotated[int, _says("How much struck in the former run.")]
    struck: Annotated[int, _says("How much of that has struck again.")]


class PlanShown(TypedDict):
    """The plan in force, and how often each rule was met (`seen`) and struck (`fired`)."""

    seed: int
    rules: list[dict[str, Any]]
    idempotency: dict[str, Any]
    limits: dict[str, Any]
    limit: Annotated[list[dict[str, Any]], _says("Limits per address, sender or domain.")]
    smtp: dict[str, Any]
    http: dict[str, Any]
    batch: dict[str, Any]
    magic: dict[str, Any]
    webhooks: dict[str, Any]
    returns: dict[str, Any]
    greylist: dict[str, Any] | None
    replay: Annotated[ReplayShown | None, _says("How much of a recording has struck again.")]
    settings: Annotated[
        list[str], _says("A sentence for each limit, and for each table that is not as usual.")
    ]
    doubts: Annotated[list[str], _says("What is probably not meant: rules that can never strike.")]


class PlanChecked(TypedDict):
    """What a plan would do."""

    explained: Annotated[
        list[str], _says("A sentence per rule, per limit, and per table that is not as usual.")
    ]
    doubts: Annotated[list[str], _says("What is probably not meant: rules that can never strike.")]


# --- messages ---------------------------------------------------------------------------------------


class DsnRecipient(TypedDict):
    """What the sender wants to be told about one recipient (RFC 3461)."""

    recipient: str
    notify: Annotated[list[str], _says("`NEVER`, or some of `SUCCESS`, `FAILURE`, `DELAY`; empty: not said.")]
    orcpt: Annotated[str | None, _says("The original recipient with its type, decoded.")]


class Dsn(TypedDict):
    """What an SMTP sender asked to be told about the delivery (RFC 3461)."""

    ret: Annotated[
        str | None, _says("How much of the mail a notification brings back.", enum=["FULL", "HDRS", None])
    ]
    envid: Annotated[str | None, _says("The sender's name for this mail, decoded.")]
    recipients: list[DsnRecipient]


class Message(TypedDict):
    """An acceptance: the provider took responsibility for one mail to these recipients."""

    id: str
    account: str
    dialect: str
    accepted_at: Time
    sender: str
    recipients: list[str]
    message_id: str | None
    key: str | None
    subject: str
    size_bytes: int
    sha256: Annotated[str, _says("Of the bytes the provider took.")]
    obligation: Annotated[str | None, _says("The mail's `X-Obligation` header.")]
    fate: Annotated[str, _says("What becomes of it.", enum=[*Fate])]
    fates: Annotated[dict[str, str], _says("What becomes of it, by recipient.")]
    dsn: Annotated[Dsn | None, _says("What the sender asked to be told about the delivery.")]
    copies_of_body: Annotated[int, _says("Acceptances of the very same bytes in this account.")]
    attempt: Annotated[str, _says("The attempt that brought it.")]


class Messages(TypedDict):
    """A page of acceptances."""

    messages: list[Message]
    next: Next


class MessagesFound(TypedDict):
    """What a wait ended with."""

    messages: list[Message]
    next: Next
    complete: Annotated[bool, _says("False: time was up before enough had come.")]


class Field(TypedDict):
    """A header field, decoded."""

    name: str
    value: str


class Part(TypedDict):
    """A part of a mail that has no parts of its own."""

    number: int
    media_type: str
    name: Annotated[str, _says("A file name that can do no harm.")]
    size_bytes: int
    content_id: str | None
    is_attachment: bool


class Anatomy(TypedDict):
    """What a mail consists of."""

    headers: list[Field]
    text: str | None
    html: str | None
    parts: list[Part]
    trouble: Annotated[str | None, _says("What could not be shown.")]


# --- attempts ---------------------------------------------------------------------------------------


class Advice(TypedDict):
    """What a sender was told about coming back, and heard."""

    wait_s: float
    at: Time
    by: Annotated[str, _says("`text`: in the words of an SMTP reply.", enum=[*ToldBy])]
    recipient: Annotated[str | None, _says("SMTP, at `RCPT`: the only one that is meant.")]
    limit: Annotated[str | None, _says("The limit that said so; null: a rule or a key in use.")]


class Attempt(TypedDict):
    """One try of a sender to hand over mail."""

    id: str
    account: str
    dialect: str
    connection: str
    peer: str
    opened_at: Time
    stage: Annotated[str, _says("The last stage reached.")]
    state: Annotated[str, _says("Whether it goes on.", enum=[*AttemptState])]
    sender: str | None
    recipients: list[str]
    message_id: str | None
    key: str | None
    accepted: Annotated[list[str], _says("The recipients booked by this attempt, whatever was said.")]
    answer: Annotated[str, _says("What was said: 250, 503, hang, reset, …")]
    sent: Annotated[str, _says("How much of the answer went out.", enum=[*Sent])]
    rules: Annotated[list[str], _says("The rules that struck.")]
    advice: list[Advice]
    closed_at: Time | None


class Attempts(TypedDict):
    """A page of attempts."""

    attempts: list[Attempt]
    next: Next


class AttemptsFound(TypedDict):
    """What a wait ended with."""

    attempts: list[Attempt]
    next: Next
    complete: Annotated[bool, _says("False: time was up before enough had come.")]


# --- events -----------------------------------------------------------------------------------------


class Event(TypedDict):
    """Something that happened to a mail; webhooks carry it in this shape."""

    id: str
    type: Annotated[str, _says("What happened.", enum=[*Happening])]
    timestamp: Time
    account: str
    data: Annotated[dict[str, Any], _says("See docs/events.md.")]


class EventShown(Event):
    """An event, and its place in the order of the account's events."""

    number: int


class Events(TypedDict):
    """A page of events."""

    events: list[EventShown]
    next: Next


class EventsFound(TypedDict):
    """What a wait ended with."""

    events: list[EventShown]
    next: Next
    complete: Annotated[bool, _says("False: time was up before enough had come.")]


class EventPushed(TypedDict):
    """An event to be let happen by hand, about a mail that is known or not."""

    type: Annotated[str, _says("What happens.", enum=[*Happening])]
    email_id: NotRequired[Line]
    recipient: NotRequired[Line]
    id: NotRequired[Annotated[Line, _says("A known id makes it that event once more.")]]
    after_s: NotRequired[Annotated[float, Meta(ge=0, le=366 * 86_400, description="When, from now.")]]
    timestamp: NotRequired[Annotated[Time, _says("What it says of when it happened.")]]
    data: NotRequired[Annotated[dict[str, Any], _says("What it says, in place of what it would say.")]]


class Suppression(TypedDict):
    """An address that gets no mail."""

    address: str
    reason: str
    since: Time


class Suppressions(TypedDict):
    """The suppression list."""

    suppressions: list[Suppression]


class SuppressionGiven(TypedDict):
    """An address that shall get no mail."""

    address: Line
    reason: NotRequired[Line]


class Lifted(TypedDict):
    """How many addresses were taken off the list."""

    lifted: int


class Decision(TypedDict):
    """A line of the decision log: which rules hit which attempt where, and what they made of it."""

    number: int
    attempt: str
    stage: str
    rules: list[str]
    answer: str
    at: Time


class Decisions(TypedDict):
    """A page of the decision log."""

    decisions: list[Decision]
    next: Next


class Replay(TypedDict):
    """A plan in the plan language that strikes again what struck; `PUT plan` and `serve --replay` take it."""

    seed: int
    idempotency: dict[str, Any]
    limits: dict[str, Any]
    limit: list[dict[str, Any]]
    smtp: dict[str, Any]
    http: dict[str, Any]
    batch: dict[str, Any]
    magic: dict[str, Any]
    webhooks: dict[str, Any]
    greylist: dict[str, Any] | None
    replay: list[dict[str, Any]]


# --- webhooks ---------------------------------------------------------------------------------------


class WebhookGiven(TypedDict, total=False):
    """Where events are told and how, in the words of the plan's table `[webhooks]`, see docs/events.md."""

    url: Required[str]
    secret: str | list[str]
    scheme: Annotated[str, _says("How requests are signed.", enum=[*Scheme])]
    events: list[str]
    headers: dict[str, str]
    batch: Annotated[int, Meta(ge=1, le=10_000)] | None
    batch_wait_s: Annotated[float, Meta(ge=0)]
    connections: Annotated[int, Meta(ge=1, le=100)]
    timeout_s: Annotated[float, Meta(gt=0)]
    schedule_s: Annotated[list[Annotated[float, Meta(ge=0)]], Meta(max_length=100)]
    jitter: Annotated[float, Meta(ge=0, lt=1)]
    give_up_on: list[Annotated[int, Meta(ge=300, le=599)]]
    disable_after_s: Annotated[float, Meta(ge=0)] | None
    verify_tls: bool


class Webhook(TypedDict):
    """Where events are told and how, and how things stand there."""

    url: Annotated[str | None, _says("Null: events are not told.")]
    secret: Annotated[list[str], _says("Newest first; empty: requests are not signed.")]
    scheme: Annotated[str, _says("How requests are signed.", enum=[*Scheme])]
    events: Annotated[list[str], _says("The types that are told; empty: all.")]
    headers: dict[str, str]
    batch: int | None
    batch_wait_s: float
    connections: int
    timeout_s: float
    schedule_s: list[float]
    jitter: float
    give_up_on: list[int]
    disable_after_s: float | None
    verify_tls: bool
    disabled_at: Annotated[Time | None, _says("Since when nothing is told any more; PUT begins anew.")]
    disabled_because: str | None
    failing_since: Annotated[Time | None, _says("Since when nothing has got through.")]


class EventTold(TypedDict):
    """An event in a delivery."""

    id: str
    type: str
    source: Annotated[str, _says("The event that happened; another one if a rule tells what did not.")]
    recipient: str | None
    email_id: str | None


class Try(TypedDict):
    """One request, and what came of it."""

    at: Time
    took_s: float
    status: Annotated[int | None, _says("Null: there was no answer.")]
    error: str | None
    answer: Annotated[str, _says("The beginning of what was answered.")]
    flaws: Annotated[list[str], _says("What was wrong with the request, because a rule wanted it.")]


class Delivery(TypedDict):
    """Events that are told in one request, until it is answered with a 2xx status."""

    id: str
    channel: str
    webhook_id: str
    state: Annotated[str, _says("How far it is.", enum=[*State])]
    why: Annotated[str | None, _says("Why it ended without having been delivered.")]
    due_at: Time
    events: list[EventTold]
    rules: Annotated[list[str], _says("The rules that struck.")]
    tries: list[Try]


class Deliveries(TypedDict):
    """A page of deliveries."""

    deliveries: list[Delivery]
    next: Next


class DeliveriesFound(TypedDict):
    """What a wait ended with."""

    deliveries: list[Delivery]
    next: Next
    complete: Annotated[bool, _says("False: time was up before enough had come.")]


# --- promises ---------------------------------------------------------------------------------------

_STATE = _says(
    "What the sender says became of the mail.", enum=[None, *sorted(Reported)], type=["string", "null"]
)


class Obligation(TypedDict):
    """One promised mail to one recipient; the same ref and recipient replaces the former entry."""

    ref: Line
    recipient: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_LINE_CHARS,
            pattern=r"^[^\x00-\x1f\x7f]+$",
            description="A bare address, or `postmaster`.",
        ),
    ]
    copies: NotRequired[
        Annotated[int, Meta(ge=0, le=MAX_COPIES, description="How many acceptances are right.")]
    ]
    sha256: NotRequired[Annotated[str, Meta(pattern="^[0-9A-Fa-f]{64}$")] | None]
    state: NotRequired[Annotated[str | None, _STATE]]


class ObligationShown(TypedDict):
    """One promised mail to one recipient."""

    ref: str
    recipient: str
    copies: int
    sha256: str | None
    state: Annotated[str | None, _STATE]


class ObligationsNamed(TypedDict):
    """What was promised."""

    obligations: list[Obligation]


class ObligationsShown(TypedDict):
    """What was promised."""

    obligations: list[ObligationShown]


class Entered(TypedDict):
    """How many obligations were entered."""

    obligations: int


class Finding(TypedDict):
    """One line of a verdict: an obligation (or mail nobody promised) and the acceptances behind it."""

    ref: str | None
    recipient: str
    expected: int
    copies: int
    state: Annotated[str | None, _STATE]
    ids: list[str]
    message_ids: list[str | None]
    keys: list[str | None]
    attempts: list[str]
    accepted_at: list[Time]
    subject: str | None


class TooEarly(TypedDict):
    """The same mail came again before its time."""

    attempt: str
    told_in: Annotated[str, _says("The attempt in which it was told to wait.")]
    recipients: list[str]
    told_s: float
    waited_s: float
    by: Annotated[str, _says("How it was told; `text`: in the words of an SMTP reply.", enum=[*ToldBy])]
    limit: Annotated[str | None, _says("The limit that said so; null: a rule or a key in use.")]


class Pressed(TypedDict):
    """Other mail came into a limit that had told everybody concerned to wait."""

    limit: str
    scope: Annotated[str, _says("Whom it concerned: an address, a sender, a domain; empty: the account.")]
    told_in: str
    told_s: float
    by: Annotated[str, _says("How it was told; `text`: in the words of an SMTP reply.", enum=[*ToldBy])]
    count: int
    attempts: Annotated[list[str], _says("The first of them.")]


class Obedience(TypedDict):
    """Whether the sender came back when it was told to. It changes nothing of what is lost or duplicated."""

    obeyed: Annotated[bool | None, _says("Null: it was never told. Words of SMTP replies do not count.")]
    told: int
    too_early: list[TooEarly]
    too_early_count: int
    pressed: list[Pressed]
    pressed_count: int


class Verdict(TypedDict):
    """Obligations against ledger."""

    valid: Annotated[bool | None, _says("True: every promise was kept. Null: it cannot be said (yet).")]
    obligations: int
    accepted_once: int
    gone: Annotated[int, _says("Mails that were accepted and are not kept any more.")]
    duplicated: list[Finding]
    lost: list[Finding]
    phantom: list[Finding]
    misdirected: list[Finding]
    misreported: list[Finding]
    parked: list[Finding]
    open: list[Finding]
    unsent: list[Finding]
    dropped: list[Finding]
    forgotten: Annotated[
        list[Finding], _says("They would be lost, or rightly called unsent, if no mails were gone.")
    ]
    obedience: Obedience
