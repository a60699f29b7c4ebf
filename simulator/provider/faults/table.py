"""The table of all faults, the second names of some, and the stage each strikes at if nobody says."""

from __future__ import annotations

from dataclasses import dataclass

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
from simulator.provider.faults.tls import BadCertificate, BreakTheHandshake, RefuseTheHandshake
from simulator.provider.faults.web import (
    ChunkTheAnswer,
    GatewayGivesUp,
    GzipTheAnswer,
    ListOddly,
    NeverContinue,
    OddBody,
    Redirect,
    SayBefore,
)
from simulator.provider.faults.webhooks import (
    ContradictIt,
    LoseIt,
    SignBadly,
    SignLongAgo,
    TellLate,
    TellNonsenseToo,
    TellOfAnUnknownMail,
    TellOutOfOrder,
    TellTwice,
    TellTwiceUnderAnotherId,
)

Fault = (
    ReplyWith
    | SlowDown
    | HangThere
    | HangUpOnThem
    | ResetTheLine
    | GarbleTheReply
    | TruncateTheReply
    | HoldTheAnswer
    | Drop
    | DecideFate
    | TellBeforeTheAnswer
    | TellTwice
    | TellTwiceUnderAnotherId
    | TellLate
    | TellOutOfOrder
    | LoseIt
    | SignBadly
    | SignLongAgo
    | TellNonsenseToo
    | ContradictIt
    | TellOfAnUnknownMail
    | RefuseRecipients
    | FindNothing
    | FindWhatWas
    | FindEverything
    | Redirect
    | GatewayGivesUp
    | OddBody
    | ListOddly
    | GzipTheAnswer
    | ChunkTheAnswer
    | DripTheAnswer
    | SayBefore
    | AnswerTwice
    | NeverContinue
    | RefuseEhlo
    | RefuseTheHandshake
    | BreakTheHandshake
    | BadCertificate
    | CutTheBody
    | CloseOnNext
    | ReplyOutOfTurn
    | Tarpit
    | Throttle
)

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        ReplyWith,
        SlowDown,
        HangThere,
        HangUpOnThem,
        ResetTheLine,
        GarbleTheReply,
        TruncateTheReply,
        HoldTheAnswer,
        Drop,
        DecideFate,
        TellBeforeTheAnswer,
        TellTwice,
        TellTwiceUnderAnotherId,
        TellLate,
        TellOutOfOrder,
        LoseIt,
        SignBadly,
        SignLongAgo,
        TellNonsenseToo,
        ContradictIt,
        TellOfAnUnknownMail,
        RefuseRecipients,
        FindNothing,
        FindWhatWas,
        FindEverything,
        Redirect,
        GatewayGivesUp,
        OddBody,
        ListOddly,
        GzipTheAnswer,
        ChunkTheAnswer,
        DripTheAnswer,
        SayBefore,
        AnswerTwice,
        NeverContinue,
        RefuseEhlo,
        RefuseTheHandshake,
        BreakTheHandshake,
        BadCertificate,
        CutTheBody,
        CloseOnNext,
        ReplyOutOfTurn,
        Tarpit,
        Throttle,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A second name for a fault: the same fault at a fixed stage, with other defaults."""

    fault: str
    stage: str
    defaults: tuple[tuple[str, int], ...] = ()
    meaning: str


SPELLINGS: dict[str, Spelling] = {
    "accept_then_hang": Spelling(fault="hang", stage="reply", meaning="Take the mail, then never answer."),
    "accept_then_hang_up": Spelling(
        fault="hang_up", stage="reply", meaning="Take the mail, then close the line (FIN) unanswered."
    ),
    "accept_then_reset": Spelling(
        fault="reset", stage="reply", meaning="Take the mail, then break the line (RST) unanswered."
    ),
    "accept_then_reply": Spelling(
        fault="reply",
        stage="reply",
        # 554 and 500 are both "5xx"; 500 is a valid code on both wires.
        defaults=(("code", 500),),
        meaning="Take the mail, then say that it was not taken.",
    ),
    "accept_then_garble": Spelling(
        fault="garble", stage="reply", meaning="Take the mail, then answer with nonsense."
    ),
    "accept_then_truncate": Spelling(
        fault="truncate", stage="reply", meaning="Take the mail, then break off in the middle of the answer."
    ),
    "accept_then_gateway": Spelling(
        fault="gateway",
        stage="reply",
        meaning="Take the mail, then let a gateway say in HTML that it gave up.",
    ),
    "accept_then_odd_body": Spelling(
        fault="odd_body", stage="reply", meaning="Take the mail, then say success with a body that is none."
    ),
    "accept_then_421": Spelling(
        fault="two_answers",
        stage="reply",
        defaults=(("code", 421),),
        meaning="Take the mail and say so, and say 421 in the same breath.",
    ),
    "accept_then_hold": Spelling(
        fault="hold", stage="reply", meaning="Take the mail, then keep the answer until it is released."
    ),
}

#: The stage a rule gets when it names none, by wire and fault: where the mail is about to be booked, if it can be there.
_USUAL_STAGE = {"smtp": "message", "http": "accept", "webhook": "webhook"}


def natural_stage(fault: Fault | type[Fault], wire: str) -> str:
    """Return the stage at which a fault strikes on this wire if its rule names none."""
    usual = _USUAL_STAGE[wire]
    return usual if usual in fault.stages[wire] else fault.stages[wire][0]
