"""Plans that come along are found by name, each does what it says, and a name that is none is helped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from simulator.config import PlanError, explain, read_plan, read_plan_file, shipped_plans
from simulator.config.place import Place
from simulator.config.shipped import load_named, load_shipped
from simulator.provider.answer import Answer, spoken
from simulator.provider.fate import Fate
from simulator.provider.faults import BEFORE_THE_MAIL
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.provider import Detail, Provider
from tests.simulator.provider.mails import ANN, BOB, NOW, after, booked, mail, provider

PROMISED = {
    "greylist",
    "outage-4-minutes",
    "flaky-1-percent",
    "lost-answers",
    "slow-then-dead",
    "throttled",
    "black-hole",
    "chaos",
}


def test_what_was_promised_comes_along_with_a_sentence_each() -> None:
    known = shipped_plans()

    assert set(known) >= PROMISED
    for says in known.values():
        assert len(says) > 20
        assert says.endswith(".")


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_each_of_them_does_something(name: str) -> None:
    setup = read_plan_file(name)

    assert setup.plan.rules or setup.throughput or setup.greylist
    assert all(explain(rule) for rule in setup.plan.rules)


def test_a_name_that_is_none_is_helped() -> None:
    with pytest.raises(PlanError, match='there is no plan "caos" that comes along; did you mean "chaos"'):
        load_shipped("caos", Place("p"))
    with pytest.raises(PlanError, match='neither a file nor one that comes along; did you mean "chaos"'):
        load_named("caos")
    with pytest.raises(PlanError, match="there is no such file"):
        load_named("./caos")


def test_a_file_is_read_by_its_path_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "chaos"
    path.write_text("seed = 77\n")

    assert load_named(path) == ({"seed": 77}, str(path))


def test_a_plan_may_take_along_others() -> None:
    """Its own rules come first, then theirs; what it says itself about anything else counts."""
    read = read_plan(
        {
            "plan": ["throttled", "greylist", "lost-answers"],
            "rules": ["hang"],
            "rule": [{"fault": "reset"}],
            "limits": {"burst": 3},
        },
        "p",
    )

    assert [rule.name for rule in read.plan.rules] == ["hang", "rule 2", "lose answers first 1 per mail"]
    assert read.greylist is not None
    assert (read.limits.burst, read.limits.rate_per_s) == (3, None)
    assert [limit.name for limit in read.limit] == ["domain"]
    assert read_plan({"plan": "chaos"}, "p") == read_plan_file("chaos")


# --- what each of them does ---------------------------------------------------------------------------

STAGES = {
    "smtp": ("connect", "ehlo", "mail", "rcpt", "data", "body", "message"),
    "native": ("connect", "upload", "request", "validate", "accept"),
}


def hand_in(
    it: Provider, dialect: str, at_s: float = 0, *, to: str = BOB, key: str | None = None
) -> tuple[str, Attempt]:
    """Let a mail come, from the door on; return what was said first that is no going on (or `accepted`)."""
    now = after(at_s)
    submission = mail(to, dialect=dialect, key=key, subject=f"Hello {to}")
    attempt = it.open(dialect, "192.0.2.1:1", now)
    known = Detail(
        sender=submission.sender,
        recipients=submission.recipients,
        key=key,
        message_id=submission.message_id,
        fingerprint=submission.fingerprint,
    )
    answer: Answer | None = None
    for stage in STAGES[dialect]:
        detail = Detail(recipient=to) if stage == "rcpt" else known
        answer = it.step(attempt, stage, Detail() if stage in BEFORE_THE_MAIL else detail, now)
        if answer is not None:
            break
    else:
        answer = it.submit(attempt, submission, now).answer
    it.told(attempt, Sent.COMPLETE, now)
    it.close(attempt, now)
    it.gone(attempt.connection)
    return spoken(answer), attempt


def shipped(name: str) -> Provider:
    return provider(read_plan_file(name))


def struck_by(name: str, many: int) -> Counter[str]:
    """Return how often each rule of a plan struck among so many mails on each wire."""
    it = shipped(name)
    return Counter(
        rule
        for number in range(many)
        for dialect in STAGES
        for rule in hand_in(it, dialect, number, to=f"{number}@{dialect}.example")[1].rules
    )


def test_greylist_puts_off_who_is_new_for_a_minute() -> None:
    it = shipped("greylist")

    assert [hand_in(it, "smtp", at_s)[0] for at_s in (0, 59, 60)] == ["refused: greylisted"] * 2 + [
        "accepted"
    ]
    assert hand_in(it, "native")[0] == "accepted"


def test_an_outage_lasts_four_minutes() -> None:
    it = shipped("outage-4-minutes")

    assert [hand_in(it, "smtp", at_s)[0] for at_s in (0, 239, 240)] == ["421", "421", "accepted"]
    assert [hand_in(it, "native", at_s)[0] for at_s in (0, 239, 240)] == ["503", "503", "accepted"]


def test_of_lost_answers_it_is_the_first_of_each_mail() -> None:
    """It was taken; sent again over SMTP it is there twice, with its key over HTTP once."""
    it = shipped("lost-answers")

    for to in (ANN, BOB):
        assert [hand_in(it, "smtp", to=to)[0] for _ in range(2)] == ["hang up", "accepted"]
    assert booked(it) == 4
    told = [hand_in(it, "native", to="eve@example.org", key="k")[0] for _ in range(2)]
    assert told == ["hang up", "accepted (replayed)"]
    assert booked(it) == 5


@pytest.mark.parametrize("dialect", STAGES)
def test_slow_then_dead_is_slow_then_slower_and_then_dead(dialect: str) -> None:
    it = shipped("slow-then-dead")

    said = [hand_in(it, dialect, at_s)[0] for at_s in (0, 59, 60, 119, 120, 86_400)]

    assert said == ["slow 2s, then normal"] * 2 + ["slow 10s, then normal"] * 2 + ["hang"] * 2


@pytest.mark.parametrize("dialect", STAGES)
def test_throttled_has_each_of_its_limits(dialect: str) -> None:
    """By account and by domain, by the hour, and at the door; who waits is let in again."""
    it = shipped("throttled")

    def take(many: int, at_s: float, domain: str | None = None) -> list[str]:
        recipients = [f"a@{domain or f'{at_s:g}-{number}.example'}" for number in range(many)]
        return [hand_in(it, dialect, at_s, to=to)[0] for to in recipients]

    assert take(6, 0, "one.example") == ["accepted"] * 5 + ["refused: rate_limited"]
    assert take(6, 0) == ["accepted"] * 5 + ["refused: rate_limited"]
    assert take(3, 1) == ["accepted"] * 2 + ["refused: rate_limited"]
    taken = 12
    while taken < 500:
        taken += 1
        assert take(1, taken) == ["accepted"]
    assert taken < 3_600
    assert take(1, taken + 1) == ["refused: quota_exceeded"]
    assert take(1, 3_600) == ["accepted"]

    # Over HTTP a request counts as soon as somebody has named himself.
    door = "connect" if dialect == "smtp" else "request"
    doors = [spoken(it.step(it.open(dialect, "p", NOW), door, Detail(), NOW)) for _ in range(5)]
    assert doors == ["normal"] * 4 + ["refused: too_many_connections"]


@pytest.mark.parametrize("dialect", STAGES)
def test_a_black_hole_says_yes_and_delivers_nothing(dialect: str) -> None:
    it = shipped("black-hole")

    assert hand_in(it, dialect)[0] == "accepted"
    (one,) = it.account("default", NOW).ledger.acceptances
    assert one.fate is Fate.DROPPED


@pytest.mark.parametrize("name", ["flaky-1-percent", "chaos"])
def test_of_many_mails_each_rule_strikes_its_share(name: str) -> None:
    """All of them, about as often as they say, and with the plan's own seed the same again."""
    many = 1_000
    rules = read_plan_file(name).plan.rules
    struck = struck_by(name, many)

    assert set(struck) == {rule.name for rule in rules}
    for rule in rules:
        assert rule.when.probability is not None
        wires = len({wire for wire, _ in rule.stages})
        share = struck[rule.name] / (many * wires)
        assert 0.2 * rule.when.probability < share < 2.5 * rule.when.probability, rule.name
    assert struck_by(name, 100) == struck_by(name, 100)
