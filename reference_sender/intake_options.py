"""What an operator may tell `reference-sender webhooks`, and which of it is refused.

Loads nothing that a door needs: the command line shows these options whatever it is asked to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reference_sender.events.signature import BadSecret, Scheme, read_secrets
from reference_sender.option import Option
from reference_sender.option_table import BODY_KEYS, DATABASE
from reference_sender.policy.settings import MOST, InvalidSettings
from reference_sender.sealing import Vault, vault_of

INTAKE_OPTIONS: tuple[Option, ...] = (
    DATABASE,
    Option(
        name="listen",
        envvar="WEBHOOK_LISTEN",
        help="Where webhooks are taken in, as HOST:PORT; port 0 is any free one.",
    ),
    Option(
        name="webhook_secret",
        envvar="WEBHOOK_SECRET",
        help="What webhooks are signed with; while secrets are rotated several, with blanks between them.",
    ),
    Option(
        name="webhook_scheme",
        envvar="WEBHOOK_SCHEME",
        help="standard: Standard Webhooks and Svix. hmac: X-Webhook-Signature over timestamp.body.",
        choices=tuple(scheme.value for scheme in Scheme),
        default=Scheme.STANDARD.value,
    ),
    Option(
        name="webhook_path",
        envvar="WEBHOOK_PATH",
        help="The path that takes webhooks.",
        default="/webhooks",
    ),
    Option(
        name="webhook_tolerance_s",
        envvar="WEBHOOK_TOLERANCE_S",
        help="How far the clocks may differ, in either direction.",
        kind=float,
        default=300.0,
    ),
    Option(
        name="webhook_most_bytes",
        envvar="WEBHOOK_MOST_BYTES",
        help="The largest body that is read.",
        kind=int,
        default=1_048_576,
    ),
    Option(
        name="bounces",
        envvar="WEBHOOK_BOUNCES",
        help="Where bounces and complaints by mail come in: lmtp:HOST:PORT, smtp:HOST:PORT or the folder of a Maildir.",
    ),
    Option(
        name="patience_s",
        envvar="WEBHOOK_PATIENCE_S",
        help="How long an event waits for a mail that nobody knows yet.",
        kind=float,
        default=259_200.0,
    ),
    Option(
        name="look_s",
        envvar="WEBHOOK_LOOK_S",
        help="How often events that wait are looked at.",
        kind=float,
        default=1.0,
    ),
    BODY_KEYS,
    Option(
        name="metrics",
        envvar="WEBHOOK_METRICS",
        help="Where /metrics (Prometheus) and /health are, as HOST:PORT; port 0 is any free one.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a door is: a host and a port, or a folder."""

    kind: str  # http, lmtp, smtp, maildir
    host: str = ""
    port: int = 0
    folder: Path = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """Everything the intake was told, checked."""

    database_url: str = field(repr=False)
    listen: Place | None
    bounces: Place | None
    scheme: Scheme
    keys: tuple[bytes, ...] = field(repr=False)
    path: str
    tolerance_s: float
    most_bytes: int
    patience_s: float
    look_s: float
    metrics: tuple[str, int] | None = None
    vault: Vault | None = None
    """Seals what is told, where keys are given."""


def intake_options_from(values: Mapping[str, Any]) -> IntakeOptions:
    """Check what an operator gave, by the names in `INTAKE_OPTIONS`; None or left out is the default.

    Raises `InvalidSettings` with one sentence.
    """
    told = {
        option.name: option.default if values.get(option.name) is None else values[option.name]
        for option in INTAKE_OPTIONS
    }
    listen = None if not told["listen"] else _address("http", told["listen"], "WEBHOOK_LISTEN")
    bounces = None if not told["bounces"] else _bounces(told["bounces"])
    if listen is None and bounces is None:
        raise InvalidSettings(
            "there is no door: give WEBHOOK_LISTEN (like 127.0.0.1:8030), WEBHOOK_BOUNCES, or both"
        )
    scheme = Scheme(told["webhook_scheme"])
    keys: tuple[bytes, ...] = ()
    if listen is not None:
        try:
            keys = read_secrets(told["webhook_secret"] or "", scheme)
        except BadSecret as error:
            raise InvalidSettings(f"WEBHOOK_SECRET: {error}") from error
    for name in ("webhook_tolerance_s", "webhook_most_bytes", "patience_s", "look_s"):
        if not 0 < told[name] <= MOST:
            envvar = next(option.envvar for option in INTAKE_OPTIONS if option.name == name)
            raise InvalidSettings(
                f"{envvar} is {str(told[name])[:40]}; it must be a number greater than zero and at most {MOST:,.0f}"
            )
    path = told["webhook_path"]
    if not (path.startswith("/") and path.isascii() and path.isprintable()) or set(path) & set(" ?#{}"):
        raise InvalidSettings(
            f"WEBHOOK_PATH is {path!r}; it must begin with / and hold no space, ?, # or brace"
        )
    metrics = None if not told["metrics"] else _address("http", told["metrics"], "WEBHOOK_METRICS")
    return IntakeOptions(
        database_url=told["database_url"],
        listen=listen,
        bounces=bounces,
        scheme=scheme,
        keys=keys,
        path=path,
        tolerance_s=told["webhook_tolerance_s"],
        most_bytes=told["webhook_most_bytes"],
        patience_s=told["patience_s"],
        look_s=told["look_s"],
        metrics=None if metrics is None else (metrics.host, metrics.port),
        vault=vault_of(told["body_keys"]),
    )


def _bounces(text: str) -> Place:
    for kind in ("lmtp", "smtp"):
        if text.startswith(f"{kind}:"):
            return _address(kind, text.removeprefix(f"{kind}:"), "WEBHOOK_BOUNCES")
    return Place(kind="maildir", folder=Path(text.removeprefix("maildir:")))


def _address(kind: str, text: str, envvar: str) -> Place:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) <= 65_535):
        raise InvalidSettings(f"{envvar} is {text!r}; it must be HOST:PORT, like 127.0.0.1:8030")
    return Place(kind=kind, host=host, port=int(port))
