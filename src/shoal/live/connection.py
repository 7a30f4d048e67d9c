"""One connection: frames in, frames out, and nobody harmed by what the other end does.

Frames that are sent within one turn of the event loop leave in one write. What arrives is handed,
frame by frame, to whoever took the connection over after its first frame. Any error that a frame
causes closes this connection and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from shoal.live.budget import Budget, Pinner
from shoal.live.errors import LiveError, ProtocolError
from shoal.live.messages import Beat, Bye, Hello, Refused
from shoal.live.security import explain_tls
from shoal.live.wire import HANDSHAKE_LIMIT, Splitter, encode

if TYPE_CHECKING:
    from shoal.live.settings import Limits
    from shoal.live.turns import Turns

log = logging.getLogger("shoal.live")
HIGH_WATER: Final = 1 << 16
"""Bytes waiting in a socket's buffer from which on a connection counts as congested."""
PORTION: Final = 1 << 16
"""Bytes given to the socket at a time: it copies what it does not take at once, and so does TLS."""
LARGE: Final = 1 << 15
"""Bytes of a part that is never copied: the events that wait for many connections are shared."""
PARTIAL: Final = 1 << 16
"""Bytes of frames that wait, to end or for their turn, from which on they count as memory."""
VIEW: Final = 200
"""Bytes that a frame takes beside its content while it waits."""
_hello = msgspec.msgpack.Decoder(Hello)


class User:
    """User of a connection once it is introduced: a peer link or a client's session."""

    def received(self, frames: list[memoryview]) -> None:
        """Frames arrived."""

    def closed(self, reason: str) -> None:
        """The connection is gone."""

    def congested(self, yes: bool) -> None:
        """The other end does not read fast enough, or does again."""


