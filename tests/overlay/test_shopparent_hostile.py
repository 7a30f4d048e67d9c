"""ShopParent among nodes that lie: nobody is kept out of the tree for long."""

from __future__ import annotations

from test_shopparent import APART, TIMEOUT, World

from shoal.overlay.shopparent_messages import Advertise, Hop, Join, Wanted
from shoal.stack.layer import Layer
from shoal.stack.message import Message


class Deaf(Layer):
    """A layer that answers nothing."""

    def receive(self, sender: int, message: Message) -> None:
        pass


def test_a_node_that_advertises_and_never_answers_is_not_asked_for_ever() -> None:
    """2 comes where it hears 1 and 3; 3 costs less, but does not answer requests to join."""
    world = World(
        4,
        1,
        topology={
            **APART,
            "places": [(0.0, 0.0), (50.0, 0.0), (500.0, 0.0), (50.0, 20.0)],
            "interests": {"given": [None, (0.0, 5.0), (20.0, 30.0), (20.0, 30.0)]},
            "moves": [{"at": 10.0, "node": 2, "to": (90.0, 10.0)}],
        },
    )
    world.run(9.0)
    liar = world.simulation.network.nodes[3]
    assert liar is not None
    assert world.overlay(3).rank == 0
    liar.handled_by = {**liar.handled_by, Join: len(liar.layers)}
    liar.layers = (*liar.layers, Deaf(liar.host))
    world.run(10.0 + 2 * TIMEOUT)
    assert world.overlay(2).parent == 1
    world.run(10.0 + 20 * TIMEOUT)
    assert world.overlay(2).parent == 1


def test_a_route_that_does_not_begin_at_the_root_is_not_believed() -> None:
    """Nobody but the root is the root, nor anybody an heir where none is named."""
    places = [(0.0, 0.0), (50.0, 0.0), (100.0, 0.0)]
    given = {"given": [None, (0.0, 5.0), (0.0, 10.0)]}
    world = World(3, 1, topology={**APART, "places": places, "interests": given})
    world.run(10.0)
    node = world.overlay(1)
    for rank, route in ((0, ()), (0, (Hop(7, Wanted()),)), (1, ()), (3, ())):
        node.on_advertise(2, Advertise(rank, route, Wanted(), ()))
        assert node.adverts[2].route[0].node == 0
    world.run(40.0)
    assert (node.parent, world.overlay(2).parent) == (0, 1)
