"""Readers of the formats that plans are drawn in: small, strict, and independent of the writers."""

import re
from html import unescape
from html.parser import HTMLParser

MERMAID_NAME = r"[ns][0-9]+"
MERMAID_TEXT = r'"[^"]*"'
MERMAID_LINES = [
    r"flowchart TB",
    rf"  subgraph {MERMAID_NAME}\[{MERMAID_TEXT}\]",
    r"  end",
    rf" +{MERMAID_NAME}(\[|\[\[|\[\(|\(\[){MERMAID_TEXT}(\]|\]\]|\)\]|\]\)):::[a-z-]+",
    rf"  {MERMAID_NAME} (-->|==>|-\.->)(\|{MERMAID_TEXT}\|)? {MERMAID_NAME}",
    r"  class s[0-9]+(,s[0-9]+)* stage",
    r"  classDef [a-z-]+ [a-z0-9#:, -]+",
]

DOT_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_0-9]+)|(->|[{}\[\]=;,]))', re.DOTALL)


def mermaid_texts(text: str) -> list[str]:
    """The lines of all labels; AssertionError where a line of the text is not Mermaid."""
    found: list[str] = []
    for line in text.splitlines():
        assert any(re.fullmatch(form, line) for form in MERMAID_LINES), line
        for quoted in re.findall(MERMAID_TEXT, line):
            for part in quoted[1:-1].split("<br/>"):
                # These would mean something to Mermaid, to Markdown or to HTML.
                assert not re.search(r"[<>&`*%{\\]|^[0-9]+\.|^-|#(?![0-9]+;)", part), part
                found.append(re.sub(r"#([0-9]+);", lambda code: chr(int(code[1])), part).replace("$\u2060$", "$$"))
    return found


def dot_texts(text: str) -> list[str]:
    """The lines of all quoted strings; AssertionError where the text does not fall into tokens that balance."""
    found: list[str] = []
    depth: list[str] = []
    at = 0
    while text[at:].strip():
        token = DOT_TOKEN.match(text, at)
        assert token is not None, text[at : at + 40]
        at = token.end()
        quoted, _, sign = token.groups()
        if quoted:
            found += _dot_lines(quoted[1:-1])
        elif sign in ("{", "["):
            depth.append({"{": "}", "[": "]"}[sign])
        elif sign in ("}", "]"):
            assert depth.pop() == sign
    assert not depth
    return found


def _dot_lines(text: str) -> list[str]:
    letters = re.findall(r"\\.|[^\\]", text)
    read = "".join("\n" if letter == "\\n" else letter[-1] for letter in letters)
    return [unescape(line) for line in read.split("\n")]


class Page(HTMLParser):
    """What a browser would make of a page: its elements, the texts in titles of nodes, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.elements.append(tag)
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data
