"""Who a broker is: its name, the node id that follows from it, the session it is in, and the
address at which others reach it."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import socket
import time
from collections.abc import Iterable
from typing import Final

from shoal.live.errors import LiveError
from shoal.live.wire import parse_address, show_address
from shoal.stack import NodeId

ID_LIMIT: Final = 2**31 - 1
EVENTS_PER_MILLISECOND: Final = 1024
ELSEWHERE: Final = ("192.0.2.1", "2001:db8::1")
"""Addresses that are nobody's: packets to them would take the default route."""
_START: Final = 1_704_067_200_000  # 2024-01-01 in milliseconds


def node_id(name: str) -> NodeId:
    """The node id of a name: a number names itself, other names are hashed."""
    if name.isascii() and name.isdigit() and int(name) <= ID_LIMIT:
        return int(name)
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % ID_LIMIT


def check_name(name: str) -> str:
    """A usable name: short, printable, no spaces."""
    if not name or len(name) > 64 or not name.isprintable() or any(c.isspace() for c in name):
        raise LiveError(f"the name {name!r} cannot be used; take up to 64 signs without spaces")
    return name


def random_name() -> str:
    """A name for a broker that was given none."""
    return f"broker-{secrets.token_hex(4)}"


def new_epoch() -> int:
    """A number larger than that of any earlier session under a clock that does not go back."""
    return max(0, time.time_ns() // 1_000_000 - _START)


def first_sequence(epoch: int) -> int:
    """First sequence number of a session: above all that an earlier one can have used."""
    return epoch * EVENTS_PER_MILLISECOND


def advertised(told: str, host: str, port: int, others: Iterable[str]) -> tuple[str, int]:
    """Host and port at which others reach a broker; what is empty is as it listens.

    ``told`` is what the user says of it: HOST, HOST:PORT or nothing. A broker that listens on all
    interfaces and was told nothing takes the one from which it would reach the ``others``, or
    else the rest of the world.
    """
    if told:
        named = ":" in told.rpartition("]")[2]
        found, at = parse_address(told if named else f"{told}:0", "advertised address")
        if _unspecified(found) or (named and not at):
            raise LiveError(f"nobody can connect to '{told}'; --advertise an address of this host")
        return found, at
    if not _unspecified(host):
        return "", 0
    hosts = [parse_address(other)[0] for other in others if other]
    # Who listens on all addresses of IPv6 is not reached over IPv4, nor the other way round.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for other in (*hosts, *ELSEWHERE):
        found = _source_towards(other, family)
        if found and not ipaddress.ip_address(found.partition("%")[0]).is_loopback:
            return found, 0
    raise LiveError(
        f"listening on {show_address(host, port)}, a broker must know where others reach it, and "
        "no route tells; add --advertise HOST"
    )


def _unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _source_towards(host: str, family: socket.AddressFamily) -> str:
    """The address that packets to a host would come from, or nothing; none are sent."""
    try:
        for _, kind, protocol, _, address in socket.getaddrinfo(
            host, 9, family, type=socket.SOCK_DGRAM
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    except OSError:
        pass
    return ""
