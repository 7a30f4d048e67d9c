"""Which attribute of a subscription is joined (section 3: any will do).

The paper draws one. The *most selective* one, as judged by the latest events that passed this node,
lets fewer events in that match the label but not the subscription: fewer false positives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.content.model import Content
    from shoal.routing.dps.labels import Label
    from shoal.stack.host import Host

REMEMBERED: Final = 64
"""Events by which labels are judged."""


class Choosing:
    """One node's choice of labels."""

    def __init__(self, host: Host, rule: str) -> None:
        self.host = host
        self.rule = rule
        self.events: list[Content] = []
        """The latest events, in no order."""
        self._seen = 0
        self._chance = host.chance("attribute")
        self._choices = 0

    def saw(self, event: Event) -> None:
        """An event passed this node."""
        if self.rule in ("uniform", "first"):
            return
        self._seen += 1
        if len(self.events) < REMEMBERED:
            self.events.append(event.content)
        else:
            self.events[self._seen % REMEMBERED] = event.content

    def choose(self, labels: list[Label]) -> Label:
        """The label to join by; ties are broken at random."""
        if len(labels) == 1 or self.rule == "first":
            return labels[0]
        if self.rule != "uniform":
            shares = [self._share(label) for label in labels]
            wanted = min(shares) if self.rule == "most-selective" else max(shares)
            labels = [one for one, share in zip(labels, shares, strict=True) if share == wanted]
        self._choices += 1
        host = self.host
        return labels[self._chance.below(len(labels), host.node, host.epoch, self._choices)]

    def _share(self, label: Label) -> float:
        """The share of the latest events that a label lets in; a little above 0 if none."""
        matching = sum(
            1
            for content in self.events
            if label.attribute in getattr(content, "values", ()) and label.matches(content)
        )
        return (matching + 1) / (len(self.events) + 2)
