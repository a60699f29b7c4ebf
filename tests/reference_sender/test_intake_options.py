"""What an operator may tell the intake: one sentence for everything that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference_sender.events.signature import Scheme
from reference_sender.intake_options import INTAKE_OPTIONS, Place, intake_options_from
from reference_sender.policy.settings import InvalidSettings
from tests.reference_sender.doors.knocks import SECRET

TOLD: dict[str, Any] = {"listen": "127.0.0.1:8030", "webhook_secret": SECRET}


def test_a_place_and_a_secret_are_enough() -> None:
    options = intake_options_from(TOLD)
    assert options.listen == Place(kind="http", host="127.0.0.1", port=8030)
    assert (options.scheme, options.keys, options.bounces) == (Scheme.STANDARD, (b"k" * 32,), None)
    assert (options.tolerance_s, options.path, options.patience_s) == (300.0, "/webhooks", 259_200.0)
    assert SECRET not in repr(options)
    assert "kkkk" not in repr(options)


@pytest.mark.parametrize(
    ("bounces", "place"),
    [
        ("lmtp:127.0.0.1:2424", Place(kind="lmtp", host="127.0.0.1", port=2424)),
        ("smtp:[::1]:0", Place(kind="smtp", host="::1", port=0)),
        ("/var/mail/bounces", Place(kind="maildir", folder=Path("/var/mail/bounces"))),
        ("maildir:here", Place(kind="maildir", folder=Path("here"))),
    ],
)
def test_bounces_alone_need_no_secret(bounces: str, place: Place) -> None:
    options = intake_options_from({"bounces": bounces})
    assert (options.listen, options.bounces, options.keys) == (None, place, ())


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"listen": None}, "there is no door"),
        ({"listen": "8030"}, "WEBHOOK_LISTEN is '8030'; it must be HOST:PORT"),
        ({"listen": "localhost:80305"}, "it must be HOST:PORT"),
        ({"bounces": "lmtp:2424"}, "WEBHOOK_BOUNCES is '2424'"),
        ({"webhook_secret": None}, "WEBHOOK_SECRET: there is no webhook secret"),
        ({"webhook_secret": "secret"}, "WEBHOOK_SECRET: .* begins with whsec_"),
        ({"webhook_tolerance_s": 0.0}, "WEBHOOK_TOLERANCE_S is 0.0; it must be a number greater than zero"),
        ({"webhook_tolerance_s": float("nan")}, "WEBHOOK_TOLERANCE_S is nan"),
        ({"patience_s": 1e300}, "WEBHOOK_PATIENCE_S is 1e[+]300"),
        ({"webhook_path": "webhooks"}, "WEBHOOK_PATH is 'webhooks'; it must begin with /"),
        ({"metrics": "9465"}, "WEBHOOK_METRICS is '9465'; it must be HOST:PORT"),
        ({"body_keys": "2026-11"}, "key 1 of OUTBOX_BODY_KEYS has no name"),
        ({"webhook_path": "/{tail}"}, "hold no space, [?], # or brace"),
    ],
)
def test_what_is_wrong_is_one_sentence(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSettings, match=sentence) as error:
        intake_options_from(TOLD | told)
    assert "\n" not in str(error.value)


def test_every_option_has_a_name_in_the_environment_of_its_own() -> None:
    assert len({option.envvar for option in INTAKE_OPTIONS}) == len(INTAKE_OPTIONS)
