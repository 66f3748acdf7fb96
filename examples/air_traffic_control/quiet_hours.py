"""When a member may be told: hours of their day, by the clock where they are."""

from .messages import Preferences

HOUR = 3_600_000
DAY = 24 * HOUR


def day_of(time: int, preferences: Preferences) -> int:
    """The number of the member's day at a time."""
    return (time + preferences.utc_offset * HOUR) // DAY


def end_of_day(time: int, preferences: Preferences) -> int:
    """When the member's next day begins."""
    return (day_of(time, preferences) + 1) * DAY - preferences.utc_offset * HOUR


def end_of_quiet_hours(time: int, preferences: Preferences) -> int:
    """When the quiet hours end that hold at a time; the time itself if none hold."""
    into_day = (time + preferences.utc_offset * HOUR) % DAY
    begin, end = preferences.quiet_from * HOUR, preferences.quiet_until * HOUR
    since, length = (into_day - begin) % DAY, (end - begin) % DAY
    return time + length - since if since < length else time
