"""What is wrong with a history: one small function per question, each giving a list of findings.

Counting copies and losses is the judgement of `simulator.provider.obligations`; it is asked, never repeated.
Here is what a ledger alone cannot say: order and number of attempts, identity, pace, and what was reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from scenarios.history import History, Try
from simulator.provider import obligations as judging
from simulator.provider.obligations import ENDED_UNSENT, PARKED, Judgement, Reported

#: Every kind of finding, and what it says.
KINDS: dict[str, str] = {
    "duplicated": "more copies than promised, or than the policy and the doubts excuse",
    "lost": "promised, never accepted, and nobody says so honestly",
    "stuck": "neither sent nor parked when everything had come to rest",
    "phantom": "accepted although nobody promised it",
    "misdirected": "accepted for somebody else, or with other bytes than promised",
    "misreported": "the sender says one thing, the ledger another",
    "given up": "ended or parked although nothing stood in the way",
    "unsaid": "the sender has no word about a mail that was promised",
    "parked without owner": "parked, and no word for the person who is to look after it",
    "tried again": "an attempt after the end: after a yes, or after a refusal for good",
    "too early": "came back before the Retry-After was over",
    "pressed": "other mail came before the Retry-After was over, which was said to everybody",
    "flooded": "a provider that was down was asked by many at a time",
    "too fast": "faster than the limit that it was told to keep",
    "late": "an urgent mail waited behind mail that can wait",
    "too often": "so many attempts at once that nothing was waited for",
    "abandoned": "a worker that was asked to stop let go of an attempt",
    "identity changed": "Message-ID or idempotency key differ between attempts of one mail, or are missing",
    "bytes differ": "the content differs between attempts of one mail",
    "not quiescent": "things still moved when the calm was over",
}

#: More attempts of one mail than this in `AT_ONCE_S` seconds, and there is no backoff.
AT_ONCE = 6
AT_ONCE_S = 5.0
#: What was on its way when somebody else was told to wait is no sin.
ON_THE_WAY_S = 1.0
#: A provider that has answered nobody for so long is down, and more than a few at a time is a flood.
DOWN_S = 10.0
FLOOD = 3


class Policy(StrEnum):
    """What a sender does when it cannot know whether the provider took a mail."""

    EXACTLY_ONCE = "exactly-once"
    """Only where the provider honours idempotency keys."""
    AT_MOST_ONCE = "at-most-once"
    """Never a second copy: park the mail as `unknown` and tell a person."""
    AT_LEAST_ONCE = "at-least-once"
    """Never lost: send again, same Message-ID, same bytes, at most once per attempt in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken promise about one mail, in words for people, with what explains it."""

    kind: str
    recipient: str
    sentence: str
    ref: str | None = None
    copies: int | None = None
    ids: tuple[str, ...] = ()
    """Provider ids of the copies."""
    message_ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "ref": self.ref,
            "recipient": self.recipient,
            "sentence": self.sentence,
            "copies": self.copies,
            "ids": list(self.ids),
            "message_ids": list(self.message_ids),
            "keys": list(self.keys),
            "attempts": list(self.attempts),
        }


def judged(history: History) -> Judgement:
    """Return the judgement over this history's ledger, nothing being called lost yet."""
    return history.once("judged", lambda: judging.judge(history.obligations, history.acceptances))


def duplicated(history: History, policy: Policy) -> list[Finding]:
    """More copies than promised. At-least-once may add one copy for each attempt in doubt."""
    findings = []
    for each in judged(history).duplicated:
        allowed = each.expected
        if policy is Policy.AT_LEAST_ONCE:
            # An answer that was heard and not stored before a kill is as good as none.
            allowed += sum(tried.in_doubt for tried in history.tries_for(each.recipient)) + history.crashes
        copies = len(each.acceptances)
        if copies > allowed:
            findings.append(
                _about(
                    "duplicated",
                    each,
                    f"accepted {copies} times, at most {allowed} {'is' if allowed == 1 else 'are'} right",
                )
            )
    return findings


def unlike_copies(history: History, policy: Policy) -> list[Finding]:
    """Extra copies are only excused if readers can tell that they are copies: same Message-ID, same bytes."""
    if policy is not Policy.AT_LEAST_ONCE:
        return []
    return [
        _about("identity changed", each, "the extra copies differ in Message-ID or content")
        for each in judged(history).duplicated
        if each.expected == 1 and len({(copy.message_id, copy.sha256) for copy in each.acceptances}) > 1
    ]


