"""A world of radios that does its worst: frames are lost, late, out of order and repeated.

Each step is drawn from a seed. Timers fire in any order. Nodes crash and live again, and who is in
range of whom changes; one end of a link gives it up while the other end keeps it. After every step
neither links nor parents may form a cycle, and the label of every node must lead to that of its
parent, whether the parent still has it for a child or not. :meth:`AirWorld.settle` then plays fair.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from shoal.overlay.maodv import MAODV
from shoal.overlay.maodv_label import leads
from shoal.routing import Flooding
from shoal.stack import LOCAL, Contact, Host, Message, NodeId, Timer
from shoal.stack.host import NEVER
from shoal.stack.registry import find, validate

EVERYBODY = -1


class AirTimer(Timer):
    def __init__(self, life: Radio, due: float, callback: Callable[[], None], period: float):
        self.life, self.due, self.callback, self.period = life, due, callback, period
        self.on = True

    def cancel(self) -> None:
        self.on = False


class Radio(Host):
    """One life of a node."""

    def __init__(self, world: AirWorld, node: NodeId, epoch: int) -> None:
        super().__init__(node, world.seed)
        self.epoch = epoch
        self.world = world
        self.alive = True
        self.above: Radio | None = None
        """The life of the parent, as it was when this node attached to it."""
        self.overlay: MAODV = world.make(self)

    def now(self) -> float:
        return self.world.now

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        return self._timer(delay, callback, 0.0)

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        return self._timer(period if first is None else first, callback, period)

    def _timer(self, delay: float, callback: Callable[[], None], period: float) -> Timer:
        timer = AirTimer(self, self.world.now + delay, callback, period)
        self.world.timers.append(timer)
        return timer

    def heard(self, node: NodeId) -> float:
        return NEVER  # hellos alone are signs of life here

    def parent_changed(self, parent: NodeId) -> None:
        self.above = self.world.lives.get(parent)

    def broadcast(self, message: Message) -> None:
        for other in self.world.in_range(self.node):
            self.world.frames.append((other, self.node, message))

    def send(self, to: NodeId, message: Message) -> None:
        assert to not in (LOCAL, self.node)
        self.world.frames.append((to, self.node, message))


class AirWorld:
    """A few radios, and everything that is about to happen to them."""

    def __init__(self, overlay: str, seed: int, nodes: int, **parameters: Any) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.protocol = find("overlay", overlay)
        self.parameters = validate(self.protocol, parameters)
        self.lives: dict[NodeId, Radio] = {}
        self.epochs = [0] * nodes
        self.reach = self.random.choice((0.3, 0.4, 0.55))
        self.places = [self.place() for _ in range(nodes)]
        self.frames: list[tuple[NodeId, NodeId, Message]] = []
        self.stash: list[tuple[NodeId, NodeId, Message]] = []
        """Frames that will come late, or again."""
        self.timers: list[AirTimer] = []
        self.log: list[str] = []

    def make(self, host: Host) -> MAODV:
        routing = Flooding(host, validate(find("routing", "flooding"), {}))
        return self.protocol.make(host, self.parameters, routing)  # type: ignore[no-any-return]

    def place(self) -> tuple[float, float]:
        return self.random.random(), self.random.random()

    def in_range(self, node: NodeId) -> list[NodeId]:
        x, y = self.places[node]
        return [
            other
            for other, (u, v) in enumerate(self.places)
            if other != node and (u - x) ** 2 + (v - y) ** 2 < self.reach**2
        ]

    # What can happen

    def step(self) -> None:
        """One thing happens; afterwards the promises hold."""
        everyone = list(range(len(self.epochs)))
        acts: list[tuple[float, list[Any], Callable[[int], None]]] = [
            (20, self.frames, self.arrive),
            (5, self.stash, self.arrive_late),
            (3, self.frames, self.repeat),
            (3, self.frames, self.lose),
            (5, self.armed(), self.fire),
            (1, [n for n in everyone if n not in self.lives], self.start),
            (0.1, list(self.lives), self.crash),
            (1, everyone, self.move),
            (0.5, self.frames, self.deny),
            (0.5, self.ends(), self.give_up),
        ]
        able = [(weight, things, act) for weight, things, act in acts if things]
        ((_, things, act),) = self.random.choices(able, [weight for weight, _, _ in able])
        self.now += self.random.random() * 0.1
        act(self.random.randrange(len(things)))
        self.check()

    def arrive(self, at: int) -> None:
        self.hand(*self.frames.pop(at))

    def arrive_late(self, at: int) -> None:
        self.hand(*self.stash.pop(at))

    def repeat(self, at: int) -> None:
        self.hand(*self.frames[at])

    def hand(self, to: NodeId, sender: NodeId, message: Message) -> None:
        life = self.lives.get(to)
        self.log.append(f"{sender} -> {to}: {message}")
        if life is not None:
            life.overlay.receive(sender, message)

    def lose(self, at: int) -> None:
        self.log.append(f"lost: {self.frames.pop(at)}")

    def deny(self, at: int) -> None:
        """A frame that has arrived, or will, counts as not acknowledged."""
        to, sender, _ = self.frames[at]
        self.log.append(f"{sender} has no acknowledgement of {to}")
        if sender in self.lives:
            self.lives[sender].overlay.unreachable(Contact(to))

    def ends(self) -> list[tuple[Radio, NodeId]]:
        return [(life, n) for life in self.lives.values() for n in life.overlay.neighbours]

    def give_up(self, at: int) -> None:
        """No frame over a link is acknowledged, and one end gives it up; the other end does not."""
        life, other = self.ends()[at]
        self.log.append(f"{life.node} gives {other} up")
        for _ in range(life.overlay.parameters.failures):
            life.overlay.unreachable(Contact(other))

    def armed(self) -> list[AirTimer]:
        self.timers = [t for t in self.timers if t.on and t.life.alive]
        return self.timers

    def fire(self, at: int) -> None:
        timer = self.armed()[at]
        self.log.append(f"{timer.life.node} timer {timer.callback.__name__}")
        self.now = max(self.now, timer.due) if self.random.random() < 0.05 else self.now
        self.run(timer)

    def run(self, timer: AirTimer) -> None:
        if timer.period:
            timer.due = self.now + timer.period
        else:
            timer.on = False
        timer.callback()

    def start(self, at: int) -> None:
        node = [n for n in range(len(self.epochs)) if n not in self.lives][at]
        self.log.append(f"{node} starts")
        life = Radio(self, node, self.epochs[node])
        self.epochs[node] += 1
        self.lives[node] = life
        life.overlay.start()
        life.overlay.join(())

    def crash(self, at: int) -> None:
        node = list(self.lives)[at]
        self.log.append(f"{node} crashes")
        self.lives.pop(node).alive = False

    def move(self, at: int) -> None:
        x, y = self.places[at]
        by_x, by_y = self.random.gauss(0, 0.2), self.random.gauss(0, 0.2)
        self.places[at] = (min(1.0, max(0.0, x + by_x)), min(1.0, max(0.0, y + by_y)))

    # What must hold

    def check(self) -> None:
        self.check_links()
        self.check_labels()

    def check_links(self) -> None:
        """No cycle of links that both ends hold, and of links that only the lower end holds."""
        links = {
            (min(a, b), max(a, b))
            for a, life in self.lives.items()
            for b in life.overlay.neighbours
            if b in self.lives
            and (a in self.lives[b].overlay.neighbours or self.lives[b] is life.above)
        }
        root = list(range(len(self.epochs)))

        def find_root(node: NodeId) -> NodeId:
            while root[node] != node:
                node = root[node]
            return node

        for a, b in links:
            one, other = find_root(a), find_root(b)
            assert one != other, f"seed {self.seed}: {a}-{b} closes a cycle of {sorted(links)}"
            root[one] = other

    def check_labels(self) -> None:
        """Labels lead from each node to its parent, so parents form no cycle."""
        for node, life in self.lives.items():
            overlay = life.overlay
            parent = overlay.parent
            assert (parent == LOCAL) or parent not in overlay.children
            assert set(overlay.neighbours) == {*overlay.children, *([parent] * (parent != LOCAL))}
            above = life.above
            if above is not None and above.alive:
                assert above.node == parent
                upwards = leads(overlay.label, above.overlay.label)
                assert upwards, f"seed {self.seed}: {node} is not behind its parent {parent}"

    # Time goes by

    def history(self, rounds: int) -> None:
        """Rounds of weather, fair to foul, with steps in any order between them."""
        for _ in range(rounds):
            foul = self.random.choice((0.0, 0.05, 0.2))
            self.play(self.random.random() * 8.0, foul)
            for _ in range(self.random.randrange(30)):
                self.step()

    def settle(self, seconds: float) -> None:
        """Frames arrive in order and once, timers fire when due; nobody moves or fails."""
        self.stash.clear()
        self.play(seconds, 0.0)

    def play(self, seconds: float, foul: float) -> None:
        """So many seconds, in which a share of frames is lost, as many come late, or twice."""
        end = self.now + seconds
        while self.now < end and self.armed():
            while self.frames:
                self.deliver(foul)
            due = min(self.armed(), key=lambda t: t.due)
            self.now = max(self.now, due.due)
            self.run(due)
            if self.stash and self.random.random() < foul:
                self.hand(*self.stash.pop(self.random.randrange(len(self.stash))))
            self.check()

    def deliver(self, foul: float) -> None:
        frame = self.frames.pop(0)
        to, sender, _ = frame
        luck = self.random.random()
        if to not in self.in_range(sender) or luck < foul:
            if sender in self.lives:
                self.lives[sender].overlay.unreachable(Contact(to))
        elif luck < 2 * foul:
            self.stash.append(frame)
        else:
            if luck < 3 * foul:
                self.stash.append(frame)
            self.hand(*frame)
        self.check()

    def parts(self) -> list[set[NodeId]]:
        """The nodes that can reach each other, by radio."""
        left, found = set(self.lives), []
        while left:
            part, todo = set(), [left.pop()]
            while todo:
                node = todo.pop()
                part.add(node)
                near = left & set(self.in_range(node))
                left -= near
                todo += near
            found.append(part)
        return found

    def wrong(self) -> str | None:
        """What is wrong in a part of the network that has settled."""
        for part in self.parts():
            layers = {node: self.lives[node].overlay for node in part}
            for node, overlay in layers.items():
                found = overlay.broken_promise(layers)
                if found is not None:
                    return f"seed {self.seed}: node {node} of {sorted(part)}: {found}"
        return None
