"""What is allowed in a plan, but hardly meant: rules that can never strike or contradict themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from simulator.config.place import shown
from simulator.config.sentences import nth
from simulator.provider.faults import DecideFate, RefuseRecipients, SlowDown, TellBeforeTheAnswer
from simulator.provider.faults.web import OddBody, Redirect
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup
from simulator.provider.rule import Pattern, Rule, When, Who

#: Where nobody has said yet which account it is: the plan of the account `default` is asked.
_UNNAMED = frozenset(
    {("smtp", "connect"), ("smtp", "ehlo"), ("smtp", "starttls"), ("http", "tls"), ("http", "connect")}
)


def warnings(setup: Setup, *, account: str = DEFAULT_ACCOUNT) -> list[str]:
    """Return sentences about rules of an account's plan that can never strike or contradict themselves."""
    rules = setup.plan.rules
    found: list[str] = []
    for number, rule in enumerate(rules, 1):
        said = f"rule {number} ({shown(rule.name)})"
        found += [f"{said} {says}" for says in _never(rule)]
        found += [f"{said} {says}" for says in _odd(rule)]
        if rule.stages <= _out_of_reach(setup):
            found.append(f"{said} can never strike: [smtp] lets nobody come to that stage")
        if account != DEFAULT_ACCOUNT and rule.stages <= _UNNAMED:
            found.append(
                f"{said} can never strike: there no sender has named itself, and the plan of the account "
                f"{shown(DEFAULT_ACCOUNT)} is asked"
            )
        if any(other.name == rule.name for other in rules[: number - 1]):
            found.append(f"{said} has the name of an earlier rule; the decision log cannot tell them apart")
        if shadows := _shadows(rule, rules[: number - 1]):
            decide = "decides" if len(shadows) == 1 else "decide"
            found.append(
                f"{said} can never strike: {' and '.join(map(shown, shadows))} always {decide} before it"
            )
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
    return says


def _out_of_reach(setup: Setup) -> set[tuple[str, str]]:
    """Return the stages that nobody comes to, because of what this provider does not offer."""
    places: set[tuple[str, str]] = set()
    if not setup.smtp.ehlo:
        places |= {("smtp", "starttls"), ("smtp", "auth")}
    if not setup.smtp.auth:
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


def _shadows(rule: Rule, earlier: Sequence[Rule]) -> list[str]:
    """Return the earlier rules that leave nothing to this one, if they do so at all its stages."""
    found: dict[str, None] = {}
    for place in rule.stages:
        name = next(
            (other.name for other in earlier if place in other.stages and _always_before(other, rule)), None
        )
        if name is None:
            return []
        found[name] = None
    return [other.name for other in earlier if other.name in found]


def _always_before(other: Rule, rule: Rule) -> bool:
    """Tell whether `other` decides whatever `rule` could."""
    lets_others_decide = (
        isinstance(other.fault, (SlowDown, RefuseRecipients, TellBeforeTheAnswer))
        or "webhook" in other.fault.stages
    ) or (
        # Of two fates of one recipient the first counts.
        isinstance(other.fault, DecideFate) and not isinstance(rule.fault, DecideFate)
    )
    return not lets_others_decide and _means_all(other.who, rule.who) and _strikes_all(other.when, rule.when)


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


def _strikes_all(wide: When, narrow: When) -> bool:
    """Tell whether `wide` strikes every time, as long as `narrow` can strike at all."""
    if replace(wide, from_s=None, until_s=None, probability=None) != When(every=wide.every):
        return False
    if wide.probability not in (None, 1.0) or wide.every not in (None, 1):
        return False
    begins = (wide.from_s or 0.0) <= (narrow.from_s or 0.0)
    ends = wide.until_s is None or (narrow.until_s is not None and narrow.until_s <= wide.until_s)
    return begins and ends
