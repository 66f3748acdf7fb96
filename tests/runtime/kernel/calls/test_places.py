"""Places for calls, in the order in which they were asked for."""

import asyncio

from fluvial.runtime.kernel.calls.places import CallPlaces


def test_places_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def main() -> list[int]:
        places, entered = CallPlaces(lambda: 1), list[int]()

        async def enter(number: int) -> None:
            await places.enter()
            entered.append(number)

        waiting = [asyncio.ensure_future(enter(number)) for number in range(4)]
        await asyncio.sleep(0)
        assert places.waiting == 3
        waiting[1].cancel()
        for _ in range(3):
            places.leave()
            await asyncio.sleep(0)
        assert places.taken == 0
        return entered

    assert asyncio.run(main()) == [0, 2, 3]


def test_one_who_gives_up_in_the_moment_of_its_turn_lets_the_next_one_in() -> None:
    async def main() -> int:
        places = CallPlaces(lambda: 1)
        await places.enter()
        first, second = (asyncio.ensure_future(places.enter()) for _ in range(2))
        await asyncio.sleep(0)
        places.leave()
        first.cancel()
        await second
        return places.taken

    assert asyncio.run(main()) == 1
