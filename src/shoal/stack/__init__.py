"""The contract: what a layer may ask of the world, and how stacks are built.

* :mod:`~shoal.stack.host`: ``Host``, the only thing a layer sees of the world.
* :mod:`~shoal.stack.layer`: ``Layer`` and its kinds: overlay, routing, recovery.
* :mod:`~shoal.stack.node`: ``Node``, all layers on one host.
* :mod:`~shoal.stack.message`: what every message has; what a contact is.
* :mod:`~shoal.stack.chance`: chance as a pure function of its question.
* :mod:`~shoal.stack.registry`: protocols by name, their parameters, and which fit together.
"""

from shoal.stack.chance import Chance
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Layer, Overlay, Reconfiguration, Recovery, Routing, kept_by_host
from shoal.stack.message import Contact, Heartbeat, Message, Routine
from shoal.stack.node import Node
from shoal.stack.registry import Protocol, StackError, build, protocols, register

__all__ = [
    "LOCAL",
    "Chance",
    "Contact",
    "Heartbeat",
    "Host",
    "Layer",
    "Message",
    "Node",
    "NodeId",
    "Overlay",
    "Protocol",
    "Reconfiguration",
    "Recovery",
    "Routine",
    "Routing",
    "StackError",
    "Timer",
    "build",
    "kept_by_host",
    "protocols",
    "register",
]
