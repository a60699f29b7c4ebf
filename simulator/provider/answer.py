"""What the provider tells the sender: words, and the manner in which they are (not) delivered.

Answers are values. The dialects turn `Accepted`, `Refused` and `Reply` into bytes of their wire;
`simulator.servers.wire` is the one place that carries the manners out. Neither knows a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum

from simulator.provider.dress import Dress


class RetryAfterKind(StrEnum):
    """The shapes in which real services send Retry-After (RFC 9110, section 10.2.3), and the wrong ones."""

    SECONDS = "seconds"
    DATE = "date"
    ZERO = "zero"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """A Retry-After to be told; a missing one is None where this is optional."""

    kind: RetryAfterKind
    seconds: float = 0.0

    def text(self, now: datetime) -> str:
        """Return the header's value as it goes out at `now`."""
        match self.kind:
            case RetryAfterKind.SECONDS:
                # Not `:g`, which writes a million seconds as 1e+06.
                return f"{self.seconds:.3f}".rstrip("0").rstrip(".")
            case RetryAfterKind.DATE:
                # An HTTP-date has whole seconds; rounding up keeps "not before" true.
                at = now.astimezone(UTC) + timedelta(seconds=self.seconds)
                if at.microsecond:
                    at = at.replace(microsecond=0) + timedelta(seconds=1)
                return format_datetime(at, usegmt=True)
            case RetryAfterKind.ZERO:
                return "0"
            case RetryAfterKind.GARBAGE:
                return "soon, perhaps"


class Reason(StrEnum):
    """Why the provider itself, without any rule, refuses. Dialects map each to their own code."""

    INVALID = "invalid_request"
    CREDENTIAL_MISSING = "credential_missing"
    CREDENTIAL_UNKNOWN = "credential_unknown"
    KEY_REQUIRED = "key_required"
    KEY_IN_FLIGHT = "key_in_flight"
    KEY_REUSED = "key_reused"
    KEY_DONE = "key_done"
    KEY_FAILED = "key_failed"
    TOO_LARGE = "too_large"
    TOO_MANY_RECIPIENTS = "too_many_recipients"
    TOO_MANY_MAILS = "too_many_mails"
    NO_RECIPIENTS = "invalid_recipient"
    RATE_LIMITED = "rate_limited"
    GREYLISTED = "greylisted"
    QUOTA_EXCEEDED = "quota_exceeded"
    TOO_MANY_CONNECTIONS = "too_many_connections"


# --- words ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRecipient:
    """One recipient that the provider will not take, while others may be taken."""

    recipient: str
    code: int
    enhanced: str | None = None
    text: str = "no such mailbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Yes: responsibility for these recipients is taken."""

    id: str
    message_id: str | None
    recipients: tuple[str, ...]
    refused: tuple[RefusedRecipient, ...] = ()
    replayed: bool = False
    """True if this repeats the first answer of an idempotency key."""
    shows_id: bool = True
    """HTTP only. False: a success that does not say which mail it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No, for a reason of the provider's own."""

    reason: Reason
    detail: str
    refused: tuple[RefusedRecipient, ...] = ()
    retry_after: RetryAfter | None = None
    smtp: tuple[int, str] | None = None
    """SMTP only: other codes (reply, enhanced) than the usual ones for this reason."""
    code: int | None = None
    """HTTP only: another status than the usual one for this reason."""
    index: int | None = None
    """HTTP only: which mail of a batch it is about, from 0."""
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Exactly these words, because a rule says so."""

    code: int
    enhanced: str | None = None
    text: str | None = None
    """None: the dialect's usual words for this code."""
    retry_after: RetryAfter | None = None
    body: str | None = None
    """HTTP only: the body, sent as it is; None: a problem document."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP only: said along."""
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """HTTP only: what became of each mail of a batch, in the order of the request."""

    items: tuple[Accepted | Refused | Reply, ...]
    replayed: bool = False

    @property
    def accepted(self) -> int:
        """How many were taken."""
        return sum(isinstance(item, Accepted) for item in self.items)


Words = Accepted | Refused | Reply | Results


class CertificateFlaw(StrEnum):
    """What is wrong with a certificate."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    WRONG_HOST = "wrong_host"
    UNTRUSTED = "untrusted"


class TlsAlert(StrEnum):
    """How a handshake is refused (RFC 8446, section 6.2; `unrecognized_name`: RFC 6066, section 3)."""

    HANDSHAKE_FAILURE = "handshake_failure"
    PROTOCOL_VERSION = "protocol_version"
    ACCESS_DENIED = "access_denied"
    INTERNAL_ERROR = "internal_error"
    UNRECOGNIZED_NAME = "unrecognized_name"


class Piece(StrEnum):
    """How a reply of SMTP is cut."""

    REPLY = "reply"
    LINE = "line"
    OCTET = "octet"


# --- manners ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Say nothing. `for_s` None: until the other side gives up; else the line is closed after that long."""

    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """Close the line in an orderly way (FIN) without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Break the line (RST) without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garble:
    """Say something that is no reply of this protocol. HTTP: a well-formed head with `code`, a broken body."""

    code: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Begin the words, then close the line in the middle of them. `then` None: the dialect's normal words."""

    then: Words | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Wait, then go on with `then`; None: with what would have been said anyway."""

    delay_s: float
    then: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep the answer back until it is released from outside, then go on with `then`."""

    then: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellFirst:
    """Tell the webhook what has happened to these attempts' mails (wait so long at most), then go on with `then`."""

    within_s: float
    attempts: tuple[str, ...]
    then: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurn:
    """Wait until the request in front ends (at most so long), then ask again; `then` is said if it does not."""

    for_s: float
    then: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Dressed:
    """HTTP only: say the words in an odd form. `then` None: the dialect's normal words."""

    dress: Dress
    then: Words | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepExpecting:
    """HTTP only: do not say `100 Continue`, though the sender waits for it; then go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Refuse to speak TLS: say so in its own words, and end the line."""

    alert: TlsAlert


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenHeard:
    """Do `then` as soon as the sender has said so many octets more; within a message, of that message."""

    size_bytes: int
    then: Hang | HangUp | Reset | Reply | Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked:
    """SMTP only: say these words although nobody asked, then go on as if nothing had been."""

    words: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class DragOn:
    """SMTP only: go on, but from now on wait before each reply of this connection, or each piece of it."""

    delay_s: float
    each: Piece = Piece.REPLY


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCertificate:
    """Go on, and shake hands with a certificate that has this flaw."""

    flaw: CertificateFlaw


