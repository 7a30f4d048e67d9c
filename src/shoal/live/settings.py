"""What a broker is told when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from shoal.content import AttributeFilter
from shoal.content.language import EVENT_BYTES, MAX_COST
from shoal.live.errors import LiveError
from shoal.stack import Host, Overlay, Routing, register
from shoal.stack.registry import Choice, NoParameters, Stack, build, choice, plain, suggestion

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


ROUTING: Final[dict[str, dict[str, Any]]] = {"semi-probabilistic": {"horizon": 3, "threshold": 0.5}}
"""Parameters of a live routing that differ from the simulator's, whoever names the routing."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what comes from outside, and on what is kept for those who are slow."""

    frame: Annotated[int, msgspec.Meta(ge=1024, le=1 << 30)] = 1 << 20
    """Bytes of one message, and so of an event."""
    attributes: Positive = 256
    """Attributes of an event."""
    cost: Positive = MAX_COST
    """Steps, of about a nanosecond, that a filter may take on an event that fills a frame."""
    rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Events a second that one client may publish, 0 for any number; a faster one has to wait."""
    connections: Positive = 4096
    """Clients at a time."""
    strangers: Positive = 2048
    """Connections that have not introduced themselves; for one more, the oldest is closed."""
    subscriptions: Positive = 1_000_000
    """Subscriptions of one client."""
    queue_bytes: Positive = 64 << 20
    """What is kept for one connection that does not read; beyond it, its policy applies."""
    memory: Positive = 256 << 20
    """Bytes that wait for all connections together; beyond it, whoever keeps most loses some."""
    block: Seconds = 5.0
    """Seconds that a slow client with ``when_full="block"`` may keep others from publishing."""
    hops: Positive = 64
    """Links an event may cross; more means that links configured as a tree form a cycle."""
    handshake: Seconds = 5.0
    """Seconds within which a new connection must have introduced itself."""
    skew: Seconds = 5.0
    """Seconds by which another broker's clock may differ before that is said."""

    @property
    def stricter(self) -> bool:
        """Whether a filter may cost too much here that could be made."""
        return self.frame > EVENT_BYTES or self.cost < MAX_COST

    def check_filter(self, filter: object) -> None:
        """Raise :class:`FilterError` if a filter may take too long on the largest event."""
        if isinstance(filter, AttributeFilter) and self.stricter:
            filter.check_cost(self.frame, self.cost)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One broker's whole configuration; every field has a sensible value."""

    listen: str = "127.0.0.1:0"
    """Where to listen; port 0 takes a free one."""
    advertise: str = ""
    """The address to tell others, HOST or HOST:PORT, where it is not the one listened on."""
    name: str = ""
    """A name that is this broker's alone; with TLS its certificate must carry it."""
    join: tuple[str, ...] = ()
    """Any brokers of the network; from them the others become known."""
    links: tuple[str, ...] = ()
    """Fixed neighbours to connect to; alternatives to one, tried in turn, after commas."""
    overlay: Literal["graph", "links"] | None = None
    """Find and keep neighbours oneself, or have exactly the configured ones. Unless given:
    ``links`` if there are configured links or the routing needs a tree, else ``graph``."""
    routing: dict[str, Any] = {}
    """The routing's ``name`` and parameters; those not given are in :data:`ROUTING`."""
    reconfiguration: dict[str, Any] | None = None
    """How configured links repair the routing's tables; ``strawman`` unless given."""
    degree: Annotated[int, msgspec.Meta(ge=1, le=64)] = 5
    """Links that a broker on the graph keeps, give or take one."""
    heartbeat: Seconds = 1.0
    """Seconds between signs of life; a neighbour silent for four times as long is gone."""
    shuffle: Seconds = 1.0
    """Seconds between exchanges of known brokers."""
    heal: Seconds = 10.0
    """Seconds between attempts to reach brokers that were lost."""
    forget: Seconds = 30.0
    """Seconds after which a broker that nobody hears from is forgotten."""
    reconnect: tuple[Seconds, Seconds] = (0.1, 5.0)
    """First and longest pause between attempts to connect."""
    settle: Seconds = 3.0
    """Seconds that the clients of a starting broker wait at most for its first links."""
    drain: Seconds = 20.0
    """Seconds that a broker which is told to stop takes at most to hand over clients and links."""
    absence: Seconds = 30.0
    """Seconds that events are kept for a configured neighbour which restarts."""
    seed: int | None = None
    """What chance is drawn from; drawn itself if not given."""
    limits: Limits = Limits()
    """Bounds on what comes from outside, and on what is kept for those who are slow."""
    certificate: Path | None = None
    """This broker's certificate (PEM), which carries its name."""
    key: Path | None = None
    """The certificate's key, if it is not in the same file."""
    authority: Path | None = None
    """The certificates that sign those of peers and clients."""
    access: Path | None = None
    """A file with tokens and access rules."""
    token: str = ""
    """What this broker proves itself with to brokers with access rules, where there is no TLS."""
    anyone_may_block: bool = False
    """Let clients ask for ``when_full="block"`` that no access rule gives the right to."""
    insecure: bool = False
    """Listen beyond loopback without TLS."""
    metrics: str = ""
    """Where Prometheus may ask how the broker is doing, as HOST:PORT; nowhere if empty."""
    record: Path | None = None
    """Where to write the tables of what happens."""
    run: str = "live"
    """The run that recorded rows belong to; the same for all brokers of a network."""
    rotate: Seconds = 10.0
    """Seconds after which recorded rows are written out."""

    def __post_init__(self) -> None:
        """Fill in what follows from the other settings."""
        name = str(self.routing.get("name", ""))
        tree = bool(self.links) or name.endswith("-forwarding")
        overlay = self.overlay or ("links" if tree else "graph")
        name = name or ("semi-probabilistic" if overlay == "graph" else "subscription-forwarding")
        force_setattr(self, "overlay", overlay)
        force_setattr(self, "routing", {"name": name, **ROUTING.get(name, {}), **self.routing})
        if name.endswith("-forwarding") and name != "event-forwarding":
            repair = {"name": "strawman", **(self.reconfiguration or {})}
            force_setattr(self, "reconfiguration", repair)

    def stack(self) -> Stack:
        """The protocols, checked."""
        import shoal.routing  # noqa: F401  # registers the routings

        overlay = Choice("live-graph" if self.overlay == "graph" else "live-links")
        repair = None
        if self.reconfiguration is not None:
            repair = choice("reconfiguration", self.reconfiguration)
        return build(overlay, choice("routing", self.routing), repair)

    def described(self, stack: Stack) -> str:
        """How this broker routes, as one text: neighbours must agree on it."""
        parts = [f"{self.overlay}/{stack.routing.name}"]
        if stack.reconfiguration is not None:
            parts.append(stack.reconfiguration.name)
        parts.append(f"frame={self.limits.frame} cost={self.limits.cost}")
        chosen = stack.parameters["routing"]
        parts += [f"{k}={v}" for k, v in sorted(msgspec.to_builtins(chosen).items())]
        return " ".join(parts)


def settings_from(raw: dict[str, Any]) -> Settings:
    """Settings from plain data; what is wrong is named."""
    known = list(Settings.__struct_fields__)
    for key in raw:
        if key not in known:
            raise LiveError(f"unknown setting '{key}'{suggestion(key, known)}")
    try:
        return msgspec.convert(raw, Settings, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise LiveError(plain(error)) from None


def _path(wanted: type, value: object) -> Path:
    if wanted is Path and isinstance(value, str | Path):
        return Path(value)
    raise ValueError(f"expected the path of a file, got {value!r}")


class _Live(Overlay):
    """The brokers' own connections, which the broker makes links of."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)


register("overlay", "live-graph", _Live, provides={"links"}, summary="Live: peer sampling.")
register(
    "overlay",
    "live-links",
    _Live,
    provides={"links", "tree", "association"},
    summary="Live: configured links; that they form a tree is up to who configures them.",
)
