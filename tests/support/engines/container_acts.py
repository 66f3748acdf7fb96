"""What random tests let happen to the containers of a run, and to the run."""

from typing import NamedTuple

from hypothesis import strategies as st

from engines.live_containers import LiveContainers

MOST_CONTAINERS = 4
ELASTICITY = st.sampled_from([1, 2, 4])


class Act(NamedTuple):
    """What happens: a container takes turns, commits, dies, loses its stores, is started, joins by its number alone, or
    is taken for dead; there are to be so many containers, or key buckets; or all of them stop or die, and a run with so
    many begins anew. Tests have more kinds of their own."""

    kind: str
    number: int
    elasticity: int = 1


def act(kind: str, number: st.SearchStrategy[int]) -> st.SearchStrategy[Act]:
    """Acts of a kind that has one number."""
    return st.builds(Act, st.just(kind), number, st.just(1))


_CONTAINER = st.integers(0, MOST_CONTAINERS - 1)
_NUMBERS = st.integers(1, MOST_CONTAINERS)
TURN = act("turn", _CONTAINER)
TURNS = act("turns", st.integers(1, 12))
ONE_CONTAINER = st.one_of(*(act(kind, _CONTAINER) for kind in ("start", "join", "kill", "lose", "suspect")))
COMMIT = act("commit", _CONTAINER)
SCALE = act("scale", _NUMBERS)
SPLIT = act("split", ELASTICITY)
NEW_RUN = st.builds(Act, st.sampled_from(["stop", "crash"]), _NUMBERS, ELASTICITY)


def perform(containers: LiveContainers, what: Act) -> None:
    """Let something happen to containers; a kind that is none of theirs is an error."""
    kind, number, elasticity = what
    match kind:
        case "turn":
            containers.turn(number)
        case "turns":
            for _ in range(number):
                for one in sorted(containers.alive):
                    containers.turn(one)
        case "commit":
            containers.commit(number)
        case "start":
            if number < containers.containers:
                containers.start(number)
        case "join":
            containers.join(number)
        case "kill":
            containers.kill(number)
        case "lose":
            containers.lose_store(number)
        case "suspect":
            if {*range(containers.containers)} & containers.alive.keys() - {number}:
                containers.suspect(number)
        case "scale":
            containers.scale(number)
        case "split":
            containers.scale(containers.containers, elasticity=number)
        case "stop" | "crash":
            containers.begin_again(number, elasticity, stops=kind == "stop")
        case _:
            raise ValueError(kind)
