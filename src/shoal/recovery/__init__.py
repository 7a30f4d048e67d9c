"""What was lost? Recoveries notice it and fetch it from a node that has it; one file each.

* :mod:`~shoal.recovery.push`: nodes tell what they hold.
* :mod:`~shoal.recovery.subscriber_pull`, :mod:`~shoal.recovery.publisher_pull`,
  :mod:`~shoal.recovery.combined_pull`, :mod:`~shoal.recovery.random_pull`: nodes tell what they
  lack.

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

from shoal.recovery.combined_pull import CombinedPull
from shoal.recovery.publisher_pull import PublisherPull
from shoal.recovery.push import Push
from shoal.recovery.random_pull import RandomPull
from shoal.recovery.subscriber_pull import SubscriberPull

__all__ = ["CombinedPull", "PublisherPull", "Push", "RandomPull", "SubscriberPull"]
