"""What is allowed in a plan, but hardly meant: rules that can never strike or contradict themselves."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.config.place import shown
from simulator.config.sentences import nth
from simulator.provider.faults import DecideFate, RefuseRecipients, SlowDown, TellBeforeTheAnswer
from simulator.provider.plan import Rule, When, Who
from simulator.provider.provider import Setup


def warnings(setup: Setup) -> list[str]:
    """Return sentences about rules that can never strike or contradict themselves."""
    rules = setup.plan.rules
    found: list[str] = []
    for number, rule in enumerate(rules, 1):
        said = f"rule {number} ({shown(rule.name)})"
        found += [f"{said} {says}" for says in _never(rule)]
        found += [f"{said} {says}" for says in _odd(rule)]
        if any(other.name == rule.name for other in rules[: number - 1]):
            found.append(f"{said} has the name of an earlier rule; the decision log cannot tell them apart")
        if shadow := _shadow(rule, rules[: number - 1]):
            found.append(f"{said} can never strike: {shown(shadow)} always decides before it")
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


def _odd(rule: Rule) -> list[str]:
    says = []
    enhanced: str | None = getattr(rule.fault, "enhanced", None)
    code: int | None = getattr(rule.fault, "code", None)
    if enhanced is not None and code is not None and enhanced[0] != str(code)[0]:
        says.append(f"says {code} and {enhanced}, which contradict each other")
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


def _shadow(rule: Rule, earlier: Sequence[Rule]) -> str | None:
    """Return the earlier rule that leaves nothing to this one, if a single one does at all its stages."""
    for other in earlier:
        lets_others_decide = (
            isinstance(other.fault, (SlowDown, RefuseRecipients, TellBeforeTheAnswer))
            or "webhook" in other.fault.stages
        ) or (
            # Of two fates of one recipient the first counts.
            isinstance(other.fault, DecideFate) and not isinstance(rule.fault, DecideFate)
        )
        if lets_others_decide or not rule.stages <= other.stages:
            continue
        if other.who in (Who(), rule.who) and other.when == When():
            return other.name
    return None
