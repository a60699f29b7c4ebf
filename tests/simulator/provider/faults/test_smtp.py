"""The faults that only SMTP has: what each says with other parameters."""

from __future__ import annotations

import pytest

from simulator.provider.answer import Hang, HangUp, Reply, Reset, WhenHeard
from simulator.provider.faults.endings import End
from simulator.provider.faults.smtp import THROTTLES, CloseOnNext, CutTheBody, RefuseEhlo, Style, Throttle


@pytest.mark.parametrize(("end", "then"), [(End.HANG_UP, HangUp()), (End.RESET, Reset()), (End.HANG, Hang())])
def test_a_line_ends_as_it_is_told(end: End, then: Hang | HangUp | Reset) -> None:
    assert CutTheBody(after_bytes=7, end=end).answer() == WhenHeard(size_bytes=7, then=then)
    assert CloseOnNext(end=end).answer() == WhenHeard(size_bytes=1, then=then)


def test_a_code_goes_before_the_end() -> None:
    assert CloseOnNext(code=421).answer() == WhenHeard(size_bytes=1, then=Reply(code=421))


def test_a_refusal_of_ehlo_has_its_own_words() -> None:
    assert RefuseEhlo(code=500, enhanced="5.5.1", text="no").answer() == Reply(
        code=500, enhanced="5.5.1", text="no"
    )


@pytest.mark.parametrize("style", Style)
def test_every_style_has_words_that_fit_together(style: Style) -> None:
    code, enhanced, text = THROTTLES[style]

    assert Throttle(style=style).answer() == Reply(code=code, enhanced=enhanced, text=text)
    assert enhanced is None or enhanced[0] == str(code)[0]
    assert code // 100 in (4, 5)