def lost(history: History) -> list[Finding]:
    """Promised, not accepted, and nobody says so: called sent, unknown to the sender, or still waiting.

    Of a sender that cannot be asked, a mail that was refused for good has ended: whether it says so nobody sees.
    """
    judgement = judged(history)
    findings = [
        _about("lost", each, "the sender calls it accepted, but the provider never took it")
        for each in judgement.lost
    ]
    for each in judgement.open:
        if each.state in (Reported.PENDING, Reported.SENDING):
            sentence = f"still {each.state.value} after the calm; it is neither sent nor parked where anybody sees it"
            findings.append(_about("stuck", each, sentence))
        elif history.knows_states or not ended_by_refusal(history, each.recipient):
            missing = each.expected - len(each.acceptances)
            sentence = f"{missing} promised and never accepted by the provider"
            findings.append(_about("lost", each, sentence + _named_instead(history, each.recipient)))
    return findings


def phantom(history: History) -> list[Finding]:
    """Accepted although nobody promised it."""
    if not history.obligations:
        # The ledger alone would not dare to say so, but a history knows its promises, also if there are none.
        return [
            Finding(
                kind="phantom",
                recipient=recipient,
                sentence="sent, but nothing at all was promised",
                ids=(each.id,),
                attempts=(each.attempt,),
            )
            for each in history.acceptances
            for recipient in each.recipients
        ]
    return [_about("phantom", each, "sent, but never promised") for each in judged(history).phantom]


def misdirected(history: History) -> list[Finding]:
    """Accepted for somebody else than promised, or with other bytes than promised."""
    return [
        _about("misdirected", each, "another recipient or other bytes than promised")
        for each in judged(history).misdirected
    ]


def misreported(history: History) -> list[Finding]:
    """Accepted by the provider and reported as ended without, or the reverse."""
    judgement = judged(history)
    return [
        _about(
            "misreported",
            each,
            f"accepted by the provider, but reported as {each.state.value if each.state else 'nothing'}",
        )
        for each in judgement.misreported
    ] + [_about("misreported", each, "reported as accepted, but never taken") for each in judgement.lost]


def failed_without_refusal(history: History) -> list[Finding]:
    """Reported as failed although the provider never refused it for good: lost, by the sender's own decision."""
    findings = []
    for each in judged(history).unsent:
        if each.state is Reported.FAILED and not any(
            refused_for_good(tried) or redirected(tried) for tried in history.tries_for(each.recipient)
        ):
            findings.append(
                _about("lost", each, "reported as failed, but the provider never refused it for good")
            )
    return findings


def given_up(history: History, recipients: Iterable[str]) -> list[Finding]:
    """Ended or parked although the provider would take it by now; for mails that must arrive."""
    wanted = {recipient.lower() for recipient in recipients}
    judgement = judged(history)
    reported = [
        _about(
            "given up",
            each,
            f"reported as {each.state.value if each.state else 'nothing'} and not accepted; it had to arrive",
        )
        for each in (*judgement.unsent, *judgement.parked)
        if each.recipient.lower() in wanted
    ]
    if history.knows_states:
        return reported
    return reported + [
        _about("given up", each, "refused for good by the provider; it had to arrive")
        for each in judgement.open
        if each.recipient.lower() in wanted and ended_by_refusal(history, each.recipient)
    ]


def not_refused(history: History, recipients: Iterable[str]) -> list[Finding]:
    """Refused for good by the provider, but not reported as failed (where the sender can be asked)."""
    if not history.knows_states:
        return []
    findings = []
    for recipient in recipients:
        state = history.state_of(recipient)
        if state not in (*ENDED_UNSENT, Reported.DEAD):
            findings.append(
                Finding(
                    kind="misreported",
                    recipient=recipient,
                    sentence=(
                        f"refused for good, but reported as {state.value if state else 'nothing'}"
                        f"{_named_instead(history, recipient)}"
                    ),
                )
            )
    return findings


