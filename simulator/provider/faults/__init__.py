"""What can go wrong: one small value per fault, and the table of their names.

A fault only says which answer is given (and, for refused recipients, to whom). *When* it strikes, and
whether the mail is booked by then, is the stage of its rule: at SMTP `reply` and HTTP `reply`/`body` the
mail is already in the ledger. "Accept, then lose the answer" is therefore an ordinary fault at stage
`reply`; the table `SPELLINGS` gives it the name people look for.
"""

from __future__ import annotations

from simulator.provider.faults.both import (
    AnswerTwice,
    DripTheAnswer,
    Drop,
    GarbleTheReply,
    HangThere,
    HangUpOnThem,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
    ResetTheLine,
    SlowDown,
    TruncateTheReply,
)
from simulator.provider.faults.fates import DecideFate, TellBeforeTheAnswer
from simulator.provider.faults.lookups import FindEverything, FindNothing, FindWhatWas
from simulator.provider.faults.smtp import (
    CloseOnNext,
    CutTheBody,
    RefuseEhlo,
    ReplyOutOfTurn,
    Tarpit,
    Throttle,
)
from simulator.provider.faults.stages import (
    AFTER_BOOKING,
    BEFORE_THE_MAIL,
    HTTP_STAGES,
    SMTP_STAGES,
    WEBHOOK_STAGES,
    Stages,
)
from simulator.provider.faults.table import FAULTS, SPELLINGS, Fault, Spelling, natural_stage
from simulator.provider.faults.tls import BadCertificate, BreakTheHandshake, RefuseTheHandshake
from simulator.provider.faults.webhooks import WebhookFault

__all__ = [
    "AFTER_BOOKING",
    "BEFORE_THE_MAIL",
    "FAULTS",
    "HTTP_STAGES",
    "SMTP_STAGES",
    "SPELLINGS",
    "WEBHOOK_STAGES",
    "AnswerTwice",
    "BadCertificate",
    "BreakTheHandshake",
    "CloseOnNext",
    "CutTheBody",
    "DecideFate",
    "DripTheAnswer",
    "Drop",
    "Fault",
    "FindEverything",
    "FindNothing",
    "FindWhatWas",
    "GarbleTheReply",
    "HangThere",
    "HangUpOnThem",
    "HoldTheAnswer",
    "RefuseEhlo",
    "RefuseRecipients",
    "RefuseTheHandshake",
    "ReplyOutOfTurn",
    "ReplyWith",
    "ResetTheLine",
    "SlowDown",
    "Spelling",
    "Stages",
    "Tarpit",
    "TellBeforeTheAnswer",
    "Throttle",
    "TruncateTheReply",
    "WebhookFault",
    "natural_stage",
]
