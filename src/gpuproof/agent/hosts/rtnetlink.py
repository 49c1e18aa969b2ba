"""Network devices and addresses through rtnetlink sockets: the few requests that joining hosts takes.

No `ip` program is needed, which many images lack. Source: rtnetlink(7), netlink(7), linux/if_link.h, linux/veth.h.
"""

from __future__ import annotations

import os
import socket
import struct

_NETLINK_ROUTE = 0
_NLMSG_ERROR = 2
_RTM_NEWLINK = 16
_RTM_NEWADDR = 20
_NLM_F_REQUEST = 0x1
_NLM_F_ACK = 0x4
_NLM_F_EXCL = 0x200
_NLM_F_CREATE = 0x400
_NEW = _NLM_F_CREATE | _NLM_F_EXCL
_IFF_UP = 0x1
_IFLA_IFNAME = 3
_IFLA_MASTER = 10
_IFLA_LINKINFO = 18
_IFLA_NET_NS_FD = 28
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_HEADER = struct.Struct("=IHHII")


class RtNetlink:
    """The network devices of the network namespace in which it is created. Close it after use.

    Raises:
        OSError: the kernel refuses; so do all methods.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> RtNetlink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def set_up(self, name: str) -> None:
        """Activate a device."""
        self._request(_RTM_NEWLINK, 0, _link(up=True), _text(_IFLA_IFNAME, name))

    def add_bridge(self, name: str) -> int:
        """Create an active bridge, and return its index."""
        kind = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "bridge"))
        self._request(_RTM_NEWLINK, _NEW, _link(up=True), _text(_IFLA_IFNAME, name), kind)
        return socket.if_nametoindex(name)

    def add_cable(self, name: str, bridge: int, peer: str, namespace: int) -> None:
        """Connect a bridge with another network namespace by a pair of virtual Ethernet devices.

        Args:
            name: of the device on the bridge, which is active.
            bridge: the bridge's index.
            peer: name of the device in the other namespace.
            namespace: descriptor of that namespace.
        """
        other = _link(up=False) + _text(_IFLA_IFNAME, peer) + _number(_IFLA_NET_NS_FD, namespace)
        data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
        pair = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "veth") + data)
        self._request(
            _RTM_NEWLINK, _NEW, _link(up=True), _text(_IFLA_IFNAME, name), _number(_IFLA_MASTER, bridge), pair
        )

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Give a device an IPv4 address with a prefix of that many bits."""
        packed = socket.inet_aton(address)
        header = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
        parts = [_attribute(_IFA_LOCAL, packed), _attribute(_IFA_ADDRESS, packed)]
        self._request(_RTM_NEWADDR, _NEW, header, *parts)

    def _request(self, kind: int, flags: int, *parts: bytes) -> None:
        self._sequence += 1
        body = b"".join(parts)
        flags |= _NLM_F_REQUEST | _NLM_F_ACK
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, self._sequence, 0) + body)
        answer = self._socket.recv(65536)
        _, kind, _, _, _ = _HEADER.unpack_from(answer)
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0] if kind == _NLMSG_ERROR else 0
        if number:
            raise OSError(number, os.strerror(number))


def _link(*, up: bool) -> bytes:
    """A `struct ifinfomsg`."""
    flags = _IFF_UP if up else 0
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    """A `struct rtattr` with its value, padded to a multiple of four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))
