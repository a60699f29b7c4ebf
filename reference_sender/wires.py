"""Transports and look-ups from options.

The imports within the functions are late on purpose: a sender that speaks SMTP does not load an HTTP client, and the
other way round; enqueuing loads neither. It halves the time to the first mail after a start.
Must not hold: protocols, anything that happens after start-up.
"""

from __future__ import annotations

from typing import Any, Protocol

from reference_sender.options import Options
from reference_sender.policy.batches import is_about_one
from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Wire
from reference_sender.reconciler import Lookup
from reference_sender.worker import Transport


class ClosableTransport(Transport, Protocol):
    """A transport as it is built here: with an end."""

    async def close(self) -> None: ...


class ClosableLookup(Lookup, Protocol):
    """A look-up as it is built here: with an end."""

    async def close(self) -> None: ...


def transport_of(options: Options) -> ClosableTransport:
    """The transport that the options name."""
    if options.transport is Wire.HTTP:
        return _batches(options) if options.batch > 1 else _singles(options)
    from reference_sender.transports.smtp import SmtpTransport
    from reference_sender.transports.smtp_options import SmtpOptions, Tls

    return SmtpTransport(
        SmtpOptions(
            host=options.smtp_host,
            port=options.smtp_port,
            user=options.smtp_user,
            password=options.smtp_password,
            tls=Tls(options.smtp_tls),
            connect_timeout_s=options.settings.connect_timeout_s,
            read_timeout_s=options.settings.read_timeout_s,
            total_timeout_s=options.settings.total_timeout_s,
            idle_s=options.settings.smtp_idle_s,
        )
    )


def _singles(options: Options) -> ClosableTransport:
    from reference_sender.transports.http import HttpTransport

    return HttpTransport(_http_options(options))


def _batches(options: Options) -> ClosableTransport:
    from reference_sender.transports.gathering import GatheringTransport
    from reference_sender.transports.http_batch import HttpBatchTransport

    settings = options.settings
    return GatheringTransport(
        HttpBatchTransport(
            _http_options(options),
            most=options.batch,
            most_octets=options.batch_octets,
            path=options.provider_batch_path,
        ),
        refuses=lambda evidence: is_about_one(classify(evidence)),
        patience_s=settings.lease_s - settings.total_timeout_s,
    )


def lookup_of(options: Options) -> ClosableLookup | None:
    """The look-up that the options name, if they want one."""
    if not options.lookup:
        return None
    from reference_sender.transports.http import HttpLookup

    return HttpLookup(_http_options(options))


def _http_options(options: Options) -> Any:
    from reference_sender.transports.http import HttpOptions

    assert options.provider_url is not None, "options_from has checked this"
    return HttpOptions(
        url=options.provider_url,
        api_key=options.provider_api_key,
        path=options.provider_path,
        key_header=options.provider_key_header,
        connect_timeout_s=options.settings.connect_timeout_s,
        read_timeout_s=options.settings.read_timeout_s,
        total_timeout_s=options.settings.total_timeout_s,
        connections=options.settings.concurrency,
        keep_alive=options.settings.policy.dedupes,
    )