class Connection(asyncio.Protocol, Pinner):
    """A stream of frames between two programs."""

    def __init__(
        self, limits: Limits, introduce: Callable[[Connection, Hello], None] | None = None
    ) -> None:
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.user: User | None = None
        self.remote = "?"
        self.certificate: dict[str, Any] | None = None
        """The other end's certificate, where it showed one that is trusted."""
        self.secure = False
        self.binding = b""
        """Finished message of the TLS channel, which no other channel shares."""
        self.hello = b""
        """The encoded introduction of who opened the connection."""
        self.heard = self.loop.time()
        self.reason = ""
        """Why it was or will be closed."""
        self.gone = False
        self.on_gone: Callable[[Connection], None] | None = None
        self.budget: Budget | None = None
        """The broker's account of bytes that the other end does not read, or does not finish."""
        self.turns: Turns | None = None
        """The queue in which a broker's connections wait for their turn."""
        self._later: list[memoryview] = []
        """Frames that wait for it."""
        self.may_subscribe = False
        """Whether this connection may handle a subscription now."""
        self._unread = 0
        """Number of reasons for which reading is paused."""
        self._pins = False
        """Whether the budget counts anything of this connection."""
        self._introduce = introduce
        self._splitter = Splitter(HANDSHAKE_LIMIT)
        self._out: deque[bytes | memoryview] = deque()
        """Frames sent that the socket has not been given yet."""
        self._out_bytes = 0
        self._paused = False
        """Whether the socket takes no more for the moment."""
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = self._finishing = self._settled = False

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.remote = f"{address[0]}:{address[1]}"
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if secured is not None:
            self.secure = True
            self.certificate = secured.getpeercert() or None
            self.binding = secured.get_channel_binding("tls-unique") or b""
        if self._introduce is not None:
            self._timer = self.loop.call_later(
                self.limits.handshake,
                lambda: self.close(f"no introduction within {self.limits.handshake:g} s"),
            )

    def data_received(self, data: bytes) -> None:
        if self.gone:
            return
        self.heard = self.loop.time()
        self.guarded(self._split, data)

    def _split(self, data: bytes) -> None:
        frames = self._splitter.feed(data)
        if self._splitter.partial > PARTIAL or self._pins:
            self._pin()
        if not frames:
            return
        if self._later:
            self._later += frames
        elif self.turns is not None and self.turns.over():
            self.defer(frames)
        else:
            self._hand(frames)

    def _hand(self, frames: list[memoryview]) -> None:
        if self.user is None and not self._begin(frames):
            return
        if self.user is not None and frames:
            self.user.received(frames)

    def defer(self, frames: list[memoryview], *, subscribing: bool = False) -> None:
        """Hand these frames, and what comes after them, to the user when it is their turn."""
        assert self.turns is not None
        self._later = frames
        self.pause()
        self._pin()
        self.turns.wait(self, subscribing=subscribing)

    def take_turn(self, *, subscribing: bool) -> None:
        """Handle the frames that wait: it is this connection's turn."""
        frames, self._later = self._later, []
        if self._pins:
            self._pin()
        self.resume()
        if not self.gone:
            self.may_subscribe = subscribing
            self.guarded(self._hand, frames)
            self.may_subscribe = False

    def pause(self) -> None:
        """Stop reading."""
        self._unread += 1
        if self._unread == 1 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless there is another reason not to."""
        self._unread -= 1
        if not self._unread and self.transport is not None and not self.transport.is_closing():
            self.heard = self.loop.time()
            self.transport.resume_reading()

    @property
    def paused(self) -> bool:
        """Whether nothing is read; the other end's silence then means nothing."""
        return self._unread > 0

    def guarded(self, handle: Callable[[Any], None], what: Any) -> None:
        """Do something that the other end caused; an error costs it its connection."""
        try:
            handle(what)
        except (LiveError, msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            self.fail(error)
        except Exception as error:
            log.exception(
                "a frame from %s broke its handling; closing that connection", self.remote
            )
            self.fail(error)

    def _begin(self, frames: list[memoryview]) -> bool:
        """Let the first frame introduce the other end; False if nobody took the connection."""
        introduce, self._introduce = self._introduce, None
        if introduce is None:
            return False
        if self._timer is not None:
            self._timer.cancel()
        self.hello = bytes(frames.pop(0))
        introduce(self, _hello.decode(self.hello))
        return self.user is not None

    def pause_writing(self) -> None:
        self._paused = True
        self._pin()
        if self.user is not None:
            self.user.congested(True)

    def resume_writing(self) -> None:
        self._paused = False
        self._write()
        self._pin()
        if self.user is not None and not self.gone and not self._paused:
            self.user.congested(False)

    def connection_lost(self, error: Exception | None) -> None:
        reason = f"connection lost: {error}" if error else "closed by other end"
        if isinstance(error, ssl.SSLError):  # a refused certificate is noticed only now
            reason = explain_tls(error)
        self._end(self.reason or reason)

    # For users

    def hand_to(self, user: User, limit: int) -> None:
        """Hand all further frames, up to this size, to a user."""
        self.user = user
        self._splitter.limit = limit

    def send(self, frame: bytes, rest: bytes = b"") -> None:
        """Send a frame (perhaps in two parts), together with others of this turn of the loop."""
        self._out.append(frame)
        self._out_bytes += len(frame) + len(rest)
        if rest:
            self._out.append(rest)
        if self._paused:
            self._pin()
        elif self._out_bytes > PORTION:  # the socket says in between whether it takes more
            self._write()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)

    def send_or_drop(self, frame: bytes) -> None:
        """Send a frame, or drop it if the other end does not read: later it would be of no use."""
        if not self._paused:
            self.send(frame)

    def flush(self) -> None:
        """Write what was sent, as far as the socket takes it."""
        self._flushing = False
        self._write()

    def _write(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        while self._out and not self._paused:
            transport.write(self._portion())
        if self._finishing and not self._out:
            transport.close()

    def _portion(self) -> bytes | memoryview:
        """Take the next bytes to write from what was sent."""
        out = self._out
        if self._out_bytes < LARGE:
            self._out_bytes = 0
            data = b"".join(out)
            out.clear()
            return data
        if len(out[0]) >= LARGE:
            part = memoryview(out.popleft())
            if len(part) > PORTION:
                out.appendleft(part[PORTION:])
                part = part[:PORTION]
            self._out_bytes -= len(part)
            return part
        small = [out.popleft()]
        size = len(small[0])
        while out and size < PORTION and len(out[0]) < LARGE:
            small.append(out.popleft())
            size += len(small[-1])
        self._out_bytes -= size
        return b"".join(small)

    def waiting(self) -> int:
        """Bytes not yet taken by the operating system."""
        given = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return given + self._out_bytes

    def beat(self, patience: float) -> None:
        """Send a heartbeat; close the connection if the other end has been silent for too long."""
        silent = self.loop.time() - self.heard
        if silent > patience and not self.paused:
            self.close(f"nothing heard for {silent:.1f} s", polite=False)
        elif not self.gone:
            self.send_or_drop(encode(Beat()))

    def refuse(self, refused: Refused) -> None:
        """Answer no, and close."""
        self.reason = refused.reason
        self.send(encode(refused))
        self._finish()

    def fail(self, error: Exception) -> None:
        """The other end broke the rules: tell it how, and close."""
        what = str(error) if isinstance(error, LiveError) else f"unusable message: {error}"
        if isinstance(error, ProtocolError | LiveError | msgspec.MsgspecError):
            log.info("%s: %s; closed", self.remote, what)
        self.close(what[:1000])

    def close(self, reason: str, *, polite: bool = True) -> None:
        """Close, saying why; what was sent before still goes out."""
        if self.gone:
            return
        self.reason = self.reason or reason
        if polite:
            self.send(encode(Bye(reason[:1000])))
            self._finish()
        else:
            self._out.clear()
            self._out_bytes = 0
            if self.transport is not None:
                self.transport.abort()
        if self.user is not None or not polite:
            self._end(self.reason)

    def _finish(self) -> None:
        self._finishing = True
        self.flush()
        if self.transport is not None:
            # An end that does not read must not keep the connection.
            self.loop.call_later(2.0, self.transport.abort)

    def _end(self, reason: str) -> None:
        """Once: nothing comes or goes any more; the user learns it when no handler is running."""
        if self.gone:
            return
        self.gone = True
        self.reason = reason
        self._pin()
        if self._timer is not None:
            self._timer.cancel()
        self.loop.call_soon(self.settle)

    def _pin(self) -> None:
        """Count what only the other end can free."""
        if self.budget is None:
            return
        size = 0
        if not self.gone:
            size = self.waiting() if self._paused else 0
            unhandled = (
                self._splitter.partial + sum(map(len, self._later)) + VIEW * len(self._later)
            )
            if unhandled > PARTIAL:
                size += unhandled
        self._pins = size > 0
        self.budget.pin(self, size)

    def give_up(self) -> None:
        self.close(
            "the broker's memory is full, and this end sends more than its share or does not read",
            polite=False,
        )

    def settle(self) -> None:
        """Tell the user and the owner that the connection is gone, now rather than soon."""
        if not self.gone or self._settled:
            return
        self._settled = True
        reason = self.reason
        user, self.user = self.user, None
        if user is not None:
            user.closed(reason)
        if self.on_gone is not None:
            self.on_gone(self)
