"""Every option of the sender, once: its name on the command line and in the environment, its help, its default.

Must not hold: what is made of the values (`options`), the options of the gate (`gate_options`) and of what the provider
tells afterwards (`intake_options`).
"""

from __future__ import annotations

from reference_sender.gate_options import GATE_OPTIONS
from reference_sender.option import Option
from reference_sender.policy.settings import Policy

DATABASE = Option(
    name="database_url",
    envvar="OUTBOX_DATABASE_URL",
    help="The database with the outbox: sqlite:///FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql://… for MySQL and MariaDB.",
    default="sqlite:///outbox.db",
)

BODY_KEYS = Option(
    name="body_keys",
    envvar="OUTBOX_BODY_KEYS",
    help="Seal what mails say in the database, and what is told of them: NAME:BASE64 of 32 octets, several with commas, newest first.",
)

QUEUE_CAP = Option(
    name="queue_cap",
    envvar="OUTBOX_QUEUE_CAP",
    help="So many mails may wait; newsletters are refused from half of it on, notices from four fifths, codes never [no cap].",
    kind=int,
)

ALARM_OPTIONS: tuple[Option, ...] = (
    Option(
        name="alarm_url",
        envvar="OUTBOX_ALARM_URL",
        help="Alarms go there as a POST with JSON, not through the outbox.",
    ),
    Option(
        name="alarm_smtp",
        envvar="OUTBOX_ALARM_SMTP",
        help="Or as a mail through smtp:// or smtps://USER:PASSWORD@HOST:PORT, better of another provider.",
    ),
    Option(name="alarm_from", envvar="OUTBOX_ALARM_FROM", help="The sender of such a mail."),
    Option(name="alarm_to", envvar="OUTBOX_ALARM_TO", help="Its recipients, with commas between."),
    Option(
        name="alarm_every_s",
        envvar="OUTBOX_ALARM_EVERY_S",
        help="The same alarm at most once in so many seconds.",
        kind=float,
        default=300.0,
    ),
)

