"""One gateway in front of several groups."""

import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import grpc

import stubs
from fleet import Fleet, group_of
from service import MODEL, PROGRAMS, Answer, ids_request, long_request, reason, until

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
            # One after the other, so that none is a load to the next.
            answers = [
                Answer(self.gateway.generate(ids_request(turn, max_tokens=1))) for turn in turns
            ]
            found = {answer.events[0].accepted.group for answer in answers}
            self.assertEqual(len(found), 1)
            homes |= found
        self.assertEqual(homes, {"a", "b"})

    def test_a_killed_group_leaves_its_streams_and_the_work_to_the_other(self):
        request = ids_request([54, 71, 78], max_tokens=1500)
        whole = Answer(self.gateway.generate(request)).ids()
        running = self.streams(2, request)

        self.workers["a"].signal(signal.SIGKILL)

        moved = Answer(running["a"][0])
        notices = [event.notice.kind for event in moved.events if event.HasField("notice")]
        self.assertEqual(notices, [stubs.inference.Notice.RESUMED])
        self.assertEqual(whole[-len(moved.ids()) :], moved.ids())
        self.assertEqual(moved.events[-1].summary.completion_tokens, len(whole))
        self.gateway.wait_state("a", "forming")
        self.assertEqual(list(map(len, self.streams(2).values())), [0, 2])
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
            # There is no other group to go on in.
            gateway = fleet.gateway("a", flags=("--resume-wait-seconds", "0"))
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
            second = fleet.worker("a", listen=f"127.0.0.2:{port}")
            names.address = "127.0.0.2"

            until(
                lambda: gateway.groups()["a"].ranks[0].worker.pid == second.pid,
                MOVE_SECONDS,
                "the second worker is found",
            )


class FlagsTest(unittest.TestCase):
    def refusal(self, *flags):
        """What phalanx-gateway says to such flags."""
        command = [PROGRAMS + "/phalanx-gateway", "--model", MODEL, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertGreater(done.returncode, 0)
        return done.stderr.splitlines()[0]

    def test_what_names_no_groups_is_refused(self):
        many = "--groups"
        for flags, words in [
            ((), "--workers or --groups is required"),
            ((many, "x:1"), "x:1 must be NAME=ADDR0,ADDR1"),
            ((many, "a b=x:1"), "a b=x:1 must be NAME=ADDR0,ADDR1"),
            ((many, "a=x:1", many, "a=y:1"), "a is named twice"),
            ((many, "a=x:1;b=x:1"), 'group b: address "x:1" is empty or named twice'),
            ((many, "a=x:1,"), 'group a: address "" is empty or named twice'),
            ((many, "a=x:1", "--workers", "y:1"), "names the only group; not with --groups"),
        ]:
            with self.subTest(flags=flags):
                self.assertIn(words, self.refusal(*flags))


if __name__ == "__main__":
    unittest.main(verbosity=2)
