"""The webhook of `serve` and its secret: given, kept with the ledger, or of the seed."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import click
import pytest

from simulator.cli.greeting import say_hello
from simulator.provider.signing import secret_of
from simulator.provider.webhooks import WebhookRules
from simulator.servers.outgoing import OutgoingError
from simulator.servers.usual_webhook import Origin, UsualWebhook
from tests.simulator.running import Running, running

URL = "http://127.0.0.1:9/webhooks"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def secret(simulator: Running) -> str:
    """Return what events of the default account are signed with."""
    service = simulator.service
    (found,) = service.outgoing.webhooks.rules(service.provider.accounts["default"]).secrets
    return found


def test_without_a_secret_there_is_one_that_follows_from_the_seed() -> None:
    assert UsualWebhook(URL, None, 7).rules == WebhookRules(url=URL, secrets=(secret_of(7),))
    assert UsualWebhook(None, None, 7).rules.secrets != UsualWebhook(None, None, 8).rules.secrets
    assert UsualWebhook(None, SECRET, 7).rules.secrets == (SECRET,)


def test_a_bad_secret_names_its_option() -> None:
    with pytest.raises(OutgoingError, match=r"^--webhook-secret: a webhook secret begins with whsec_"):
        UsualWebhook(None, "hunter2", 0)


def test_a_ledger_that_is_kept_keeps_the_secret(tmp_path: Path) -> None:
    """Whatever the seed of the next start: the receiver need not be told anew. A reset forgets mails, not this."""
    chosen: dict[str, Any] = {"ledger": str(tmp_path / "simulator.db"), "webhook_url": URL}
    with running(seed=7, **chosen) as simulator:
        assert secret(simulator) == secret_of(7)
        with simulator.control() as control:
            control.reset()
    with running(seed=8, **chosen) as simulator:
        assert secret(simulator) == secret_of(7)


def test_a_secret_that_is_given_wins_and_is_not_kept(tmp_path: Path) -> None:
    """For this start; the one that was kept is still there."""
    chosen: dict[str, Any] = {"ledger": str(tmp_path / "simulator.db"), "webhook_url": URL}
    with running(seed=7, **chosen):
        pass
    with running(seed=8, webhook_secret=SECRET, **chosen) as simulator:
        assert secret(simulator) == SECRET
    with running(seed=9, **chosen) as simulator:
        assert secret(simulator) == secret_of(7)


def test_a_ledger_in_memory_keeps_nothing() -> None:
    """The secret follows from the seed, as the ledger does."""
    for seed in (7, 8):
        with running(seed=seed, webhook_url=URL) as simulator:
            assert secret(simulator) == secret_of(seed)


def test_without_a_webhook_nothing_is_kept(tmp_path: Path) -> None:
    """The secret of a start that signed nothing is nobody's."""
    ledger = str(tmp_path / "simulator.db")
    with running(seed=7, ledger=ledger):
        pass
    with running(seed=8, ledger=ledger, webhook_url=URL) as simulator:
        assert secret(simulator) == secret_of(8)


def test_a_ledger_is_for_its_owner_only(tmp_path: Path) -> None:
    """It has people's mail in it, and this secret: the file, its log, and what SQLite puts beside them."""
    with running(ledger=str(tmp_path / "simulator.db"), webhook_url=URL):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    assert any("-log." in name for name in modes)
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"webhook_secret": SECRET}, f"{URL} (secret, {Origin.GIVEN})"),
        ({}, f"{URL} (secret {secret_of(7)}, {Origin.SEED})"),
        ({"ledger": "simulator.db"}, f"{URL} (secret {secret_of(7)}, {Origin.KEPT})"),
    ],
    ids=["given", "memory", "file"],
)
def test_the_greeting_says_where_the_secret_comes_from(
    options: dict[str, Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that was given is not shown."""
    monkeypatch.chdir(tmp_path)
    with running(webhook_url=URL, **options) as simulator:
        say_hello(simulator.service)

    assert f"  webhook  {says}\n" in click.unstyle(capsys.readouterr().err)
