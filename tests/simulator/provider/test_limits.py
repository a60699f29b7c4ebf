"""What a plan says of limits."""

from __future__ import annotations

from simulator.provider.limits import Limit, Limits, Scope, limits_on_throughput


def test_the_table_of_an_account_is_limits_like_any_other() -> None:
    assert limits_on_throughput(Limits()) == ()
    assert limits_on_throughput(Limits(rate_per_s=2, burst=3, connections=4, connections_per_ip=5)) == (
        Limit(name="account", rate_per_s=2, burst=3, connections=4),
        Limit(name="ip", per=Scope.IP, connections=5),
    )
