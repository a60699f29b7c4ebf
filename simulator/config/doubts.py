"""What is allowed in a plan, but hardly meant: rules that can never strike or contradict themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from math import inf
from operator import itemgetter

from simulator.config.place import did_you_mean, shown
from simulator.config.sentences import nth
from simulator.dialects.address import can_receive, can_send, is_address, leaves_room
from simulator.provider.fate import Happening
from simulator.provider.faults import (
    WEBHOOK_STAGES,
    DecideFate,
    RefuseRecipients,
    SlowDown,
    TellBeforeTheAnswer,
)
from simulator.provider.faults.web import OddBody, Redirect
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup
from simulator.provider.rule import Pattern, Rule, When, Who
from simulator.provider.webhooks import WebhookRules

#: Where nobody has said yet which account it is: the plan of the account `default` is asked.
_UNNAMED = frozenset(
    {("smtp", "connect"), ("smtp", "ehlo"), ("smtp", "starttls"), ("http", "tls"), ("http", "connect")}
)
_AT_WEBHOOKS = frozenset(("webhook", stage) for stage in WEBHOOK_STAGES)
#: Rules that always decide, for everybody or for one recipient: where there are more nobody looks at the others, for
#: each rule is compared with each of them while the whole provider waits.
_MOST_DECIDING = 100
_ADDRESS = 'one looks like "ada@example.com"'


def warnings(setup: Setup, *, account: str = DEFAULT_ACCOUNT) -> list[str]:
    """Return sentences about rules of an account's plan that can never strike or contradict themselves."""
    found: list[str] = []
    names: set[str] = set()
    earlier = _Deciding()
    for number, rule in enumerate(setup.plan.rules, 1):
        said = f"rule {number} ({shown(rule.name)})"
        found += [f"{said} {says}" for says in _never(rule)]
        found += [f"{said} {says}" for says in _odd(rule)]
        if left_out := _left_out(rule, setup.webhooks):
            found.append(f'{said} can never strike: "events" of [webhooks] leaves {left_out} out')
        if rule.stages <= _out_of_reach(setup):
            found.append(f"{said} can never strike: [smtp] lets nobody come to that stage")
        if account != DEFAULT_ACCOUNT and rule.stages <= _UNNAMED:
            found.append(
                f"{said} can never strike: there no sender has named itself, and the plan of the account "
                f"{shown(DEFAULT_ACCOUNT)} is asked"
            )
        if rule.name in names:
            found.append(f"{said} has the name of an earlier rule; the decision log cannot tell them apart")
        names.add(rule.name)
        if shadows := _shadows(rule, earlier.before(rule)):
            decide = "decides" if len(shadows) == 1 else "decide"
            found.append(
                f"{said} can never strike: {' and '.join(map(shown, shadows))} always {decide} before it"
            )
        else:
            # What never strikes decides nothing that others have not decided before it.
            earlier.add(rule)
    return found


def _never(rule: Rule) -> list[str]:
    when, says = rule.when, []
    if when.first == 0:
        says.append("can never strike: first = 0")
    if when.times == 0:
        says.append("can never strike: times = 0")
    if when.probability == 0:
        says.append("can never strike: probability = 0")
    if when.until_s is not None and when.until_s <= (when.from_s or 0.0):
        says.append("can never strike: its time window is empty")
    if when.first and when.every and when.every > when.first:
        says.append(f"can never strike: the {nth(when.every)} occasion is not among the first {when.first}")
    return says + [f"can never strike: {each}" for each in _nobody(rule)]


def _nobody(rule: Rule) -> Iterator[str]:
    """Yield what is wrong with patterns that nobody and nothing can be called."""
    event = rule.who.event
    if event is not None and not any(event.matches(each) for each in Happening):
        yield f"there is no event {shown(event.text)}; {did_you_mean(event.text, tuple(Happening))}"
    if rule.stages <= _AT_WEBHOOKS:
        return  # Events that are pushed by hand may be about anybody.
    for name, can in (("sender", can_send), ("recipient", can_receive)):
        pattern: Pattern | None = getattr(rule.who, name)
        if pattern is None or pattern.is_regex:
            continue
        if not _is_exact(pattern):
            if not leaves_room(pattern.text, can):
                yield f'"{name}" is {shown(pattern.text)}, which no address is like; {_ADDRESS}'
        elif not can(pattern.text):
            yield f'"{name}" is {shown(pattern.text)}, which is no address; {_meant(pattern.text)}'


def _meant(text: str) -> str:
    """Say what somebody may have meant by what is no address: half of one, or anything."""
    local_part, domain = text.rstrip("@"), text.lstrip("@")
    if text.count("@") <= 1 and is_address(f"{local_part}@x"):
        return f"{shown(f'{local_part}@*')} is {local_part} anywhere"
    if text.count("@") == 1 and is_address(f"x@{domain}"):
        return f"{shown(f'*@{domain}')} is everybody there"
    return _ADDRESS


def _left_out(rule: Rule, webhooks: WebhookRules) -> str | None:
    """Name the events that a rule is about, if none of them is told to anybody."""
    event = rule.who.event
    about = [each for each in Happening if event is None or event.matches(each)]
    if not rule.stages <= _AT_WEBHOOKS or not about or any(webhooks.wants(each) for each in about):
        return None
    return "every event" if event is None else shown(event.text)


