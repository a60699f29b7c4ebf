"""What a rule does, in one plain sentence."""

from __future__ import annotations

from simulator.provider.answer import CertificateFlaw, spoken
from simulator.provider.faults import (
    AFTER_BOOKING,
    AnswerTwice,
    BadCertificate,
    BreakTheHandshake,
    CloseOnNext,
    CutTheBody,
    DecideFate,
    DripTheAnswer,
    Drop,
    FindEverything,
    FindNothing,
    FindWhatWas,
    HangThere,
    HoldTheAnswer,
    RefuseEhlo,
    RefuseRecipients,
    RefuseTheHandshake,
    ReplyOutOfTurn,
    SlowDown,
    Tarpit,
    TellBeforeTheAnswer,
    Throttle,
)
from simulator.provider.faults.endings import End
from simulator.provider.faults.smtp import THROTTLES
from simulator.provider.faults.web import (
    ChunkTheAnswer,
    GatewayGivesUp,
    GzipTheAnswer,
    ListOddly,
    NeverContinue,
    OddBody,
    Redirect,
    SayBefore,
)
from simulator.provider.faults.webhooks import (
    ContradictIt,
    LoseIt,
    SignBadly,
    SignLongAgo,
    TellLate,
    TellNonsenseToo,
    TellOfAnUnknownMail,
    TellOutOfOrder,
    TellTwice,
    TellTwiceUnderAnotherId,
)
from simulator.provider.rule import Per, Rule

_END = {End.HANG_UP: "hang up", End.RESET: "reset the line", End.HANG: "hang"}
_FLAW = {
    CertificateFlaw.EXPIRED: "expired",
    CertificateFlaw.NOT_YET_VALID: "not valid yet",
    CertificateFlaw.WRONG_HOST: "somebody else's",
    CertificateFlaw.UNTRUSTED: "signed by nobody one trusts",
}


def explain(rule: Rule) -> str:
    """Return one plain sentence that says what a rule does."""
    return f"{rule.name}: {_where(rule)}{_whom(rule)}{_often(rule)}, {_what(rule)}."


def _where(rule: Rule) -> str:
    if rule.stages == {("webhook", "webhook")}:
        return "at the webhook"
    places = [
        f'{wire.upper()} "{stage}"{" (already booked)" if (wire, stage) in AFTER_BOOKING else ""}'
        for wire, stage in sorted(rule.stages, reverse=True)
    ]
    return f"at {' and '.join(places)}"


def _whom(rule: Rule) -> str:
    parts = [
        f"{label} {pattern.text}"
        for label, pattern in (
            ("account", rule.who.account),
            ("dialect", rule.who.dialect),
            ("sender", rule.who.sender),
            ("recipient", rule.who.recipient),
            ("key", rule.who.key),
            ("event", rule.who.event),
            *((f"header {name}", pattern) for name, pattern in rule.who.headers),
        )
        if pattern is not None
    ]
    return f", for {' and '.join(parts)}" if parts else ""


def _often(rule: Rule) -> str:
    when, parts = rule.when, []
    if when.skip:
        parts.append(f"leaving the first {when.skip} alone")
    if when.first is not None:
        parts.append("on the first occasion" if when.first == 1 else f"on the first {when.first} occasions")
    if when.every is not None and when.every > 1:
        parts.append(f"on every {nth(when.every)} occasion")
    if when.attempt is not None:
        parts.append(f"in the {nth(when.attempt)} attempt")
    if when.probability is not None:
        parts.append(f"with probability {when.probability:g}")
    if when.from_s is not None:
        parts.append(f"from {when.from_s:g} s on")
    if when.until_s is not None:
        parts.append(f"until {when.until_s:g} s")
    if when.times is not None:
        parts.append("once" if when.times == 1 else f"at most {when.times} times")
    if rule.per is not Per.PLAN:
        parts.append(f"counted per {rule.per}")
    if rule.sticks_to_mail:
        parts.append("then for ever on that mail")
    return "".join(f", {part}" for part in parts) or ", every time"


