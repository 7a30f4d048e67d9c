"""Text to tokens. One regular expression, no backtracking: linear in the text."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from shoal.content.language.limits import MAX_LENGTH, FilterError
from shoal.content.values import parse_integer

TokenKind: TypeAlias = Literal["number", "text", "name", "word", "sign", "end"]


class Token(NamedTuple):
    """A token: ``word`` is a bare word (keyword, attribute or function), ``name`` a quoted one."""

    kind: TokenKind
    spelling: str
    position: int
    value: int | float | str = ""

    @property
    def keyword(self) -> str:
        """A bare word or sign in upper case; empty for anything else."""
        return self.spelling.upper() if self.kind in ("word", "sign") else ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"«{self.spelling[:40]}»"


_TOKEN = re.compile(
    r"""
      (?P<space>   [ \t\r\n]+ )
    | (?P<decimal> [0-9]+\.[0-9]+ (?:[eE][+-]?[0-9]+)? (?![A-Za-z0-9_.]) )
    | (?P<word>    [A-Za-z0-9_]+ )
    | (?P<text>    ' (?:[^'\\]|\\.)* ' | " (?:[^"\\]|\\.)* " )
    | (?P<name>    ` [^`]+ ` )
    | (?P<sign>    <> | <= | >= | != | [=<>+\-*/%(),] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"""\\(['"\\])""")
_CURES = {
    "'": "a text must end with the quote it began with; write \\' for a quote inside",
    '"': 'a text must end with the quote it began with; write \\" for a quote inside',
    "`": "a quoted attribute name must end with a backquote",
    "!": "not equal is written !=",
    "&": "write AND",
    "|": "write OR",
    ".": "a decimal is written 0.5",
}


def tokens(source: str) -> list[Token]:
    """The tokens of a filter, an end token last."""
    if len(source) > MAX_LENGTH:
        raise FilterError(
            f"{len(source)} characters are too many", MAX_LENGTH, f"at most {MAX_LENGTH}"
        )
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise FilterError("half a surrogate pair", error.start, "give valid Unicode") from None
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise FilterError(f"cannot read {source[at]!r}", at, _CURES.get(source[at], ""))
        token = _token(match)
        if token is not None:
            found.append(token)
        at = match.end()
    found.append(Token("end", "", len(source)))
    return found


def _token(match: re.Match[str]) -> Token | None:
    spelling, at = match[0], match.start()
    match match.lastgroup:
        case "word" if spelling.isdigit():
            integer = parse_integer(spelling)
            if integer is None and int(spelling[:40]) != 2**63:  # -2**63 is an integer, too
                raise FilterError(
                    f"{spelling[:24]} is too large", at, "integers have 64 bits; write a decimal"
                )
            return Token("number", spelling, at, 2**63 if integer is None else integer)
        case "word":
            return Token("word", spelling, at)
        case "decimal":
            decimal = float(spelling)
            if decimal == float("inf"):
                raise FilterError(f"{spelling[:24]} is too large", at, "decimals have 64 bits")
            return Token("number", spelling, at, decimal)
        case "text":
            return Token("text", spelling, at, _ESCAPE.sub(r"\1", spelling[1:-1]))
        case "name":
            return Token("name", spelling, at, spelling[1:-1])
        case "sign":
            return Token("sign", spelling, at)
    return None
