"""One gateway in front of several groups."""

import signal
import socket
import struct
import threading
import time
import unittest

import grpc

import stubs
from fleet import Fleet, group_of
from service import Answer, ids_request, long_request, reason, until

# A process that is stopped closes no socket: pings find it, after 1 s and 2 s.
SILENT_SECONDS = 3
# How much later than that a loaded machine may tell.
LATE_SECONDS = 3
# To start a worker and to ask for its address; gRPC alone would ask after 30.
MOVE_SECONDS = 15


class TwoGroupsTest(unittest.TestCase):
    def setUp(self):
        self.fleet = self.enterContext(Fleet())
        self.workers = {name: self.fleet.worker(name) for name in ("a", "b")}
        self.gateway = self.fleet.gateway("a", "b")

    def streams(self, count, request=None):
        """{group: [stream]} of so many that run."""
        found = {"a": [], "b": []}
        for _ in range(count):
            stream = self.gateway.generate(request or long_request())
            found[group_of(stream)].append(stream)
            next(stream)
        return found

    def error(self, stream):
        with self.assertRaises(grpc.RpcError) as ended:
            Answer(stream)
        return ended.exception

    def test_streams_spread_and_cancel_reaches_every_group(self):
        streams = self.streams(4)
        self.assertEqual([len(found) for found in streams.values()], [2, 2])
        until(
            lambda: [g.streams for g in self.gateway.status().groups] == [2, 2],
            10,
            "the gateway lists both groups' streams",
        )

        cancelled = self.gateway.inference.Cancel(stubs.inference.CancelRequest(all=True))

        self.assertEqual(cancelled.cancelled, 4)
        for stream in streams["a"] + streams["b"]:
            self.assertEqual(reason(self.error(stream))[:2], (grpc.StatusCode.CANCELLED, "CLIENT"))
        until(
            lambda: all(
                g.ranks[0].worker.requests_running == 0 for g in self.gateway.status().groups
            ),
            10,
            "no group runs a request",
        )

    def test_a_prefix_stays_with_its_group(self):
        homes = set()
        for first in range(8):
            ids = [(first * 37 + i) % 256 for i in range(300)]
            turns = [ids, ids + [1, 2, 3], ids + [1, 2, 3] + ids]
            found = {
                group_of(self.gateway.generate(ids_request(turn, max_tokens=1)))
                for turn in turns
            }
            self.assertEqual(len(found), 1)
            homes |= found
        self.assertEqual(homes, {"a", "b"})

    def test_a_killed_group_leaves_the_work_to_the_other(self):
        answer = Answer(self.gateway.generate(ids_request([54, 71, 78]))).ids()

        self.workers["a"].signal(signal.SIGKILL)
        self.gateway.wait_state("a", "forming")

        self.assertEqual(list(map(len, self.streams(2).values())), [0, 2])
        self.assertEqual(Answer(self.gateway.generate(ids_request([54, 71, 78]))).ids(), answer)
        self.assertTrue(self.gateway.serving())

    def test_a_group_that_drains_finishes_its_streams_and_gets_no_more(self):
        running = self.streams(2, ids_request([54, 71, 78], max_tokens=1500))

        self.workers["a"].signal(signal.SIGTERM)
        self.gateway.wait_state("a", "draining")

        self.assertEqual(list(map(len, self.streams(3).values())), [0, 3])
        for stream in running["a"]:
            self.assertIn("summary", Answer(stream).kinds())
        self.assertEqual(self.workers["a"].wait(20), 0)


class SilentLeaderTest(unittest.TestCase):
    def test_streams_of_a_stopped_leader_hear_of_it(self):
        with Fleet() as fleet:
            worker = fleet.worker("a")
            gateway = fleet.gateway("a")
            stream = gateway.generate(long_request())
            self.assertEqual(group_of(stream), "a")
            next(stream)

            worker.signal(signal.SIGSTOP)
            stopped = time.monotonic()
            with self.assertRaises(grpc.RpcError) as ended:
                Answer(stream)

            self.assertLess(time.monotonic() - stopped, SILENT_SECONDS + LATE_SECONDS)
            self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertFalse(gateway.serving())


class NameServer(threading.Thread):
    """Answers every question for an IPv4 address with `address`."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            query, sender = self.socket.recvfrom(512)
            if len(query) < 12:
                return
            end = query.index(b"\0", 12) + 5  # The question: name, type, class.
            is_ipv4 = query[end - 4 : end - 2] == b"\0\1"
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_ipv4), 0, 0)
            answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(self.address)
            self.socket.sendto(head + query[12:end] + answer * is_ipv4, sender)

    def close(self):
        self.socket.sendto(b"", self.socket.getsockname())
        self.join()
        self.socket.close()


class NameTest(unittest.TestCase):
    def test_a_rank_that_moved_is_found_under_its_name(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        names = NameServer("127.0.0.1")
        self.addCleanup(names.close)
        with Fleet() as fleet:
            first = fleet.worker("a", listen=f"127.0.0.1:{port}")
            gateway = fleet.gateway_of(f"a=dns://127.0.0.1:{names.port}/rank0.test:{port}")
            gateway.wait_state("a", "ready")

            first.kill()
            fleet.worker("a", listen=f"127.0.0.2:{port}")
            names.address = "127.0.0.2"

            gateway.wait_state("a", "forming")
            gateway.wait_state("a", "ready", MOVE_SECONDS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
