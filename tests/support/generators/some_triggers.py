"""Triggers for properties: each way to fire alone and with others."""

from hypothesis import strategies as st

from fluvial.dsl import Trigger


def triggers(times: st.SearchStrategy[int]) -> st.SearchStrategy[Trigger]:
    """Triggers of up to three messages and of such times, in ms, once or again and again."""
    ways = st.tuples(st.none() | st.integers(1, 3), st.none() | times, st.none() | times).filter(any)
    return st.builds(lambda way, repeats: Trigger(way[0], way[1], way[2], repeats), ways, st.booleans())