def reported_failed(history: History, recipient: str) -> list[Finding]:
    """Reported as failed although an attempt is in doubt: the earlier one may have been taken."""
    state = history.state_of(recipient)
    if state not in ENDED_UNSENT:
        return []
    return [
        Finding(
            kind="misreported",
            recipient=recipient,
            sentence=f"an attempt was taken and its answer lost, yet the mail is reported as {state.value}",
            copies=len(history.copies_for(recipient)),
            attempts=tuple(each.id for each in history.tries_for(recipient)),
        )
    ]


def not_said(history: History, recipients: Iterable[str]) -> list[Finding]:
    """Accepted by the provider, told so, and still not reported as accepted (where the sender can be asked)."""
    if not history.knows_states:
        return []
    findings = []
    for recipient in recipients:
        state = history.state_of(recipient)
        if history.copies_for(recipient) and state is not Reported.ACCEPTED:
            findings.append(
                Finding(
                    kind="misreported",
                    recipient=recipient,
                    sentence=(
                        f"accepted and answered, but reported as {state.value if state else 'nothing'}"
                        f"{_named_instead(history, recipient)}"
                    ),
                )
            )
    return findings


def yes_forgotten(history: History) -> list[Finding]:
    """Told in full that the mail is taken, never killed, and it does not say so."""
    if history.crashes:
        return []
    told = (
        owed.recipient
        for owed in history.obligations
        if any(each.told_yes and each.accepted for each in history.tries_for(owed.recipient))
    )
    return not_said(history, dict.fromkeys(told))


def unsaid(history: History) -> list[Finding]:
    """Promised, and the sender has no word about it any more (where it can be asked)."""
    if not history.knows_states:
        return []
    return [
        Finding(
            kind="unsaid",
            ref=owed.ref,
            recipient=owed.recipient,
            sentence="promised, and the sender does not know the mail at all",
        )
        for owed in history.obligations
        if history.state_of(owed.recipient) is None
    ]


def parked_without_owner(history: History) -> list[Finding]:
    """Parked for a person, without a word that this person could begin with."""
    return [
        Finding(
            kind="parked without owner",
            ref=each.key,
            recipient=each.recipient,
            sentence=f"reported as {each.state.value}, and no reason is given to whoever must look after it",
        )
        for each in history.said
        if each.state in PARKED and each.reason is not None and not each.reason.strip()
    ]


def not_quiescent(history: History) -> list[Finding]:
    """Things still moved when the calm was over: the mails that the sender has not settled, or those it tried last."""
    if not history.moving:
        return []
    still = "things still moved when the calm was over"
    waiting = {
        each.recipient: f"the sender says that it is {each.state.value}"
        for each in history.said
        if each.state in (Reported.PENDING, Reported.SENDING)
    }
    if not waiting and history.attempts:
        newest = max(history.attempts, key=lambda each: each.opened_at)
        waiting = dict.fromkeys(newest.recipients, "it was tried last")
    return [_still_moving(history, recipient, f"{still}: {why}") for recipient, why in waiting.items()] or [
        Finding(kind="not quiescent", recipient="", sentence=still)
    ]


def _still_moving(history: History, recipient: str, sentence: str) -> Finding:
    tries = history.tries_for(recipient)
    tried = f"{len(tries)} attempts were made" if tries else "no attempt was made"
    return Finding(
        kind="not quiescent",
        recipient=recipient,
        sentence=f"{sentence}, {tried}",
        attempts=tuple(each.id for each in tries[-3:]),
    )


def abandoned(history: History, recipient: str) -> list[Finding]:
    """The first attempt was given up by the sender before the provider could answer."""
    first = next(iter(history.tries_for(recipient)), None)
    if first is None or first.told_yes:
        return []
    return [
        Finding(
            kind="abandoned",
            recipient=recipient,
            sentence="the worker let go of the connection instead of waiting for the answer",
            attempts=(first.id,),
        )
    ]


def again_after_refusal(history: History, recipients: Iterable[str]) -> list[Finding]:
    """Tried again after the provider refused for good. Each crash may have swallowed one refusal."""
    findings = []
    for recipient in recipients:
        tries = history.tries_for(recipient)
        noes = [n for n, each in enumerate(tries) if refused_for_good(each) and not perhaps_too_fast(each)]
        after = tries[noes[history.crashes] + 1 :] if len(noes) > history.crashes else []
        if after:
            findings.append(
                Finding(
                    kind="tried again",
                    recipient=recipient,
                    sentence=(
                        f"tried {_more_times(after)} after the refusal for good "
                        f"{tries[noes[history.crashes]].answer!r}"
                    ),
                    attempts=tuple(each.id for each in tries[noes[0] :]),
                )
            )
    return findings


