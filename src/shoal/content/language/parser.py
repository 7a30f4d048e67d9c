"""Tokens to an expression: a Pratt parser over CESQL's precedences.

As CESQL 1.0 (section 3.6) orders them, tightest first: functions; ``NOT`` and minus; ``LIKE`` and
``IN``; ``* / %``; ``+ -``; comparisons and ``BETWEEN``; then ``AND``, ``OR`` and ``XOR`` on one
level, read from the left. So ``a OR b AND c`` is ``(a OR b) AND c`` and ``NOT a = b`` is
``(NOT a) = b``: the printer writes such parentheses out.

Recursion is bounded by :data:`MAX_DEPTH` levels, each perhaps in parentheses, so no filter can
exhaust the stack.
"""

from __future__ import annotations

import re
import warnings
from difflib import get_close_matches
from typing import NamedTuple, cast

from shoal.content.language import syntax
from shoal.content.language.functions import FUNCTIONS, signature
from shoal.content.language.lexer import Token, tokens
from shoal.content.language.limits import MAX_DEPTH, MAX_ELEMENTS, FilterError, FilterWarning
from shoal.content.language.syntax import Attribute, Comparison, Expression, Literal

LOGICAL, COMPARING, ADDING, MULTIPLYING, MEMBER, UNARY = range(6)
_LEVELS = {
    **dict.fromkeys(("AND", "OR", "XOR"), LOGICAL),
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">=", "BETWEEN"), COMPARING),
    **dict.fromkeys(("+", "-"), ADDING),
    **dict.fromkeys(("*", "/", "%"), MULTIPLYING),
    **dict.fromkeys(("LIKE", "IN"), MEMBER),
}
_LIKE_A_NUMBER = re.compile(r"[0-9]+[eE][0-9]*|0[xX][0-9a-fA-F]+|[0-9]+(?:_[0-9]*)+")
_RESERVED = frozenset(("AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"))


class _Node(NamedTuple):
    """An expression and how deep it nests."""

    expression: Expression
    height: int


