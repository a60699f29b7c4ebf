"""The command line: what people and programs see, and one real process that is told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select

from reference_sender.cli import cli, main, run
from reference_sender.life import State
from reference_sender.message import idempotency_key_for
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import metadata, outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.wiring import Parts
from tests.reference_sender.samples import ManualClock
from tests.reference_sender.transports.wires import serving

MAIL = {
    "op": "enqueue",
    "key": "order-1",
    "from": "Shop <shop@example.org>",
    "to": ["ann@example.com"],
    "subject": "Grüße",
    "text": "Thank you",
}

TABLES = ", ".join(metadata.tables)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'outbox.db'}"


def call(url: str, *arguments: str, stdin: str = "", parts: Parts | None = None, **env: str) -> Result:
    return CliRunner().invoke(
        cli, arguments, input=stdin.encode(), env={"OUTBOX_DATABASE_URL": url} | env, obj=parts
    )


def say(url: str, *requests: Any, parts: Parts | None = None) -> list[dict[str, Any]]:
    lines = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests)
    done = call(url, "enqueue", "--jsonl", stdin=lines, parts=parts)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == any(each.get("ok") is False for each in said), done.output
    return said


def open_store(url: str) -> Store:
    return Store(open_engine(url))


def move(url: str, decision: Decision) -> None:
    """Claim the mail and end its attempt like this."""
    store, clock = open_store(url), ManualClock()
    clock.advance(10**9)
    (parcel,) = store.claim(now=clock.now(), limit=1, lease_s=60, dedupes=True)
    assert store.settle(parcel, decision, now=clock.now())
    store.engine.dispose()


def states(url: str) -> list[str]:
    return [m["state"] for m in json.loads(call(url, "status", "--json").stdout)["mails"]]


def test_init_may_be_repeated_and_keeps_what_is_there(url: str) -> None:
    first = call(url, "init")
    assert (first.exit_code, first.stdout) == (
        0,
        f"created {TABLES} in {url}\n",
    )
    say(url, MAIL)
    second = call(url, "init")
    assert (second.exit_code, second.stdout) == (
        0,
        f"nothing to do: the outbox is there already in {url}\n",
    )
    assert states(url) == ["pending"]
    third = call(url, "init", "--recreate")
    assert (third.exit_code, third.stdout) == (
        0,
        f"created {TABLES} anew, empty, in {url}\n",
    )
    assert states(url) == []


def test_a_person_enqueues_a_mail_with_a_file(url: str, tmp_path: Path) -> None:
    call(url, "init")
    (tmp_path / "invoice.pdf").write_bytes(b"%PDF")
    arguments = ["enqueue", "--key", "order-1", "--from", "shop@example.org", "--to", "ann@example.com"]
    arguments += [
        "--subject",
        "Hi",
        "--text",
        "x",
        "--html",
        "<p>x</p>",
        "--attach",
        str(tmp_path / "invoice.pdf"),
    ]
    first, second = call(url, *arguments), call(url, *arguments)
    assert "order-1 enqueued: <" in first.stdout
    assert "order-1 was there already: <" in second.stdout
    (parcel,) = open_store(url).claim(
        now=ManualClock().now().replace(year=2099), limit=9, lease_s=1, dedupes=True
    )
    assert b"application/pdf" in parcel.raw


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    for part, words in (("subject.txt", "Order {{ number }}"), ("text.txt", "Thank you, {{ name }}.")):
        (tmp_path / "templates" / "order").mkdir(parents=True, exist_ok=True)
        (tmp_path / "templates" / "order" / part).write_text(words, encoding="utf-8")
    return tmp_path / "templates"


def test_a_mail_from_a_template(url: str, templates: Path) -> None:
    call(url, "init")
    some = ["enqueue", "--key", "order-1", "--from", "s@example.org", "--to", "r@example.com"]
    some += ["--templates", str(templates), "--template", "order"]
    done = call(url, *some, "--param", "number=7", "--param", "name=Ann")
    assert "order-1 enqueued: <" in done.stdout
    with open_store(url).engine.connect() as connection:
        row = connection.execute(select(outgoing_email)).one()
    assert (row.template, row.parameters) == ("order", '{"name": "Ann", "number": "7"}')
    assert b"Subject: Order 7" in row.raw
    for more, words in (
        (["--param", "number=7"], "needs a parameter that was not given"),
        (["--param", "number"], "write it like --param number=1234"),
        (["--text", "x"], "--template brings subject, text and html"),
    ):
        refused = call(url, *some, *more)
        assert refused.exit_code == 2
        assert words in refused.output


def test_a_line_with_a_template(url: str, templates: Path) -> None:
    call(url, "init")
    mail = {"key": "order-1", "from": "s@example.org", "to": ["r@example.com"], "template": "order"}
    lines = [
        mail | {"parameters": {"number": 7, "name": "Ann"}},
        mail | {"key": "order-2", "parameters": {}},
        mail | {"key": "order-2", "parameters": 7},
        mail | {"key": "order-2", "text": "x"},
        mail | {"key": "order-2", "template": 7},
        MAIL | {"key": "order-2", "parameters": {}},
    ]
    done = call(
        url,
        "enqueue",
        "--jsonl",
        "--templates",
        str(templates),
        stdin="\n".join(json.dumps(line) for line in lines),
    )
    first, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == {"ok": True, "key": "order-1", "created": True}
    assert [each["ok"] for each in others] == [False] * 5
    assert "needs a parameter" in others[0]["error"]
    assert 'leave out "text"' in others[2]["error"]


def test_the_process_answers_each_line_with_one(url: str) -> None:
    call(url, "init")
    answers = say(
        url,
        MAIL,
        MAIL,
        MAIL | {"key": "order-2", "rollback": True},
        "",
        {"op": "status"},
    )
    assert answers[:3] == [
        {"ok": True, "key": "order-1", "created": True},
        {"ok": True, "key": "order-1", "created": False},
        {"ok": True, "key": "order-2", "created": True},
    ]
    (mail,) = answers[3]["mails"]
    wanted = {"key": "order-1", "recipient": "ann@example.com", "state": "pending", "attempts": 0}
    assert wanted | {"provider_id": None} == {k: mail[k] for k in (*wanted, "provider_id")}


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ("rubbish", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "JSON object"),
        ({"op": "dance"}, "does not exist"),
        (MAIL | {"cc": ["x@example.com"]}, "'cc' does not exist"),
        (MAIL | {"key": ""}, '"key"'),
        (MAIL | {"key": 5}, '"key"'),
        (MAIL | {"key": "x" * 256}, "event key"),
        (MAIL | {"key": "nul\x00"}, "event key"),
        (MAIL | {"to": []}, "no recipient"),
        (MAIL | {"subject": "a\r\nBcc: eve@example.com"}, "line break"),
        (MAIL | {"text": "\ud800"}, "half character"),
        (MAIL | {"attachments": [{"filename": "a", "content": "%"}]}, "base64"),
        (MAIL | {"priority": "high"}, '"priority"'),
        (MAIL | {"priority": 2**40}, "priority is 1099511627776; it must be from"),
        (MAIL | {"expires_in_s": "soon"}, '"expires_in_s"'),
        (MAIL | {"expires_in_s": 1e300}, "ten years"),
    ],
)
def test_a_bad_line_is_answered_with_a_sentence_and_the_next_one_works(
    url: str, request_: Any, word: str
) -> None:
    call(url, "init")
    bad, good = say(url, request_, MAIL)
    assert bad["ok"] is False
    assert word in bad["error"]
    assert good["ok"] is True


def test_bytes_that_are_no_text_are_a_bad_line(url: str) -> None:
    call(url, "init")
    done = CliRunner().invoke(
        cli, ["enqueue", "--jsonl"], input=b"\xff\xfe\n", env={"OUTBOX_DATABASE_URL": url}
    )
    assert "the line is not UTF-8: byte 1 of it is 0xff" in done.stdout


def test_an_expiry_and_a_priority_may_be_given(url: str) -> None:
    call(url, "init")
    clock = ManualClock()
    say(url, MAIL | {"expires_in_s": 60, "priority": 5}, parts=Parts(clock=clock))
    (docket,) = open_store(url).find(key="order-1")
    assert docket.expires_at is not None
    assert (docket.expires_at - clock.now()).total_seconds() == 60


def test_the_key_function_can_be_replaced(url: str) -> None:
    call(url, "init")
    parts = Parts(key_for=lambda event, recipient: idempotency_key_for(event + "!", recipient))
    say(url, MAIL, parts=parts)
    (docket,) = open_store(url).find(key="order-1")
    assert docket.idempotency_key == idempotency_key_for("order-1!", "ann@example.com")


def test_status_for_people_shows_counts(url: str) -> None:
    call(url, "init")
    assert "The outbox is empty." in call(url, "status").stdout
    say(url, MAIL)
    assert "pending" in call(url, "status").stdout


@pytest.mark.parametrize("command", [["status"], ["enqueue", "--jsonl"], ["requeue", "--id", "1"]])
def test_a_missing_table_is_one_sentence(url: str, command: list[str]) -> None:
    no_file = call(url, *command)
    assert "there is no database" in no_file.stderr
    assert not Path(url.removeprefix("sqlite:///")).exists()
    Path(url.removeprefix("sqlite:///")).touch()
    no_table = call(url, *command)
    assert "the table outgoing_email is missing" in no_table.stderr
    for done in (no_file, no_table):
        assert done.exit_code == 2
        assert "run `reference-sender init` first" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("bad_url", "word"),
    [
        ("nonsense", "not a database URL"),
        ("sqlite:////no/such/folder/x.db", "cannot be opened: there is no folder /no/such/folder"),
        ("postgresql://nobody@127.0.0.1:1/x", "cannot be used"),
    ],
)
def test_a_database_that_cannot_be_reached_is_one_sentence(bad_url: str, word: str) -> None:
    done = call(bad_url, "init")
    assert done.exit_code == 2
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "word"),
    [
        (["work"], {}, "PROVIDER_URL"),
        (["work"], {"OUTBOX_TRANSPORT": "pigeon"}, "pigeon"),
        (["work"], {"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LEASE_S": "1"}, "shorter than OUTBOX_LEASE_S"),
        (["work"], {"OUTBOX_CONCURRENCY": "many"}, "many"),
        (["enqueue"], {}, "--key"),
        (["requeue"], {}, "say which"),
        (["requeue", "--id", "1", "--i-checked", "--accepted", "m1"], {}, "one of them"),
    ],
)
def test_a_wrong_use_is_refused(url: str, arguments: list[str], env: dict[str, str], word: str) -> None:
    call(url, "init")
    done = CliRunner().invoke(cli, arguments, env={"OUTBOX_DATABASE_URL": url} | env)
    assert done.exit_code == 2
    assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "env", "word"),
    [
        (["work", "--nope"], {}, "No such option"),
        (["dance"], {}, "No such command"),
        (["requeue"], {}, "say which mails"),
        (["requeue", "--id", "99999999999999999999"], {}, "not in the range"),
        (["requeue", "--id", "0"], {}, "not in the range"),
        (["requeue", "--key", "x" * 300], {}, "the event key has 300 characters"),
        (["requeue", "--key", "a\udcff"], {}, "half character"),
        (["requeue", "--key", "k", "--accepted", "\udcff"], {}, "--accepted wants the id"),
        (["requeue", "--key", "k", "--accepted", "x" * 300], {}, "--accepted wants the id"),
        (["enqueue", "--key", "x" * 300], {}, "the event key has 300 characters"),
        (["enqueue", "--key", "a\udcff"], {}, "half character"),
        (["enqueue", "--key", "k", "--attach", "/no/such/file"], {}, "'/no/such/file' does not exist"),
        (["enqueue", "--key", "k", "--attach", "/"], {}, "'/' is not a file"),
        (["enqueue", "--key", "k", "--attach", "/dev/null"], {}, "'/dev/null' is not a file"),
        (["work"], {"OUTBOX_CONCURRENCY": "many"}, "many"),
        (["work"], {"OUTBOX_LEASE_S": "inf", "PROVIDER_URL": "http://x"}, "OUTBOX_LEASE_S is inf"),
        (["work"], {"SMTP_PORT": "0", "OUTBOX_TRANSPORT": "smtp"}, "SMTP_PORT is 0"),
        (["work"], {"PROVIDER_URL": "http://x", "PROVIDER_API_KEY": "a\nb"}, "PROVIDER_API_KEY holds"),
    ],
)
def test_whatever_is_asked_wrongly_is_one_sentence(
    url: str,
    arguments: list[str],
    env: dict[str, str],
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call(url, "init")
    for name, value in ({"OUTBOX_DATABASE_URL": url} | env).items():
        monkeypatch.setenv(name, value)
    if arguments[0] == "enqueue":
        arguments = [*arguments, "--from", "shop@example.org", "--to", "ann@example.com", "--text", "x"]
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("reference-sender: ")
    assert word in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (["work", "--metrics", "x"], {}, "--metrics is 'x'"),
        (["work"], {"OUTBOX_METRICS": "x"}, "OUTBOX_METRICS is 'x'"),
        (["work", "--metrics", "x"], {"OUTBOX_METRICS": "127.0.0.1:0"}, "--metrics is 'x'"),
        (
            ["work", "--lease-s", "3"],
            {"OUTBOX_TOTAL_TIMEOUT_S": "4"},
            "OUTBOX_TOTAL_TIMEOUT_S (4) must be shorter than --lease-s (3)",
        ),
        (["work", "--batch", "9"], {}, "--batch is 9; it must be at least 1 and at most OUTBOX_CONCURRENCY"),
        (["purge", "--keep", "x=1"], {}, "--keep names 'x'; there are accepted,"),
        (["purge"], {"OUTBOX_KEEP": "x=1"}, "OUTBOX_KEEP names 'x'; there are accepted,"),
        (["purge", "--keep", "words=soon"], {}, "--keep gives words 'soon'; it must be a number of days"),
        (["purge", "--operator", "x" * 65], {}, "--operator must be a name of at most 64 characters"),
        (["purge"], {"OUTBOX_OPERATOR": "x" * 65}, "OUTBOX_OPERATOR must be a name of at most 64"),
        (
            ["enqueue", "--queue-cap", "0", "--jsonl"],
            {},
            "--queue-cap is 0; it must be from 1 to 1,000,000,000 mails",
        ),
        (["webhooks", "--listen", "x"], {}, "--listen is 'x'; it must be HOST:PORT"),
        (
            ["enqueue", "--queue-cap", "9" * 23, "--jsonl"],
            {},
            f"--queue-cap is {'9' * 23}; it must be from 1",
        ),
    ],
)
def test_a_bad_value_is_called_as_it_was_given(
    url: str, arguments: list[str], env: dict[str, str], words: str
) -> None:
    """By the option on the command line, by the variable in the environment."""
    call(url, "init")
    environment = {"OUTBOX_DATABASE_URL": url, "PROVIDER_URL": "http://127.0.0.1:1"} | env
    done = CliRunner().invoke(cli, arguments, env=environment)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith(f"reference-sender: {words}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["enqueue", "--expires-in", "nan"],
        ["suppress", "add", "ann@example.com", "--days", "nan"],
        ["status", "--watch", "--every", "nan"],
        ["campaign", "create", "news", "--over", "nan"],
        ["campaign", "create", "news", "--over", "1e9"],
        ["campaign", "create", "news", "--per-hour", "1e-9"],
        ["campaign", "create", "news", "--ends-in", "1e308"],
        ["accesses", "--limit", "9" * 20],
    ],
)
def test_a_number_beyond_every_calendar_and_column_is_refused_before_it_is_used(
    url: str, arguments: list[str]
) -> None:
    """What is no number is within no range, though it is not less than any bound."""
    call(url, "init")
    done = CliRunner().invoke(cli, arguments, env={"OUTBOX_DATABASE_URL": url})
    assert done.exit_code == 2
    assert f"Invalid value for '{arguments[-2]}'" in done.stderr
    assert "is not a number" in done.stderr or "is not in the range" in done.stderr


def test_a_pipe_is_not_read_for_ever(url: str, tmp_path: Path) -> None:
    call(url, "init")
    os.mkfifo(tmp_path / "pipe")
    arguments = ["--key", "k", "--from", "shop@example.org", "--to", "ann@example.com", "--text", "x"]
    done = call(url, "enqueue", *arguments, "--attach", str(tmp_path / "pipe"))
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "is not a file" in done.stderr


def test_a_file_that_cannot_be_read_is_one_sentence(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    call(url, "init")
    (tmp_path / "a.pdf").touch()
    monkeypatch.setattr(Path, "read_bytes", refuse)
    arguments = ["--key", "k", "--from", "shop@example.org", "--to", "ann@example.com", "--text", "x"]
    done = call(url, "enqueue", *arguments, "--attach", str(tmp_path / "a.pdf"))
    assert done.exit_code == 2
    assert done.stderr.endswith("a.pdf' cannot be read: Permission denied\n")


@pytest.mark.parametrize("command", ["work", "reconcile", "status", "init"])
def test_a_table_of_another_version_is_one_sentence(url: str, command: str) -> None:
    call(url, "init")
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE outgoing_email DROP COLUMN if_not_sent")
    engine.dispose()
    done = call(url, command, PROVIDER_URL="http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "the column if_not_sent of the table outgoing_email is missing" in done.stderr
    assert "older" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_exit_code_is_that_of_the_command(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTBOX_DATABASE_URL", url)
    assert run(["init"]) == 0
    assert run(["requeue", "--key", "nothing"]) == 1
    with pytest.raises(SystemExit) as ended:
        main(["status", "--json"])
    assert ended.value.code == 0


def test_without_a_command_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    run([])
    said = capsys.readouterr()
    assert (said.out + said.err).startswith("Usage: reference-sender")


def test_the_help_has_every_command_once_with_a_whole_sentence(url: str) -> None:
    said = call(url, "--help").stdout
    listed = re.findall(r"^  ([a-z]+)  +\S", said, re.MULTILINE)
    assert sorted(listed) == cli.list_commands(click.Context(cli))
    assert "..." not in said.partition("Sending:")[2]


def test_a_default_is_told_once(url: str) -> None:
    """By the program, and not by the sentence beside it, too."""
    said = " ".join(call(url, "work", "--help").stdout.split())
    assert re.findall(r"\[[^\]]*\]\. \[env var: [A-Z_]+; default", said) == []
    assert "OUTBOX_HEALTH_S; default: 60]" in said
    assert "default: ]" not in said


def test_a_bad_mail_is_one_sentence(url: str) -> None:
    call(url, "init")
    done = call(url, "enqueue", "--key", "k", "--from", "nobody", "--to", "ann@example.com", "--text", "x")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)


def test_a_dead_mail_is_requeued(url: str) -> None:
    call(url, "init")
    say(url, MAIL)
    move(url, Decision(state=State.DEAD, reason="spent"))
    assert states(url) == ["dead"]
    assert call(url, "requeue", "--key", "order-1").exit_code == 0
    assert states(url) == ["pending"]
    assert call(url, "requeue", "--key", "order-1").exit_code == 1


def unknown(url: str) -> None:
    call(url, "init")
    say(url, MAIL)
    parked = Decision(
        state=State.UNKNOWN,
        reason="silence",
        next_attempt_at=ManualClock().now(),
        doubt=Doubt.NEW,
        if_not_sent=State.PENDING,
    )
    move(url, parked)


def test_an_unknown_mail_is_requeued_only_by_who_checked(url: str) -> None:
    unknown(url)
    refused = call(url, "requeue", "--state", "unknown")
    assert refused.exit_code == 2
    assert "--i-checked" in refused.stderr
    assert states(url) == ["unknown"]
    assert call(url, "requeue", "--state", "unknown", "--i-checked").exit_code == 0
    assert states(url) == ["pending"]


def test_an_unknown_mail_can_be_noted_as_accepted(url: str) -> None:
    unknown(url)
    assert call(url, "requeue", "--key", "order-1", "--accepted", "m1").exit_code == 0
    assert states(url) == ["accepted"]


def test_reconcile_looks_once(url: str) -> None:
    unknown(url)
    done = call(url, "reconcile", OUTBOX_TRANSPORT="smtp")
    assert (done.exit_code, done.stdout) == (0, "1 looked at, 0 resolved, 0 newly parked\n")
    assert states(url) == ["unknown"]


def test_a_real_process_sends_finishes_on_sigterm_and_exits_with_zero(url: str) -> None:
    """The provider holds its answer, the worker is told to stop, the answer comes: it is still written down."""
    call(url, "init")
    say(url, MAIL, MAIL | {"key": "order-2"})
    received, release = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(x.split(b":")[1]) for x in head.splitlines() if x.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        received.set()
        await release.wait()
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"id": "m1"}  ')
        await writer.drain()

    def watched(said: bytes) -> tuple[bytes, bytes]:
        """What the running sender says of itself."""
        facts = next(
            json.loads(line) for line in said.splitlines() if json.loads(line)["event"] == "monitoring"
        )
        with urllib.request.urlopen(f"{facts['url']}/metrics", timeout=10) as answer:
            metrics = answer.read()
        with urllib.request.urlopen(f"{facts['url']}/health", timeout=10) as answer:
            return metrics, answer.read()

    async def steps() -> tuple[int | None, bytes]:
        async with serving(script) as port:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from reference_sender.cli import main; main()",
                "work",
                env=os.environ
                | {"OUTBOX_DATABASE_URL": url, "PROVIDER_URL": f"http://127.0.0.1:{port}"}
                | {"OUTBOX_CONCURRENCY": "1", "OUTBOX_METRICS": "127.0.0.1:0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            assert await asyncio.wait_for(process.stdout.readline(), 20) == b"ready\n"
            await asyncio.wait_for(received.wait(), 20)
            said = await asyncio.wait_for(process.stderr.readline(), 20)
            metrics, health = await asyncio.to_thread(watched, said)
            assert b"outbox_in_flight 1.0" in metrics
            assert b'state="pending"} 1.0' in metrics
            assert b'"ok": true' in health
            process.send_signal(signal.SIGTERM)
            while b"draining" not in said:
                said += await asyncio.wait_for(process.stderr.readline(), 20)
            release.set()
            _, rest = await asyncio.wait_for(process.communicate(), 20)
            return process.returncode, said + rest

    code, said = asyncio.run(steps())
    assert code == 0, said.decode()
    assert states(url) == ["accepted", "pending"]
    assert b"ann@" not in said
    assert {"draining", "decided"} <= {json.loads(line)["event"] for line in said.splitlines()}
