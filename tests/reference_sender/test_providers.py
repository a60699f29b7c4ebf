"""A file of providers: what it says, and one sentence for what it cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_sender.policy.evidence import Wire
from reference_sender.policy.routes import Route
from reference_sender.policy.settings import InvalidSettings, Policy
from reference_sender.wiring import options_from

TWO = """
[[provider]]
name = "main"
provider_api_key = "$MAIN_KEY"
rate_per_s = 5

[[provider]]
name = "spare"
transport = "smtp"
smtp_host = "mail.example.net"

[[route]]
class = ["code", "alarm"]
sender = ["@Shop.example.org"]
to = ["main", "spare"]
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "providers.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_each_provider_has_its_own_options_and_shares_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIN_KEY", "secret")
    main = options_from(
        {"providers": written(tmp_path, TWO), "provider_url": "http://127.0.0.1:1", "concurrency": 3}
    )
    (spare,) = main.others
    assert (main.transport, main.provider_api_key, main.settings.policy) == (
        Wire.HTTP,
        "secret",
        Policy.RESEND_SAME_KEY,
    )
    assert (spare.transport, spare.smtp_host, spare.settings.policy) == (
        Wire.SMTP,
        "mail.example.net",
        Policy.AT_MOST_ONCE,
    )
    assert main.settings.concurrency == spare.settings.concurrency == 3
    assert (main.gate.provider, spare.gate.provider) == ("main", "spare")
    assert main.gate.providers == spare.gate.providers == ("main", "spare")
    assert [name for name, _ in main.gate.rates] == ["provider:main"]
    route = Route(to=("main", "spare"), classes=("code", "alarm"), senders=("@shop.example.org",))
    assert main.gate.routes == spare.gate.routes == (route,)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "names none"),
        ("[[provider]]\nx = 1", "has no name"),
        ('[[provider]]\nname = "a"\n[[provider]]\nname = "a"', "two providers 'a'"),
        ('[provider]\nname = "a"', "must be written as"),
        ('[[provider]]\nname = "a"\ncolour = 1', "'colour', which is no option"),
        ('[[provider]]\nname = "a"\ndatabase_url = "x"', "'database_url', which is no option"),
        ('[[provider]]\nname = "a"\nrate_per_s = "fast"', "rate_per_s must be a number"),
        ('[[provider]]\nname = "a"\nrate_burst = 1.5', "rate_burst must be a whole number"),
        ('[[provider]]\nname = "a"\nrate_burst = true', "rate_burst must be a whole number"),
        ('[[provider]]\nname = "a"\ntransport = "pigeon"', "it must be one of http, smtp"),
        ('[[provider]]\nname = "a"\nprovider_api_key = "$NOBODY_SET_THIS"', "no such variable"),
        (
            '[[provider]]\nname = "a b"\ntransport = "smtp"',
            "provider 'a b': name is 'a b'; it must be a short name",
        ),
        (
            '[[provider]]\nname = "a"\nlease_s = 1',
            "provider 'a': OUTBOX_TOTAL_TIMEOUT_S (60) must be shorter than lease_s",
        ),
        ('[[provider]]\nname = "a"\n[[route]]\nto = "b"', "leads to 'b', and the providers are a"),
        ('[[provider]]\nname = "a"\n[[route]]\nclass = "code"', "does not say where to"),
        ('[[provider]]\nname = "a"\n[[route]]\nto = "a"\nclass = "spam"', "the class 'spam'"),
        (
            '[[provider]]\nname = "a"\n[[route]]\nto = "a"\ncolour = "x"',
            "there are class, sender, domain, to",
        ),
        ('[[provider]]\nname = "a"\n[[route]]\nto = 7', "must be a list of texts"),
        ("[[", "is no TOML"),
        ("[x]", "[x] is no table"),
    ],
)
def test_what_it_cannot_mean_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        options_from({"providers": written(tmp_path, text), "provider_url": "http://127.0.0.1:1"})
    assert word in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot be read"):
        options_from({"providers": str(tmp_path / "none.toml")})
