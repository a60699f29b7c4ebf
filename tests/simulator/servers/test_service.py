"""The whole service: up together, down together, and every yes survives `kill -9`."""

from __future__ import annotations

import asyncio
import json
import os
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator import __version__
from simulator.clock import SystemClock
from simulator.config import read_plan
from simulator.servers.control import PREFIX
from simulator.servers.options import Address, Options, ServeError
from simulator.servers.service import GRACE_S, Service
from simulator.servers.tls import TlsOptions
from simulator.store import StoreError
from simulator.store.sqlite import SqliteStore
from tests.simulator.running import ANY_PORT, PATIENCE_S, Seen, Sender, ask, mail, request, running

# --- starting ---------------------------------------------------------------------------------------


def start(options: Options) -> None:
    """Start a service that should not start."""

    async def run() -> None:
        service = Service(options, SystemClock())
        await service.start()
        await service.stop()
        pytest.fail("the service started")

    asyncio.run(run())


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("wire", ["http", "smtp"])
def test_a_port_in_use_leaves_nothing_half_started(tmp_path: Path, taken: int, wire: str) -> None:
    """One sentence; no ready file, no new ledger, and the other listener is closed again."""
    ready, ledger = tmp_path / "ready.json", tmp_path / "ledger.db"
    there = Address(host="127.0.0.1", port=taken)
    options = Options(http=ANY_PORT, smtp=ANY_PORT, ledger=str(ledger), ready_file=ready)

    with pytest.raises(ServeError, match=rf"^--{wire} 127\.0\.0\.1:{taken} cannot be listened on: address already in use;"):  # fmt: skip
        start(replace(options, http=there) if wire == "http" else replace(options, smtp=there))

    assert list(tmp_path.iterdir()) == []


def test_a_host_that_is_not_ours_is_one_sentence() -> None:
    """Addresses of other machines and names that do not resolve."""
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(ServeError, match=r"^--smtp .* cannot be listened on"):
            start(Options(http=ANY_PORT, smtp=Address(host=host, port=0)))


def test_an_unwritable_ready_file_is_one_sentence(tmp_path: Path) -> None:
    """And the listeners that were up already are gone."""
    with pytest.raises(ServeError, match=r"^--ready-file .* cannot be written: "):
        start(
            Options(
                http=ANY_PORT,
                smtp=ANY_PORT,
                ledger=str(tmp_path / "l.db"),
                ready_file=tmp_path / "nowhere" / "ready.json",
            )
        )
    with pytest.raises(ServeError, match=r"^--ready-file .* cannot be written: "):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, ready_file=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_this_machine_only_with_a_token(host: str) -> None:
    """Whoever reaches the control API commands the simulator."""
    with pytest.raises(ServeError, match="give --admin-token"):
        start(Options(http=Address(host=host, port=0), smtp=ANY_PORT))


@pytest.mark.parametrize("token", ["", "two words", "grün"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    """Before anything is up."""
    with pytest.raises(ServeError, match="admin token"):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, admin_token=token))


def test_a_ledger_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    """A directory, another kind of URL, a file that somebody else has."""
    with pytest.raises(ServeError, match="is a directory"):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, ledger=str(tmp_path)))
    with pytest.raises(ServeError, match="it must be memory, the path of a SQLite file, or postgresql:"):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, ledger="mysql://x/y"))
    owner = SqliteStore(tmp_path / "ledger.db")
    with pytest.raises(ServeError, match="is in use by another simulator"):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, ledger=str(tmp_path / "ledger.db")))
    owner.close()


def test_the_ready_file_says_where_everything_is(tmp_path: Path) -> None:
    """It is there when every listener is up, and gone when they are."""
    ready = tmp_path / "ready.json"
    with running(ready_file=ready) as service:
        facts = json.loads(ready.read_text())
        port = service.service.http_port
        assert facts == {
            "http": f"http://127.0.0.1:{port}",
            "smtp": f"127.0.0.1:{service.service.smtp_port}",
            "https": None,
            "smtps": None,
            "ca": None,
            "control": f"http://127.0.0.1:{port}{PREFIX}",
            "pid": os.getpid(),
            "version": __version__,
        }
    assert list(tmp_path.iterdir()) == []


