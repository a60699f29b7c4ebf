"""HTTPS: what a sender sees when TLS goes wrong, byte for byte and as its library calls it, and what the ledger has of it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.provider.faults import FAULTS
from simulator.servers.http import secure
from simulator.servers.tls import TlsOptions
from tests.simulator.running import ANY_PORT, PATIENCE_S, Running, Sender, mail, request, running
from tests.simulator.servers.http.provider import SEND, accepted, plan, the_attempt

HTTP_FAULTS = [name for name, fault in FAULTS.items() if "tls" in fault.stages.get("http", ())]


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tls")
    with running(https=ANY_PORT, tls=TlsOptions(folder=folder)) as service:
        yield service


@pytest.fixture(scope="module")
def trusting(simulator: Running) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=simulator.service.ready["ca"])


@pytest.fixture
def url(simulator: Running) -> str:
    return f"{simulator.service.ready['https']}/v1/emails"


def raw(simulator: Running) -> socket.socket:
    """Return a line to the port, over which nobody has spoken yet."""
    assert simulator.service.https_port is not None
    return socket.create_connection(("127.0.0.1", simulator.service.https_port), timeout=PATIENCE_S)


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first words of a handshake."""
    said = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


def shake(simulator: Running, context: ssl.SSLContext) -> Sender:
    """Return a sender that has shaken hands. Raises what `ssl` raises, and `ConnectionError`."""
    line = raw(simulator)
    try:
        return Sender.over(context.wrap_socket(line, server_hostname="localhost"))
    except BaseException:
        line.close()
        raise


def strike(simulator: Running, fault: str, **more: Any) -> None:
    plan(simulator, {"fault": fault, "stage": "tls", "times": 1} | more)


def mail_goes(simulator: Running, context: ssl.SSLContext) -> None:
    with shake(simulator, context) as sender:
        assert sender.say(SEND).see().status == 200


