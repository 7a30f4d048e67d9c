"""What a routing needs and the topology does not give is refused by name; unwise timers warn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.simulation import parse_config
from shoal.stack import StackError, register
from shoal.stack.registry import NoParameters, Protocol, _registry


@pytest.fixture
def bare_tree() -> Iterator[Protocol]:
    """A topology that keeps a tree and says nothing more about it."""
    yield register(
        "topology", "bare-tree", lambda *_: None, NoParameters, provides={"links", "tree"}
    )
    del _registry["topology", "bare-tree"]


def refusal(**sections: Any) -> str:
    with pytest.raises(StackError) as refused:
        parse_config({"topology": {"name": "bare-tree"}, **sections})
    return str(refused.value)


@pytest.mark.usefixtures("bare_tree")
def test_reconfiguration_path_without_paths() -> None:
    text = refusal(reconfiguration={"name": "path"})
    assert "'path' needs a layer that" in text
    assert "abstract-tree" in text


@pytest.mark.usefixtures("bare_tree")
def test_informed_without_link_association() -> None:
    text = refusal(reconfiguration={"name": "informed"})
    assert "says which new link replaces which old one" in text


@pytest.mark.usefixtures("bare_tree")
def test_hierarchical_without_a_root() -> None:
    text = refusal(
        routing={"name": "hierarchical-forwarding"}, reconfiguration={"name": "strawman"}
    )
    assert "'hierarchical-forwarding' needs a layer that knows a root" in text


def test_timers_that_violate_6_1_warn_with_the_condition() -> None:
    def warnings(**timers: float) -> list[str]:
        return parse_config({"reconfiguration": {"name": "informed", **timers}}).stack().warnings()

    assert warnings(unsubscription_timer=0.15, subscription_timer=0.15) == []
    (text,) = warnings(unsubscription_timer=0.3, subscription_timer=0.15)
    assert "(6.1) T_u + t_prop < T_s + t_rep" in text
    assert "below 0.25" in text


def test_covering_needs_to_remember() -> None:
    with pytest.raises(StackError, match="covering needs announced = true"):
        parse_config(
            {
                "routing": {
                    "name": "subscription-forwarding",
                    "announced": False,
                    "covering": True,
                },
                "reconfiguration": {"name": "strawman"},
            }
        )