def nth(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _what(rule: Rule) -> str:
    match rule.fault:
        case Drop():
            return "take the mail, say yes and never deliver it"
        case DecideFate(fate=fate, after_s=after_s):
            when = "" if after_s is None else f" {after_s:g} s later"
            return f"take the mail, and let its fate be {fate}{when}"
        case TellBeforeTheAnswer(within_s=within_s):
            return f"take the mail, tell the webhook what became of it, and only then answer (within {within_s:g} s)"
        case TellTwice(copies=copies):
            return f"tell the event {copies} times with the same id"
        case TellTwiceUnderAnotherId(copies=copies):
            return f"tell the event {copies} times, each time under another id"
        case TellLate(delay_s=delay_s):
            return f"tell the event {delay_s:g} s late"
        case TellOutOfOrder(delay_s=delay_s):
            return f"tell the event after the next one of its mail (if there is none, {delay_s:g} s late)"
        case LoseIt():
            return "never tell the event"
        case SignBadly(forgery=forgery, tries=tries):
            return f"sign the first {tries} attempts wrongly ({forgery})"
        case SignLongAgo(age_s=age_s, tries=tries):
            return f"date the first {tries} attempts {age_s:g} s back"
        case TellNonsenseToo(damage=damage):
            return f"tell something malformed besides ({damage or 'which way, the seed says'})"
        case ContradictIt(says=says):
            return f"tell the contrary at the same instant ({says or 'a bounce, or of a bounce a delivery'})"
        case TellOfAnUnknownMail():
            return "tell the same of a mail that nobody sent, too"
        case RefuseEhlo(code=code):
            return f"answer EHLO with {code}, and take HELO"
        case RefuseTheHandshake(alert=alert):
            return f"refuse the TLS handshake ({alert.replace('_', ' ')})"
        case BreakTheHandshake(end=end):
            return f"begin the TLS handshake, then {_END[end]}"
        case BadCertificate(problem=problem):
            return f"shake hands with a certificate that is {_FLAW[problem]}"
        case CutTheBody(after_bytes=after_bytes, end=end):
            return f"{_END[end]} after {after_bytes} octets of the message"
        case CloseOnNext(end=end, code=code):
            return (
                f"wait for the sender's next word, then {f'answer {code}' if code is not None else _END[end]}"
            )
        case ReplyOutOfTurn(code=code):
            return f"say an unasked {code}, then go on"
        case Tarpit(delay_s=delay_s, each=each):
            return f"from then on, wait {delay_s:g} s before each {each} of the connection"
        case Throttle(style=style):
            code, enhanced, text = THROTTLES[style]
            return f"answer {' '.join(str(each) for each in (code, enhanced, text) if each is not None)}"
        case RefuseRecipients(code=code, text=text):
            return f"refuse the recipient with {code} {text}"
        case HoldTheAnswer():
            return "hold the answer back until it is released"
        case HangThere(delay_s=delay_s) if delay_s is not None:
            return f"hang for {delay_s:g} s"
        case SlowDown(delay_s=delay_s):
            return f"wait {delay_s:g} s, then go on"
        case FindNothing() | FindWhatWas() | FindEverything() as fault:
            return f"let the look-up see the ledger wrongly: it {fault.view()}"
        case Redirect(code=code, location=location):
            return f"send the sender to {location} with {code}"
        case GatewayGivesUp(code=code):
            return f"let a gateway answer {code} in HTML"
        case NeverContinue():
            return "never say 100 Continue"
        case (
            OddBody()
            | ListOddly()
            | GzipTheAnswer()
            | ChunkTheAnswer()
            | DripTheAnswer()
            | SayBefore()
            | AnswerTwice()
        ) as fault:
            return f"say it in an odd form: {spoken(fault.answer())}"
        case fault:
            answer = fault.answer()
            return f"answer {spoken(answer)}" if fault.name == "reply" else spoken(answer)
