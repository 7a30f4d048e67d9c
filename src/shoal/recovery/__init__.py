"""What was lost? Recoveries notice it and fetch it from a node that has it.

* :mod:`~shoal.recovery.push`: nodes tell what they hold.
* :mod:`~shoal.recovery.pulls`: nodes tell what they lack.

They share :mod:`~shoal.recovery.gossip` (rounds), which stands on :mod:`~shoal.recovery.holding`
(events that n nodes keep), :mod:`~shoal.recovery.counting` (numbers) and
:mod:`~shoal.recovery.copies`, and these on parts of one concern each:
:mod:`~shoal.recovery.buffer`, :mod:`~shoal.recovery.numbering` (of events, by their publisher),
:mod:`~shoal.recovery.streams` (as their subscribers see them, who have
:mod:`~shoal.recovery.interests`, :mod:`~shoal.recovery.arrivals` and
:mod:`~shoal.recovery.losses`),
:mod:`~shoal.recovery.delivered`, :mod:`~shoal.recovery.budget`.
Importing the package registers them all.
"""

from shoal.recovery.pulls import CombinedPull, PublisherPull, RandomPull, SubscriberPull
from shoal.recovery.push import Push

__all__ = ["CombinedPull", "PublisherPull", "Push", "RandomPull", "SubscriberPull"]
