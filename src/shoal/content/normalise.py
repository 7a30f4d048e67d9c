"""From an expression to its normal form, exactly.

CESQL has three outcomes: true, false, error; and an error anywhere means "no match". So for each
part three questions are answered, each by a disjunction of conjunctions: when is it **true**, when
is it **false**, when is it **defined** (true or false, no error)? With T, F and D for these:

==========  =======================  =======================  ==================================
\\           T                        F                        D
==========  =======================  =======================  ==================================
``NOT a``   F(a)                     T(a)                     D(a)
``a AND b`` T(a) T(b)                F(a) + D(a) F(b)         F(a) + D(a) D(b)
``a OR b``  T(a) + D(a) T(b)         F(a) F(b)                T(a) + D(a) D(b)
``a XOR b`` T(a) F(b) + F(a) T(b)    T(a) T(b) + F(a) F(b)    D(a) D(b)
==========  =======================  =======================  ==================================

The plain normal form would have T(a) + T(b) for OR, and would match events on which ``a`` fails.

Work is bounded: a part that would need more than :data:`MAX_DISJUNCTS` conjunctions or
:data:`MAX_STEPS` steps stays whole in the residue.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.content.atoms import Disjuncts, Mode, atom, opaque
from shoal.content.conjunctions import ALWAYS, conjoin, merge_alike, within
from shoal.content.language.check import other_than_condition
from shoal.content.language.limits import MAX_DISJUNCTS
from shoal.content.language.syntax import And, Attribute, Exists, Expression, Literal, Not, Or, Xor
from shoal.content.normal import Absent, Conjunction, NormalForm, Number, Present, Text, Truth
from shoal.content.values import truth

MAX_STEPS = 20_000
"""Most predicates looked at while normalising one filter."""
RAW_DISJUNCTS = 4_096
"""Most conjunctions before like ones are merged: ``a = 1 OR a = 2 OR ...`` may be long."""


class _TooBig(Exception):  # noqa: N818  # never leaves this module
    """A part would need too many conjunctions or steps."""


def normalise(expression: Expression) -> NormalForm:
    """The normal form of a filter."""
    # A filter must *be* true; text that reads as true is enough only for an operand.
    if other_than_condition(expression):
        return NormalForm(())
    if isinstance(expression, Attribute):
        here = Truth(expression.name, True)
        return NormalForm((Conjunction((here,), (expression,)),))
    found = tuple(_Normaliser().whole(expression))
    return NormalForm(found, expression if any(map(_searches, found)) else None)


def normalise_operands(operands: Iterable[Expression]) -> list[NormalForm]:
    """Normal forms of the operands of ``AND`` or ``OR``, where text that reads as true holds, too.

    All of them together may take as many steps as one filter.
    """
    normaliser = _Normaliser()
    return [NormalForm(tuple(normaliser.whole(one))) for one in operands]


def _searches(one: Conjunction) -> bool:
    """Whether evaluating the conjunction takes time that grows with the event."""
    texts = (p for p in one.predicates if isinstance(p, Text))
    return bool(one.residue) or any(p.contains or p.like or p.unlike for p in texts)


class _Normaliser:
    def __init__(self) -> None:
        self.steps = 0
        self.known: dict[tuple[int, Mode], Disjuncts] = {}

    def whole(self, expression: Expression) -> Disjuncts:
        """Disjuncts under which a whole filter is true."""
        try:
            return self.outcome(expression, "true")
        except _TooBig:
            return opaque(expression).outcome("true")

    def outcome(self, expression: Expression, mode: Mode) -> Disjuncts:
        """Disjuncts under which the expression, as a condition, has this outcome."""
        key = (id(expression), mode)  # the expression outlives this object
        found = self.known.get(key)
        if found is None:
            try:
                found = self.simplified(self.expand(expression, mode))
            except _TooBig:
                if self.steps > MAX_STEPS:  # so would everything that this is a part of
                    raise
                found = opaque(expression).outcome(mode)
            self.known[key] = found
        return found

    def expand(self, expression: Expression, mode: Mode) -> Disjuncts:
        match expression:
            case Not(operand):
                swapped: dict[Mode, Mode] = {"true": "false", "false": "true"}
                return self.outcome(operand, swapped.get(mode, mode))
            case And(operands):
                return self.chain(operands, mode, decided="false", neutral="true")
            case Or(operands):
                return self.chain(operands, mode, decided="true", neutral="false")
            case Xor(left, right):
                return self.exclusive(left, right, mode)
            case Exists(name):
                predicate = Present(name) if mode == "true" else Absent(name)
                return [ALWAYS if mode == "defined" else Conjunction((predicate,))]
            case Attribute(name):
                wanted = {"true": True, "false": False}.get(mode)
                return [Conjunction((Truth(name, wanted),))]
            case Literal(value):
                found = truth(value)
                return [ALWAYS] if found is not None and mode in (_word(found), "defined") else []
        return atom(expression).outcome(mode)

    def chain(
        self, operands: tuple[Expression, ...], mode: Mode, decided: Mode, neutral: Mode
    ) -> Disjuncts:
        """AND is decided by a false operand, OR by a true one; else all must be neutral."""
        if mode == neutral:
            return self.every(self.outcome(operand, neutral) for operand in operands)
        found: Disjuncts = []
        before: Disjuncts = [ALWAYS]  # the operands to the left are defined
        for operand in operands:
            found += self.both(before, self.outcome(operand, decided))
            if len(found) > RAW_DISJUNCTS:
                raise _TooBig
            before = self.both(before, self.outcome(operand, "defined"))
        return found + before if mode == "defined" else found

    def exclusive(self, left: Expression, right: Expression, mode: Mode) -> Disjuncts:
        if mode == "defined":
            return self.both(self.outcome(left, mode), self.outcome(right, mode))
        pairs: tuple[tuple[Mode, Mode], ...] = (("true", "false"), ("false", "true"))
        if mode == "false":
            pairs = (("true", "true"), ("false", "false"))
        return [
            conjunction
            for a, b in pairs
            for conjunction in self.both(self.outcome(left, a), self.outcome(right, b))
        ]

    def every(self, parts: Iterable[Disjuncts]) -> Disjuncts:
        found: Disjuncts = [ALWAYS]
        for part in parts:
            found = self.both(found, part)
        return found

    def both(self, left: Disjuncts, right: Disjuncts) -> Disjuncts:
        """Every disjunct of one conjoined with every disjunct of the other."""
        if len(left) * len(right) > RAW_DISJUNCTS:
            raise _TooBig
        found: Disjuncts = []
        for a in left:
            for b in right:
                self.spend(weight(a) + weight(b))
                both = conjoin(a, b)
                if both is not None:
                    found.append(both)
        return self.simplified(found) if len(left) > 1 and len(right) > 1 else found

    def spend(self, steps: int) -> None:
        self.steps += steps + 1
        if self.steps > MAX_STEPS:
            raise _TooBig

    def simplified(self, disjuncts: Disjuncts) -> Disjuncts:
        """These disjuncts, similar ones merged, without any that another contains."""
        if len(disjuncts) < 2:
            return disjuncts
        found = merge_alike(list(dict.fromkeys(disjuncts)), self.spend)
        if len(found) > MAX_DISJUNCTS:
            raise _TooBig
        kept: Disjuncts = []
        for at, one in enumerate(found):
            others = (*kept, *found[at + 1 :])
            self.spend(len(others))
            if not any(within(one, other) for other in others):
                kept.append(one)
        return kept


def weight(conjunction: Conjunction) -> int:
    """Cost of evaluating a conjunction, in steps."""
    found = len(conjunction.predicates) + len(conjunction.residue)
    for predicate in conjunction.predicates:
        if isinstance(predicate, Number):
            found += len(predicate.holes) >> 3
        elif isinstance(predicate, Text):
            found += (len(predicate.holes) + len(predicate.among or ())) >> 3
            found += len(predicate.contains) + len(predicate.like) + len(predicate.unlike)
    return found


def _word(value: bool) -> Mode:
    return "true" if value else "false"
