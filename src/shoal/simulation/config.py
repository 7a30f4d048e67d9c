"""The configuration of one run: what a configuration file, an experiment or a command line says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec

import shoal
from shoal.modules import load_module
from shoal.record import TABLES
from shoal.simulation.workload import WorkloadParameters
from shoal.stack import StackError, protocols
from shoal.stack.registry import Choice, Kind, Stack, build, choice, find, plain, suggestion

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class LinkParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wired links: propagation delay in seconds, bandwidth in bit/s (0: unlimited)."""

    delay: Seconds = 0.001
    bandwidth: Annotated[float, msgspec.Meta(ge=0, le=1e15)] = 10e6
    direct_delay: Seconds | None = None
    """Delay of messages out of band; as for a link if not given."""
    loss: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """The share of events that each link loses; all other messages are repeated until they arrive.
    Links with a quality of their own lose these as well."""

    def __post_init__(self) -> None:
        if 0 < self.bandwidth < 1:  # a message would be under way for ever
            raise ValueError("bandwidth must be at least 1 bit/s, or 0 for unlimited")


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run.

    ``topology`` names the script that says who can reach whom; ``overlay``, ``routing``,
    ``reconfiguration`` and ``recovery`` name the protocols of every node; each with its parameters.
    ``link`` and ``workload`` may be given as tables: ``RunConfig(link={"delay": 0.1})``.
    """

    nodes: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 100
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] = 0
    duration: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 8.0
    topology: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "abstract-tree"})
    overlay: dict[str, Any] | None = msgspec.field(default_factory=lambda: {"name": "given"})
    """None for a routing that keeps its own connections."""
    routing: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"name": "subscription-forwarding"}
    )
    reconfiguration: dict[str, Any] | None = None
    """None: the simplest one (Strawman), if the routing needs any."""
    recovery: dict[str, Any] | None = None
    link: LinkParameters = LinkParameters()
    workload: WorkloadParameters = WorkloadParameters()
    record: tuple[str, ...] = ("publications", "traffic", "links", "repairs")
    bin: Annotated[float, msgspec.Meta(ge=1e-6, le=1e6)] = 0.1
    """Width of the time bins of the traffic table, in seconds."""
    data_plane: Literal["auto", "objects", "arrays"] = "auto"
    """What forwards events: the routing's objects, or arrays by the same rule; tables are equal."""
    invariants: bool = True
    """Stop with an error when a table at rest is wrong; if not, the run only says so."""
    modules: tuple[str, ...] = ()
    """Python files (or modules) that register protocols of your own."""

    if TYPE_CHECKING:  # the fields above; here tables are allowed, which __post_init__ reads

        def __init__(
            self,
            *,
            nodes: int = 100,
            seed: int = 0,
            duration: float = 8.0,
            topology: dict[str, Any] = ...,
            overlay: dict[str, Any] | None = ...,
            routing: dict[str, Any] = ...,
            reconfiguration: dict[str, Any] | None = None,
            recovery: dict[str, Any] | None = None,
            link: LinkParameters | Mapping[str, Any] = ...,
            workload: WorkloadParameters | Mapping[str, Any] = ...,
            record: tuple[str, ...] = ...,
            bin: float = 0.1,
            data_plane: Literal["auto", "objects", "arrays"] = "auto",
            invariants: bool = True,
            modules: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for section, kind in _SECTIONS.items():
            table = getattr(self, section)
            if isinstance(table, Mapping):
                _check_keys(table, kind, f"{section}.")
                read = getattr(_convert({section: table}), section)
                msgspec.structs.force_setattr(self, section, read)

    def stack(self) -> Stack:
        """The protocols, checked."""
        for module in self.modules:
            load_module(module)
        routing = choice("routing", self.routing)
        repair = None
        if self.reconfiguration is not None:
            repair = choice("reconfiguration", self.reconfiguration)
        elif "reconfiguration" in find("routing", routing.name).needs:
            repair = Choice("strawman")
        return build(
            choice("overlay", self.overlay) if self.overlay is not None else None,
            routing,
            repair,
            choice("recovery", self.recovery) if self.recovery is not None else None,
            topology=choice("topology", self.topology),
        )

    def warnings(self) -> list[str]:
        """What is allowed but unwise about this run, one line each."""
        stack = self.stack()
        found, topology = stack.warnings(), stack.parameters["topology"]
        window = getattr(topology, "window", None)  # a number on the air, that of slots
        rate = getattr(topology, "rate", 0.0)
        if isinstance(window, tuple) and rate and window[0] >= self.duration:
            found.append(
                f"links are replaced from {window[0]:g} to {window[1]:g} s (topology.window), but "
                f"events end at {self.duration:g} s (duration): none meets a repair"
            )
        return found


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "link": LinkParameters,
    "workload": WorkloadParameters,
}
"""The sections that name no protocol."""


