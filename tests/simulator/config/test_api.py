"""The table `[http]` is read as it is meant."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.config.api import SETTINGS, read_api
from simulator.config.place import Place, PlanError
from simulator.provider.api import ApiRules


def test_what_is_not_given_stays_as_usual() -> None:
    assert read_api({}, Place("p")) == ApiRules()


def test_every_setting_can_be_written() -> None:
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(ApiRules)}
    given = {
        "api_key_required": True,
        "request_gzip": True,
        "keep_alive_s": 5,
        "rate_fields": "x_epoch",
        "aliases": {"/mail/send": "X-Key"},
    }
    assert read_api(given, Place("p")) == ApiRules(
        api_key_required=True,
        request_gzip=True,
        keep_alive_s=5.0,
        rate_fields="x_epoch",
        aliases=(("/mail/send", "X-Key"),),
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"api_key_required": 1}, 'p: "api_key_required" is 1; it must be true or false'),
        ({"keep_alive_s": 0}, '"keep_alive_s" is 0; it must be a number above 0'),
        ({"rate_fields": "rfc"}, '"rate_fields" is "rfc"; known are draft6, ietf, none, x_epoch, x_seconds'),
        ({"aliases": []}, '"aliases" is []; it must be a table of paths and header names'),
        (
            {"aliases": {"send": "X"}},
            '"aliases" names "send"; it must be a path of its own, like "/mail/send"',
        ),
        ({"aliases": {"/_simulator/v1": "X"}}, "it must be a path of its own"),
        ({"aliases": {"/v1/emails/batch": "X"}}, "it must be a path of its own"),
        ({"aliases": {"/a b": "X"}}, "it must be a path of its own"),
        ({"aliases": {"/send": ""}}, '"aliases" gives "/send" no header; name one, like "Idempotency-Key"'),
        ({"aliases": {"/send": "X Y"}}, '"aliases./send" is "X Y"; it must be the name of a header'),
        ({"alias": {}}, 'there is no key "alias"; did you mean "aliases"?'),
        (7, "this must be a table of settings, not 7"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(data: object, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_api(data, Place("p"))

    assert says in str(caught.value)
