"""Options: values and environment in, checked options out; contradictions are one sentence."""

from __future__ import annotations

import pytest

from reference_sender.options import options_from, options_from_environment
from reference_sender.policy.evidence import Wire
from reference_sender.policy.settings import InvalidSettings, Policy
from reference_sender.providers import Providers

URL = {"provider_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({}, "PROVIDER_URL is not set"),
        ({"PROVIDER_URL": "ftp://x"}, "must begin with http"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_POLICY": "resend-same-key"}, "SMTP has no place for a key"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LOOKUP": "http"}, "PROVIDER_URL is not set"),
        ({"OUTBOX_TRANSPORT": "pigeon"}, "must be one of http, smtp"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LEASE_S": "soon"}, "OUTBOX_LEASE_S is 'soon'"),
        (
            {"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LEASE_S": "3"},
            r"OUTBOX_TOTAL_TIMEOUT_S \(660\) must be shorter than OUTBOX_LEASE_S",
        ),
    ],
)
def test_a_contradiction_is_one_sentence(environment: dict[str, str], word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        options_from_environment(environment)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"provider_api_key": "secret\n"}, "PROVIDER_API_KEY holds a line break"),
        ({"provider_api_key": "sec\udcffret"}, "PROVIDER_API_KEY holds"),
        ({"smtp_user": "secret\r\nRSET"}, "SMTP_USER holds a line break"),
        ({"smtp_password": "sec\x00ret"}, "SMTP_PASSWORD holds a line break or another control character"),
        ({"smtp_host": "mail\n"}, "SMTP_HOST holds"),
        ({"smtp_host": " "}, "SMTP_HOST is empty"),
        ({"metrics": "9464"}, "OUTBOX_METRICS is '9464'; write it like"),
        ({"metrics": "127.0.0.1:x"}, "OUTBOX_METRICS is '127.0.0.1:x'"),
        ({"metrics": "127.0.0.1:70000"}, "OUTBOX_METRICS is"),
        ({"metrics": ":1"}, "OUTBOX_METRICS is ':1'"),
        ({"health_s": 0.0}, "OUTBOX_HEALTH_S is 0; it must be a number of seconds greater than zero"),
        ({"batch": 0}, "OUTBOX_BATCH is 0; it must be at least 1"),
        ({"batch": 9}, r"OUTBOX_BATCH is 9; .* at most OUTBOX_CONCURRENCY \(8\)"),
        ({"batch": 2, "transport": "smtp"}, "SMTP has no batches"),
        ({"batch_octets": 0}, "OUTBOX_BATCH_OCTETS is 0; it must be at least 1"),
        ({"provider_batch_path": "v1"}, "PROVIDER_BATCH_PATH is 'v1'; it must begin with /"),
        ({"smtp_port": 0}, "SMTP_PORT is 0; it must be between 1 and 65535"),
        ({"smtp_port": 65_536}, "SMTP_PORT is 65536"),
        ({"smtp_port": -1}, "SMTP_PORT is -1"),
        ({"provider_url": "http://"}, "must name a host"),
        ({"provider_url": "https:///v1"}, "must name a host"),
        ({"provider_url": "http://:8025"}, "must name a host"),
        ({"provider_url": "http://host:99999"}, "must name a host"),
        ({"provider_url": "http://[::1"}, "must name a host"),
        ({"provider_url": "http://a b"}, "must name a host"),
        ({"provider_url": "http://host\n/"}, "PROVIDER_URL holds a line break"),
        ({"provider_url": "http://host/?a=b"}, "must end before any"),
        ({"provider_url": "http://u:secret@host", "provider_api_key": "k"}, "only one of them"),
        ({"provider_url": "ftp://u:secret@host"}, "must begin with http"),
        ({"provider_path": "v1/emails"}, "PROVIDER_PATH is 'v1/emails'; it must begin with /"),
        ({"provider_path": "/v1 emails"}, "PROVIDER_PATH"),
        ({"provider_path": "/v1?x"}, "PROVIDER_PATH"),
        ({"provider_key_header": "Idempotency Key"}, "PROVIDER_KEY_HEADER is 'Idempotency Key'; it must be"),
        ({"provider_key_header": "Key:"}, "must be a header name"),
        ({"provider_key_header": "Schlüssel"}, "must be a header name"),
        ({"provider_key_header": ""}, "must be a header name"),
        ({"provider_key_header": "Content-Length"}, "has a meaning of its own"),
        ({"lease_s": 1e300}, "OUTBOX_LEASE_S is 1e\\+300"),
        ({"poll_s": float("inf")}, "OUTBOX_POLL_S is inf"),
        ({"suspect_alone_s": 0.0}, "OUTBOX_SUSPECT_ALONE_S is 0.0; it must be greater than zero"),
        ({"smtp_idle_s": 301.0}, "SMTP_IDLE_S is 301; it must be at most 300"),
        ({"retry_after_max_s": 0.0}, "OUTBOX_RETRY_AFTER_MAX_S is 0.0; it must be greater than zero"),
        (
            {"retry_after_max_s": 2_678_401.0},
            "OUTBOX_RETRY_AFTER_MAX_S is 2678401; it must be at most 2678400",
        ),
        (
            {"transport": "smtp", "smtp_password": "secret"},
            "SMTP_PASSWORD is set and SMTP_USER is not; to log in takes both",
        ),
        ({"transport": "smtp", "smtp_user": "ann"}, "SMTP_USER is set and SMTP_PASSWORD is not"),
    ],
)
def test_what_could_never_be_sent_is_refused_at_start_and_no_secret_is_told(
    values: dict[str, object], word: str
) -> None:
    with pytest.raises(InvalidSettings, match=word) as caught:
        options_from(URL | values)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_file_of_providers_says_is_called_as_it_is_there() -> None:
    """And what it does not say by its variable."""
    told = Providers(options={"main": {"provider_url": "http://a", "lease_s": 3.0}}, routes=())
    with pytest.raises(InvalidSettings) as caught:
        options_from({"providers": told, "total_timeout_s": 4.0})
    assert str(caught.value).startswith(
        "provider 'main': OUTBOX_TOTAL_TIMEOUT_S (4) must be shorter than lease_s (3)"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"provider_url": "http://[::1]:8025/base/"},
        {"provider_url": "http://user:password@host"},
        {"provider_key_header": "X-Dedupe-Key", "provider_path": "/send"},
        {"smtp_password": "pässword with spaces", "smtp_port": 65_535},
    ],
)
def test_what_is_only_unusual_is_taken(values: dict[str, object]) -> None:
    assert options_from(URL | values).transport is Wire.HTTP


def test_each_wire_has_defaults_of_its_own() -> None:
    http, smtp = options_from(URL), options_from({"transport": "smtp"})
    assert (http.transport, http.settings.policy, http.lookup) == (Wire.HTTP, Policy.RESEND_SAME_KEY, True)
    assert (smtp.transport, smtp.settings.policy, smtp.lookup) == (Wire.SMTP, Policy.AT_MOST_ONCE, False)
    # RFC 5321 section 4.5.3.2.6: less than ten minutes after the dot makes duplicates.
    assert smtp.settings.read_timeout_s == 600.0


def test_who_sets_only_the_total_gets_parts_that_fit() -> None:
    settings = options_from({"transport": "smtp", "total_timeout_s": 2.0, "lease_s": 3.0}).settings
    assert (settings.connect_timeout_s, settings.read_timeout_s) == (2.0, 2.0)


def test_secrets_do_not_show() -> None:
    options = options_from(
        URL
        | {"provider_api_key": "hush1", "smtp_password": "hush2", "database_url": "postgresql://u:hush3@h/d"}
    )
    assert "hush" not in repr(options)