def parse_config(raw: Mapping[str, Any]) -> RunConfig:
    """A configuration from plain data, wholly checked; errors name the key and what is wrong."""
    _check_keys(raw, RunConfig, "")
    for kind in get_args(Kind):
        if isinstance(name := raw.get(kind), str):
            raise StackError(
                f'{kind}: expected `table`, got `str`; name a protocol by {kind}.name = "{name}"'
            )
    raw = _with_reach(raw)
    for section, kind in _SECTIONS.items():
        if isinstance(raw.get(section), Mapping):
            _check_keys(raw[section], kind, f"{section}.")
    config = _convert(raw)
    for table in config.record:
        if table not in TABLES:
            raise StackError(f"record: unknown table '{table}'{suggestion(table, list(TABLES))}")
    for act in config.workload.script:
        if act.node >= config.nodes:
            raise StackError(
                f"workload.script: there is no node {act.node}; nodes are 0 to {config.nodes - 1}"
            )
        if act.at > config.duration:
            raise StackError(
                f"workload.script: an act at {act.at:g} s comes after the end of the run, "
                f"{config.duration:g} s; raise duration"
            )
    for root in getattr(config.stack().parameters.get("overlay"), "roots", ()):
        if root >= config.nodes:
            raise StackError(f"overlay: there is no node {root}; nodes are 0 to {config.nodes - 1}")
    return config


def _convert(raw: Mapping[str, Any]) -> RunConfig:
    """A configuration from plain data whose keys are known."""
    try:
        return msgspec.convert(raw, RunConfig)
    except msgspec.ValidationError as error:
        raise StackError(plain(error, RunConfig)) from None


def check_links(stack: Stack) -> None:
    """Refuse configured links that close a cycle: a simulated tree has none at any instant."""
    topology = stack.parameters["topology"]
    if stack.overlay is None or stack.overlay.name != "links":
        return
    if getattr(topology, "contacts", 1) > 1:
        raise StackError(
            "overlay 'links' links a node to each of its contacts, and more than one closes a "
            "cycle; set topology.contacts = 1"
        )
    if getattr(topology, "back_after", None) is not None or getattr(topology, "churn", None):
        raise StackError(
            "overlay 'links' has no other links than configured ones, so a node that comes back "
            "with another contact may close a cycle; leave back_after and churn out"
        )


def _with_reach(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """For a routing that needs no links: no overlay, and nodes that reach each other."""
    routing = raw.get("routing")
    name = routing.get("name") if isinstance(routing, Mapping) else None
    for need, topology in (("reach", "full-mesh"), ("air", "air")):
        if any(p.name == name and need in p.needs for p in protocols("routing")):
            return {"topology": {"name": topology}, "overlay": None, **raw}
    return raw


def _check_keys(raw: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    known = list(kind.__struct_fields__)
    for key in raw:
        if key not in known:
            raise StackError(f"unknown key '{where}{key}'{suggestion(key, known)}")


def checked(config: RunConfig) -> RunConfig:
    """A configuration made in Python, with the checks of one that was read."""
    return parse_config(msgspec.to_builtins(config))


def canonical_json(config: RunConfig) -> str:
    """The configuration as JSON, keys sorted, defaults written out: equal runs give equal text."""
    return _text(_whole(config))


def _whole(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain data, defaults written out."""
    config = checked(config)
    whole: dict[str, Any] = msgspec.to_builtins(config)
    stack = config.stack()
    for protocol in stack.protocols():
        parameters = msgspec.to_builtins(stack.parameters[protocol.kind])
        whole[protocol.kind] = {"name": protocol.name, **parameters}
    return whole


def _text(whole: Mapping[str, Any]) -> str:
    return msgspec.json.encode(whole, order="sorted").decode()


@cache
def code_version() -> str:
    """A hash of the sources that a simulated run depends on."""
    root = Path(shoal.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for package in ("content", "stack", "overlay", "routing", "recovery", "record", "simulation"):
        for source in sorted((root / package).rglob("*.py")):
            digest.update(source.relative_to(root).as_posix().encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()


def run_id(config: RunConfig) -> str:
    """A run's identity: its configuration (seed included) and the code it depends on.

    Modules count by what they contain, not by where they lie.
    """
    ((identity, _),) = seeded(config, [config.seed])
    return identity


def seeded(config: RunConfig, seeds: Iterable[int]) -> list[tuple[str, str]]:
    """Identity and canonical JSON of a configuration with each of some seeds."""
    code = ",".join([code_version(), *map(load_module, config.modules)])
    whole = _whole(config)
    found = []
    for seed in seeds:
        mine = {**whole, "seed": seed}
        text = f"{code}:{_text({**mine, 'modules': ()})}"
        identity = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        found.append((identity, _text(mine)))
    return found
