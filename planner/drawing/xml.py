"""XML: elements as text, with all that users wrote escaped."""

from html import escape


def element(name: str, *content: str, **attributes: object) -> str:
    """An element around content that is XML already; `_` in the name of an attribute becomes `-`.

    >>> element("text", escaped("a < b"), x=1.5, class_="title")
    '<text x="1.5" class="title">a &lt; b</text>'
    """
    pairs = "".join(f' {_named(key)}="{_valued(value)}"' for key, value in attributes.items() if value is not None)
    return f"<{name}{pairs}>{''.join(content)}</{name}>" if content else f"<{name}{pairs}/>"


def escaped(text: str) -> str:
    """Text as the content of an element: what XML gives a meaning is escaped."""
    return escape(text, quote=False)


def _named(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key.islower() else key


def _valued(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else escape(str(value))
