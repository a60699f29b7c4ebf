"""The tiny sender keeps every promise, under each policy: what the known-bad ones break is their sin alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.senders.tiny import seconds, stuffed
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

#: Each of these runs a certification of its own, several scenarios at once: one after the other is enough.
pytestmark = [pytest.mark.xdist_group("certifications"), pytest.mark.long]


@pytest.mark.parametrize("name", ["tiny", "tiny_at_least_once", "tiny_without_keys"])
def test_the_tiny_sender_is_certified(tmp_path: Path, name: str) -> None:
    """Nothing broken, and nothing left out but what needs the simulated world."""
    done = certify("--sender", SENDERS / f"{name}.toml", "--report", tmp_path)

    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "fail") == set(), done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert certificate["result"] == "certified"
    # A program of its own does not live in the simulated world, and this one has no ear and no gate; all else applies.
    without = {"exhaustive", "webhooks", "gate"}
    assert {each.split(".")[1] for each in by_status(certificate, "skip")} <= without


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b"a\r\n", b"a\r\n.\r\n"),
        (b"a", b"a\r\n.\r\n"),
        (b".a\r\n.\r\n..b\r\n", b"..a\r\n..\r\n...b\r\n.\r\n"),
    ],
)
def test_dots_are_doubled(raw: bytes, sent: bytes) -> None:
    """RFC 5321, section 4.5.2."""
    assert stuffed(raw) == sent


@pytest.mark.parametrize(("text", "expected"), [(None, 0), ("7", 7), ("soon", 0), ("-3", 0), ("99999", 3600)])
def test_retry_after_is_read(text: str | None, expected: float) -> None:
    """Nonsense is no wait at all, and nothing waits for ever."""
    assert seconds(text) == expected
