"""Access logs: every field of a good line, and what is wrong with a bad one."""

import gzip
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.files import Request, parse_access_log

REAL = Path(__file__).parents[3] / "../shared/data/apache_access.log.gz"

COMMON = '83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /a.png HTTP/1.1" 200 203023'
COMBINED = f'{COMMON} "http://semicomplete.com/" "Mozilla/5.0 (Macintosh)"'


def with_request(text: str) -> Request:
    return parse_access_log(COMMON.replace("GET /a.png HTTP/1.1", text))


def test_combined() -> None:
    assert parse_access_log(COMBINED) == Request(
        host="83.149.9.216",
        user=None,
        time=1431857103000,
        method="GET",
        path="/a.png",
        protocol="HTTP/1.1",
        status=200,
        bytes=203023,
        referrer="http://semicomplete.com/",
        agent="Mozilla/5.0 (Macintosh)",
    )


def test_common_has_neither_referrer_nor_agent() -> None:
    request = parse_access_log(COMMON)
    assert (request.referrer, request.agent) == (None, None)


def test_a_dash_is_nothing() -> None:
    request = parse_access_log('h - - [17/May/2015:10:05:03 +0000] "-" - - "-" "-"')
    assert request == Request("h", None, 1431857103000, None, None, None, 0, 0, None, None)


@pytest.mark.parametrize(("zone", "hours"), [("+0200", 2), ("-0730", -7.5), ("+0000", 0), ("+1400", 14)])
def test_time_zones(zone: str, hours: float) -> None:
    request = parse_access_log(COMMON.replace("+0000", zone))
    at = datetime(2015, 5, 17, 10, 5, 3, tzinfo=timezone(timedelta(hours=hours)))
    assert request.time == at.timestamp() * 1000


def test_a_leap_second_is_the_next_minute() -> None:
    request = parse_access_log(COMMON.replace("17/May/2015:10:05:03", "30/Jun/2015:23:59:60"))
    assert request.time == datetime(2015, 7, 1, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize("host", ["::1", "2001:db8::ff00:42:8329", "fe80::1%eth0", "example.org"])
def test_hosts(host: str) -> None:
    assert parse_access_log(COMMON.replace("83.149.9.216", host)).host == host


@pytest.mark.parametrize("user", ["ada", "ada lovelace", "a [b", "a]b"])
def test_users_are_not_quoted(user: str) -> None:
    assert parse_access_log(COMMON.replace("- -", f"- {user}")).user == user


@pytest.mark.parametrize(
    ("first", "method", "path", "protocol"),
    [
        ("POST /a?b=c HTTP/2.0", "POST", "/a?b=c", "HTTP/2.0"),
        ("GET /a b c HTTP/1.1", "GET", "/a b c", "HTTP/1.1"),
        ("GET /", "GET", "/", None),
        ("M-SEARCH * HTTP/1.1", "M-SEARCH", "*", "HTTP/1.1"),
        (r"GET /\"quoted\"\\ HTTP/1.1", "GET", '/"quoted"\\', "HTTP/1.1"),
        (r"GET /caf\xc3\xa9 HTTP/1.1", "GET", "/café", "HTTP/1.1"),
        (r"\x16\x03\x01", None, "\x16\x03\x01", None),
        (r"\xff\n", None, "\\xff\n", None),
        ("quit", None, "quit", None),
        ("-", None, None, None),
        ("", None, None, None),
    ],
)
def test_requests(first: str, method: str | None, path: str | None, protocol: str | None) -> None:
    request = with_request(first)
    assert (request.method, request.path, request.protocol) == (method, path, protocol)


def test_an_end_of_line_is_no_part_of_it() -> None:
    assert parse_access_log(COMBINED + "\n") == parse_access_log(COMBINED)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "expected the client's address at column 1, found its end"),
        ("hello", "expected the identity, or - at column 6, found its end"),
        (
            COMMON.replace("17/May/2015:", ""),
            "expected a time such as [17/May/2015:10:05:03 +0000] at column 18, found '[10:05:03 +0000]",
        ),
        (COMMON.replace('1.1"', "1.1"), "expected the request in quotes at column 46, found ' \"GET /a.png"),
        (COMMON.replace(" 200 ", " ok "), "expected a status of three digits at column 68, found ' ok 203023'"),
        (COMMON.replace("203023", "much"), "expected the bytes sent, or - at column 72, found ' much'"),
        (COMMON + ' "a"', "expected the agent in quotes at column 83, found its end"),
        (COMBINED[:-1], "expected the agent in quotes at column 106, found ' \"Mozilla/5.0"),
        (COMBINED + " 0.002", "expected the end of the line at column 132, found ' 0.002'"),
        (COMMON.replace("May", "Mai"), "'17/Mai/2015:10:05' is no time: the month is one of Jan, Feb"),
        (COMMON.replace("17/", "32/"), "'32/May/2015:10:05' +0000 is no time: day "),
        (COMMON.replace(":10:", ":24:"), "is no time: hour "),
        (COMMON.replace("+0000", "+2400"), "+2400 is no time: offset "),
    ],
)
def test_a_malformed_line_says_what_was_expected_where(line: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        parse_access_log(line)
    assert why in str(caught.value)


def test_a_quote_that_never_closes_takes_no_time() -> None:
    with pytest.raises(ValueError, match="expected the request in quotes"):
        parse_access_log('h - - [17/May/2015:10:05:03 +0000] "' + r"\"" * 100_000)


def escaped(text: str) -> str:
    """What Apache writes for a text within quotes."""
    special = {ord('"'): r"\"", ord("\\"): r"\\", ord("\n"): r"\n", ord("\t"): r"\t"}
    return "".join(special.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in text.encode())


FIELDS = st.none() | st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: text != "-")
WORDS = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1).filter(lambda text: text != "-")


@given(FIELDS, FIELDS, WORDS, st.integers(0, 10**15), st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)))
def test_what_a_server_writes_is_read_back(
    referrer: str | None, agent: str | None, path: str, size: int, at: datetime
) -> None:
    quoted = [f'"{"-" if text is None else escaped(text)}"' for text in (f"GET {path} HTTP/1.1", referrer, agent)]
    line = f"::1 - ada [{at:%d/%b/%Y:%H:%M:%S} +0000] {quoted[0]} 404 {size} {quoted[1]} {quoted[2]}"
    when = int(at.replace(microsecond=0, tzinfo=UTC).timestamp()) * 1000
    expected = Request("::1", "ada", when, "GET", path, "HTTP/1.1", 404, size, referrer, agent)
    assert parse_access_log(line) == expected


@given(st.text())
def test_any_other_text_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="access log: expected"):
        parse_access_log(line)


@pytest.mark.skipif(not REAL.exists(), reason="the real log, ../shared/data, is not beside this repository")
def test_a_real_log() -> None:
    with gzip.open(REAL, "rt") as file:
        lines = file.read().splitlines()
    requests, wrong = [], []
    for line in lines:
        try:
            requests.append(parse_access_log(line))
        except ValueError:
            wrong.append(line)
    assert len(requests) == 9999
    assert [line[-40:] for line in wrong] == ["ebot/2.1; +http://www.google.com/bot.html"[-40:]]
    assert len({request.host for request in requests}) == 1753
    assert all(request.method and request.path and request.protocol for request in requests)
