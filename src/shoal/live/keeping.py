"""Keeping links: alive, the configured ones for ever, those of the graph as membership wants."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from shoal.live.errors import LiveError, RefusedError
from shoal.live.greeting import NoLinkError
from shoal.live.messages import Known, Shuffle
from shoal.live.wire import encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer

log = logging.getLogger("shoal.live")
FATAL: Final = frozenset({"version", "identity", "stack", "self", "epoch", "token", "forbidden"})
"""Refusals that trying again will not change soon."""

CLIENT_PATIENCE: Final = 30.0
"""Seconds after which a silent client is given up."""
TALK = 30.0
"""Seconds that a connection for messages out of band is kept."""


class Backoff:
    """Growing pauses with jitter, so that many who lost one broker do not all return at once."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._pause = first

    def next(self) -> float:
        """The next pause."""
        pause, self._pause = self._pause, min(self._longest, 2 * self._pause)
        return pause * random.uniform(0.5, 1.5)

    def reset(self) -> None:
        """It worked."""
        self._pause = self._first


async def keep_alive(broker: Broker) -> None:
    """Signs of life, and an eye on those of the others."""
    interval = broker.settings.heartbeat
    others_at = 0.0
    while True:
        broker.ticked()
        broker.cut_cycles()
        degree = len(broker.links)
        for peer in [*broker.links.values(), *broker.talks.peers()]:
            peer.connection.beat(degree, 4 * interval)
        for peer in broker.talks.peers():
            if broker.loop.time() - peer.since > TALK:
                peer.connection.close("nothing more to say out of band")
        for session in list(broker.sessions):
            session.connection.beat(degree, max(CLIENT_PATIENCE, 4 * interval))
        if broker.loop.time() >= others_at:
            others_at = broker.loop.time() + broker.settings.heal
            others = broker.others()
            frame = encode(Shuffle(others))
            for session in broker.sessions if others else ():
                session.connection.mention(frame)
        await asyncio.sleep(interval)


async def keep_link(broker: Broker, addresses: list[str]) -> None:
    """Hold one configured link; where there are alternatives, move to the next when one fails."""
    backoff = Backoff(*broker.settings.reconnect)
    at, lost, said = 0, -1, ""
    link = ",".join(addresses)
    while not broker.departures.leaving:
        address = addresses[at]
        replaces = None
        if lost >= 0 and len(addresses) > 1:
            replaces = (lost, broker.repair_of(lost))
        try:
            peer = await broker.greeter.dial(address, replaces=replaces)
        except NoLinkError as error:
            if error.code == "duplicate" and error.others and error.others[0].node in broker.links:
                broker.departures.reached(link, error.others[0].node)
                await broker.unlinked(error.others[0].node)
                continue
            said = _say(said, address, error)
        except LiveError as error:
            said = _say(said, address, error)
        else:
            backoff.reset()
            said = ""
            lost = peer.node
            broker.departures.reached(link, lost)
            await broker.unlinked(lost)
            while await broker.departures.returned(lost):
                await broker.unlinked(lost)
            if len(addresses) > 1:
                at = (at + 1) % len(addresses)  # an alternative at once; and back in turn
                continue
        at = (at + 1) % len(addresses)
        await asyncio.sleep(backoff.next())


def _say(said: str, address: str, error: LiveError) -> str:
    """Tell why a link does not come about, once per reason."""
    if str(error) != said:
        text = str(error) if address in str(error) else f"{address}: {error}"
        log.warning("no link: %s; trying on", text)
    return str(error)


async def keep_graph(broker: Broker) -> None:
    """Keep ``degree`` neighbours, give or take one, drawn from an ever changing sample."""
    settings, membership, loop = broker.settings, broker.membership, broker.loop
    heal_at = 0.0
    shuffle_at = 0.0
    refusals = 0
    said: dict[str, str] = {}
    step = min(0.2, settings.shuffle / 2)
    while not broker.departures.leaving:
        now = loop.time()
        for node, peer in broker.links.items():
            if peer.leaves:
                continue
            membership.neighbours[node] = peer.degree
        membership.tick(now)
        if now >= shuffle_at:
            shuffle_at = now + settings.shuffle * random.uniform(0.8, 1.2)
            partner = membership.partner()
            if partner in broker.links:
                broker.links[partner].tell(Shuffle(membership.sample(now, partner), True))
        surplus = membership.surplus()
        if surplus is not None:
            broker.departures.drop(broker.links[surplus], "it has neighbours enough")
        candidate = membership.candidate(now, pause=5 * step)
        if candidate is not None:
            insist = membership.urgent(refusals)
            refusals = 0 if await _ask(broker, candidate, insist) or insist else refusals + 1
        elif now >= heal_at or not (broker.links or membership.view):
            heal_at = now + settings.heal * random.uniform(0.5, 1.5)
            await _heal(broker, said)
        elif len(membership.neighbours) < membership.degree - 1:
            refusals += 1  # everybody known has refused lately
        await asyncio.sleep(step * random.uniform(0.5, 1.5))


async def _ask(broker: Broker, who: Known, urgent: bool) -> Peer | None:
    """Ask a broker for a link; what it says of others is remembered."""
    now = broker.loop.time()
    try:
        return await broker.greeter.dial(who.address, urgent=urgent)
    except NoLinkError as error:
        broker.membership.refused(who.node, now, reached=True)
        for known in error.others:
            broker.membership.hear(known, now)
    except LiveError as error:
        log.debug("no link to %s: %s", who.address, error)
        broker.membership.refused(who.node, now, reached=False)
    return None


async def _heal(broker: Broker, said: dict[str, str]) -> None:
    """Look for brokers that were lost, or that one was told to join, and insist on a link."""
    membership, now = broker.membership, broker.loop.time()
    known = membership.addresses()
    missing = [a for a in broker.settings.join if a not in known and a not in broker.own]
    lost = membership.lost_contact(now)
    addresses = missing[:3] + ([lost.address] if lost is not None else [])
    for address in dict.fromkeys(addresses):
        joining = not broker.links
        try:
            await broker.greeter.dial(address, urgent=not joining)
            said.pop(address, None)
        except NoLinkError as error:
            for other in error.others:
                membership.hear(other, now)
            if error.code == "self":
                broker.own.add(address)
            elif error.code in FATAL:
                said[address] = _say(said.get(address, ""), address, error)
        except (RefusedError, LiveError) as error:
            if address in missing and not broker.links:
                said[address] = _say(said.get(address, ""), address, error)
            elif lost is not None:
                membership.refused(lost.node, now, reached=False)
