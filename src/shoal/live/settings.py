"""Settings of a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from shoal.content import AttributeFilter
from shoal.content.language import EVENT_BYTES, MAX_COST
from shoal.content.normal import NormalForm
from shoal.live.errors import LiveError, RefusedError
from shoal.live.identity import check_name, node_id
from shoal.modules import load_module
from shoal.recovery.numbering import FORMAT
from shoal.stack import StackError
from shoal.stack.registry import Stack, build, choice, find, plain, protocols, suggestion

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


OVERLAY: Final = "lstree"
"""The overlay where nothing asks for another: on it every event reaches all who want it."""

LIVE: Final[dict[str, dict[str, Any]]] = {
    "semi-probabilistic": {"horizon": 3, "threshold": 0.5},
    "timed": {"unsubscription_timer": 1.5},  # outlasts a repair, also if a candidate is dead
}
"""Parameters that differ live from the simulator's, whoever names the protocol."""


NODES: Final = {"shopparent": ("root", "heirs")}
"""Parameters of overlays that are nodes: here also brokers' names, whose node ids they become."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what comes from outside, and on what is kept for those who are slow."""

    frame: Annotated[int, msgspec.Meta(ge=1024, le=1 << 30)] = 1 << 20
    """Bytes of one message, and so of an event."""
    attributes: Positive = 256
    """Attributes of an event."""
    cost: Positive = MAX_COST
    """Steps, of about a nanosecond, that a filter may take on an event that fills a frame."""
    text: Positive = 1 << 16
    """Bytes of an event's attributes, which filters read; what is longer goes into the body."""
    scan: Positive = 2_000_000_000
    """Steps that all filters may take together on the longest attributes, where each has to be
    asked on its own (functions, LIKE with ``_``); beyond, up to twice as many, a client gets no
    more than its share."""
    rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Events a second that one client may publish, 0 for any number; a faster one has to wait."""
    connections: Positive = 4096
    """Clients at a time."""
    strangers: Positive = 2048
    """Connections that have not introduced themselves; for one more, the oldest is closed."""
    subscriptions: Positive = 1_000_000
    """Subscriptions of one client."""
    neighbour_filters: Positive = 100_000
    """Filters that one neighbour may announce; one with more is sent every event."""
    neighbour_filter_bytes: Positive = 16 << 20
    """Bytes of these filters: their texts or, of those that unfold, their predicates."""
    queue_bytes: Positive = 64 << 20
    """Bytes kept for one connection that does not read; beyond it, its policy applies."""
    memory: Positive = 256 << 20
    """Bytes that wait for all connections together; beyond it, whoever keeps most loses some.
    All clients' filters have at most as many characters."""
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
        """Whether a filter that the language accepts may cost too much here."""
        return self.frame > EVENT_BYTES or self.cost < MAX_COST

    def check_filter(self, filter: object) -> None:
        """Raise :class:`FilterError` if a filter may take too long on the largest event."""
        if isinstance(filter, AttributeFilter) and self.stricter:
            filter.check_cost(self.frame, self.cost)

    def scan_of(self, filter: object, normal: NormalForm | None = None) -> int:
        """Steps that a filter adds to those that :attr:`scan` bounds."""
        if not isinstance(filter, AttributeFilter):
            return 0
        return filter.cost_alone(min(self.text, self.frame), normal)

    def check_text(self, size: int) -> None:
        """Refuse an event with so many bytes of attributes if they are too many."""
        if size > self.text:
            raise RefusedError(
                "size",
                f"the attributes have {size} bytes; this broker takes {self.text}: put long texts "
                "into the body, or raise limits.text",
            )


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One broker's whole configuration; every field has a sensible value."""

    listen: str = "127.0.0.1:0"
    """Address to listen on; port 0 takes a free one."""
    advertise: str = ""
    """The address to tell others, HOST or HOST:PORT, where it is not the one listened on."""
    name: str = ""
    """A name that is this broker's alone; with TLS its certificate must carry it."""
    join: tuple[str, ...] = ()
    """Any brokers of the network; from them the others become known."""
    links: tuple[str, ...] = ()
    """Fixed neighbours to connect to; alternatives to one, tried in turn, after commas."""
    modules: tuple[str, ...] = ()
    """Python files, or modules, that register protocols of your own."""
    overlay: dict[str, Any] = {}
    """The overlay's ``name`` and parameters: who becomes a neighbour. Unless named: ``links`` if
    there are configured links, ``graph`` for a routing that needs no tree, else ``lstree``."""
    routing: dict[str, Any] = {}
    """The routing's ``name`` and parameters; for some not given see :data:`LIVE`."""
    reconfiguration: dict[str, Any] | None = None
    """How a tree repairs the routing's tables: ``timed``, or on ``links`` ``strawman``."""
    recovery: dict[str, Any] | None = None
    """How lost events are noticed and fetched: the recovery's ``name`` and parameters."""
    heartbeat: Seconds = 1.0
    """Seconds between signs of life; a broker silent for four times as long is gone."""
    settle: Seconds = 3.0
    """Seconds that the clients of a starting broker wait at most for its first links."""
    drain: Seconds = 20.0
    """Seconds that a broker which is told to stop takes at most to hand over clients and links."""
    seed: int | None = None
    """Seed of all chance; drawn at random if not given."""
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
    """Token that proves this broker to brokers with access rules, where there is no TLS."""
    anyone_may_block: bool = False
    """Let clients ask for ``when_full="block"`` that no access rule gives the right to."""
    insecure: bool = False
    """Listen beyond loopback without TLS."""
    metrics: str = ""
    """Address of the Prometheus metrics, as HOST:PORT; none if empty."""
    record: Path | None = None
    """Folder for the recorded tables."""
    run: str = "live"
    """The run that recorded rows belong to; the same for all brokers of a network."""
    rotate: Seconds = 10.0
    """Seconds after which recorded rows are written out."""

    def __post_init__(self) -> None:
        """Fill in what follows from the other settings."""
        import shoal.overlay
        import shoal.recovery
        import shoal.routing  # noqa: F401  # importing them registers them

        for module in self.modules:
            load_module(module)
        overlay, name = self.overlay.get("name"), self.routing.get("name")
        if name is None:
            tree = overlay is None or "tree" in find("overlay", overlay).provides
            name = "subscription-forwarding" if tree else "semi-probabilistic"
        routing = find("routing", name)
        if overlay is None and self.links:
            overlay = "links"
        elif overlay is None and "reach" not in routing.needs:
            overlay = OVERLAY if "tree" in routing.needs else "graph"
        force_setattr(self, "routing", {"name": name, **LIVE.get(name, {}), **self.routing})
        if overlay is not None:
            more = {"tree": "tree" in routing.needs} if overlay == "links" else {}
            nodes = {
                parameter: _nodes(parameter, self.overlay[parameter])
                for parameter in NODES.get(overlay, ())
                if parameter in self.overlay
            }
            force_setattr(self, "overlay", {"name": overlay, **more, **self.overlay, **nodes})
        if "tables" in routing.provides:
            usual = "strawman" if overlay == "links" else "timed"
            repair = {"name": usual, **(self.reconfiguration or {})}
            repair = {**LIVE.get(repair["name"], {}), **repair}
            force_setattr(self, "reconfiguration", repair)

    def contacts(self) -> list[str]:
        """The addresses of all brokers to begin with."""
        return [address for link in (*self.links, *self.join) for address in link.split(",")]

    def stack(self) -> Stack:
        """The protocols, checked."""
        simulated = {"links", "air"}  # what only a simulated network has
        overlay = choice("overlay", self.overlay) if self.overlay else None
        if overlay is not None and find("overlay", overlay.name).needs & simulated:
            able = [p.name for p in protocols("overlay") if not p.needs & simulated]
            raise StackError(
                f"overlay '{overlay.name}' runs in a simulation only; one of: {', '.join(able)}"
            )
        if self.routing["name"] == "advertisement-forwarding":
            raise StackError(
                "routing 'advertisement-forwarding' runs in a simulation only, since clients of a "
                "broker do not advertise what they publish; use subscription-forwarding"
            )
        if self.overlay.get("discovery") == "radio":
            raise StackError(
                f"overlay '{self.overlay['name']}': discovery = 'radio' is for simulated radios; "
                "brokers find each other by 'sampling'"
            )
        if self.links and (overlay is None or overlay.name != "links"):
            raise StackError(
                "fixed links are for overlay 'links'; give brokers to begin with as 'join'"
            )
        try:
            return build(
                overlay,
                choice("routing", self.routing),
                choice("reconfiguration", self.reconfiguration) if self.reconfiguration else None,
                choice("recovery", self.recovery) if self.recovery else None,
            )
        except StackError as error:
            raise StackError(f"{error}{self._meant_graph()}") from None

    def _meant_graph(self) -> str:
        """The end of an error, if settings on the default overlay are those of a graph."""
        if self.overlay.get("name") != OVERLAY:
            return ""
        graph = find("overlay", "graph").parameters.__struct_fields__
        chance = find("routing", "semi-probabilistic").parameters.__struct_fields__
        own = find("overlay", OVERLAY).parameters.__struct_fields__
        meant = (set(self.overlay) & set(graph)) - set(own) or set(self.routing) & set(chance)
        return "; brokers form a tree unless told --overlay graph" if meant else ""

    def described(self, stack: Stack) -> str:
        """The broker's stack as one text: neighbours must agree on it."""
        routed = stack.routing.name
        parts = [routed if stack.overlay is None else f"{stack.overlay.name}/{routed}"]
        if stack.reconfiguration is not None:
            parts.append(f"reconfiguration={stack.reconfiguration.name}")
        if stack.recovery is not None:
            parts.append(f"recovery={stack.recovery.name} (format {FORMAT})")
        limits = self.limits
        parts.append(f"frame={limits.frame} text={limits.text} cost={limits.cost}")
        parts.append(f"heartbeat={self.heartbeat:g}")
        if stack.overlay is not None:
            chosen = stack.parameters["overlay"]
            parts += [f"overlay.{k}={getattr(chosen, k)}" for k in sorted(stack.overlay.agree)]
        chosen = stack.parameters["routing"]
        parts += [f"{k}={v}" for k, v in sorted(msgspec.to_builtins(chosen).items())]
        return " ".join(parts)


