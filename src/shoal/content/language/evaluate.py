"""Evaluation of an expression on an event: CESQL's semantics, and the reference for every matcher.

Evaluation never raises. It gives a value, or a :class:`Failure` that carries an error and the value
CESQL wants beside it: that of the operator's type (false, 0, the empty text). A failed operand
fails the operator, except that ``AND`` and ``OR`` stop at the first operand that decides.

Casts are silent (section 3.7): ``=`` and ``!=`` cast the left side to the type of the right; ``IN``
casts the elements to the type of the left side, and one that cannot be cast fails the operator only
if no other is equal; order, ``BETWEEN`` and arithmetic cast to numbers; ``LIKE`` casts to text;
``AND``, ``OR``, ``XOR`` and ``NOT`` to conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import fmod, inf
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

from shoal.content import values
from shoal.content.language import syntax
from shoal.content.language.functions import (
    FUNCTIONS,
    ZERO,
    Failure,
    FailureKind,
    Plain,
    Type,
    shown,
)
from shoal.content.language.like import like
from shoal.content.language.syntax import Expression

Outcome: TypeAlias = Plain | Failure
Attributes: TypeAlias = Mapping[str, object]


def evaluate(expression: Expression, attributes: Attributes) -> Outcome:
    """The value of an expression on an event, or its failure."""
    return _EVALUATORS[type(expression)](expression, attributes)


def holds(expression: Expression, attributes: Attributes) -> bool:
    """Whether a filter matches: it evaluates to true, and nothing failed."""
    return _EVALUATORS[type(expression)](expression, attributes) is True


# Leaves


def _attribute(expression: syntax.Attribute, attributes: Attributes) -> Outcome:
    value = values.native(attributes.get(expression.name))
    if value is None:
        return Failure("missingAttribute", f"there is no attribute {expression.name}", False)
    return value


def _exists(expression: syntax.Exists, attributes: Attributes) -> Outcome:
    return values.native(attributes.get(expression.name)) is not None


# Conditions


def _condition(outcome: Outcome) -> bool | Failure:
    """An operand of a logical operator."""
    if isinstance(outcome, bool):
        return outcome
    if isinstance(outcome, Failure):
        return _failed(outcome, False)
    found = values.truth(outcome)
    return _no_cast(outcome, "true or false", False) if found is None else found


def _and(expression: syntax.And, attributes: Attributes) -> Outcome:
    for operand in expression.operands:
        found = _condition(evaluate(operand, attributes))
        if found is not True:
            return found
    return True


def _or(expression: syntax.Or, attributes: Attributes) -> Outcome:
    for operand in expression.operands:
        found = _condition(evaluate(operand, attributes))
        if found is not False:
            return found
    return False


def _xor(expression: syntax.Xor, attributes: Attributes) -> Outcome:
    left = _condition(evaluate(expression.left, attributes))
    if isinstance(left, Failure):
        return left
    right = _condition(evaluate(expression.right, attributes))
    return right if isinstance(right, Failure) else left is not right


def _not(expression: syntax.Not, attributes: Attributes) -> Outcome:
    outcome = evaluate(expression.operand, attributes)
    if isinstance(outcome, Failure):
        return _failed(outcome, False)
    found = values.truth(outcome)
    # The failed cast is worth false, its negation true: the conformance cases want NOT 10 so.
    return _no_cast(outcome, "true or false", True) if found is None else not found


# Comparisons


def _comparison(expression: syntax.Comparison, attributes: Attributes) -> Outcome:
    subject, constant = expression.left, expression.right
    if type(subject) is syntax.Attribute and type(constant) is syntax.Literal:
        value: Any = attributes.get(subject.name)
        kind = type(value)
        if (kind is int or kind is float) and values.INT_MIN <= value <= values.INT_MAX:
            limit: Any = constant.value
            if type(limit) is int or type(limit) is float:  # most comparisons: nothing to cast
                return _COMPARE[expression.operator](value, limit)
    left = evaluate(expression.left, attributes)
    if isinstance(left, Failure):
        return _failed(left, False)
    right = evaluate(expression.right, attributes)
    if isinstance(right, Failure):
        return _failed(right, False)
    operator = expression.operator
    if operator == "=" or operator == "!=":
        equal = _equal(left, right)
        if equal is None:
            return _no_cast(left, _LIKE_WHAT[type(right)], False)
        return equal if operator == "=" else not equal
    low, high = values.number(left), values.number(right)
    if low is None or high is None:
        return _no_cast(left if low is None else right, "a number", False)
    return _COMPARE[operator](low, high)


def _equal(value: Plain, target: Plain) -> bool | None:
    """Equality after casting ``value`` to the type of ``target``; None if it cannot be cast."""
    if isinstance(target, str):
        return values.text(value) == target
    found = values.truth(value) if isinstance(target, bool) else values.number(value)
    return None if found is None else found == target


def _between(expression: syntax.Between, attributes: Attributes) -> Outcome:
    numbers: list[int | float] = []
    for part in (expression.operand, expression.low, expression.high):
        outcome = evaluate(part, attributes)
        if isinstance(outcome, Failure):
            return _failed(outcome, False)
        found = values.number(outcome)
        if found is None:
            return _no_cast(outcome, "a number", False)
        numbers.append(found)
    return numbers[1] <= numbers[0] <= numbers[2]


def _in(expression: syntax.In, attributes: Attributes) -> Outcome:
    value = evaluate(expression.operand, attributes)
    if isinstance(value, Failure):
        return _failed(value, False)
    equal, failure = False, None
    for element in expression.elements:
        outcome = evaluate(element, attributes)
        if isinstance(outcome, Failure):
            return _failed(outcome, False)
        same = _equal(outcome, value)
        if same is None:
            failure = failure or _no_cast(outcome, _LIKE_WHAT[type(value)], False)
        equal = equal or same is True
    return equal if failure is None else equal or failure


def _like(expression: syntax.Like, attributes: Attributes) -> Outcome:
    outcome = evaluate(expression.operand, attributes)
    if isinstance(outcome, Failure):
        return _failed(outcome, False)
    return like(expression.pattern, values.text(outcome))


# Numbers


def _negate(expression: syntax.Negate, attributes: Attributes) -> Outcome:
    outcome = evaluate(expression.operand, attributes)
    if isinstance(outcome, Failure):
        return _failed(outcome, 0)
    found = values.number(outcome)
    return _no_cast(outcome, "a number", 0) if found is None else _fitting(-found)


def _arithmetic(expression: syntax.Arithmetic, attributes: Attributes) -> Outcome:
    left = evaluate(expression.left, attributes)
    if isinstance(left, Failure):
        return _failed(left, 0)
    right = evaluate(expression.right, attributes)
    if isinstance(right, Failure):
        return _failed(right, 0)
    a, b = values.number(left), values.number(right)
    if a is None or b is None:
        return _no_cast(left if a is None else right, "a number", 0)
    match expression.operator:
        case "+":
            return _fitting(a + b)
        case "-":
            return _fitting(a - b)
        case "*":
            return _fitting(a * b)
    if b == 0:
        return Failure("math", "division by zero", 0)
    if isinstance(a, int) and isinstance(b, int):  # towards zero, with the sign of the dividend
        quotient, remainder = divmod(abs(a), abs(b))
        if expression.operator == "/":
            return _fitting(quotient if (a < 0) == (b < 0) else -quotient)
        return -remainder if a < 0 else remainder
    if expression.operator == "/":
        return _fitting(a / b)
    return fmod(a, b) if abs(a) != inf else Failure("math", "the remainder of infinity", 0)


def _fitting(found: int | float) -> Outcome:
    """A result, if 64 bits hold it."""
    whole = isinstance(found, int)
    # The last comparison is false for NaN, too.
    fits = values.INT_MIN <= found <= values.INT_MAX if whole else abs(found) < inf
    return found if fits else Failure("math", "the result does not fit 64 bits", 0)


# Functions


def _call(expression: syntax.Call, attributes: Attributes) -> Outcome:
    function = FUNCTIONS.get(expression.name)
    types = None if function is None else function.types(len(expression.arguments))
    if function is None or types is None:
        return Failure("missingFunction", f"there is no function {expression.name}", False)
    arguments: list[Plain] = []
    for wanted, argument in zip(types, expression.arguments, strict=True):
        outcome = evaluate(argument, attributes)
        if isinstance(outcome, Failure):
            return _failed(outcome, ZERO[function.returns])
        cast = _CASTS[wanted](outcome)
        if cast is None:
            return _no_cast(outcome, f"of the type {wanted}", ZERO[function.returns])
        arguments.append(cast)
    return function.apply(*arguments)


def _whole(value: Plain) -> int | None:
    found = values.number(value)
    if isinstance(found, float):
        return int(found) if found.is_integer() else None
    return found


_CASTS: dict[Type, Callable[[Plain], Plain | None]] = {
    "text": values.text,
    "number": values.number,
    "integer": _whole,
    "condition": values.truth,
    "any": lambda value: value,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_LIKE_WHAT = {bool: "true or false", int: "a number", float: "a number", str: "text"}
_EVALUATORS: dict[type, Callable[[Any, Attributes], Outcome]] = {
    syntax.Literal: lambda literal, attributes: literal.value,
    syntax.Attribute: _attribute,
    syntax.Exists: _exists,
    syntax.Not: _not,
    syntax.Negate: _negate,
    syntax.And: _and,
    syntax.Or: _or,
    syntax.Xor: _xor,
    syntax.Comparison: _comparison,
    syntax.Arithmetic: _arithmetic,
    syntax.Like: _like,
    syntax.In: _in,
    syntax.Between: _between,
    syntax.Call: _call,
}


def _failed(failure: Failure, value: Plain) -> Failure:
    """An operand's failure, with the value that the operator gives for it."""
    if type(failure.value) is type(value) and failure.value == value:
        return failure
    return Failure(failure.kind, failure.reason, value)


def _no_cast(value: Plain, wanted: str, result: Plain) -> Failure:
    kind: FailureKind = "cast"
    return Failure(kind, f"{shown(value)} cannot be read as {wanted}", result)
