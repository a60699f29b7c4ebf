"""The network of the world: in-memory TCP with latency, partitions, FIN, RST and small buffers.

A connection is two ends; bytes travel by timers and wait in the receiver's kernel buffer until its program
reads them. The kernel's rules hold: closing with unread input sends RST, as SO_LINGER 0 does; FIN is seen
after the bytes before it; bytes written to a dead end are answered by RST one way later.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import ipaddress
import itertools
import socket
import struct
from asyncio import sslproto, transports
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from scenarios.simulation.loop import OWNER, VirtualLoop, unless_over
from scenarios.simulation.processes import Killed

Address = tuple[str, int]

#: What a kernel keeps for a program that does not read, and what a program may have in flight, in bytes.
BUFFER_BYTES = 64 * 1024


@dataclass(slots=True, kw_only=True)
class Weather:
    """How the network is just now. Times in seconds."""

    latency_s: float = 0.0
    partitioned: bool = False
    """Nothing arrives anywhere: packets are lost and sent again once this is over."""
    refused: set[Address] = field(default_factory=set)
    """Addresses at which nobody listens, whatever stands there."""
    segment_bytes: int | None = None
    """Cut what is written into segments of this size; each arrives on its own."""


@dataclass(frozen=True, slots=True)
class Wired:
    """One thing seen on the wire, for timelines: `what` is `open`, `data`, `fin` or `rst`."""

    at: float
    connection: int
    source: str
    target: str
    what: str
    data: bytes = b""


class WorldSocket:
    """What `get_extra_info("socket")` gives: enough of a socket for options and names."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, end: End) -> None:
        self._end = end

    def setsockopt(self, level: int, option: int, value: Any, *more: Any) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            on, seconds = struct.unpack("ii", value)
            self._end._loop.outside += 1
            self._end.lingers_not = bool(on) and seconds == 0

    def getsockopt(self, level: int, option: int, *more: Any) -> int:
        return 0

    def getsockname(self) -> Address:
        return self._end.name

    def getpeername(self) -> Address:
        return self._end.peer.name

    def fileno(self) -> int:
        return -1

    def gettimeout(self) -> float:
        return 0.0

    def setblocking(self, flag: bool) -> None:
        """All sockets of the world are non-blocking."""