# --- as libraries call it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"fault": "bad_certificate"}, "certificate has expired"),
        ({"fault": "bad_certificate", "problem": "not_yet_valid"}, "certificate is not yet valid"),
        ({"fault": "bad_certificate", "problem": "wrong_host"}, "IP address mismatch"),
        ({"fault": "bad_certificate", "problem": "untrusted"}, "unable to get local issuer certificate"),
        ({"fault": "refuse_handshake"}, "HANDSHAKE_FAILURE"),
        ({"fault": "refuse_handshake", "alert": "protocol_version"}, "PROTOCOL_VERSION"),
        ({"fault": "reply", "code": 400}, "WRONG_VERSION_NUMBER"),
        ({"fault": "garble"}, "WRONG_VERSION_NUMBER"),
        ({"fault": "break_handshake"}, "UNEXPECTED_EOF"),
        ({"fault": "break_handshake", "end": "reset"}, "Connection reset by peer"),
        ({"fault": "hang_up"}, "UNEXPECTED_EOF"),
        ({"fault": "reset"}, "reset by peer|Broken pipe"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_sender_is_told_by_its_library(
    simulator: Running, trusting: ssl.SSLContext, url: str, rule: dict[str, Any], says: str
) -> None:
    """Whatever goes wrong before the request, no mail is taken; the next try finds all well."""
    strike(simulator, **rule)

    with httpx.Client(verify=trusting, trust_env=False, timeout=PATIENCE_S) as client:
        with pytest.raises(httpx.ConnectError, match=f"(?i){says}"):
            client.post(url, json=mail())
        attempt = the_attempt(simulator)
        assert (attempt["stage"], attempt["accepted"], attempt["rules"]) == ("tls", [], ["rule 1"])
        assert client.post(url, json=mail()).status_code == 200
    assert accepted(simulator) == 1


def test_who_takes_a_bad_certificate_goes_on(simulator: Running, url: str) -> None:
    """That is the mistake it is there to find."""
    strike(simulator, "bad_certificate", problem="untrusted")

    with httpx.Client(verify=False, trust_env=False) as careless:
        assert careless.post(url, json=mail()).status_code == 200
    attempt = the_attempt(simulator)
    assert (attempt["rules"], attempt["answer"]) == (["rule 1"], "200")


def test_silence_is_a_timeout_of_the_senders_own(simulator: Running, trusting: ssl.SSLContext) -> None:
    """Its handshake never ends; when it goes, its attempt is over."""
    strike(simulator, "break_handshake", end="hang")

    with closing(raw(simulator)) as line:
        line.sendall(hello(trusting))
        with simulator.control() as control:
            control.wait_for_attempts(stage="tls")
        mail_goes(simulator, trusting)
        assert is_silent(line)
    with simulator.control() as control:
        control.wait_for_attempts(state="closed", count=2)
    assert accepted(simulator) == 1


def is_silent(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        line.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    return False


# --- byte for byte ----------------------------------------------------------------------------------

EOF, RST, SILENCE, TLS = "end of file", "reset", "silence", "TLS"
#: What stands on the wire where a sender begins its handshake: from the beginning, and how the line goes on.
ROWS: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "reply": ({"code": 503}, b"HTTP/1.1 503 Service Unavailable\r\n", EOF),
    "slow": ({"delay_s": 0.001}, b"\x16\x03\x03", TLS),
    "hang": ({}, b"", SILENCE),
    "hang_up": ({}, b"", EOF),
    "reset": ({}, b"", RST),
    "garble": ({}, b"HTTP/1.1 200 OK\r\n", EOF),
    "truncate": ({}, b"HTTP/1.1 200 OK\r\n", EOF),
    "hold": ({}, b"\x16\x03\x03", TLS),
    "refuse_handshake": ({}, b"\x15\x03\x03\x00\x02\x02\x28", EOF),
    "break_handshake": ({}, b"", EOF),
    "bad_certificate": ({}, b"\x16\x03\x03", TLS),
}


def test_every_fault_of_this_stage_has_a_row() -> None:
    assert set(ROWS) == set(HTTP_FAULTS)


@pytest.mark.parametrize("fault", ROWS)
def test_what_stands_on_the_wire(simulator: Running, trusting: ssl.SSLContext, fault: str) -> None:
    needs, begins, end = ROWS[fault]
    strike(simulator, fault, **needs)

    with closing(socket.socket()) as line:
        line.settimeout(PATIENCE_S)
        with suppress(ConnectionResetError):  # A reset may be faster than the news that there is a line.
            line.connect(("127.0.0.1", simulator.service.https_port))
        if fault not in ("hang_up", "reset"):  # These do not wait for it.
            line.sendall(hello(trusting))
        with simulator.control() as control:
            control.wait_for_attempts(stage="tls")
            if fault == "hold":
                control.wait_for_attempts(state="held")
                assert is_silent(line)
                assert control.release() == 1
                line.setblocking(True)
        if end == SILENCE:
            mail_goes(simulator, trusting)
            assert is_silent(line)
        elif end == TLS:
            assert line.recv(65_536).startswith(begins)
        else:
            heard, how = to_its_end(line) if is_there(line) else (b"", RST)
            assert (heard[: len(begins)], how) == (begins, end)
            assert begins or not heard
    with simulator.control() as control:
        control.wait_for_attempts(state="closed")
    assert accepted(simulator) == (1 if end == SILENCE else 0)


def is_there(line: socket.socket) -> bool:
    try:
        line.getpeername()
    except OSError:
        return False
    return True


def to_its_end(line: socket.socket) -> tuple[bytes, str]:
    heard = b""
    try:
        while piece := line.recv(65_536):
            heard += piece
    except ConnectionResetError:
        return heard, RST
    return heard, EOF


# --- TLS as it should be ----------------------------------------------------------------------------


def test_a_handshake_may_come_octet_by_octet(simulator: Running, trusting: ssl.SSLContext) -> None:
    """And the first request in the same piece as its end."""
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(heard, said, server_hostname="localhost")
    with closing(raw(simulator)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for octet in said.read():
                    line.sendall(bytes((octet,)))
                heard.write(line.recv(65_536))
        client.write(SEND)
        line.sendall(said.read())
        answer = b""
        while b"accepted" not in answer:
            heard.write(line.recv(65_536))
            try:
                answer += client.read(65_536)
            except ssl.SSLWantReadError:
                continue
    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_large_mails_and_many_on_one_line(simulator: Running, trusting: ssl.SSLContext) -> None:
    with shake(simulator, trusting) as sender:
        for size in (10, 5_000_000, 10):
            seen = sender.say(request(mail(text="x" * size))).see()
            assert seen.status == 200
        pipelined = sender.say(request(mail()) * 3)
        assert [pipelined.see().status for _ in range(3)] == [200] * 3


def test_a_sender_may_say_under_tls_that_it_goes(simulator: Running, trusting: ssl.SSLContext) -> None:
    """close_notify is as good as FIN, which need not follow: nobody waits for it."""
    with closing(trusting.wrap_socket(raw(simulator), server_hostname="localhost")) as line:
        client = HTTPConnection("localhost")
        client.sock = line
        client.request("GET", "/v1/emails/none")
        assert client.getresponse().read()
        assert line.unwrap().recv(1) == b""


def test_who_is_let_in_at_the_door_is_heard(simulator: Running, trusting: ssl.SSLContext) -> None:
    """Also with what he said before he was."""
    plan(simulator, {"fault": "slow", "stage": "connect", "delay_s": 0.001, "dialect": "http"})
    with shake(simulator, trusting) as sender:
        pipelined = sender.say(SEND * 3)
        assert [pipelined.see().status for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(lambda context: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="HTTP in the clear"),
        pytest.param(lambda context: bytes(300), id="nothing that is TLS"),
        pytest.param(lambda context: hello(context)[:-7], id="half a word"),
        pytest.param(lambda context: b"", id="no word"),
    ],
)
@pytest.mark.parametrize("guarded", [False, True], ids=["", "with a rule"])
def test_who_does_not_speak_tls_goes(
    simulator: Running, trusting: ssl.SSLContext, says: Callable[[ssl.SSLContext], bytes], guarded: bool
) -> None:
    """Nobody waits for it, nothing of it is left, and the others are served."""
    plan(simulator, *([{"fault": "slow", "stage": "tls", "delay_s": 0}] if guarded else []))
    before = simulator.service._https.connections
    with closing(raw(simulator)) as line:
        line.sendall(says(trusting))
        line.shutdown(socket.SHUT_WR)
        to_its_end(line)
    mail_goes(simulator, trusting)

    with simulator.control() as control:
        control.wait_for_attempts(state="closed", count=2 if guarded else 1)
    assert simulator.service._https.connections <= before
    assert accepted(simulator) == 1


@pytest.mark.parametrize("guarded", [False, True], ids=["", "with a rule"])
def test_who_is_too_slow_with_his_handshake_is_left(
    simulator: Running, trusting: ssl.SSLContext, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of his first word, or none where a rule waits for it."""
    monkeypatch.setattr(secure, "HANDSHAKE_S", 0.01)
    if guarded:
        strike(simulator, "break_handshake", end="hang")
    with closing(raw(simulator)) as line:
        if not guarded:
            line.sendall(hello(trusting)[:-7])
        assert to_its_end(line)[0] == b""
    monkeypatch.undo()
    mail_goes(simulator, trusting)


def test_a_rule_at_the_door_comes_after_the_handshake(simulator: Running, trusting: ssl.SSLContext) -> None:
    """And one attempt goes through both."""
    plan(
        simulator,
        {"name": "first", "fault": "slow", "stage": "tls", "delay_s": 0},
        {"name": "second", "fault": "reply", "stage": "connect", "code": 503, "dialect": "http"},
    )
    with shake(simulator, trusting) as sender:
        assert sender.say(SEND).see().status == 503
    assert the_attempt(simulator)["rules"] == ["first", "second"]


def test_a_rule_about_tls_is_none_of_plain_http(simulator: Running) -> None:
    strike(simulator, "hang_up", times=9)
    with Sender(simulator.http) as sender:
        assert sender.say(SEND).see().status == 200


def test_a_stop_ends_handshakes_that_hang(tmp_path: Path) -> None:
    plan = {"rules": [{"fault": "hold", "stage": "tls", "times": 1}]}
    with (
        running(plan, https=ANY_PORT, tls=TlsOptions(folder=tmp_path)) as service,
        service.control() as control,
        closing(raw(service)) as held,
    ):
        control.wait_for_attempts(state="held")
        with closing(raw(service)) as silent:
            service.stop()
            assert [to_its_end(line)[0] for line in (held, silent)] == [b"", b""]
