"""The call of a plain function of an executor, in a thread."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ..kernel.calls.threads import CallThreads


async def call_in_thread(threads: CallThreads, fn: Callable[[Any], Any], value: Any) -> Any:
    """Call a function in a thread, and return its result. Where that is cancelled, the call is in flight until its
    thread returns, or is given up."""
    context = copy_context()
    call = asyncio.get_running_loop().run_in_executor(threads, lambda: context.run(fn, value))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        if not call.done():
            await asyncio.wait((call,))
        if not call.cancelled():
            call.exception()  # or asyncio logs that it was never retrieved
        raise