def tried_more_than(history: History, recipient: str, *, times: int) -> list[Finding]:
    """Tried more often than right."""
    tries = history.tries_for(recipient)
    if len(tries) <= times:
        return []
    return [
        Finding(
            kind="tried again",
            recipient=recipient,
            sentence=f"tried {len(tries)} times, {times} {'is' if times == 1 else 'are'} right",
            attempts=tuple(each.id for each in tries),
        )
    ]


def again_after_acceptance(history: History) -> list[Finding]:
    """Tried again after being told in full that the mail is taken. Each crash may have swallowed one yes."""
    findings = []
    for owed in history.obligations:
        tries = [each for each in history.tries_for(owed.recipient) if not _withdrawn(each)]
        yes = [n for n, each in enumerate(tries) if each.told_yes and _took(each, owed.recipient)]
        enough = owed.copies + history.crashes
        after = tries[yes[enough - 1] + 1 :] if len(yes) >= enough else []
        if after:
            findings.append(
                Finding(
                    kind="tried again",
                    ref=owed.ref,
                    recipient=owed.recipient,
                    sentence=f"tried {_more_times(after)} after the provider had said yes",
                    attempts=tuple(each.id for each in after),
                )
            )
    return findings


def too_early(
    history: History, recipient: str, *, wait_s: float | None = None, tolerance_s: float = 0.1
) -> list[Finding]:
    """Came back before the Retry-After that a refusal named had passed.

    `wait_s` is what each 429 named, where the attempts do not know it themselves.
    """
    findings = []
    tries = history.tries_for(recipient)
    for refused, following in pairwise(tries):
        asked_s = refused.retry_after_s
        if asked_s is None and refused.code == 429:
            asked_s = wait_s
        # What was not said in full need not be heard.
        if asked_s is None or refused.code is None or refused.closed_at is None:
            continue
        gap_s = (following.opened_at - refused.closed_at) / timedelta(seconds=1)
        if gap_s < asked_s - tolerance_s:
            findings.append(
                Finding(
                    kind="too early",
                    recipient=recipient,
                    sentence=f"came back after {gap_s:.2f} s; Retry-After said {asked_s:g} s",
                    attempts=(refused.id, following.id),
                )
            )
    # Killed between hearing it and writing it down, a sender cannot know better.
    return findings[history.crashes :]


def too_often(
    history: History, recipient: str, *, most: int = AT_ONCE, within_s: float = AT_ONCE_S
) -> list[Finding]:
    """Tried more than `most` times within `within_s` seconds: a loop without a pause."""
    tries = history.tries_for(recipient)
    for first, last in zip(tries, tries[most:], strict=False):
        took_s = (last.opened_at - first.opened_at) / timedelta(seconds=1)
        if took_s <= within_s:
            return [
                Finding(
                    kind="too often",
                    recipient=recipient,
                    sentence=f"{most + 1} attempts within {took_s:.2f} s",
                    attempts=tuple(each.id for each in tries),
                )
            ]
    return []


def pressed(history: History) -> list[Finding]:
    """Other mail came to a provider that had asked everybody (429, 503) to wait, and that knows of nobody's death."""
    if history.crashes:
        return []  # whoever was told may have died before telling the others
    findings = []
    for told in history.attempts:
        if not _is_told_to_wait(told):
            continue
        assert told.retry_after_s is not None
        assert told.closed_at is not None
        begin = told.closed_at + timedelta(seconds=ON_THE_WAY_S)
        end = told.closed_at + timedelta(seconds=told.retry_after_s - 0.1)
        others = [
            each
            for each in history.attempts
            if begin < each.opened_at < end
            and each.dialect == told.dialect
            and not any(each.concerns(recipient) for recipient in told.recipients)
        ]
        if others:
            findings.append(
                Finding(
                    kind="pressed",
                    recipient=others[0].recipients[0] if others[0].recipients else "",
                    sentence=f"{len(others)} other attempts within the {told.retry_after_s:g} s that were asked for",
                    attempts=(told.id, *(each.id for each in others)),
                )
            )
    return findings