def _out_of_reach(setup: Setup) -> set[tuple[str, str]]:
    """Return the stages that nobody comes to, because of what this provider does not offer."""
    places: set[tuple[str, str]] = set()
    if not setup.smtp.ehlo:
        places |= {("smtp", "starttls"), ("smtp", "auth")}
    if not setup.smtp.offers("AUTH"):
        places.add(("smtp", "auth"))
    return places


def _odd(rule: Rule) -> list[str]:
    says = []
    enhanced: str | None = getattr(rule.fault, "enhanced", None)
    code: int | None = getattr(rule.fault, "code", None)
    if enhanced is not None and code is not None and enhanced[0] != str(code)[0]:
        says.append(f"says {code} and {enhanced}, which contradict each other")
    if isinstance(rule.fault, Redirect) and rule.fault.code // 100 != 3:
        says.append(f"redirects with {rule.fault.code}, which is no redirect")
    if isinstance(rule.fault, OddBody) and rule.fault.code // 100 != 2:
        says.append(f"says {rule.fault.code}, which is no success, with an odd body")
    wires = {wire for wire, _ in rule.stages}
    if wires == {"smtp"} and getattr(rule.fault, "body", None) is not None:
        says.append('gives a "body", which has no place on SMTP')
    if wires == {"http"} and enhanced is not None and rule.fault.name == "reply":
        says.append('gives an "enhanced" code, which has no place on HTTP')
    if len(wires) == 2 and ("smtp", "body") in rule.stages:
        says.append(
            'strikes before booking on SMTP and after it on HTTP: "body" means two things; add "dialect"'
        )
    return says


class _Deciding:
    """The rules so far that always decide: those about one recipient by that recipient, so that many cost little."""

    def __init__(self) -> None:
        self._about_one: dict[str, list[tuple[int, Rule]]] = {}
        self._about_many: list[tuple[int, Rule]] = []
        self._count = 0

    def add(self, rule: Rule) -> None:
        if not _strikes_always(rule.when):
            return
        one = _one_recipient(rule.who)
        there = self._about_many if one is None else self._about_one.setdefault(one, [])
        if len(there) < _MOST_DECIDING:
            there.append((self._count, rule))
            self._count += 1

    def before(self, rule: Rule) -> list[Rule]:
        """Return those that decide whatever `rule` could, in their time, in their order."""
        one = _one_recipient(rule.who)
        there = self._about_many + ([] if one is None else self._about_one.get(one, []))
        return [other for _, other in sorted(there, key=itemgetter(0)) if _decides_before(other, rule)]


def _one_recipient(who: Who) -> str | None:
    pattern = who.recipient
    return None if pattern is None or not _is_exact(pattern) else pattern.text.lower()


def _shadows(rule: Rule, earlier: Sequence[Rule]) -> list[str]:
    """Return the earlier rules that leave nothing to this one, if they do so at all its stages."""
    found: set[str] = set()
    for place in rule.stages:
        names = _relay([other for other in earlier if place in other.stages], rule.when)
        if not names:
            return []
        found |= names
    return [name for name in dict.fromkeys(other.name for other in earlier) if name in found]


def _relay(others: Sequence[Rule], when: When) -> set[str]:
    """Return the rules that follow each other without a gap, from the first moment of this time to its last; or none."""
    names: set[str] = set()
    reached, last = when.from_s or 0.0, _end(when)
    while reached < last:
        there = [each for each in others if (each.when.from_s or 0.0) <= reached < _end(each.when)]
        if not there:
            return set()
        # The first that is there to the last decides alone; else whoever is there for longest.
        relay = next((each for each in there if _end(each.when) >= last), None)
        relay = relay or max(there, key=lambda each: _end(each.when))
        names.add(relay.name)
        reached = _end(relay.when)
    return names


def _end(when: When) -> float:
    return inf if when.until_s is None else when.until_s


def _decides_before(other: Rule, rule: Rule) -> bool:
    """Tell whether `other`, which always strikes in its time, decides whatever `rule` could."""
    lets_others_decide = (
        isinstance(other.fault, (SlowDown, RefuseRecipients, TellBeforeTheAnswer))
        or "webhook" in other.fault.stages
    ) or (
        # Of two fates of one recipient the first counts.
        isinstance(other.fault, DecideFate) and not isinstance(rule.fault, DecideFate)
    )
    return not lets_others_decide and _means_all(other.who, rule.who)


def _means_all(wide: Who, narrow: Who) -> bool:
    """Tell whether whoever is meant by `narrow` is meant by `wide`, too."""
    for field in fields(Who):
        mine, theirs = getattr(wide, field.name), getattr(narrow, field.name)
        if mine in (None, ()) or mine == theirs:
            continue
        if not isinstance(mine, Pattern) or not isinstance(theirs, Pattern):
            return False
        if mine.text != "*" and not (_is_exact(theirs) and mine.matches(theirs.text)):
            return False
    return True


def _is_exact(pattern: Pattern) -> bool:
    return not pattern.is_regex and not set("*?") & set(pattern.text)


def _strikes_always(when: When) -> bool:
    """Tell whether a rule strikes at every occasion of its time."""
    if replace(when, from_s=None, until_s=None, probability=None) != When(every=when.every):
        return False
    return when.probability in (None, 1.0) and when.every in (None, 1)
