"""A gateway that is asked to end."""

import concurrent.futures
import signal
import time
import unittest
import urllib.error
import urllib.request

import grpc

from fleet import Fleet
from service import Answer, ids_request, long_request, reason, until

# Signals that a process was sent are seen within this, and a last word written.
SOON_SECONDS = 5
DRAINING = (grpc.StatusCode.UNAVAILABLE, "DRAINING")


def short_request():
    return ids_request([54, 71, 78], max_tokens=2)


def refusal(gateway):
    """Why the gateway takes no request now; None if it does."""
    try:
        Answer(gateway.generate(short_request()))
        return None
    except grpc.RpcError as error:
        return reason(error)[:2]


class DrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = cls.enterClassContext(Fleet())
        cls.fleet.worker("a")

    def gateway(self, delay, timeout):
        flags = ("--drain-delay", str(delay), "--drain-timeout", str(timeout))
        return self.fleet.gateway("a", flags=flags)

    def error(self, stream):
        with self.assertRaises(grpc.RpcError) as ended:
            Answer(stream)
        return ended.exception

    def test_a_gateway_without_streams_is_gone_after_the_delay(self):
        gateway = self.gateway(delay=0.5, timeout=300)
        asked = time.monotonic()
        gateway.signal(signal.SIGTERM)

        self.assertEqual(gateway.wait(SOON_SECONDS), 0)
        self.assertGreaterEqual(time.monotonic() - asked, 0.5)

    def test_the_delay_serves_on_but_says_not_to_come(self):
        gateway = self.gateway(delay=60, timeout=300)
        gateway.signal(signal.SIGTERM)
        until(lambda: not gateway.serving(), SOON_SECONDS, "health is NOT_SERVING")

        self.assertFalse(gateway.serving("readiness"))
        self.assertTrue(gateway.serving("liveness"))
        with self.assertRaises(urllib.error.HTTPError) as ready:
            urllib.request.urlopen(f"http://{gateway.metrics}/readyz", timeout=10)
        self.assertEqual(ready.exception.code, 503)
        text = urllib.request.urlopen(f"http://{gateway.metrics}/metrics", timeout=10).read()
        self.assertIn(b"\nphalanx_draining 1\n", text)
        self.assertEqual(gateway.status().state, "draining")
        self.assertIsNone(refusal(gateway))

    def test_running_streams_finish_while_new_ones_are_refused(self):
        gateway = self.gateway(delay=0.2, timeout=300)
        whole = Answer(gateway.generate(ids_request([54, 71, 78], max_tokens=1500))).ids()
        running = gateway.generate(ids_request([54, 71, 78], max_tokens=1500))
        first = Answer(running, stop=lambda event: event.seq == 5)
        gateway.signal(signal.SIGTERM)

        self.assertEqual(
            until(lambda: refusal(gateway), SOON_SECONDS, "a request is refused"), DRAINING
        )
        rest = Answer(running)
        self.assertEqual(first.ids() + rest.ids(), whole)
        self.assertEqual(rest.kinds()[-1], "summary")
        self.assertEqual(gateway.wait(SOON_SECONDS), 0)

    def test_what_is_left_after_the_timeout_is_handed_over(self):
        gateway = self.gateway(delay=0, timeout=0.5)
        stream = gateway.generate(long_request())
        Answer(stream, stop=lambda event: event.seq == 5)
        gateway.signal(signal.SIGTERM)

        self.assertEqual(reason(self.error(stream))[:2], DRAINING)
        self.assertEqual(gateway.wait(SOON_SECONDS), 0)

    def test_a_second_signal_hands_over_at_once(self):
        gateway = self.gateway(delay=60, timeout=300)
        stream = gateway.generate(long_request())
        Answer(stream, stop=lambda event: event.seq == 5)
        gateway.signal(signal.SIGTERM)
        until(lambda: not gateway.serving(), SOON_SECONDS, "health is NOT_SERVING")
        gateway.signal(signal.SIGTERM)

        self.assertEqual(reason(self.error(stream))[:2], DRAINING)
        self.assertEqual(gateway.wait(SOON_SECONDS), 0)

    def test_a_client_that_reads_nothing_holds_nobody_up(self):
        gateway = self.gateway(delay=0, timeout=0)
        stream = gateway.generate(long_request())
        next(stream)
        gateway.signal(signal.SIGTERM)

        self.assertEqual(gateway.wait(2 * SOON_SECONDS), 0)
        stream.cancel()

    def test_sigquit_prints_the_state_and_lives_on(self):
        gateway = self.gateway(delay=0, timeout=300)
        stream = gateway.generate(long_request())
        Answer(stream, stop=lambda event: event.seq == 5)
        gateway.signal(signal.SIGQUIT)

        said = gateway.event("diagnostics", SOON_SECONDS)["gateway"]
        self.assertEqual((said["state"], said["requests_running"]), ("ready", "1"))
        group = said["groups"][0]
        self.assertEqual((group["name"], group["state"], group["streams"]), ("a", "ready", "1"))
        self.assertGreater(said["uptime_seconds"], 0)
        self.assertIsNone(refusal(gateway))
        stream.cancel()

    def test_clients_that_go_elsewhere_lose_nothing_in_a_rolling_restart(self):
        request = ids_request([54, 71, 78], max_tokens=100)
        gateways = [self.gateway(delay=0.2, timeout=300) for _ in range(2)]
        whole = Answer(gateways[0].generate(request)).ids()
        over = False

        def client(turn):
            answers = 0
            while not over:
                turn += 1
                try:
                    ids = Answer(gateways[turn % 2].generate(request)).ids()
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        raise
                    continue
                self.assertEqual(ids, whole)
                answers += 1
            return answers

        with concurrent.futures.ThreadPoolExecutor() as pool:
            clients = [pool.submit(client, turn) for turn in range(4)]
            try:
                for place in range(2):
                    old = gateways[place]
                    old.signal(signal.SIGTERM)
                    self.assertEqual(old.wait(4 * SOON_SECONDS), 0)
                    gateways[place] = self.gateway(delay=0.2, timeout=300)
            finally:
                over = True
            for one in clients:
                self.assertGreater(one.result(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
