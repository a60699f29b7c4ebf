"""Batches as they come in: a JSON array of mails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from simulator.dialects.native.fields import Malformed, as_object, kind, parse
from simulator.dialects.native.keys import take_key
from simulator.dialects.native.request import fingerprint_of, read_mail
from simulator.provider.answer import Reason, Refused
from simulator.provider.message import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The mails of a request, in their order."""

    mails: tuple[Submission | Refused, ...]
    fingerprint: str


def read_batch(
    body: bytes,
    *,
    key: str | None,
    max_mails: int,
    now: datetime,
    host: str,
    body_field: str = "idempotency_key",
    max_chars: int = 255,
) -> Batch | Refused:
    """Read a JSON array of mails. `key` is that of the whole batch; each mail may have one of its own in `body_field`.

    What is wrong with one mail is that mail's refusal; what is wrong with the array refuses the request.
    """
    try:
        data = parse(body)
        if not isinstance(data, list):
            raise Malformed(f"the body is {kind(data)}; it must be a JSON array of mails")
        if not data:
            raise Malformed("the array is empty; give at least one mail")
        if len(data) > max_mails:
            detail = f"the array has {len(data)} mails, {max_mails} are allowed"
            raise Malformed(detail, Reason.TOO_MANY_MAILS)
    except Malformed as problem:
        return Refused(reason=problem.reason, detail=problem.detail)
    fingerprint = fingerprint_of(data)
    mails: list[Submission | Refused] = []
    for index, each in enumerate(data):
        try:
            mail = as_object(each, "the mail")
            own = take_key(mail, body_field, max_chars=max_chars)
            # Two mails of one batch are two mails, also where they are alike: the place is part of the name.
            seed = own if own is not None or key is None else f"{key}#{index}"
            mails.append(replace(read_mail(mail, key=seed, now=now, host=host), key=own))
        except Malformed as problem:
            mails.append(Refused(reason=problem.reason, detail=problem.detail, index=index))
    return Batch(mails=tuple(mails), fingerprint=fingerprint)
