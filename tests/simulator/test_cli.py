"""The command line: what people read, what scripts get, and one sentence for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulator import __version__
from simulator.cli import cli, main, run
from simulator.provider.retention import Retention
from tests.simulator.running import Running, ask, mail, request, running

GOOD_PLAN = """
seed = 3
[[rule]]
name = "first answers get lost"
fault = "accept_then_hang_up"
first = 2
[limits]
max_recipients = 5
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture(autouse=True)
def _clean(simulator: Running) -> None:
    with simulator.control() as control:
        control.reset()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(GOOD_PLAN)
    return path


def url(simulator: Running) -> tuple[str, str]:
    return "--url", str(simulator.service.ready["http"])


# --- help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "",
        "serve",
        "certify",
        "plan",
        "plan check",
        "plan show",
        "plan set",
        "plan clear",
        "clock",
        "ledger",
        "verdict",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    """`--help` is exit code 0."""
    result = invoke(*command.split(), "--help")

    assert result.exit_code == 0
    assert result.output.startswith("Usage:")


def test_help_does_not_wait_for_a_web_server() -> None:
    """What a command needs is imported by that command."""
    code = (
        "import sys; from simulator.cli import run; run(['--help']);"
        "heavy = {'uvicorn', 'starlette', 'httpx', 'aiosmtpd', 'rich', 'asyncio'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_told() -> None:
    """As one line."""
    assert invoke("--version").output == f"simulator, version {__version__}\n"


# --- plans ------------------------------------------------------------------------------------------


def test_a_good_plan_is_explained(plan: Path) -> None:
    """In plain words, one line a rule."""
    result = invoke("plan", "check", str(plan))

    assert result.exit_code == 0
    assert "first answers get lost: at SMTP" in result.output
    assert f"{plan} is a good plan: 1 rule, 1 setting, seed 3" in result.output


def test_a_plan_is_set_shown_and_cleared(simulator: Running, plan: Path) -> None:
    """The file's rules, limits and seed are in force until they are cleared."""
    (said, _, limits) = invoke("plan", "set", str(plan), *url(simulator)).output.splitlines()
    assert (said, limits) == (
        "in force for account default: 1 rule, 1 setting",
        "[limits]: max_recipients = 5.",
    )
    ask(simulator, request(mail()))

    assert "Met 1, struck 1." in invoke("plan", "show", *url(simulator)).output
    shown = json.loads(invoke("plan", "show", "--json", *url(simulator)).output)
    assert (shown["seed"], shown["limits"]["max_recipients"]) == (3, 5)

    assert invoke("plan", "clear", *url(simulator)).exit_code == 0
    assert invoke("plan", "show", *url(simulator)).output.splitlines() == ["no rules strike", limits]
    invoke("plan", "clear", "--all", *url(simulator))
    assert invoke("plan", "show", *url(simulator)).output == "no faults: every mail is taken\n"
    with simulator.control() as control:
        assert control.plan()["limits"]["max_recipients"] == 1000


# --- ledger and verdict -----------------------------------------------------------------------------


def test_the_ledger_is_listed(simulator: Running) -> None:
    """For people as a table, for scripts as JSON."""
    assert invoke("ledger", *url(simulator)).output == "account default has accepted nothing yet\n"
    ask(simulator, request(mail(subject="[bold]Brackets[/bold]"), key="order-1"))

    for_people = invoke("ledger", *url(simulator)).output
    for_scripts = json.loads(invoke("ledger", "--json", *url(simulator)).output)

    assert "order-1" in for_people
    assert "[bold]" in for_people
    assert [each["key"] for each in for_scripts["messages"]] == ["order-1"]


def test_what_a_terminal_would_obey_is_not_shown_to_it(simulator: Running) -> None:
    """A subject is what a stranger wrote; scripts get it as it is."""
    ask(simulator, request(mail(subject="a\x1b[31mred\x9b2J")))

    for_people = invoke("ledger", *url(simulator)).output
    (message,) = json.loads(invoke("ledger", "--json", *url(simulator)).output)["messages"]

    assert "a\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}2J" in for_people
    assert message["subject"] == "a\x1b[31mred\x9b2J"


def test_a_verdict_is_an_exit_code(simulator: Running) -> None:
    """0: every promise was kept. 1: one was not, or it cannot be said (yet)."""
    with simulator.control() as control:
        nothing = invoke("verdict", *url(simulator))
        assert (nothing.exit_code, nothing.output) == (1, "undecided: 0 of 0 obligations accepted once\n")

        control.owe([{"ref": "order-1", "recipient": "ada@example.com"}])
        undecided = invoke("verdict", *url(simulator))
        assert (undecided.exit_code, undecided.output) == (
            1,
            "undecided: 0 of 1 obligations accepted once\n"
            "  open: ada@example.com (order-1) still open, 0 of 1 copies\n",
        )
        assert invoke("verdict", "--final", *url(simulator)).output.startswith("invalid:")

        ask(simulator, request(mail()))
        assert (valid := invoke("verdict", *url(simulator))).exit_code == 0
        assert valid.output == "valid: 1 of 1 obligations accepted once\n"

        ask(simulator, request(mail()))
        doubled = invoke("verdict", *url(simulator))
        assert doubled.exit_code == 1
        assert (
            "duplicated: ada@example.com (order-1) accepted too often, 2 of 1 copies: msg_" in doubled.output
        )
        assert json.loads(invoke("verdict", "--json", *url(simulator)).output)["valid"] is False


# --- certify ----------------------------------------------------------------------------------------


class _Replaced(Exception):
    """Stands for the moment in which another program takes this one's place."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that took the simulator's place."""
    commands: list[list[str]] = []

    def execv(path: str, command: list[str]) -> None:
        assert path == sys.executable
        commands.append(command)
        raise _Replaced

    monkeypatch.setattr(os, "execv", execv)
    return commands


def test_certify_hands_everything_to_the_suite(asked: list[list[str]]) -> None:
    """Every option, those it does not know too."""
    given = (
        "--sender s.toml --profile http --profile smtp --select lost* --quick --seed 7 --report out --list"
    )
    for command in (["certify", *given.split(), "--workers", "2"], ["certify"]):
        with pytest.raises(_Replaced):
            run(command)

    head = [sys.executable, "-m", "scenarios", "certify"]
    assert sorted(asked[0]) == sorted([*head, *given.split(), "--workers", "2"])
    assert asked[0][:4] == head
    assert asked[0][asked[0].index("--seed") + 1] == "7"
    assert asked[1] == head


def test_replay_hands_its_file_to_the_suite(asked: list[list[str]]) -> None:
    """The suite plays it; its exit code is the command's, for it is the same process by then."""
    with pytest.raises(_Replaced):
        run(["replay", "bad.json"])

    assert asked == [[sys.executable, "-m", "scenarios", "replay", "bad.json"]]


# --- mistakes ---------------------------------------------------------------------------------------

MISTAKES = {
    "no such command": (["srve"], "No such command 'srve'"),
    "no such option": (["serve", "--htttp", ":0"], "No such option"),
    "bad address": (["serve", "--http", "nowhere"], "--http is 'nowhere'; it must be HOST:PORT"),
    "bad seed": (["serve", "--seed", "x"], "'x' is not a valid integer"),
    "no token": (["serve", "--http", "0.0.0.0:0"], "give --admin-token"),
    "no such plan": (["serve", "--plan", "nowhere.toml"], "nowhere.toml: there is no such file"),
    "ledger is a directory": (["serve", "--http", ":0", "--ledger", "."], "is a directory; name a file"),
    "ready file nowhere": (
        ["serve", "--http", ":0", "--smtp", ":0", "--ledger", "memory", "--ready-file", "nowhere/r.json"],
        "--ready-file nowhere/r.json cannot be written: No such file or directory",
    ),
    "a certificate for nobody": (
        ["serve", "--tls-cert", "c.pem"],
        "--tls-cert is given, but nothing speaks TLS",
    ),
    "a name for nobody": (["serve", "--tls-name", "x"], "--tls-name is given, but nothing speaks TLS"),
    "plan check nowhere": (["plan", "check", "nowhere.toml"], "there is no such file"),
    "plan check nothing": (["plan", "check"], "Missing argument"),
    "plan set nowhere": (["plan", "set", "nowhere.toml"], "there is no such file"),
    "no simulator": (["ledger", "--url", "http://127.0.0.1:1"], "there is no simulator at"),
    "no url": (["verdict", "--url", "nowhere"], "there is no simulator at"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, without a traceback, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    arguments, says = MISTAKES[name]

    assert run(arguments) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("simulator: ")
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


BROKEN_PLANS = {
    "TOML": ("[[rule]\n", "line 1: this is not valid TOML"),
    "fault": ('[[rule]]\nfault = "explode"\n', 'rule 1: "fault" is "explode", which is no fault'),
    "stage": ('[[rule]]\nfault = "hold"\nstage = "tea"\n', 'rule 1: "stage" is "tea"'),
    "key": ('[[rule]]\nfault = "hold"\nfrist = 1\n', 'there is no key "frist"; did you mean "first"?'),
}


@pytest.mark.parametrize("name", BROKEN_PLANS)
@pytest.mark.parametrize("command", [["plan", "check"], ["plan", "set"], ["serve", "--plan"]], ids=" ".join)
def test_a_broken_plan_is_one_sentence_with_its_place(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, rule and key, whichever command reads it."""
    text, says = BROKEN_PLANS[name]
    path = tmp_path / "plan.toml"
    path.write_text(text)

    assert run([*command, str(path)]) == 2

    err = capsys.readouterr().err
    assert err.startswith(f"simulator: {path}")
    assert says in err
    assert err.count("\n") == 1


def test_a_mistake_is_an_exit_code_of_the_process(tmp_path: Path) -> None:
    """Not only of the function: what a shell sees."""
    ready = tmp_path / "ready.json"
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-c",
                "from simulator.cli import main; main()",
                "serve",
                "--http",
                "127.0.0.1:0",
            ),
            *("--smtp", "192.0.2.1:0", "--ledger", str(tmp_path / "l.db"), "--ready-file", str(ready)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("simulator: --smtp 192.0.2.1:0 cannot be listened on")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_main_leaves_with_the_exit_code() -> None:
    """A console script and `python -c` get the same."""
    with pytest.raises(SystemExit) as left:
        main(["plan", "check", "nowhere.toml"])
    assert left.value.code == 2


@pytest.mark.parametrize(
    "arguments",
    [("serve", "--keep-age", "soon"), ("serve", "--keep-count", "few"), ("clock", "--advance", "soon")],
)
def test_the_program_is_named_once(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Then what is wrong, beginning with the option."""
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said.replace('"', "").startswith(f"simulator: {arguments[1]} is {arguments[2]}; ")
    assert said.count("simulator") == 1


# --- the clock --------------------------------------------------------------------------------------


def test_the_clock_is_shown_and_moved(simulator: Running) -> None:
    shown = invoke("clock", *url(simulator))
    moved = invoke("clock", "--advance", "1h", *url(simulator))

    assert shown.exit_code == moved.exit_code == 0
    assert shown.output.startswith("account default: ")
    assert shown.output.endswith("(real time)\n")
    assert moved.output.endswith("(3600 s ahead of real time)\n")
    set_to = invoke("clock", "--to", "2999-01-01T00:00:00Z", *url(simulator))
    assert set_to.output.startswith("account default: 2999-01-01T00:00:0")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--advance", "soon"),
            '--advance is "soon"; it must be a length of time like 90, 30s, 5m, 2h or 1d',
        ),
        (("--to", "tomorrow"), "--to is 'tomorrow'; it must be an instant like 2030-01-01T00:00:00Z"),
        (("--to", "2001-01-01T00:00:00Z"), "the clock goes forward only"),
        (("--to", "2999-01-01T00:00:00"), "without a time zone"),
        (("--advance", "1", "--to", "2999-01-01T00:00:00Z"), "give one of them"),
    ],
)
def test_a_clock_that_cannot_be_moved_so_says_why(
    simulator: Running, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(["clock", *arguments, *url(simulator)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


# --- obedience --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["verdict"], ["ledger"], ["plan", "show"], ["plan", "clear"], ["clock"], ["decisions"]],
    ids=" ".join,
)
def test_a_misspelt_account_is_trouble(simulator: Running, words: list[str]) -> None:
    """Exit code 2 and which one was meant; a verdict on nobody would be one on nothing, and valid in the end."""
    done = invoke(*words, *url(simulator), "--account", "defualt")

    assert done.exit_code == 2
    assert done.stderr.startswith("simulator: there is no account 'defualt'; did you mean 'default'?")


def test_a_verdict_lists_some_of_each_kind_and_counts_the_others(simulator: Running) -> None:
    with simulator.control() as control:
        control.owe([{"ref": f"order-{each}", "recipient": "ada@example.com"} for each in range(23)])
    said = invoke("verdict", *url(simulator)).output
    assert said.count("still open") == 20
    assert said.endswith("  open: … 3 more (--json has all)\n")
    assert len(json.loads(invoke("verdict", "--json", *url(simulator)).output)["open"]) == 23


def test_a_verdict_says_that_mails_are_not_kept_any_more() -> None:
    """Of two mails the first is gone, and its promise is not called lost."""
    with running(retention=Retention(count=1)) as simulator:
        with simulator.control() as control:
            for number in (1, 2):
                control.owe([{"ref": f"order-{number}", "recipient": f"a{number}@example.com"}])
                ask(simulator, request(mail(to=[f"a{number}@example.com"])))
        said = invoke("verdict", "--final", *url(simulator))
    assert said.exit_code == 1
    assert said.output.startswith(
        "undecided: 1 of 2 obligations accepted once\n  one mail is not kept any more"
    )
    assert "  forgotten: a1@example.com (order-1) not in the ledger" in said.output


def test_a_verdict_says_whether_the_sender_obeyed(simulator: Running) -> None:
    """Told nothing, there is nothing to be said."""
    where = url(simulator)
    assert "obey" not in invoke("verdict", *where).output
    with simulator.control() as control:
        control.add_rules("429 retry-after 30 once")
    for _ in range(2):
        ask(simulator, request(mail(to=["early@example.com"]), key="k"))

    said = invoke("verdict", *where).output
    assert "the sender did not obey when it was told to wait (1 times)\n" in said
    assert "  too early: early@example.com after 0" in said
