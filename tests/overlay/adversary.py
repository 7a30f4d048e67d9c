"""A world that does its worst to an overlay: any order of events, each drawn from a seed.

Messages out of band arrive in any order, late, or never. Connections are FIFO, but each end learns
at any time what became of one, and may take a working one for broken. Timers fire in any order.
Nodes leave, crash and live again. :meth:`Adversary.settle` then plays fair until all is quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_relation import can_connect
from shoal.routing import Flooding
from shoal.stack import LOCAL, Contact, Host, Message, NodeId, Timer
from shoal.stack.registry import find, validate

OPENED, CLOSED = "opened", "closed"


class WorldTimer(Timer):
    def __init__(self, life: Life, due: float, callback: Callable[[], None], period: float) -> None:
        self.life, self.due, self.callback, self.period = life, due, callback, period
        self.on = True

    def cancel(self) -> None:
        self.on = False


class Connection:
    """What is on its way to each end; an end that is gone takes nothing."""

    def __init__(self, a: Life, b: Life) -> None:
        self.ends = {a.node: a, b.node: b}
        self.open: set[NodeId] = set()
        """Ends that know of it."""
        self.queues: dict[NodeId, list[Any]] = {a.node: [], b.node: []}

    def other(self, node: NodeId) -> NodeId:
        (other,) = self.ends.keys() - {node}
        return other


class Life(Host):
    """One life of a node."""

    def __init__(self, world: Adversary, node: NodeId, epoch: int) -> None:
        super().__init__(node, world.seed)
        self.epoch = epoch
        self.world = world
        self.alive = True
        self.connections: dict[NodeId, Connection] = {}
        self.asking: set[NodeId] = set()
        self.overlay: LSTree = world.make(self)
        self.value = (self.overlay.colour, self.overlay.depth)

    def now(self) -> float:
        return self.world.now

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        return self._timer(delay, callback, 0.0)

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        return self._timer(period if first is None else first, callback, period)

    def _timer(self, delay: float, callback: Callable[[], None], period: float) -> Timer:
        timer = WorldTimer(self, self.world.now + delay, callback, period)
        self.world.timers.append(timer)
        return timer

    def contact(self) -> Contact:
        return Contact(self.node)

    def open(self, contact: Contact) -> None:
        if contact.node not in self.connections and contact.node not in self.asking:
            self.asking.add(contact.node)
            self.world.requests.append((self, contact.node))

    def close(self, node: NodeId) -> None:
        connection = self.connections.get(node)
        if connection is not None and self.node in connection.open:
            self.world.end(self, connection)

    def send(self, to: NodeId, message: Message) -> None:
        connection = self.connections.get(to)
        if connection is not None and self.node in connection.open:
            connection.queues[to].append(message)

    def send_direct(self, to: Contact, message: Message) -> None:
        self.world.letters.append((to.node, self.node, message))


class Adversary:
    """A few nodes, and everything that is about to happen to them."""

    def __init__(
        self, seed: int, nodes: int, parameters: dict[str, Any], kind: bool = False
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.kind = kind
        """Messages mostly arrive before timers fire, so that nodes that leave hand over."""
        self.now = 0.0
        self.protocol = find("overlay", "lstree")
        self.parameters = validate(self.protocol, {"heartbeat": 0, "recolour": 60.0, **parameters})
        self.lives: dict[NodeId, Life] = {}
        self.epochs = [0] * nodes
        self.letters: list[tuple[NodeId, NodeId, Message]] = []
        self.requests: list[tuple[Life, NodeId]] = []
        self.timers: list[WorldTimer] = []
        self.log: list[str] = []

    def make(self, host: Host) -> LSTree:
        routing = Flooding(host, validate(find("routing", "flooding"), {}))
        return self.protocol.make(host, self.parameters, routing)  # type: ignore[no-any-return]

    # What can happen

    def step(self) -> None:
        """One thing happens; afterwards the promises hold."""
        acts: list[tuple[float, list[Any], Callable[[int, list[Any]], None]]] = [
            (24 if self.kind else 12, self.letters, self.letter),
            (30 if self.kind else 12, self.busy_ends(), self.word),
            (6, self.requests, self.request),
            (0.7 if self.kind else 4, self.armed(), self.fire),
            (1, [n for n in range(len(self.epochs)) if n not in self.lives], self.start),
            (0.1 if self.kind else 0.25, list(self.lives), self.crash),
            (0.7 if self.kind else 0.25, list(self.lives), self.leave),
            (0.1 if self.kind else 0.4, self.open_ends(), self.suspect),
            (1, self.letters, self.lose),
            (1, self.letters, self.duplicate),
        ]
        able = [(weight, things, act) for weight, things, act in acts if things]
        ((_, things, act),) = self.random.choices(able, [weight for weight, _, _ in able])
        self.now += self.random.random() * 0.05
        act(self.random.randrange(len(things)), things)
        self.bury()
        self.check()

    def letter(self, at: int, things: list[Any]) -> None:
        to, sender, message = self.letters.pop(at)
        life = self.lives.get(to)
        self.log.append(f"{sender} ~> {to}: {message}")
        if life is not None:
            life.overlay.receive(sender, message)

    def lose(self, at: int, things: list[Any]) -> None:
        self.log.append(f"lost: {self.letters.pop(at)}")

    def duplicate(self, at: int, things: list[Any]) -> None:
        self.letters.append(self.letters[at])

    def busy_ends(self) -> list[tuple[Life, Connection]]:
        return [
            (life, connection)
            for life in self.lives.values()
            for connection in life.connections.values()
            if connection.queues[life.node]
        ]

    def word(self, at: int, things: list[Any]) -> None:
        life, connection = things[at]
        sender = connection.other(life.node)
        item = connection.queues[life.node].pop(0)
        self.log.append(f"{sender} -> {life.node}: {item}")
        if item is OPENED:
            life.asking.discard(sender)
            connection.open.add(life.node)
            life.overlay.opened(Contact(sender))
        elif item is CLOSED:
            self.end(life, connection)
            life.overlay.closed(sender)
        else:
            life.overlay.receive(sender, item)

    def request(self, at: int, things: list[Any]) -> None:
        life, to = self.requests.pop(at)
        target = self.lives.get(to)
        if not life.alive or to not in life.asking:
            return
        if target is None or target is life:
            life.asking.discard(to)
            life.overlay.unreachable(Contact(to))
            return
        for one, other in ((target, life.node), (life, to)):
            held = one.connections.get(other)
            if held is not None:  # of an earlier one, whose end the other side has seen
                known = one.node in held.open
                self.end(one, held)
                if known:
                    one.overlay.closed(other)
        if to in life.connections or life.node in target.connections:
            return
        target.asking.discard(life.node)
        connection = Connection(life, target)
        life.connections[to] = target.connections[life.node] = connection
        connection.queues[life.node].append(OPENED)
        connection.open.add(to)
        target.overlay.opened(Contact(life.node))

    def end(self, life: Life, connection: Connection) -> None:
        """An end is gone; the other will hear of it."""
        other = connection.other(life.node)
        if life.connections.get(other) is connection:
            del life.connections[other]
        connection.queues[life.node].clear()
        connection.open.discard(life.node)
        far = connection.ends[other]
        if far.connections.get(life.node) is connection:
            connection.queues[other].append(CLOSED)

    def armed(self) -> list[WorldTimer]:
        self.timers = [timer for timer in self.timers if timer.on and timer.life.alive]
        return self.timers

    def fire(self, at: int, things: list[Any]) -> None:
        timer = things[at]
        self.now = max(self.now, timer.due)
        if timer.period:
            timer.due = self.now + timer.period
        else:
            timer.on = False
        self.log.append(f"timer of {timer.life.node}: {_name(timer.callback)}")
        timer.callback()

    def start(self, at: int, things: list[Any]) -> None:
        node = things[at]
        self.log.append(f"start {node}")
        known = sorted(self.lives)
        contacts = self.random.sample(known, min(2, len(known)))
        if self.random.random() < 0.1:
            contacts.append(self.random.randrange(len(self.epochs)))  # dead, or oneself
        life = Life(self, node, self.epochs[node])
        self.epochs[node] += 1
        self.lives[node] = life
        life.overlay.start()
        life.overlay.join(tuple(Contact(contact) for contact in contacts))

    def crash(self, at: int, things: list[Any]) -> None:
        life = self.lives.pop(things[at])
        self.log.append(f"crash {life.node}")
        life.alive = False
        for connection in list(life.connections.values()):
            self.end(life, connection)

    def leave(self, at: int, things: list[Any]) -> None:
        """A node is stopped in good order, some of them twice."""
        life = self.lives[things[at]]
        self.log.append(f"stop {life.node}")
        life.overlay.stop()

    def bury(self) -> None:
        """Nodes that were stopped and have closed their connections are no more."""
        for node, life in list(self.lives.items()):
            if life.overlay.stopping and not life.overlay.heard:
                self.crash(0, [node])

    def open_ends(self) -> list[tuple[Life, Connection]]:
        return [
            (life, connection)
            for life in self.lives.values()
            for connection in life.connections.values()
            if life.node in connection.open and CLOSED not in connection.queues[life.node]
        ]

    def suspect(self, at: int, things: list[Any]) -> None:
        life, connection = things[at]
        other = connection.other(life.node)
        self.log.append(f"{life.node} suspects {other}")
        self.end(life, connection)
        life.overlay.closed(other)

    # What must hold

    def parent(self, life: Life) -> Life | None:
        """The life that a node's parent pointer leads to, if that still is."""
        connection = life.connections.get(life.overlay.parent)
        if connection is None:
            return None
        found = connection.ends[life.overlay.parent]
        return found if found.alive else None

    def check(self) -> None:
        for life in self.lives.values():
            overlay = life.overlay
            value, before = (overlay.colour, overlay.depth), life.value
            if value != before:
                assert can_connect(*before, *value), self.story(f"{life.node} goes back")
                if value[0] == before[0]:
                    assert value[1] < before[1], self.story(f"the depth of {life.node} grows")
                life.value = value
            if overlay.parent != LOCAL:
                assert overlay.parent in overlay.heard, self.story(f"{life.node} has no parent")
                assert overlay.parent not in overlay.children, self.story(f"{life.node}: both")
                assert not overlay.root
            linked = {n for n, child in overlay.children.items() if child.attached}
            linked |= overlay._parting.keys()
            assert linked <= overlay.heard.keys(), self.story(f"children of {life.node}")
            assert overlay.neighbours.keys() == linked | ({overlay.parent} - {LOCAL})
            parent = self.parent(life)
            if parent is not None:
                above = parent.overlay
                assert can_connect(*value, above.colour, above.depth), self.story(
                    f"{life.node} -> its parent {parent.node} does not hold"
                )
            seen = {life.node}
            while parent is not None:
                assert parent.node not in seen, self.story(f"a cycle through {parent.node}")
                seen.add(parent.node)
                parent = self.parent(parent)
        self.check_links()

    def check_links(self) -> None:
        """Links that both ends have form no cycle."""
        tree: dict[NodeId, NodeId] = {}

        def top(node: NodeId) -> NodeId:
            while node in tree:
                node = tree[node]
            return node

        for a, life in self.lives.items():
            for b in life.overlay.neighbours:
                far = self.lives.get(b)
                if a > b or far is None or a not in far.overlay.neighbours:
                    continue
                if life.connections.get(b) is far.connections.get(a) is not None:
                    assert top(a) != top(b), self.story(f"a cycle of links through {a}-{b}")
                    tree[top(a)] = top(b)

    def story(self, what: str) -> str:
        return f"seed {self.seed}: {what}\n" + "\n".join(self.log[-40:])

    # Fair play

    def settle(self, seconds: float) -> None:
        """All that is under way arrives, timers fire in order, nobody fails."""
        for node in range(len(self.epochs)):
            if node not in self.lives:
                self.start(0, [node])
        end = self.now + seconds
        while True:
            ready: list[tuple[list[Any], Callable[[int, list[Any]], None]]] = [
                (self.letters, self.letter),
                (self.busy_ends(), self.word),
                (self.requests, self.request),
            ]
            for things, act in ready:
                if things:
                    self.now += 0.001
                    act(self.random.randrange(len(things)), things)
                    self.bury()
                    self.check()
                    break
            else:
                timers = self.armed()
                next_one = min(range(len(timers)), key=lambda i: timers[i].due)
                if timers[next_one].due > end:
                    return
                self.fire(next_one, timers)
                self.bury()
                self.check()

    def roots(self) -> list[NodeId]:
        return [node for node, life in self.lives.items() if life.overlay.parent == LOCAL]


def _name(callback: object) -> str:
    """What a timer calls; compiled lambdas have no name."""
    return getattr(callback, "__name__", type(callback).__name__)