def parse(source: str) -> Expression:
    """The expression a filter says; :class:`FilterError` with place and hint if it says none."""
    parser = _Parser(tokens(source))
    found = parser.expression(LOGICAL)
    if parser.token.kind != "end":
        raise parser.unexpected("an operator or the end")
    for token in parser.tokens:
        if token.kind == "word" and _LIKE_A_NUMBER.fullmatch(token.spelling):
            word = token.spelling[:40]
            warnings.warn(
                f"filter, character {token.position + 1}: {word} is read as an attribute's name "
                f"(a decimal is written 1.0e5; for that name write `{word.lower()}`)",
                FilterWarning,
                stacklevel=6,  # who made the AttributeFilter
            )
    return found.expression


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def expect(self, sign: str, why: str) -> None:
        if self.token.keyword != sign:
            raise self.unexpected(f"«{sign}» {why}")
        self.at += 1

    def unexpected(self, wanted: str, hint: str = "") -> FilterError:
        token = self.token
        before = self.tokens[self.at - 1] if self.at else token
        if not hint and token.kind == before.kind == "text":
            hint = "write \\' for a quote inside a text"
        elif not hint and before.keyword == "=" and token.keyword == "=":
            hint = "equality is a single ="
        return FilterError(f"expected {wanted}, found {token}", token.position, hint)

    def node(self, expression: Expression, *parts: _Node) -> _Node:
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_DEPTH:
            raise self.too_deep()
        return _Node(expression, height)

    def too_deep(self) -> FilterError:
        return FilterError(
            f"more than {MAX_DEPTH} levels of nesting", self.token.position, "say it flatter"
        )

    # Infix

    def expression(self, level: int) -> _Node:
        """The longest expression whose operators bind at least as tightly as ``level``."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:  # each level may stand in parentheses
            raise self.too_deep()
        left = self.prefix()
        while (found := self.infix_level()) >= level:
            left = self.infix(left, found)
        self.depth -= 1
        return left

    def infix_level(self) -> int:
        keyword = self.token.keyword
        if keyword == "NOT":  # NOT LIKE, NOT IN, NOT BETWEEN
            after = self.tokens[self.at + 1].keyword
            return _LEVELS[after] if after in ("LIKE", "IN", "BETWEEN") else -1
        return _LEVELS.get(keyword, -1)

    def infix(self, left: _Node, level: int) -> _Node:
        token = self.take()
        keyword = token.keyword
        if keyword == "NOT":
            positive = self.infix(left, level)
            return self.node(syntax.Not(positive.expression), positive)
        match keyword:
            case "AND" | "OR":
                return self.chain(left, keyword)
            case "LIKE":
                return self.like(left)
            case "IN":
                self.expect("(", "before the list")
                elements = self.elements()
                if not elements:
                    raise self.unexpected("an element", "an IN list is never empty")
                return self.node(
                    syntax.In(left.expression, _expressions(elements)), left, *elements
                )
            case "BETWEEN":
                low = self.expression(ADDING)
                self.expect("AND", "between the two bounds")
                high = self.expression(ADDING)
                return self.node(
                    syntax.Between(left.expression, low.expression, high.expression),
                    left,
                    low,
                    high,
                )
        right = self.expression(level + 1)
        both = (left.expression, right.expression)
        if keyword == "XOR":
            return self.node(syntax.Xor(*both), left, right)
        if level == COMPARING:
            operator = cast("syntax.ComparisonOperator", "!=" if keyword == "<>" else keyword)
            return self.node(Comparison(operator, *both), left, right)
        return self.node(
            syntax.Arithmetic(cast("syntax.ArithmeticOperator", keyword), *both), left, right
        )

    def chain(self, left: _Node, keyword: str) -> _Node:
        parts = [left, self.expression(COMPARING)]
        while self.token.keyword == keyword:
            self.at += 1
            parts.append(self.expression(COMPARING))
        make = syntax.And if keyword == "AND" else syntax.Or
        operands: list[Expression] = []
        for part in parts:  # (a AND b) AND c is a AND b AND c
            expression = part.expression
            operands.extend(expression.operands if isinstance(expression, make) else (expression,))
        return self.node(make(tuple(operands)), *parts)

    def like(self, left: _Node) -> _Node:
        if self.token.kind != "text":
            raise self.unexpected("a pattern in quotes")
        return self.node(syntax.Like(left.expression, str(self.take().value)), left)

    # Prefix

    def prefix(self) -> _Node:
        token = self.token
        match token.kind:
            case "number" if token.value == 2**63 and isinstance(token.value, int):
                raise FilterError(f"{token.spelling} is too large", token.position)
            case "number" | "text":
                self.at += 1
                return _Node(Literal(token.value), 1)
            case "name":
                self.at += 1
                return _Node(Attribute(str(token.value)), 1)
            case "word":
                return self.word()
        match token.keyword:
            case "-" | "+":
                return self.sign()
            case "(":
                self.at += 1
                inner = self.expression(LOGICAL)
                self.expect(")", "to close the parenthesis")
                return inner
        raise self.unexpected("a value")

    def sign(self) -> _Node:
        minus = self.take().spelling == "-"
        token = self.token
        if token.kind == "number":
            self.at += 1
            value = cast("int | float", token.value)
            if not minus and value == 2**63 and isinstance(value, int):
                raise FilterError(f"{token.spelling} is too large", token.position)
            return _Node(Literal(-value if minus else value), 1)
        if not minus:
            raise self.unexpected("a number after «+»")
        operand = self.expression(UNARY)
        return self.node(syntax.Negate(operand.expression), operand)

    def word(self) -> _Node:
        token = self.take()
        keyword = token.keyword
        if self.token.keyword == "(" and keyword not in _RESERVED:
            return self.call(token)
        match keyword:
            case "TRUE" | "FALSE":
                return _Node(Literal(keyword == "TRUE"), 1)
            case "NOT":
                operand = self.expression(UNARY)
                return self.node(syntax.Not(operand.expression), operand)
            case "EXISTS":
                return _Node(syntax.Exists(self.name()), 1)
        if keyword in _RESERVED:
            self.at -= 1
            raise self.unexpected("a value", f"for an attribute of that name write `{token[1]}`")
        return _Node(Attribute(token.spelling.lower()), 1)

    def name(self) -> str:
        token = self.token
        if token.kind == "name":
            self.at += 1
            return str(token.value)
        if token.kind != "word" or token.keyword in _RESERVED:
            raise self.unexpected("the name of an attribute")
        self.at += 1
        return token.spelling.lower()

    def call(self, word: Token) -> _Node:
        self.at += 1
        arguments = self.elements()
        name = word.keyword
        if signature(name, len(arguments)) is None:
            raise _missing_function(word, len(arguments))
        expressions = _expressions(arguments)
        if name == "WITHIN" and len(arguments) == 3:
            expressions = (Attribute("latitude"), Attribute("longitude"), *expressions)
        return self.node(syntax.Call(name, expressions), *arguments)

    def elements(self) -> list[_Node]:
        """Expressions up to the closing parenthesis."""
        found: list[_Node] = []
        if self.token.keyword == ")":
            self.at += 1
            return found
        while True:
            if len(found) == MAX_ELEMENTS:
                raise FilterError(
                    f"a list of more than {MAX_ELEMENTS} elements", self.token.position
                )
            found.append(self.expression(LOGICAL))
            if self.token.keyword != ",":
                self.expect(")", "or «,» in the list")
                return found
            self.at += 1


def _missing_function(word: Token, count: int) -> FilterError:
    name = word.keyword
    known = FUNCTIONS.get(name)
    if known is not None:
        what, hint = f"{name} does not take {count} arguments", f"it takes {known.takes}"
    else:
        near = get_close_matches(name[:40], FUNCTIONS, 1)
        what, hint = f"no function {name[:40]}", f"did you mean {near[0]}?" if near else ""
    return FilterError(what, word.position, hint, "missingFunction")


def _expressions(nodes: list[_Node]) -> tuple[Expression, ...]:
    return tuple(node.expression for node in nodes)
