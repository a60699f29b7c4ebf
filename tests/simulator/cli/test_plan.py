"""`simulator plan`: what comes along, what a plan does, and changing one while the simulator runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulator.cli import cli, run
from simulator.config import shipped_plans
from tests.simulator.running import Running, ask, mail, request, running


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def url(simulator: Running) -> tuple[str, str]:
    return "--url", str(simulator.service.ready["http"])


def test_every_plan_that_comes_along_is_listed_with_what_it_does() -> None:
    listed = invoke("list").output

    for name, says in shipped_plans().items():
        assert any(line.split(maxsplit=1) == [name, says] for line in listed.splitlines())


@pytest.mark.parametrize("name", shipped_plans())
def test_every_plan_that_comes_along_is_a_good_one(name: str) -> None:
    checked = invoke("check", name)

    assert checked.exit_code == 0
    assert "mind:" not in checked.output
    assert checked.output.splitlines()[-1].startswith(f"{name} is a good plan: ")


def test_the_plans_of_accounts_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('rules = ["hang"]\n[accounts.shop]\nrules = ["503 first 0"]\n')
    checked = CliRunner().invoke(cli, ["plan", "check", str(path)])

    assert checked.stdout.splitlines() == [
        'hang: at SMTP "message" and HTTP "accept", every time, hang.',
        "account shop:",
        '503 first 0: at HTTP "accept", on the first 0 occasions, answer 503.',
        f"{path} is a good plan: 1 rule, seed 0",
    ]
    assert checked.stderr == 'mind: rule 1 ("503 first 0") can never strike: first = 0\n'


def test_a_plan_is_changed_while_the_simulator_runs(simulator: Running) -> None:
    """Named, appended to in one line, shown with what each rule did, and taken away again."""
    where = url(simulator)
    assert invoke("set", "lost-answers", *where).output.splitlines() == [
        "in force for account default: 1 rule",
        *(line.replace(". Met 0, struck 0.", ".") for line in invoke("show", *where).output.splitlines()),
    ]
    added = invoke("add", "503 first 1", "429 retry-after 3", *where).output.splitlines()
    assert added[1] == '503 first 1: at HTTP "accept", on the first occasion, answer 503. Met 0, struck 0.'
    assert len(added) == 3
    assert ask(simulator, request(mail())).status == 503
    assert ask(simulator, request(mail())).status == 429

    shown = invoke("show", *where).output.splitlines()
    assert shown[1].endswith("Met 2, struck 1, and is over.")
    assert shown[2].endswith("Met 1, struck 1.")
    as_json = json.loads(invoke("show", "--json", *where).output)
    assert [rule["over"] for rule in as_json["rules"]] == [False, True, False]
    invoke("clear", *where)
    assert invoke("show", *where).output == "no faults: every mail is taken\n"


def test_a_recording_is_shown_with_how_far_it_is(simulator: Running, tmp_path: Path) -> None:
    """While it is struck again nobody says that nothing goes wrong, with further rules or without."""
    where = url(simulator)
    with simulator.control() as control:
        control.reset()
        control.set_plan({"rules": ["503 once"]})
        assert ask(simulator, request(mail())).status == 503
        recording = tmp_path / "run.json"
        recording.write_text(json.dumps(control.replay()))
        control.reset()
    says = "replay: {} of 1 decision of a former run struck again"

    magic = "[magic]: on = false."
    said = invoke("set", str(recording), *where).output.splitlines()
    assert said == ["in force for account default: 0 rules, 1 setting", magic, says.format(0)]
    assert ask(simulator, request(mail())).status == 503
    assert invoke("show", *where).output.splitlines() == [magic, says.format(1)]
    assert invoke("add", "429 once", *where).output.splitlines()[1:] == [magic, says.format(1)]
    invoke("clear", "--all", *where)
    assert invoke("show", *where).output == "no faults: every mail is taken\n"


def test_settings_are_said_when_they_are_set_shown_and_left(simulator: Running, tmp_path: Path) -> None:
    """A plan without rules is not nothing; clearing says what stays, and how that goes away."""
    where = (*url(simulator), "--account", "settings")
    hides = '[smtp]: hide = ["STARTTLS"].'
    plan = tmp_path / "plan.toml"
    plan.write_text('[smtp]\nhide = ["STARTTLS"]\n')

    assert invoke("check", str(plan)).output.splitlines() == [
        hides,
        f"{plan} is a good plan: 0 rules, 1 setting, seed 0",
    ]
    assert invoke("set", str(plan), *where).output.splitlines() == [
        "in force for account settings: 0 rules, 1 setting",
        hides,
    ]
    assert invoke("show", *where).output.splitlines() == ["no rules strike", hides]
    invoke("add", "503", *where)
    assert invoke("clear", *where).output.splitlines() == [
        "account settings has no rules any more; its settings stay (simulator plan clear --all takes them away, too):",
        hides,
    ]
    assert invoke("clear", "--all", *where).output == "account settings has no faults any more\n"
    assert invoke("show", *where).output == "no faults: every mail is taken\n"


def test_an_account_goes_back_to_the_plan_it_began_with() -> None:
    """Rules and settings of `serve --plan`, their counts begin anew; what was sent stays."""
    with running({"rules": ["503 once"], "limits": {"max_recipients": 5}}) as service:
        where = url(service)
        assert ask(service, request(mail())).status == 503
        assert ask(service, request(mail())).status == 200
        invoke("clear", "--all", *where)
        invoke("add", "429", *where)

        assert invoke("reset", *where).output.splitlines() == [
            "in force for account default: 1 rule, 1 setting, as at the start",
            '503 once: at HTTP "accept", once, answer 503.',
            "[limits]: max_recipients = 5.",
        ]
        assert ask(service, request(mail())).status == 503
        with service.control() as control:
            assert len(control.messages()) == 1


def test_what_can_never_strike_is_said_when_it_is_set(simulator: Running) -> None:
    where = url(simulator)
    for arguments in (("add", "421 at connect"), ("show",)):
        result = invoke(*arguments, *where, "--account", "shop")
        assert "can never strike: there no sender has named itself" in result.stderr
    invoke("clear", *where, "--account", "shop")


def test_a_line_that_is_not_understood_is_pointed_at(
    simulator: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke("add", "503 first 2", *url(simulator), "--account", "shop")
    for more, where in ((), ""), (("hang",), "rule 2: "):
        assert run(["plan", "add", *more, "503 frist 2", *url(simulator), "--account", "shop"]) == 2
        said = capsys.readouterr().err
        assert said == (
            f'simulator: POST plan: {where}"frist" (word 2 of "503 frist 2") is not understood;'
            ' did you mean "first"?\n'
        )
    invoke("clear", *url(simulator), "--account", "shop")


def test_adding_nothing_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "add"]) == 2
    assert "Missing argument" in capsys.readouterr().err