OPTIONS: tuple[Option, ...] = (
    DATABASE,
    Option(
        name="transport",
        envvar="OUTBOX_TRANSPORT",
        help="The wire that is spoken to the provider.",
        choices=("http", "smtp"),
        default="http",
    ),
    Option(
        name="provider_url",
        envvar="PROVIDER_URL",
        help="Where the HTTP API is, like https://api.example.com; needed for http.",
    ),
    Option(name="provider_api_key", envvar="PROVIDER_API_KEY", help="The key of the HTTP API."),
    Option(
        name="provider_path",
        envvar="PROVIDER_PATH",
        help="The path that takes mail.",
        default="/v1/emails",
    ),
    Option(
        name="provider_key_header",
        envvar="PROVIDER_KEY_HEADER",
        help="The header that carries the idempotency key.",
        default="Idempotency-Key",
    ),
    Option(
        name="batch",
        envvar="OUTBOX_BATCH",
        help="So many mails of one class go in one HTTP request at most, each with its own key; 1: no batches.",
        kind=int,
        default=1,
    ),
    Option(
        name="batch_octets",
        envvar="OUTBOX_BATCH_OCTETS",
        help="So many octets of mails go in one such request at most, which is a third larger; one mail may have more.",
        kind=int,
        default=8 * 1024 * 1024,
    ),
    Option(
        name="provider_batch_path",
        envvar="PROVIDER_BATCH_PATH",
        help="The path that takes several mails.",
        default="/v1/emails/batch",
    ),
    Option(name="smtp_host", envvar="SMTP_HOST", help="The mail server.", default="127.0.0.1"),
    Option(name="smtp_port", envvar="SMTP_PORT", help="Its port.", kind=int, default=587),
    Option(name="smtp_user", envvar="SMTP_USER", help="User name for AUTH; without it nobody logs in."),
    Option(name="smtp_password", envvar="SMTP_PASSWORD", help="Password for AUTH."),
    Option(
        name="smtp_tls",
        envvar="SMTP_TLS",
        help="auto: none on this machine, implicit on port 465, STARTTLS required elsewhere.",
        choices=("auto", "off", "starttls", "implicit"),
        default="auto",
    ),
    Option(
        name="smtp_idle_s",
        envvar="SMTP_IDLE_S",
        help="How long a connection that no mail needs is kept; 0: not at all, at most 300 [5].",
        kind=float,
    ),
    Option(
        name="policy",
        envvar="OUTBOX_POLICY",
        help="What to do when nobody can know whether a mail was accepted [http: resend-same-key, smtp: at-most-once].",
        choices=tuple(p.value for p in Policy),
    ),
    Option(
        name="lookup",
        envvar="OUTBOX_LOOKUP",
        help="Whether the reconciler may ask the HTTP API about doubtful mail [http: http, smtp: none].",
        choices=("http", "none"),
    ),
    Option(name="concurrency", envvar="OUTBOX_CONCURRENCY", help="Mails under way at a time [8].", kind=int),
    Option(
        name="connect_timeout_s",
        envvar="OUTBOX_CONNECT_TIMEOUT_S",
        help="How long to wait for a connection [http: 5, smtp: 30].",
        kind=float,
    ),
    Option(
        name="read_timeout_s",
        envvar="OUTBOX_READ_TIMEOUT_S",
        help="The longest silence [http: 30, smtp: 600, as RFC 5321 wants it].",
        kind=float,
    ),
    Option(
        name="total_timeout_s",
        envvar="OUTBOX_TOTAL_TIMEOUT_S",
        help="The longest attempt; must be shorter than the lease [http: 60, smtp: 660].",
        kind=float,
    ),
    Option(
        name="lease_s",
        envvar="OUTBOX_LEASE_S",
        help="How long a claimed mail belongs to its worker [http: 120, smtp: 720].",
        kind=float,
    ),
    Option(
        name="backoff_base_s",
        envvar="OUTBOX_BACKOFF_BASE_S",
        help="The longest first wait before another attempt; it doubles with each [2].",
        kind=float,
    ),
    Option(
        name="backoff_cap_s",
        envvar="OUTBOX_BACKOFF_CAP_S",
        help="The longest wait before another attempt [600].",
        kind=float,
    ),
    Option(
        name="retry_after_max_s",
        envvar="OUTBOX_RETRY_AFTER_MAX_S",
        help="The longest Retry-After that is kept; a longer one, and a quota that is back later, counts as that [86400].",
        kind=float,
    ),
    Option(
        name="max_attempts",
        envvar="OUTBOX_MAX_ATTEMPTS",
        help="Attempts before a mail is dead; trouble of the provider or the line does not count [12].",
        kind=int,
    ),
    Option(
        name="max_age_s", envvar="OUTBOX_MAX_AGE_S", help="Age at which a mail is dead [172800].", kind=float
    ),
    Option(
        name="suspect_alone_s",
        envvar="OUTBOX_SUSPECT_ALONE_S",
        help="How long a mail that was lost with its worker twice goes alone before others may go beside it [10].",
        kind=float,
    ),
    Option(name="poll_s", envvar="OUTBOX_POLL_S", help="How often to look for due mail [1].", kind=float),
    Option(
        name="reconcile_s",
        envvar="OUTBOX_RECONCILE_S",
        help="How often to look after doubtful mail [15].",
        kind=float,
    ),
    Option(
        name="drain_s",
        envvar="OUTBOX_DRAIN_S",
        help="How long to finish what is in flight after SIGTERM [30].",
        kind=float,
    ),
    Option(
        name="key_window_s",
        envvar="OUTBOX_KEY_WINDOW_S",
        help="How long the provider surely remembers a key [82800].",
        kind=float,
    ),
    Option(
        name="lookup_lag_s",
        envvar="OUTBOX_LOOKUP_LAG_S",
        help="How far the provider's look-up may lag behind what it has accepted [60].",
        kind=float,
    ),
    Option(
        name="in_flight_s",
        envvar="OUTBOX_IN_FLIGHT_S",
        help="How long a request that we gave up may still be under way [300].",
        kind=float,
    ),
    Option(
        name="metrics",
        envvar="OUTBOX_METRICS",
        help="HOST:PORT for Prometheus' /metrics and for /health; without it nothing listens. Port 0: any free one.",
    ),
    Option(
        name="health_s",
        envvar="OUTBOX_HEALTH_S",
        help="/health turns red when a loop has not looked for so long, or for ten of its turns.",
        kind=float,
        default=60.0,
    ),
    Option(
        name="wake_from",
        envvar="OUTBOX_WAKE_FROM",
        help="amqp://… of a RabbitMQ: look for mail as soon as somebody notifies, not only at the next poll.",
    ),
    Option(
        name="traces",
        envvar="OUTBOX_TRACES",
        help="Attempts as spans of the trace in which their mail was enqueued (OpenTelemetry); OTEL_… say where to.",
        choices=("none", "otlp", "console"),
        default="none",
    ),
    BODY_KEYS,
    Option(
        name="seed",
        envvar="OUTBOX_SEED",
        help="Seed of the random part of waits, for tests; without it each run differs.",
        kind=int,
    ),
    *GATE_OPTIONS,
    *ALARM_OPTIONS,
    Option(
        name="providers",
        envvar="OUTBOX_PROVIDERS",
        help="A TOML file with several providers and the routes to them; its tables hold options by their names.",
    ),
)

#: Options of the whole sender, which a provider of a file cannot have for itself.
_OF_ALL = frozenset(
    {
        "database_url",
        "body_keys",
        "traces",
        "metrics",
        "health_s",
        "wake_from",
        "seed",
        "provider",
        "providers",
    }
    | {option.name for option in ALARM_OPTIONS}
)
#: Those that each provider of a file may have for itself.
OF_ONE: tuple[Option, ...] = tuple(option for option in OPTIONS if option.name not in _OF_ALL)
