"""The pool that makes the calls of an operator: of one message each, or of a batch of them."""

import asyncio
from collections.abc import Callable

from ....dsl.operators import AsyncCall, Operator
from .async_calls import CallPool, Gate, Sleep
from .batch_pool import BatchPool
from .call import Call
from .call_journal import CallJournal
from .door import Door
from .task_calls import Pool


def pool_of(
    operator: Operator,
    call: AsyncCall,
    deliver: Callable[[Call], None],
    sleep: Sleep = asyncio.sleep,
    gate: Gate | None = None,
    door: Door | None = None,
    journal: CallJournal | None = None,
) -> Pool:
    """The pool of an operator in one task. `deliver(call)` is called for each message whose call has ended. `journal`
    keeps the results of its calls, and calls wait for the `door`, if there is one."""
    make = CallPool if call.batch is None else BatchPool
    return make(operator, call, deliver, sleep, gate, door, journal)