def test_mail_comes_in_under_tls_by_both_ways(tmp_path: Path) -> None:
    """Whoever trusts the CA that the ready file names is served; whoever does not is not."""
    ready = tmp_path / "ready.json"
    tls = TlsOptions(starttls=True, folder=tmp_path / "tls")
    with running(ready_file=ready, smtps=ANY_PORT, tls=tls) as service:
        facts = json.loads(ready.read_text())
        assert facts["ca"] == str(tmp_path / "tls" / "ca.pem")
        trusting = ssl.create_default_context(cafile=facts["ca"])
        host, port = facts["smtps"].rsplit(":", 1)
        with smtplib.SMTP_SSL(host, int(port), context=trusting, timeout=PATIENCE_S) as sender:
            assert sender.sendmail("a@x.example", ["one@y.example"], "Subject: x\r\n\r\n") == {}
        with smtplib.SMTP(*service.smtp, timeout=PATIENCE_S) as sender:
            sender.starttls(context=trusting)
            assert sender.sendmail("a@x.example", ["two@y.example"], "Subject: x\r\n\r\n") == {}
        with (
            socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw,
            ssl.create_default_context().wrap_socket(
                raw, server_hostname=host, do_handshake_on_connect=False
            ) as wrapped,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            wrapped.do_handshake()
        with service.control() as control:
            sent = [each["recipients"] for each in control.messages()]
        assert sent == [["one@y.example"], ["two@y.example"]]


def test_http_senders_are_served_under_tls(tmp_path: Path) -> None:
    """By the same CA and with the same faults; who does not trust it goes, and control is elsewhere."""
    rules = [
        {"fault": "reset", "stage": "reply", "key": "reset"},
        {"fault": "hang_up", "stage": "accept", "key": "gone"},
        {"fault": "truncate", "stage": "body", "key": "half"},
    ]
    with running({"rule": rules}, https=ANY_PORT, tls=TlsOptions(folder=tmp_path / "tls")) as service:
        url = service.service.ready["https"]
        trusting = ssl.create_default_context(cafile=service.service.ready["ca"])

        def ask(key: str, context: ssl.SSLContext = trusting, path: str = "/v1/emails") -> Seen:
            """Ask over TLS; what a sender sees of the line is what its library makes of it."""
            sender = Sender(("127.0.0.1", service.service.https_port or 0))
            sender.socket = context.wrap_socket(sender.socket, server_hostname="127.0.0.1")
            with sender:
                return sender.say(request(mail(to=[f"{key}@y.example"]), key=key, path=path)).see()

        assert url.startswith("https://127.0.0.1:")
        assert ask("fine").status == 200
        # Python's library calls an RST an end like any other.
        assert (ask("reset").data, ask("gone").data) == (b"", b"")
        half = ask("half")
        assert (half.status, half.end) == (200, "eof")
        assert 0 < len(half.body) < int(half.headers["content-length"])
        with pytest.raises(ssl.SSLCertVerificationError):
            ask("stranger", ssl.create_default_context())
        assert ask("control", path=f"{PREFIX}/reset").status == 404
        with service.control() as control:
            booked = {each["recipients"][0] for each in control.messages()}
            assert "reset" in {each["answer"] for each in control.attempts()}
        assert booked == {"fine@y.example", "reset@y.example", "half@y.example"}


def test_tls_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    broken = TlsOptions(
        starttls=True, folder=tmp_path, certificate=tmp_path / "no.pem", key=tmp_path / "no.pem"
    )
    with pytest.raises(ServeError, match="both must be PEM and belong together"):
        start(Options(http=ANY_PORT, smtp=ANY_PORT, tls=broken))
    with pytest.raises(ServeError, match="cannot be listened on"):
        start(
            Options(
                http=ANY_PORT,
                smtp=ANY_PORT,
                smtps=Address(host="192.0.2.1", port=1),
                tls=TlsOptions(folder=tmp_path),
            )
        )


# --- stopping ---------------------------------------------------------------------------------------


def test_held_and_hanging_answers_do_not_block_a_stop() -> None:
    """A stop is bounded, whatever waits: a held answer, a hang, a slow one, a long poll, an idle connection."""
    rules = [
        {"fault": "hold", "recipient": "hold@*", "stage": "accept"},
        {"fault": "hang", "recipient": "hang@*", "stage": "accept"},
        {"fault": "slow", "recipient": "slow@*", "stage": "accept", "delay_s": 3600},
        {"fault": "hold", "recipient": "after@*", "stage": "reply"},
    ]
    senders = []
    with running({"rules": rules}) as service, service.control() as control:
        for name in ("hold", "hang", "slow", "after"):
            senders.append(Sender(service.http).say(request(mail(to=[f"{name}@example.com"]))))
            control.wait_for_attempts(to=f"{name}@example.com", count=1)
        poll = f"{PREFIX}/messages/wait?timeout_s=200&count=99"
        senders.append(Sender(service.http).say(request(method="GET", path=poll)))
        idle = Sender(service.http).say(request(mail(to=["idle@example.com"])))
        assert idle.see().status == 200
        silent = Sender(service.http)
        begin = time.monotonic()
        service.stop()
        assert time.monotonic() - begin < 3 * GRACE_S + 2

    seen = [sender.see() for sender in senders]
    assert [each.data for each in seen[:4]] == [b""] * 4
    assert seen[4].json["complete"] is False
    for sender in (*senders, idle, silent):
        sender.socket.close()


def test_an_answer_that_is_nearly_there_is_waited_for() -> None:
    """Graceful means that who is being served is served."""
    plan = {"rules": [{"fault": "slow", "delay_s": 0.3, "stage": "reply"}]}
    with running(plan) as service, Sender(service.http) as sender, service.control() as control:
        sender.say(request(mail()))
        control.wait_for_attempts(stage="reply")
        service.stop()
        seen = sender.see()
        assert (seen.status, seen.headers["connection"]) == (200, "close")


# --- a ledger that cannot be written ----------------------------------------------------------------


def test_neither_wire_says_yes_while_the_ledger_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk must not make the provider lie without a rule."""

    def fail(records: object) -> None:
        raise StoreError("the ledger cannot be written: disk full")

    with running() as service:
        monkeypatch.setattr(service.service.store, "append", fail)
        assert ask(service, request(mail())).data == b""
        assert ask(service, request(mail())).status == 503
        with (
            smtplib.SMTP(*service.smtp, timeout=PATIENCE_S) as client,
            pytest.raises(smtplib.SMTPDataError, match="451"),
        ):
            client.sendmail("shop@example.org", ["ada@example.com"], "Subject: x\r\n\r\nThank you!\r\n")
        assert any("disk full" in record.getMessage() for record in caplog.records)
        monkeypatch.undo()


# --- starting again ---------------------------------------------------------------------------------


def test_a_restart_keeps_acceptances_keys_and_obligations(tmp_path: Path) -> None:
    """What was answered yes yesterday is replayed today, not booked again; accounts and attempts are known."""
    ledger = str(tmp_path / "ledger.db")
    by_key = request(mail(), key="order-1")
    with running(ledger=ledger) as service, service.control() as control, service.control("shop") as shop:
        first = ask(service, by_key)
        control.owe([{"ref": "r", "recipient": "ada@example.com"}])
        shop.add_rules({"fault": "reply", "code": 503, "times": 1})
        with service.control("made only") as made:
            made.make_account()
        before = (
            control.messages(),
            control.attempts(),
            control.obligations(),
            control.raw(first.json["id"]),
        )

    with running(ledger=ledger, seed=8) as service, service.control() as control:
        assert {"shop", "made only"} <= set(control.health()["accounts"])
        with service.control("shop") as shop:
            assert [rule["code"] for rule in shop.plan()["rules"]] == [503]
        again = ask(service, by_key)
        assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
        assert ask(service, request(mail(subject="Else"), key="order-1")).status == 422
        after = (
            control.messages(),
            control.attempts()[:1],
            control.obligations(),
            control.raw(first.json["id"]),
        )
        assert after == before
        assert control.verdict()["valid"] is True
        ask(service, request(mail(), key="order-2"))
        assert len({each["id"] for each in control.messages()}) == 2


def test_a_plan_file_is_what_every_account_begins_with() -> None:
    """And what a reset goes back to."""
    with running({"rules": [{"name": "given", "fault": "reset"}]}) as service:
        for account in ("default", "shop"):
            with service.control(account) as control:
                control.make_account()
                control.heal()
                control.reset()
                assert [rule["name"] for rule in control.plan()["rules"]] == ["given"]


def test_the_same_seed_and_inputs_give_the_same_ledger() -> None:
    """Names and decisions, byte for byte; only the times differ."""
    plan = {"seed": 3, "rules": [{"fault": "reply", "code": 503, "probability": 0.5}]}

    def run() -> list[Any]:
        with running(plan) as service, service.control() as control:
            for number in range(20):
                ask(service, request(mail(to=[f"{number}@example.com"]), key=f"k{number}"))
            control.wait_for_attempts(state="closed", count=20)
            times = {"accepted_at", "opened_at", "closed_at", "peer", "sha256", "size_bytes"}
            return [
                {name: value for name, value in each.items() if name not in times}
                for each in (*control.messages(), *control.attempts())
            ]

    first = run()
    assert 25 < len(first) < 40
    assert first == run()


def test_a_setup_reaches_the_accounts() -> None:
    """Options are values; the service does not reread them."""
    setup = read_plan({"limits": {"max_recipients": 1}}, "test")
    with running(setup=setup) as service:
        assert ask(service, request(mail(to=["a@x.example", "b@x.example"]))).status == 422