def check_recovers(stack: Stack) -> None:
    """Refuse the promise ``recovered`` where a broker with this stack cannot keep it."""
    if stack.recovery is None or not stack.parameters["recovery"].marks:
        raise RefusedError(
            "promise",
            "this broker recovers no events, or with marks = 0 not all; start it with "
            "--recovery combined-pull, or subscribe with promise='best effort'",
        )


def differences(here: str, there: str) -> str:
    """Differences between two brokers' stacks, as :meth:`Settings.described` gives them."""
    ours, theirs = _parts(here), _parts(there)
    names = {**ours, **theirs}
    if ours["overlay"] != theirs["overlay"]:
        names = {n: "" for n in names if not n.startswith("overlay.")}
    if ours["routing"] != theirs["routing"]:  # their parameters have nothing in common
        layers = ("reconfiguration", "recovery")
        names = {n: "" for n in names if n in layers or (n in ours and n in theirs)}
    return "; ".join(
        f"{name}: {ours.get(name, 'none')} here, {theirs.get(name, 'none')} there"
        for name in names
        if ours.get(name) != theirs.get(name)
    )


def _parts(described: str) -> dict[str, str]:
    protocols, *rest = re.split(r" (?=[\w.]+=)", described)
    overlay, _, routing = protocols.rpartition("/")
    parts = {"overlay": overlay or "none", "routing": routing}
    return parts | {name: value for name, _, value in (part.partition("=") for part in rest)}


def _nodes(parameter: str, value: Any) -> Any:
    """A parameter that is a node, or a list of nodes, with names replaced by node ids."""
    if isinstance(value, list | tuple):
        return [_nodes("root", one) for one in value]
    by_name = isinstance(value, str) and parameter == "root"  # heirs = "anyone" is nobody's name
    return node_id(check_name(value)) if by_name else value


def settings_from(raw: dict[str, Any]) -> Settings:
    """Settings from plain data; what is wrong is named."""
    known = list(Settings.__struct_fields__)
    for key in raw:
        if key not in known:
            raise LiveError(f"unknown setting '{key}'{suggestion(key, known)}")
    limits, bounds = raw.get("limits"), list(Limits.__struct_fields__)
    for key in limits if isinstance(limits, dict) else ():
        if key not in bounds:
            raise LiveError(f"unknown setting 'limits.{key}'{suggestion(key, bounds)}")
    try:
        return msgspec.convert(raw, Settings, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise LiveError(plain(error, Settings)) from None


def _path(wanted: type, value: object) -> Path:
    if wanted is Path and isinstance(value, str | Path):
        return Path(value)
    raise ValueError(f"expected the path of a file, got {value!r}")