class End(transports.Transport):
    """One end of a connection: the kernel's half and the program's transport in one."""

    _start_tls_compatible = True
    peer: End

    def __init__(self, network: Network, number: int, name: Address, host: str) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self.number = number
        self.name = name
        self.host = host
        self.owner = OWNER.get()
        self._context = contextvars.copy_context()
        self._protocol: asyncio.BaseProtocol | None = None
        self._kernel: deque[bytes] = deque()
        """Arrived and not read by the program yet."""
        self._kernel_bytes = 0
        self._waiting: deque[bytes] = deque()
        """Written by the program; the peer's kernel has no room for it yet."""
        self._waiting_bytes = 0
        self._in_flight_bytes = 0
        self._high = BUFFER_BYTES
        self._low = BUFFER_BYTES // 4
        self._reading = True
        self._reads = False
        self._writing_paused = False
        self._eof_arrived = False
        self._eof_told = False
        self._eof_wanted = False
        self._fin_sent = False
        self._closing = False
        self._lost = False
        self.dead = False
        """The socket is closed: what arrives is answered by RST."""
        self.lingers_not = False
        self.is_dialled = host == "client"
        self._answers: Callable[[bytes, Callable[[bytes], None]], None] | None = None
        """Stands between what arrives and the program where answers are read: each is a crash point."""
        self._last_arrival = 0.0
        self.tls: Any = None
        """What the program holds if TLS is spoken over this end."""
        self._socket = WorldSocket(self)

    # --- program's side -----------------------------------------------------------------------------

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the end to a protocol, in the current context."""
        self._loop.outside += 1
        self._protocol = protocol
        self.owner = OWNER.get()
        self._context = contextvars.copy_context()
        if self.is_dialled:
            self._answers = getattr(self.owner, "reads", None)
        self._soon(self._made)

    def _made(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_made(self)
        self._reads = True
        self._pump()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "socket":
                return self._socket
            case "sockname":
                return self.name
            case "peername":
                return self.peer.name
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._soon(self._pump)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = BUFFER_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        if self._closing or self._eof_wanted or self.dead or not data:
            return
        self._loop.outside += 1
        self._waiting.append(bytes(data))
        self._waiting_bytes += len(data)
        self._push()
        if self._waiting_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._eof_wanted and not self._closing:
            self._loop.outside += 1
            self._eof_wanted = True
            self._push()

    def close(self) -> None:
        """What was written goes out, then FIN (RST if input was left unread)."""
        if self._closing:
            return
        self._loop.outside += 1
        self._closing = True
        self._push()
        if not self._waiting:
            self._finish(None)

    def abort(self) -> None:
        """Throw away what was not sent, close at once."""
        self._loop.outside += 1
        self._closing = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._finish(None)

    # --- kernel's side ------------------------------------------------------------------------------

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _push(self) -> None:
        """Send what the peer's kernel has room for."""
        peer = self.peer
        while self._waiting and not self.dead:
            room = BUFFER_BYTES - peer._kernel_bytes - self._in_flight_bytes
            if room <= 0 and not peer.dead:
                return
            size = self._network.weather.segment_bytes or BUFFER_BYTES
            data = self._waiting.popleft()
            part, rest = data[: min(size, max(room, 1))], data[min(size, max(room, 1)) :]
            if rest:
                self._waiting.appendleft(rest)
            self._waiting_bytes -= len(part)
            self._in_flight_bytes += len(part)
            self._network.carry(self, "data", part)
        if self._writing_paused and self._waiting_bytes <= self._low and not self.dead:
            self._writing_paused = False
            assert self._protocol is not None
            self._soon(self._protocol.resume_writing)
        if not self._waiting and self._eof_wanted and not self._fin_sent and not self.dead:
            self._fin_sent = True
            self._network.carry(self, "fin", b"")

    def arrive(self, what: str, data: bytes) -> None:
        """Something arrived from the peer (called by the network, in nobody's context)."""
        if self.dead:
            if what == "data":
                self._network.carry(self, "rst", b"")
            return
        match what:
            case "data":
                self.peer._in_flight_bytes -= len(data)
                self._kernel.append(data)
                self._kernel_bytes += len(data)
            case "fin":
                self._eof_arrived = True
            case "rst":
                self._waiting.clear()
                self._waiting_bytes = 0
                self.dead = True
                self._soon(self._broken, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
                return
        self._soon(self._pump)

    def _broken(self, error: OSError) -> None:
        # What arrived before the RST can still be read, as on Linux; only then comes the error.
        self._pump()
        self._closing = True
        self._lose(error)

    def _pump(self) -> None:
        """Let the program read what arrived."""
        if not self._reads or self._protocol is None or self._lost:
            return
        while self._kernel and self._reading and not self._closing:
            data = self._kernel.popleft()
            self._kernel_bytes -= len(data)
            # What the kernel still holds decides between FIN and RST, and how much the peer may send.
            self._loop.outside += 1
            if self._answers is None:
                self._hand(data)
            else:
                self._answers(data, self._hand)
            peer = self.peer
            if peer._waiting and not peer.dead:
                peer._loop.call_soon(peer._drained, context=peer._context)
        if self._eof_arrived and not self._kernel and self._reading and not self._eof_told:
            self._eof_told = True
            if self._closing:
                return
            # BufferedProtocol has eof_received too, without a common base that says so.
            keep_open = cast(asyncio.Protocol, self._protocol).eof_received()
            if not keep_open:
                self.close()

    def _hand(self, data: bytes) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            view = data
            while view:
                buffer = self._protocol.get_buffer(len(view))
                size = min(len(buffer), len(view))  # type: ignore[arg-type] # any writable buffer
                memoryview(buffer)[:size] = view[:size]
                self._protocol.buffer_updated(size)
                view = view[size:]
        else:
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(data)

    def _drained(self) -> None:
        self._push()
        if self._closing and not self._waiting:
            self._finish(None)

    def _finish(self, error: Exception | None) -> None:
        self._shut()
        self._soon(self._lose, error)

    def _shut(self) -> None:
        """Close the socket, as a kernel does whoever asks for it."""
        if self.dead:
            return
        self._loop.outside += 1
        self.dead = True
        unread = bool(self._kernel)
        self._kernel.clear()
        self._kernel_bytes = 0
        if self.lingers_not or unread:
            self._network.carry(self, "rst", b"")
        elif not self._fin_sent:
            self._fin_sent = True
            self._network.carry(self, "fin", b"")
        # Nobody will drain us any more, and the peer may be waiting for room.
        self.peer._loop.call_soon(self.peer._drained, context=self.peer._context)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._network.forget(self)
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def die(self) -> None:
        """The program was killed: the kernel closes the socket; what was written before still goes out."""
        self._closing = True
        self._lost = True
        while self._waiting and not self.dead:
            # The kernel has its own copy of what `send` took; only what did not fit is gone with the program.
            before = self._waiting_bytes
            self._push()
            if self._waiting_bytes == before:
                self._waiting.clear()
        self._shut()
        self._network.forget(self)


class Server(asyncio.AbstractServer):
    """A listener."""

    def __init__(self, network: Network, factory: Any, addresses: list[Address], ssl: Any) -> None:
        self._network = network
        self.factory = factory
        self.addresses = addresses
        self.ssl = ssl
        self.owner = OWNER.get()
        self.context = contextvars.copy_context()

    @property
    def sockets(self) -> tuple[Any, ...]:
        return tuple(_Listening(address) for address in self.addresses if address in self._network.listeners)

    def close(self) -> None:
        self._network.loop.outside += 1
        for address in self.addresses:
            if self._network.listeners.get(address) is self:
                del self._network.listeners[address]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return bool(self.sockets)

    async def start_serving(self) -> None:
        """A listener of the world listens from the beginning."""

    async def serve_forever(self) -> None:
        await self._network.loop.create_future()

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""


@dataclass(frozen=True, slots=True)
class _Listening:
    address: Address
    family: int = socket.AF_INET
    type: int = socket.SOCK_STREAM

    def getsockname(self) -> Address:
        return self.address


@lru_cache(maxsize=256)
def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _only_the_living() -> None:
    """Whoever was killed in the middle of a call reaches nobody from its `except` or `finally`."""
    owner = OWNER.get()
    if owner is not None and owner.dead:
        raise Killed


class Network:
    """All hosts, listeners and connections of a world."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        loop.network = self
        self.weather = Weather()
        self.names: dict[str, str] = {"localhost": "127.0.0.1"}
        self.listeners: dict[Address, Server] = {}
        self.ends: dict[End, None] = {}
        self.seen: list[Wired] = []
        self.on_wire: Callable[[Wired], None] | None = None
        self._numbers = itertools.count(1)
        self._ports = itertools.count(40_001)
        self._dialled: dict[int, tuple[socket.socket, Server, Address]] = {}
        self._held: list[tuple[End, str, bytes]] = []

    # --- names --------------------------------------------------------------------------------------

    def resolve(self, host: Any, port: Any) -> list[tuple[Any, ...]]:
        """Answer like getaddrinfo, from the table of names."""
        if isinstance(host, bytes):
            host = host.decode()
        address = self.names.get(host or "localhost", host)
        if not _is_address(address):
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {host}")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    # --- listening and dialling ---------------------------------------------------------------------

    async def listen(self, factory: Any, host: Any, port: Any, *, ssl: Any = None, **more: Any) -> Server:
        """Stand where `loop.create_server` would."""
        _only_the_living()
        self.loop.outside += 1
        hosts = [host] if host is None or isinstance(host, str) else list(host)
        addresses = []
        for each in hosts:
            address: Address = (self.resolve(each, port)[0][4][0], int(port) or next(self._ports))
            if address in self.listeners:
                raise OSError(errno.EADDRINUSE, f"error while attempting to bind on {address}: in use")
            addresses.append(address)
        server = Server(self, factory, addresses, ssl)
        for address in addresses:
            self.listeners[address] = server
        return server

    async def _reach(self, address: Address) -> Server:
        """Do the handshake: one round trip, or none ever comes."""
        if self.weather.latency_s:
            await asyncio.sleep(2 * self.weather.latency_s)
        while self.weather.partitioned:  # noqa: ASYNC110 - a lost SYN is sent again: a poll, on the real wire too
            await asyncio.sleep(1.0)
        server = self.listeners.get(address)
        if server is None or address in self.weather.refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}")
        return server

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect somebody's own socket object; `connect(sock=…)` finds the connection again."""
        _only_the_living()
        target: Address = (self.names.get(address[0], address[0]), address[1])
        self.loop.outside += 1
        self._dialled[id(sock)] = (sock, await self._reach(target), target)

    async def connect(
        self,
        factory: Any,
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        **more: Any,
    ) -> tuple[Any, Any]:
        """Stand where `loop.create_connection` would."""
        _only_the_living()
        if sock is not None:
            dialled = self._dialled.pop(id(sock), None)
            if dialled is None:
                raise OSError(errno.ENOTCONN, "create_connection(sock=…) got a socket of the real world")
            _, server, target = dialled
            sock.close()
        else:
            target = self.resolve(host, port)[0][4]
            server = await self._reach(target)
        near, far = self._pair(target)
        server.context.copy().run(self._accept, server, far)
        if ssl is True:
            raise ValueError("in the world, ssl must be an SSLContext made once for all runs")
        protocol = factory()
        await self._attach(
            near, protocol, ssl, server_side=False, server_hostname=server_hostname or (host if ssl else None)
        )
        return (near if ssl is None else near.tls), protocol

    def _pair(self, target: Address) -> tuple[End, End]:
        self.loop.outside += 1
        number = next(self._numbers)
        near = End(self, number, ("127.0.0.1", next(self._ports)), "client")
        far = End(self, number, target, "server")
        near.peer, far.peer = far, near
        self.ends[near] = self.ends[far] = None
        self._note(near, "open", b"")
        return near, far

    def _accept(self, server: Server, end: End) -> None:
        protocol = server.factory()
        if server.ssl is None:
            end.attach(protocol)
        else:
            # A broken handshake must not take the listener down; the client sees it on its side.
            task = self.loop.create_task(
                self._attach(end, protocol, server.ssl, server_side=True, server_hostname=None)
            )
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _attach(
        self, end: End, protocol: Any, ssl: Any, *, server_side: bool, server_hostname: str | None
    ) -> None:
        if ssl is None:
            end.attach(protocol)
            made = self.loop.create_future()
            self.loop.call_soon(unless_over, made, None)
            try:
                await made
            except BaseException:
                # Given up while it was being made: asyncio closes it too, or it would stay open for ever.
                end.close()
                raise
            return
        waiter = self.loop.create_future()
        wrapped = sslproto.SSLProtocol(
            self.loop, protocol, ssl, waiter, server_side, server_hostname, call_connection_made=True
        )
        end.tls = wrapped._get_app_transport()  # type: ignore[attr-defined] # as BaseEventLoop does
        end.attach(wrapped)
        try:
            await waiter
        except BaseException:
            end.abort()
            raise

    def dispose(self) -> None:
        """The world ends: no transport will complain that nobody closed it."""
        for end in self.ends:
            end._closing = True
        self.ends.clear()
        self.listeners.clear()

    def forget(self, end: End) -> None:
        self.ends.pop(end, None)

    # --- carrying -----------------------------------------------------------------------------------

    def carry(self, source: End, what: str, data: bytes) -> None:
        """Take a segment from one end to the other; order within a direction is kept."""
        self.loop.outside += 1
        self._note(source, what, data)
        if self.weather.partitioned:
            self._held.append((source, what, data))
            return
        self._send(source, what, data)

    def _send(self, source: End, what: str, data: bytes) -> None:
        target = source.peer
        due = max(self.loop.time() + self.weather.latency_s, source._last_arrival)
        source._last_arrival = due
        nobody = contextvars.Context()
        if due <= self.loop.time():
            self.loop.call_soon(target.arrive, what, data, context=nobody)
        else:
            self.loop.call_at(due, target.arrive, what, data, context=nobody)

    def heal(self) -> None:
        """End the partition; what was lost meanwhile is sent again, in order."""
        self.weather.partitioned = False
        held, self._held = self._held, []
        for source, what, data in held:
            self._send(source, what, data)

    def kill(self, owner: Any) -> None:
        """Close whatever a killed process had open."""
        for server in set(self.listeners.values()):
            if server.owner is owner:
                server.close()
        for end in list(self.ends):
            if end.owner is owner:
                end.die()

    def _note(self, source: End, what: str, data: bytes) -> None:
        wired = Wired(
            self.loop.time(),
            source.number,
            f"{source.name[0]}:{source.name[1]}",
            f"{source.peer.name[0]}:{source.peer.name[1]}" if hasattr(source, "peer") else "",
            what,
            data,
        )
        self.seen.append(wired)
        self.loop.outside_then = self.loop.outside
        if self.on_wire is not None:
            self.on_wire(wired)
