"""Permits for calls, in the order in which they were asked for."""

import asyncio

from fluvial.runtime.kernel.calls.permits import CallPermits


def test_permits_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def main() -> list[int]:
        permits, entered = CallPermits(lambda: 1), list[int]()

        async def enter(number: int) -> None:
            await permits.enter()
            entered.append(number)

        waiting = [asyncio.ensure_future(enter(number)) for number in range(4)]
        await asyncio.sleep(0)
        assert permits.waiting == 3
        waiting[1].cancel()
        for _ in range(3):
            permits.leave()
            await asyncio.sleep(0)
        assert permits.taken == 0
        return entered

    assert asyncio.run(main()) == [0, 2, 3]


def test_one_who_gives_up_in_the_moment_of_its_turn_lets_the_next_one_in() -> None:
    async def main() -> int:
        permits = CallPermits(lambda: 1)
        await permits.enter()
        first, second = (asyncio.ensure_future(permits.enter()) for _ in range(2))
        await asyncio.sleep(0)
        permits.leave()
        first.cancel()
        await second
        return permits.taken

    assert asyncio.run(main()) == 1


def test_those_who_give_up_are_not_kept_though_no_permit_comes_back() -> None:
    async def main() -> int:
        permits = CallPermits(lambda: 1)
        await permits.enter()
        waiting = [asyncio.ensure_future(permits.enter()) for _ in range(5)]
        await asyncio.sleep(0)
        for one in waiting[1:]:
            one.cancel()
        await asyncio.wait(waiting[1:])
        kept = len(permits._waiting)
        permits.clear()
        waiting[0].cancel()
        await asyncio.wait(waiting)
        return kept

    assert asyncio.run(main()) == 1
