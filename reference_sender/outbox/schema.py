"""The tables of the outbox as this version has them.

`outgoing_email` holds one row per (event, recipient); `email_attempt` is the append-only record of what happened;
`suppression` who must not be written to; `email_attachment` the contents that mails name, each once; `ordering_lane`
and `campaign` what their names say; `webhook_event` what the provider told afterwards, `event_address` whom that names, `delivery_fact` what it means. `outbox_schema` says which version the tables have. A change here is a step in `migrations`.
Must not hold: queries.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reference_sender.life import State
from reference_sender.outbox.columns import StateName, UtcDateTime
from reference_sender.outbox.sealed import SealedBytes, SealedText

metadata = MetaData()

# What only one database has a word for. Said when a table is made and not when it is described: the description alone
# would load the words of every database, a tenth of the start-up time of those who speak one.
_TABLE_WORDS: dict[str, dict[str, Any]] = {
    # MySQL would hold `Order-1` and `order-1` for the same key: two mails, one of them lost.
    "mysql": {"charset": "utf8mb4", "collate": "utf8mb4_bin", "engine": "InnoDB"},
    # An id that was once given out stays given out: attempts and logs refer to it.
    "sqlite": {"autoincrement": True},
}


def _spell(table: Table, connection: Connection, **_more: Any) -> None:
    """Complete a table that is about to be made in this database."""
    backend = connection.dialect.name
    for name, value in _TABLE_WORDS.get(backend, {}).items():
        table.dialect_kwargs[f"{backend}_{name}"] = value
    for name, value in table.info.get(backend, {}).items():
        table.dialect_kwargs[f"{backend}_{name}"] = value
    for index in table.indexes:
        if "only" in index.info:
            index.dialect_kwargs[f"{backend}_where"] = index.info["only"]


#: Goes into every table of ours: `Table(…, **SPELLED)`.
SPELLED: dict[str, Any] = {"listeners": [("before_create", _spell)]}

# SQLite numbers rows by itself only where the type is exactly INTEGER.
_Id = BigInteger().with_variant(Integer, "sqlite")
# The length makes it a LONGBLOB where BLOB alone would stop at 64 KiB.
_Sealed = SealedBytes(2**32 - 1)
# And this one a MEDIUMTEXT, for what a provider may say at length.
_Words = Text().with_variant(Text(2**24 - 1), "mysql")
_SealedWords = SealedText().with_variant(SealedText(2**24 - 1), "mysql")

# Each mail leaves dead entries at the front of the indexes of what is due and of leases, each event one in that of what is
# to be looked at, and every claim and look walks over them until a vacuum takes them out. PostgreSQL would wait until a
# fifth of the table is dead, however long its history, and would leave the indexes as they are where that is few pages.
_VACUUM: dict[str, Any] = {
    "postgresql": {
        "with": {
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_vacuum_threshold": "20000",  # rows; ten thousand mails, each claimed and settled
            "vacuum_index_cleanup": "on",
        }
    }
}

outgoing_email = Table(
    "outgoing_email",
    metadata,
    Column("id", _Id, primary_key=True),
    # What was promised. Written once, at enqueue, and never changed.
    Column("dedupe_key", String(255), nullable=False),
    Column("idempotency_key", String(160), nullable=False, unique=True),
    Column("message_id", String(340), nullable=False),
    Column("sender", String(320), nullable=False),
    Column("recipient", String(320), nullable=False),
    Column("raw", _Sealed, nullable=False),
    # What it was rendered from, for people; what is sent is `raw`.
    Column("template", String(255)),
    Column("parameters", _SealedWords),  # JSON
    Column("traceparent", String(64)),  # of the trace in which it was enqueued (W3C Trace Context)
    Column("priority", Integer, nullable=False),  # higher goes first
    Column("mail_class", String(32), nullable=False, server_default="confirmation"),  # see `policy.classes`
    Column("expires_at", UtcDateTime),
    Column("attachments", _Words),  # what was cut out of `raw`, and where it belongs: `attachments`
    Column("depends_on", String(255)),  # the event key of a mail that must be accepted before
    Column("ordering_key", String(255)),  # one under way per key, in the order of enqueue
    Column("slot", String(255)),  # of mails with the same slot only the newest is worth sending
    Column("campaign", String(80)),
    Column("created_at", UtcDateTime, nullable=False),
    # Where it stands.
    Column("queued_at", UtcDateTime, nullable=False),  # what the age cap counts from; a requeue sets it anew
    Column("state", StateName, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("tries", Integer, nullable=False),  # claims since queued_at; the back-off grows with it
    Column("next_attempt_at", UtcDateTime),
    # Pending without a next attempt: it waits for another mail, and no longer than until this. See `waiting`.
    Column("hold_until", UtcDateTime),
    Column("lease_until", UtcDateTime),
    Column("token", Integer, nullable=False),  # the fence: goes up with each claim and each move by others
    Column("in_doubt", Boolean, nullable=False),  # the running attempt may already have been accepted
    Column(
        "losses", Integer
    ),  # so often it was lost with its worker since an attempt ended, see policy.suspects; null: never
    Column("doubted_at", UtcDateTime),  # when the last attempt that may have been accepted ended
    Column("may_repeat", Boolean, nullable=False),  # the recipient may get a second copy, knowingly
    Column("if_not_sent", StateName),  # unknown rows: where to go once "not sent" is proved
    # What came of it.
    Column("provider", String(64)),  # where the last attempt went; a mail in doubt never goes elsewhere
    Column("provider_id", String(255)),
    Column("last_error", _Words),
    Column("last_code", Integer),
    Column("raw_answer", _Words),
    Column("first_attempt_at", UtcDateTime),
    Column("accepted_at", UtcDateTime),
    Column("last_event_at", UtcDateTime),  # the newest thing that the provider told of it afterwards
    Column("updated_at", UtcDateTime, nullable=False),
    # When its words were taken out again, and the SHA-256 of what it said.
    Column("erased_at", UtcDateTime),
    Column("content_hash", String(64)),
    CheckConstraint(
        "state IN ({})".format(", ".join(f"'{s.value}'" for s in State)), name="outgoing_email_state"
    ),
    info=_VACUUM,
    **SPELLED,
)


def _index_of(state: State, name: str, *columns: Any) -> None:
    """An index of the rows in one state: those that somebody still has to look at, however long the history grows.

    Partial where the database has that; elsewhere the state is its first column.
    """
    only = {"only": text(f"state = '{state.value}'")}
    Index(name, *columns, info=only).ddl_if(dialect="sqlite")
    Index(name, *columns, info=only).ddl_if(dialect="postgresql")
    Index(name, outgoing_email.c.state, *columns).ddl_if(dialect="mysql")


# In the order of a claim to the end, with the number: so the first rows are read and no others, however many are due.
_index_of(
    State.PENDING,
    "outgoing_email_next",
    outgoing_email.c.priority.desc(),
    outgoing_email.c.next_attempt_at,
    outgoing_email.c.id,
)
_index_of(State.SENDING, "outgoing_email_lease", outgoing_email.c.lease_until)
_index_of(State.UNKNOWN, "outgoing_email_doubt", outgoing_email.c.next_attempt_at)
# What waits for a person. MySQL finds them by the state, which its other indexes begin with.
for _state in (State.FAILED, State.DEAD):
    for _backend in ("sqlite", "postgresql"):
        Index(
            f"outgoing_email_{_state.value}",
            outgoing_email.c.queued_at,
            info={"only": text(f"state = '{_state.value}'")},
        ).ddl_if(dialect=_backend)
# The ways from a question to a row: the event, the mail as the recipient has it, the provider's name for it.
Index("outgoing_email_dedupe_key", outgoing_email.c.dedupe_key)
Index("outgoing_email_message_id", outgoing_email.c.message_id)
Index("outgoing_email_provider_id", outgoing_email.c.provider_id)

# What few mails have: the index holds those, and costs the others nothing.
for _name, _columns in (
    ("slot", (outgoing_email.c.slot, outgoing_email.c.id)),
    ("ordering_key", (outgoing_email.c.ordering_key, outgoing_email.c.state)),
    ("hold_until", (outgoing_email.c.hold_until,)),
    ("campaign", (outgoing_email.c.campaign, outgoing_email.c.state)),
    ("losses", (outgoing_email.c.losses, outgoing_email.c.state)),
):
    Index(f"outgoing_email_{_name}", *_columns, info={"only": text(f"{_name} IS NOT NULL")})

ordering_lane = Table(
    "ordering_lane",
    metadata,
    # Locked by whoever enqueues under this key: numbers are given in the order of commits.
    Column("ordering_key", String(255), primary_key=True),
    Column("enqueued_at", UtcDateTime, nullable=False),
    **SPELLED,
)

email_attachment = Table(
    "email_attachment",
    metadata,
    Column("digest", String(64), primary_key=True),  # hex SHA-256 of the content
    Column("content", _Sealed, nullable=False),
    Column("octets", BigInteger, nullable=False),
    Column(
        "used_at", UtcDateTime, nullable=False
    ),  # by the last enqueue; what is purged was not used since long
    **SPELLED,
)

email_attachment_use = Table(
    "email_attachment_use",
    metadata,
    Column("email_id", _Id, ForeignKey("outgoing_email.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String(64), ForeignKey("email_attachment.digest"), primary_key=True, index=True),
    **SPELLED,
)

suppression = Table(
    "suppression",
    metadata,
    Column("address", String(320), primary_key=True),  # in lower case: `policy.suppression.canonical`
    Column("kind", String(16), primary_key=True),  # how much it covers: all, newsletter
    Column("reason", String(32), nullable=False),
    Column("source", String(255), nullable=False),  # who says so: an event, a person
    Column("since", UtcDateTime, nullable=False),
    Column("until", UtcDateTime),  # null: for ever
    **SPELLED,
)

campaign = Table(
    "campaign",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("state", String(16), nullable=False),  # ready, running, paused, cancelled, done
    # What is sent to whom. Written once, at create.
    Column("sender", _Words, nullable=False),
    Column("mail_class", String(32), nullable=False),
    Column("template", String(255), nullable=False),
    Column("parameters", _Words, nullable=False),  # JSON, the same for all
    Column("audience", _Words, nullable=False),  # JSON: where the recipients are read
    Column("page_rows", Integer, nullable=False),
    Column("gap_s", Double, nullable=False),  # between two mails
    Column("begins_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime),  # after it nothing more is sent
    # How far it is. Written in the transaction that makes the rows.
    Column("cursor", _Words),  # JSON: behind the last page
    Column("next_at", UtcDateTime, nullable=False),  # when the next mail is due
    Column("pages", Integer, nullable=False),  # the fence: two runners cannot both write the same page
    Column("members", Integer, nullable=False),  # that were read
    Column("enqueued", Integer, nullable=False),
    Column("known", Integer, nullable=False),  # that had their row already
    Column("suppressed", Integer, nullable=False),
    Column("refused", Integer, nullable=False),  # that cannot be written to: no address, a parameter missing
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    **SPELLED,
)

email_attempt = Table(
    "email_attempt",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("email_id", _Id, ForeignKey("outgoing_email.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("token", Integer, nullable=False),
    Column("provider", String(64)),  # whom it asked
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("phase", String(16)),
    Column("code", Integer),
    Column("enhanced", String(16)),
    Column("trouble", String(64)),
    Column("answer", _Words),
    Column("provider_id", String(255)),
    Column("decision", String(16), nullable=False),
    Column("reason", _Words, nullable=False),
    Column("late", Boolean, nullable=False),  # the lease was lost: it is kept as evidence and changed nothing
    **SPELLED,
)

outbox_gate = Table(
    "outbox_gate",
    metadata,
    # What all workers know of a provider; one row each, made when there is something to know.
    Column("provider", String(64), primary_key=True),
    Column("position", String(16), nullable=False),  # of the breaker: closed, open, half-open
    Column("in_a_row", Integer, nullable=False),  # failures
    Column("good", Integer, nullable=False),  # in the window that began at `since`
    Column("bad", Integer, nullable=False),
    Column("since", UtcDateTime),  # half-open: when this round of probes began
    Column("until", UtcDateTime),  # open: end of the pause; half-open: when probes without a word are lost
    Column("trips", Integer, nullable=False),  # pauses in a row
    Column("probes", Integer, nullable=False),  # half-open: so many are out
    Column("passed", Integer, nullable=False),  # half-open: so many came back well
    Column("throttles", Integer, nullable=False),  # so often in a row it said "too fast"
    Column("paused_until", UtcDateTime),  # it wants nobody to come before
    Column("well_since", UtcDateTime),  # when the breaker closed last
    Column("reason", _Words),  # for people
    Column("updated_at", UtcDateTime, nullable=False),
    **SPELLED,
)

operator_access = Table(
    "operator_access",
    metadata,
    # Who looked at whose mail, or changed something by hand. It outlives the mails, so it refers to them by number only.
    Column("id", _Id, primary_key=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("operator", String(64), nullable=False),
    Column("action", String(32), nullable=False),
    Column("email_id", _Id, index=True),
    Column("detail", _Words),
    **SPELLED,
)

outbox_bucket = Table(
    "outbox_bucket",
    metadata,
    # The tokens of a rate, and the moment at which there were so many.
    Column("name", String(64), primary_key=True),
    Column("tokens", Double, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    **SPELLED,
)

webhook_event = Table(
    "webhook_event",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("source", String(32), nullable=False),  # webhook or mail
    Column("event_id", String(255), nullable=False),
    Column("raw", _Sealed, nullable=False),  # as it came
    Column("received_at", UtcDateTime, nullable=False),
    # new, waiting: `next_look_at` says for when; applied, ignored, parked: done with.
    Column("state", String(16), nullable=False),
    Column("reason", _Words),
    Column("looks", Integer, nullable=False),  # the fence: goes up whenever somebody has dealt with it
    Column("next_look_at", UtcDateTime, index=True),
    Column("email_id", _Id, index=True),  # of the mail it is about; that may be gone
    Column("settled_at", UtcDateTime, index=True),
    # When the addresses in it went into `event_address`; null: an erasure has to read it.
    Column("named_at", UtcDateTime),
    # The same event told again is the same row: whoever told it got a 2xx, and nothing is counted twice.
    UniqueConstraint("source", "event_id", name="webhook_event_once"),
    info=_VACUUM,
    **SPELLED,
)

Index(
    "webhook_event_unnamed",
    webhook_event.c.named_at,
    webhook_event.c.id,
    info={"only": text("named_at IS NULL")},
)

event_address = Table(
    "event_address",
    metadata,
    # Whom an event names, by a hash: how an erasure finds what was told of a person, sealed or not.
    Column("digest", String(64), primary_key=True),  # `policy.addresses.digest_of`
    Column("event_id", _Id, ForeignKey("webhook_event.id", ondelete="CASCADE"), primary_key=True, index=True),
    **SPELLED,
)

delivery_fact = Table(
    "delivery_fact",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("email_id", _Id, ForeignKey("outgoing_email.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),  # `events.kinds`
    Column("happened_at", UtcDateTime, nullable=False),
    Column("provider_id", String(255)),
    Column("detail", _Words),  # what the recipient's server said
    Column("recorded_at", UtcDateTime, nullable=False),
    # The same fact under another event id is the same fact.
    UniqueConstraint("email_id", "kind", "happened_at", name="delivery_fact_once"),
    **SPELLED,
)

outbox_schema = Table(
    "outbox_schema",
    metadata,
    # One row per step that was taken; the highest counts.
    Column("version", Integer, primary_key=True, autoincrement=False),
    **SPELLED,
)