def flooded(history: History, *, most: int = FLOOD, within_s: float = AT_ONCE_S) -> list[Finding]:
    """A provider that has been down for a while was asked by more than `most` within `within_s` seconds."""
    findings: list[Finding] = []
    row: list[Try] = []
    for each in [*sorted(history.attempts, key=lambda one: one.opened_at), None]:
        if each is not None and _hands_over_nothing(each):
            continue
        if each is not None and _finds_nobody(each):
            row.append(each)
            continue
        late = [one for one in row if one.opened_at > row[0].opened_at + timedelta(seconds=DOWN_S)]
        for first, last in zip(late, late[most:], strict=False):
            if last.opened_at - first.opened_at <= timedelta(seconds=within_s):
                findings.append(
                    Finding(
                        kind="flooded",
                        recipient=first.recipients[0] if first.recipients else "",
                        sentence=f"more than {most} attempts within {within_s:g} s at a provider that is down",
                        attempts=tuple(one.id for one in late),
                    )
                )
                break
        row = []
    return findings


def _finds_nobody(each: Try) -> bool:
    """Tell whether an attempt shows that the service is away (421, 503, no answer at all), not that it has a limit."""
    if each.accepted or each.retry_after_s is not None or _only_a_limit(each):
        return False
    return each.code in (421, 503) or (each.code is None and each.closed_at is not None)


def _hands_over_nothing(each: Try) -> bool:
    """Tell whether somebody only came in at a guarded door: he wanted something else (a look-up), and nothing hindered him."""
    return (
        each.stage == "connect"
        and each.sent == "nothing"
        and each.answer == "normal"
        and not (each.rules or each.recipients or each.key)
    )


def _meets_the_limit(each: Try) -> bool:
    return each.code == 429 and all(rule.startswith("limit: ") for rule in each.rules)


def _only_a_limit(each: Try) -> bool:
    """Tell whether the provider is there and says so, with whatever code it says that it has enough."""
    return bool(each.rules) and all(rule.startswith("limit: ") for rule in each.rules)


def _is_told_to_wait(each: Try) -> bool:
    return each.retry_after_s is not None and each.code in (429, 503) and each.closed_at is not None


def _meets_its_own_key(each: Try) -> bool:
    # No rule said 422, so the provider did: this key was there before, with another body
    # (draft-ietf-httpapi-idempotency-key-header-07, section 2.7).
    return each.code == 422 and not each.rules


def too_fast(history: History) -> list[Finding]:
    """Refused by the provider's own limit, not by a rule of a plan, although the sender was told that limit."""
    refused = [each for each in history.attempts if _meets_the_limit(each)]
    if not refused:
        return []
    return [
        Finding(
            kind="too fast",
            recipient=refused[0].recipients[0] if refused[0].recipients else "",
            sentence=f"{len(refused)} attempts beyond the limit that the sender was told to keep",
            attempts=tuple(each.id for each in refused),
        )
    ]


def late(history: History, recipient: str, *, within_s: float) -> list[Finding]:
    """An urgent mail was not taken within so many seconds of the first attempt at any mail."""
    begin = min((each.opened_at for each in history.attempts), default=None)
    taken = min((each.accepted_at for each in history.copies_for(recipient)), default=None)
    if begin is None or taken is None or taken - begin <= timedelta(seconds=within_s):
        return []
    took_s = (taken - begin) / timedelta(seconds=1)
    sentence = f"taken after {took_s:.1f} s, {within_s:g} s are right for what somebody waits for"
    return [Finding(kind="late", recipient=recipient, sentence=sentence)]


def changed_identity(history: History, recipient: str, *, keyed: bool = False) -> list[Finding]:
    """Message-ID or idempotency key changed between attempts of one mail, or was not there to be compared.

    Over SMTP a Message-ID must be there, over HTTP a key if `keyed`; what is there in one attempt must be there in
    all of that wire. An attempt that broke off before it could name either proves nothing.
    """
    findings = []
    tries = history.tries_for(recipient)
    named = [each for each in tries if _got_to_its_name(each)]
    # A mail may go over to another provider and there by another wire: who knows no keys is shown none.
    by_wire = [[each for each in named if (each.dialect == "smtp") is smtp] for smtp in (True, False)]
    for what, name_of in _NAMES:
        for same in by_wire:
            missing = sum(not name_of(each) for each in same)
            if len(same) < 2 or not missing:
                continue
            smtp = same[0].dialect == "smtp"
            needed = keyed and not smtp if what is _KEY else smtp
            if needed or missing < len(same):
                findings.append(_nameless(what, recipient, missing, same, tries))
        values = [name for each in tries if (name := name_of(each))]
        distinct = tuple(dict.fromkeys(values))
        if len(distinct) > 1:
            sentence = (
                f"{len(distinct)} different {what}s in {len(values)} attempts: {', '.join(distinct[:4])}"
            )
            findings.append(_changed(what, recipient, sentence, distinct, tries))
    return findings


