# SPDX-License-Identifier: MIT
"""Hosts, as far as sockets can tell: network namespaces that a cable joins. For scripts/compare, start-up and two-hosts."""
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

DEVICE = "cable"


def end_by_exception():
    """SIGTERM and SIGHUP end the script as ^C does: what it has made is taken back."""
    def end(number, _frame):
        signal.signal(number, signal.SIG_IGN)  # once: what follows is to end
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def numbers(text):
    """A list as 2,4,8, for argparse."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


@dataclass(frozen=True)
class Host:
    name: str
    address: str  # of its DEVICE
    cores: str    # its part of the cores here, as taskset takes them

    @property
    def enter(self):
        """Before a command: it runs there, on any core."""
        return ["ip", "netns", "exec", self.name]


def ip(*words):
    if subprocess.run(["ip", *words], check=False).returncode != 0:
        sys.exit(f"error: ip {' '.join(words)} failed; network namespaces need root and iproute2")


@contextlib.contextmanager
def joined(count):
    """So many hosts: two by a cable, others by a bridge, which has a namespace of its own. They and what still runs in
    them end with the block."""
    cores = sorted(os.sched_getaffinity(0))
    ours = f"qpmesh-{os.getpid()}-{count}"  # others may be joined at the same time
    hosts = [Host(f"{ours}-{i}", f"10.77.0.{i + 1}", ",".join(map(str, cores[i::count] or cores))) for i in range(count)]
    bridge = f"{ours}-bridge"
    names = [host.name for host in hosts] + ([bridge] if count != 2 else [])
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        if count == 2:
            ip("-n", hosts[0].name, "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", hosts[1].name)
        else:
            ip("-n", bridge, "link", "add", "bridge", "type", "bridge")
            ip("-n", bridge, "link", "set", "bridge", "up")
            for i, host in enumerate(hosts):
                ip("-n", bridge, "link", "add", f"port{i}", "type", "veth", "peer", "name", DEVICE, "netns", host.name)
                ip("-n", bridge, "link", "set", f"port{i}", "master", "bridge", "up")
        for host in hosts:
            ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", DEVICE)
            ip("-n", host.name, "link", "set", DEVICE, "up")
        yield hosts
    finally:
        end_processes(hosts)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def end_processes(hosts):
    """What still runs there is killed."""
    for host in hosts:
        found = subprocess.run(["ip", "netns", "pids", host.name], check=False, capture_output=True, text=True)
        for process in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
