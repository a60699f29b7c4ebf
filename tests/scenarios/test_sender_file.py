"""Sender files that are wrong, each told in one sentence; and those that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import scenarios
from scenarios.sender_file import Limits, SenderError, fill, read_sender
from tests.scenarios.sender_files import GOOD, written

SENDERS = Path(scenarios.__file__).parent / "senders"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sender", "no valid TOML"),
        (GOOD + "[timeing]\n", "unknown table [timeing]; right would be one of"),
        (GOOD + "[timeing]\n", "did you mean 'timing'?"),
        (GOOD.replace("name =", "nam ="), "[sender] has an unknown key 'nam'"),
        (GOOD.replace('name = "mine"', ""), "[sender] name is missing; right would be a text in quotes"),
        (GOOD.replace('"mine", "work"', '"mine", 7'), "[start] command is a list with 7 in it"),
        (
            GOOD.replace('["mine", "work"]', '"mine work"'),
            "[start] command is 'mine work'; right would be a list",
        ),
        (GOOD.replace('["mine", "work"]', "[]"), "[start] command is an empty list"),
        (GOOD.replace('"http"]', '"htp"]'), "did you mean 'http'?"),
        (
            GOOD.replace('["http"]', "[]"),
            "[sender] profiles is an empty list; right would be 'http' or 'smtp'",
        ),
        (GOOD.replace('"mine"\n', '" "\n'), "[sender] name is empty; right would be a name"),
        (GOOD + 'http = "http://x/"\n', "[enqueue] has command and http; right would be exactly one"),
        (GOOD.replace('command = ["mine", "enqueue"]', ""), "none of command, http, process"),
        (GOOD + "[status]\nprocess = true\n", "[enqueue] has no process"),
        (GOOD + '[status]\nhttp = "localhost:1"\n', "right would be an address like 'http://…'"),
        (GOOD + '[stop]\nsignal = "SIGTREM"\n', "did you mean 'SIGTERM'?"),
        (GOOD + "[timing]\nlease_s = -1\n", "[timing] lease_s is -1; right would be seconds above 0"),
        (GOOD + '[timing]\nlease_s = "long"\n', "[timing] lease_s is 'long'; right would be a number"),
        (GOOD + "[timing]\nlease_s = true\n", "[timing] lease_s is True; right would be a number"),
        (GOOD + '[abilities]\npolicy = "exactly-once"\n', "exactly once is not a policy"),
        (GOOD + "[abilities]\nrollbak = true\n", "did you mean 'rollback'?"),
        (GOOD + "[abilities]\nstatus = true\n", "needs a table [status]"),
        (GOOD + '[env]\nURL = "{http_ulr}"\n', "[env] URL has an unknown placeholder {http_ulr}"),
        (GOOD + '[env]\nURL = "{http_ulr}"\n', "did you mean 'http_url'?"),
        (GOOD + "[abilities]\nwebhooks = true\n", "needs a table [webhooks] with the url"),
        (
            GOOD + '[webhooks]\nurl = "localhost:1"\n',
            "[webhooks] url is 'localhost:1'; right would be an address",
        ),
        (GOOD + '[webhooks]\nurl = "http://x:{webhook_prt}/"\n', "did you mean 'webhook_port'?"),
        (GOOD + "[env]\nPORT = 25\n", "[env] PORT is 25; right would be a text in quotes"),
        ("sender = 3\n", "sender is 3; right would be a table [sender]"),
        (GOOD + "[limits]\nrate = 5\n", "[limits] has an unknown key 'rate'"),
        (GOOD + "[limits]\nburst = 0\n", "[limits] burst is 0; right would be a number above 0"),
        (
            GOOD + "[abilities]\nrate-limit = true\n",
            "[abilities] rate-limit = true needs [limits] rate_per_s, the number that the sender is told to keep",
        ),
        (
            GOOD + "[abilities]\nbreaker = true\n[limits]\nrate_per_s = 1\n",
            "[abilities] breaker = true needs [limits] breaker_pause_s",
        ),
        (
            GOOD + "[abilities]\npriority = true\n[timing]\ntimeout_s = 2\n",
            "[limits] urgent_s is 1; right would be less than half of [timing] timeout_s, 1",
        ),
    ],
)
def test_what_is_wrong_with_a_sender_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    """File, key, what was given, what would be right."""
    file = written(tmp_path, text)

    with pytest.raises(SenderError) as caught:
        read_sender(file)

    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """And one that is no text."""
    with pytest.raises(SenderError, match="cannot read the sender file: No such file"):
        read_sender(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SenderError, match="not UTF-8"):
        read_sender(tmp_path / "bytes.toml")


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    """The shortest file is enough."""
    file = read_sender(written(tmp_path, GOOD))

    assert (file.policy, file.abilities, file.status) == ("at-most-once", frozenset(), None)
    assert file.stop_signal.name == "SIGTERM"
    assert file.limits == Limits()


@pytest.mark.parametrize("name", ["reference", "tiny", "tiny_gated", "tiny_hearing"])
def test_the_shipped_files_are_right(name: str) -> None:
    """Ours can be read, too."""
    file = read_sender(SENDERS / f"{name}.toml")

    assert file.profiles == ("http", "smtp")
    assert "status" in file.abilities


def test_braces_that_are_no_placeholder_stay() -> None:
    """JSON and shell use them, too."""
    assert fill('{"a": 1} ${HOME} {profile}', {"profile": "smtp"}) == '{"a": 1} ${HOME} smtp'


def test_what_a_file_leaves_out_is_hinted_at(tmp_path: Path) -> None:
    """Without a status less can be judged; without times the waits are long ones."""
    bare = read_sender(written(tmp_path, GOOD))
    full = read_sender(
        written(tmp_path, GOOD + '[status]\ncommand = ["mine", "status"]\n[timing]\nlease_s = 1\n')
    )

    assert [hint.split(":")[0] for hint in bare.hints] == ["no [status]", "no [timing]"]
    assert "waits 20 s" in bare.hints[0]
    assert full.hints == ()