_KEY = "idempotency key"
_NAMES: tuple[tuple[str, Callable[[Try], str | None]], ...] = (
    ("Message-ID", lambda each: each.message_id),
    (_KEY, lambda each: each.key),
)


def _nameless(what: str, recipient: str, missing: int, same: Sequence[Try], tries: Sequence[Try]) -> Finding:
    name_of = dict(_NAMES)[what]
    distinct = tuple(dict.fromkeys(name for each in tries if (name := name_of(each))))
    return _changed(what, recipient, f"no {what} in {missing} of {len(same)} attempts", distinct, same)


def _changed(
    what: str, recipient: str, sentence: str, distinct: tuple[str, ...], tries: Sequence[Try]
) -> Finding:
    return Finding(
        kind="identity changed",
        recipient=recipient,
        sentence=sentence,
        message_ids=() if what is _KEY else distinct,
        keys=distinct if what is _KEY else (),
        attempts=tuple(each.id for each in tries),
    )


def changed_bytes(history: History, recipient: str) -> list[Finding]:
    """A second attempt carried other bytes: seen in two copies, or in a key refused for another body."""
    copies = history.copies_for(recipient)
    sums = {each.sha256 for each in copies}
    findings = []
    if len(sums) > 1:
        findings.append(
            Finding(
                kind="bytes differ",
                recipient=recipient,
                sentence=f"{len(copies)} copies with {len(sums)} different contents",
                copies=len(copies),
                ids=tuple(each.id for each in copies),
            )
        )
    taken: set[str] = set()
    for each in history.tries_for(recipient):
        if _meets_its_own_key(each) and each.key in taken:
            findings.append(
                Finding(
                    kind="bytes differ",
                    recipient=recipient,
                    sentence=f"attempt {each.id} used the idempotency key of a taken mail for another body",
                    keys=(each.key,) if each.key else (),
                    attempts=(each.id,),
                )
            )
        if each.accepted and each.key:
            taken.add(each.key)
    return findings


def parked(history: History) -> list[str]:
    """Return the recipients whose mail waits for a person, visibly: no fault, but to be told."""
    return [each.recipient for each in history.said if each.state in PARKED]


def everywhere(history: History, policy: Policy) -> list[Finding]:
    """Ask what is asked in every scenario, whatever it is about."""
    return [
        *duplicated(history, policy),
        *unlike_copies(history, policy),
        *lost(history),
        *phantom(history),
        *misdirected(history),
        *misreported(history),
        *failed_without_refusal(history),
        *parked_without_owner(history),
    ]


def thoroughly(history: History, policy: Policy) -> list[Finding]:
    """Ask everything that can be asked without knowing what the scenario is about.

    Only for a history that is complete: nothing was left out of it, and the sender forgets no mail on purpose.
    """
    findings = [
        *everywhere(history, policy),
        *again_after_acceptance(history),
        *yes_forgotten(history),
        *unsaid(history),
        *not_quiescent(history),
    ]
    for recipient in dict.fromkeys(owed.recipient for owed in history.obligations):
        findings += changed_identity(history, recipient)
        findings += changed_bytes(history, recipient)
        findings += again_after_refusal(history, [recipient])
        findings += too_early(history, recipient)
        findings += too_often(history, recipient)
    return findings


def never_in_doubt(history: History) -> list[str]:
    """Return the recipients whose mail nobody could be in doubt about, and that was not refused for good.

    Every attempt ended before any of the mail had left, or with an answer in full that says "not now". Where
    somebody was killed, the answer may not have been stored, and only attempts before DATA leave no doubt.
    """
    return [
        owed.recipient
        for owed in history.obligations
        if all(_says_not_now(each, history.crashes > 0) for each in history.tries_for(owed.recipient))
    ]


