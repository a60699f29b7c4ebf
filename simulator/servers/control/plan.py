"""The endpoints of the fault plan, and the release of what its holds keep back."""

from __future__ import annotations

from starlette.responses import Response

from simulator import shapes
from simulator.config import (
    PlanError,
    explain,
    explain_settings,
    plan_as_json,
    read_plan,
    read_rules,
    warnings,
)
from simulator.provider.plan import Plan
from simulator.provider.provider import Account, Setup
from simulator.provider.webhooks import TargetError
from simulator.servers import plans
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Body, Endpoint, Missing, flag
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said


def _changed(context: Context, account: Account) -> Response:
    plans.remember(context.provider, account.name, context.now())
    context.committer.soon()
    context.feed.publish(account.name, "plan", b"{}")
    return _in_force(context, account)


def _in_force(context: Context, account: Account) -> Response:
    return Said(plan_as_json(context.again(account), context.now(), context.webhooks.rules(account)))


async def show_plan(context: Context, asked: Asked) -> Response:
    return _in_force(context, asked.account)


async def set_plan(context: Context, asked: Asked) -> Response:
    try:
        setup = read_plan(asked.body, "PUT plan")
        context.webhooks.check(setup)
        context.returns.check(setup)
    except (PlanError, TargetError) as problem:
        raise Refusal(422, str(problem)) from problem
    context.provider.set_up(asked.account.name, setup, context.now())
    context.couriers.refresh(asked.account.name)
    return _changed(context, asked.account)


async def add_rules(context: Context, asked: Asked) -> Response:
    data = asked.body
    if isinstance(data, str):
        data = [data]
    if isinstance(data, dict):
        unknown = sorted(set(data) - {"rule", "rules"})
        if "fault" in data:
            data = [data]
        elif unknown:
            raise Refusal(422, f'POST plan appends rules only; "{unknown[0]}" can be changed with PUT plan')
        elif len(data) != 1:
            raise Refusal(422, 'POST plan takes a list of rules, one rule, or {"rules": […]}')
        else:
            (data,) = data.values()
    try:
        # Where they come to stand is nothing to whoever has written them.
        is_alone = isinstance(data, list) and len(data) == 1
        rules = read_rules(
            data,
            "POST plan",
            start=len(_standing(context, asked).rules) + 1,
            counted_from=None if is_alone else 1,
        )
    except PlanError as problem:
        raise Refusal(422, str(problem)) from problem
    context.provider.add_rules(asked.account.name, rules, context.now())
    return _changed(context, asked.account)


def _standing(context: Context, asked: Asked) -> Plan:
    """Return the plan that stands before anything is changed, without making an account."""
    if asked.found is not None:
        return asked.found.plan.plan
    return context.provider.beginning(asked.account_name).plan


async def check_plan(context: Context, asked: Asked) -> Response:
    try:
        setup = read_plan(asked.body, "plan")
    except PlanError as problem:
        raise Refusal(422, str(problem)) from problem
    explained = [*map(explain, setup.plan.rules), *explain_settings(setup)]
    return Said(shapes.PlanChecked(explained=explained, doubts=warnings(setup, account=asked.account_name)))


async def heal(context: Context, asked: Asked) -> Response:
    if asked.given["all"]:
        context.provider.set_up(asked.account.name, Setup(), context.now())
    else:
        context.provider.heal(asked.account.name, context.now())
    context.couriers.refresh(asked.account.name)
    return _changed(context, asked.account)


async def begin_anew(context: Context, asked: Asked) -> Response:
    name = asked.account_name
    context.provider.set_up(name, context.provider.beginning(name), context.now())
    context.couriers.refresh(name)
    return _changed(context, asked.account)


async def release(context: Context, asked: Asked) -> Response:
    return Said(shapes.Released(released=context.holds.release(asked.account_name)))


PLAN = Answer(shape=shapes.PlanShown)

ENDPOINTS = (
    Endpoint(method="GET", path="/plan", says="Show the plan in force.", does=show_plan, gives=PLAN),
    Endpoint(
        method="PUT",
        path="/plan",
        says="Replace the whole plan.",
        does=set_plan,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.PlanGiven,)),
        gives=PLAN,
    ),
    Endpoint(
        method="POST",
        path="/plan",
        says="Append rules.",
        does=add_rules,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.RulesToAdd, list[shapes.Rule], str)),
        gives=PLAN,
    ),
    Endpoint(
        method="DELETE",
        path="/plan",
        says="Take all rules away: the provider is healthy.",
        does=heal,
        gives=PLAN,
        parameters=(flag("all", "Take its settings away, too: everything is as usual."),),
    ),
    Endpoint(
        method="POST",
        path="/plan/check",
        says="Say what a plan would do, without putting it in force.",
        does=check_plan,
        missing=Missing.IGNORED,
        takes=Body(shapes=(shapes.PlanGiven,)),
        gives=Answer(shape=shapes.PlanChecked),
    ),
    Endpoint(
        method="POST",
        path="/plan/reset",
        says="Put the plan in force again that the account began with.",
        does=begin_anew,
        gives=PLAN,
    ),
    Endpoint(
        method="POST",
        path="/release",
        says="Let go the answers that are held.",
        does=release,
        missing=Missing.IGNORED,
        gives=Answer(shape=shapes.Released),
    ),
)
