"""The typed client: what it asks is tested with the API itself; here is what it makes of bad answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from simulator.client import ControlClient, ControlError
from tests.simulator.running import ask, mail, request, running


def test_both_addresses_of_the_ready_file_will_do() -> None:
    """The control address, the plain HTTP address, and either with a slash behind."""
    with running() as service:
        for url in (service.service.ready["control"], service.service.ready["http"]):
            for address in (url, f"{url}/"):
                with ControlClient(address) as control:
                    assert control.health()["status"] == "ok"


def test_one_client_speaks_for_one_account() -> None:
    """What another account accepted is not its business."""
    with running() as service, service.control("shop") as shop, service.control() as default:
        shop.make_account()
        assert shop.messages() == []
        ask(service, request(mail(), headers={"Authorization": "Bearer shop"}))

        assert [each["account"] for each in shop.wait_for_messages(to="ada@example.com")] == ["shop"]
        assert default.messages() == []


def test_lists_come_whole_in_as_many_pages_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever counts mail must not count the first page."""
    monkeypatch.setattr("simulator.client.PAGE", 2)
    with running() as service, service.control() as control:
        for number in range(5):
            ask(service, request(mail(), key=f"k{number}"))

        expected = [f"k{number}" for number in range(5)]
        assert [each["key"] for each in control.messages()] == expected
        assert [each["key"] for each in control.wait_for_messages(count=5)] == expected
        assert [each["key"] for each in control.wait_for_attempts(count=5)] == expected


def test_a_token_is_sent_along() -> None:
    """And its absence is the simulator's own sentence."""
    with running(admin_token="s3cret") as service:
        with service.control(token="s3cret") as control:
            assert control.messages() == []
        with (
            service.control() as stranger,
            pytest.raises(ControlError, match="wants its admin token") as refused,
        ):
            stranger.messages()
        assert refused.value.status == 401


def test_a_refusal_carries_the_simulators_sentence() -> None:
    """With the status it came with."""
    with running() as service, service.control() as control:
        with pytest.raises(ControlError, match='"fault" is "explode"') as refused:
            control.add_rules({"fault": "explode"})
        assert refused.value.status == 422


def test_nobody_there_is_one_sentence() -> None:
    """It says how to start one."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    with (
        ControlClient(f"http://127.0.0.1:{port}") as control,
        pytest.raises(
            ControlError, match=r"^there is no simulator at http.* start one with: simulator serve$"
        ),
    ):
        control.health()


@pytest.mark.parametrize("url", ["", "127.0.0.1:8025", "ftp://x", "http://[::1", "http://x:port"])
def test_an_address_that_is_none_is_one_sentence(url: str) -> None:
    """Whether it shows when the client is made or when it asks."""
    with pytest.raises(ControlError) as refused, ControlClient(url) as control:
        control.health()
    assert "\n" not in str(refused.value)


ANSWERS = {
    "another server": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "is no simulator"),
    "a list": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "is no simulator"),
    "a refusal without reason": (
        b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nsorry",
        "answered 500 without a reason",
    ),
    "silence": (b"", "does not answer"),
}


@pytest.fixture
def impostor(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that gives one answer, whatever it is asked."""
    answer: bytes = request.param
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)
                over.wait(10)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()
        thread.join(10)


@pytest.mark.parametrize(("impostor", "says"), ANSWERS.values(), ids=ANSWERS, indirect=["impostor"])
def test_what_is_no_simulator_is_one_sentence(impostor: str, says: str) -> None:
    """Another program on the port, a broken proxy, or nobody at home."""
    with (
        ControlClient(impostor, timeout_s=0.5) as control,
        pytest.raises(ControlError, match=says),
    ):
        control.health()