def refused_for_good(each: Try) -> bool:
    """Tell whether the sender was told in full that this mail will never be taken (SMTP 5yz; HTTP 400, 422).

    What is said of several mails at once is said of none of them.
    """
    if each.accepted or each.is_of_all:
        return False
    if each.answer.startswith("refused: invalid") and each.sent == "complete":
        return True
    code = each.code
    return code is not None and (code in (400, 422) or 550 <= code <= 554)


def perhaps_too_fast(each: Try) -> bool:
    """Tell whether a refusal for good is one that providers use for throttling: to try again is no sin, nor is not to."""
    return each.answer.startswith(("550 5.7.0", "550 5.4.5"))


def ended_by_refusal(history: History, recipient: str) -> bool:
    """Tell whether the provider refused this recipient's mail for good, and said so in full."""
    return recipient.lower() in (each.lower() for each in history.refused) or any(
        refused_for_good(each) for each in history.tries_for(recipient)
    )


def redirected(each: Try) -> bool:
    """Tell whether the sender was sent elsewhere (HTTP 3xx): not taken here, and following it is no duty."""
    code = each.code
    return not each.accepted and code is not None and 300 <= code <= 308


#: SMTP stages before a sender may send the first byte of the mail.
_BEFORE_DATA = frozenset({"connect", "ehlo", "starttls", "auth", "mail", "rcpt"})


def _says_not_now(each: Try, killed: bool) -> bool:
    if each.accepted or refused_for_good(each) or redirected(each):
        return False
    if killed:
        return each.stage in _BEFORE_DATA
    if each.code is None:
        return each.stage in _BEFORE_DATA or each.stage == "data"
    # What an HTTP service says with another 5xx, or with 409, leaves open what it did before.
    return each.code in (401, 429, 503) or 420 <= each.code <= 455


#: Stages at which a mail has told its name: over SMTP once the message is there, over HTTP with the request.
_NAMED_BY = {
    "smtp": frozenset({"message", "reply"}),
    "http": frozenset({"request", "validate", "accept", "reply", "body"}),
}


def _got_to_its_name(each: Try) -> bool:
    if each.dialect:
        return each.stage in _NAMED_BY["smtp" if each.dialect == "smtp" else "http"]
    return any(each.stage in stages for stages in _NAMED_BY.values())


#: All that a judge asks about a single attempt besides its times, its names, and whether it was taken and told so.
QUESTIONS: tuple[Callable[[Try], bool], ...] = (
    refused_for_good,
    redirected,
    perhaps_too_fast,
    lambda each: _says_not_now(each, killed=False),
    lambda each: _says_not_now(each, killed=True),
    _got_to_its_name,
    _finds_nobody,
    _hands_over_nothing,
    _meets_the_limit,
    _only_a_limit,
    _is_told_to_wait,
    _meets_its_own_key,
    lambda each: _withdrawn(each),
)


def _more_times(tries: list[Try]) -> str:
    return f"{len(tries)} more time{'s' if len(tries) > 1 else ''}"


def _named_instead(history: History, recipient: str) -> str:
    """Say whom the status speaks of, if not of this recipient: the mistake is often in how it writes addresses."""
    if not history.knows_states or history.state_of(recipient) is not None:
        return ""
    others = list(dict.fromkeys(each.recipient for each in history.said))
    shown = ", ".join(map(repr, others[:3])) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return f"; the status names {shown or 'nobody'}"


def _withdrawn(each: Try) -> bool:
    # A worker that was stopped and continued finds out between 354 and the first byte that the mail is no longer
    # its own, and hangs up: nothing of the mail has left.
    return each.stage == "data" and each.sent == "nothing" and not (each.accepted or each.rules)


def _took(each: Try, recipient: str) -> bool:
    # A replayed yes books nothing, and is a yes all the same.
    return not each.accepted or recipient.lower() in (taken.lower() for taken in each.accepted)


def _about(kind: str, finding: judging.Finding, sentence: str) -> Finding:
    return Finding(
        kind=kind,
        ref=finding.ref,
        recipient=finding.recipient,
        sentence=sentence,
        copies=len(finding.acceptances),
        ids=tuple(each.id for each in finding.acceptances),
        message_ids=_texts(each.message_id for each in finding.acceptances),
        keys=_texts(each.key for each in finding.acceptances),
        attempts=tuple(each.attempt for each in finding.acceptances),
    )


def _texts(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


Check = Callable[[History], list[Finding]]