Manner = (
    Hang
    | HangUp
    | Reset
    | Garble
    | Truncate
    | Slow
    | Hold
    | TellFirst
    | InTurn
    | Dressed
    | KeepExpecting
    | Alert
    | WhenHeard
    | Unasked
    | DragOn
    | ShowCertificate
)
Answer = Words | Manner


def goes_on(answer: Answer) -> bool:
    """Tell whether `answer` only delays: what would have been said anyway is said in the end."""
    match answer:
        case Slow(then=then) | Hold(then=then):
            return then is None or goes_on(then)
        case KeepExpecting() | Unasked() | DragOn() | ShowCertificate():
            return True
        case _:
            return False


def words_of(answer: Answer) -> Words | None:
    """Return the words that `answer` ends in; None if it says nothing whole, or only delays."""
    match answer:
        case Accepted() | Refused() | Reply() | Results():
            return answer
        case Slow(then=then) | Hold(then=then) | TellFirst(then=then):
            return None if then is None else words_of(then)
        case _:
            return None


def with_words(answer: Answer, words: Words | InTurn) -> Answer:
    """Fill the places of `answer` that mean "what would have been said anyway" with `words`."""
    match answer:
        case Slow(delay_s=delay_s, then=then):
            return Slow(delay_s=delay_s, then=words if then is None else with_words(then, words))
        case Hold(then=then):
            return Hold(then=words if then is None else with_words(then, words))
        case Truncate(then=None) if not isinstance(words, InTurn):
            return Truncate(then=words)
        case Dressed(dress=dress, then=None) if not isinstance(words, InTurn):
            return Dressed(dress=dress, then=words)
        case _:
            return answer


def followed_by(answer: Answer | None, rest: Answer | None) -> Answer | None:
    """Let `rest` be said where `answer` only delays; an answer that says something itself stays as it is."""
    match answer:
        case None:
            return rest
        case Slow(delay_s=delay_s, then=then):
            return Slow(delay_s=delay_s, then=followed_by(then, rest))
        case Hold(then=then):
            return Hold(then=followed_by(then, rest))
        case _:
            return answer


def spoken(answer: Answer | None) -> str:
    """Name an answer for people and logs, for example `slow 2s, then 451` or `reset`."""
    match answer:
        case None:
            return "normal"
        case Accepted(replayed=replayed):
            return "accepted (replayed)" if replayed else "accepted"
        case Refused(reason=reason, replayed=replayed):
            return f"refused: {reason} (replayed)" if replayed else f"refused: {reason}"
        case Reply(code=code, enhanced=enhanced, replayed=replayed):
            said = f"{code} {enhanced}" if enhanced else str(code)
            return f"{said} (replayed)" if replayed else said
        case Results(items=items, accepted=accepted, replayed=replayed):
            return f"accepted {accepted} of {len(items)}{' (replayed)' if replayed else ''}"
        case Hang(for_s=for_s):
            return "hang" if for_s is None else f"hang {for_s:g}s"
        case HangUp():
            return "hang up"
        case Reset():
            return "reset"
        case Garble(code=code):
            return "garbled reply"
        case Truncate():
            return "truncated reply"
        case Slow(delay_s=delay_s, then=then):
            return f"slow {delay_s:g}s, then {spoken(then)}"
        case Hold(then=then):
            return f"held, then {spoken(then)}"
        case TellFirst(then=then):
            return f"events first, then {spoken(then)}"
        case InTurn():
            return "waits for the request in front"
        case Dressed(dress=dress, then=then):
            return str(dress) if then is None else f"{spoken(then)}, {dress}"
        case KeepExpecting():
            return "no 100, then normal"
        case Alert(alert=alert):
            return f"TLS alert: {alert.replace('_', ' ')}"
        case WhenHeard(size_bytes=size_bytes, then=then):
            return f"{spoken(then)} after {size_bytes} more octets"
        case Unasked(words=words):
            return f"an unasked {words.code}, then normal"
        case DragOn(delay_s=delay_s, each=each):
            return f"{delay_s:g}s before each {each}"
        case ShowCertificate(flaw=flaw):
            return f"certificate: {flaw.replace('_', ' ')}"
