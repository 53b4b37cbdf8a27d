"""/metrics of every daemon: what promtool says, what adds up, what may not count."""

import concurrent.futures
import re
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import grpc

import stubs
from service import (
    CALL_SECONDS,
    PROGRAMS,
    MODEL,
    Answer,
    Service,
    chat_request,
    failed_start,
    ids_request,
    long_request,
    text_request,
    until,
)

ALERTS = """
group_state group_last_step_timestamp_seconds requests_running
worker_last_heartbeat_timestamp_seconds collective_failures_total requests_total
request_rejections_total time_to_first_token_seconds_bucket kv_cache_usage_ratio
preemptions_total device_memory_bytes device_memory_free_bytes
device_memory_capacity_bytes stream_stall_seconds_total discarded_tokens_total
collective_skew_seconds_bucket
generated_tokens_total group_epoch prefix_cache_hit_tokens_total
prefix_cache_queried_tokens_total
""".split()


def get(address, path):
    """(code, text)"""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Scrape:
    """One /metrics, by name and labels."""

    def __init__(self, address):
        code, self.text = get(address, "/metrics")
        assert code == 200, code
        self.series = {}
        for line in self.text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = re.fullmatch(r"([a-z_0-9]+)(?:\{(.*)\})? (\S+)", line).groups()
            pairs = frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))
            assert (name, pairs) not in self.series, f"twice: {line}"
            self.series[name, pairs] = float(value)

    def names(self):
        return {name for name, _ in self.series}

    def matching(self, name, **labels):
        wanted = set(labels.items())
        return [v for (n, pairs), v in self.series.items() if n == name and wanted <= pairs]

    def sum(self, name, **labels):
        values = self.matching(name, **labels)
        assert values, f"no {name} {labels}"
        return sum(values)


def lint(text):
    return subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.service = self.enterContext(Service(tp_size=2))
        self.service.wait_serving()
        self.inference = self.service.inference

    def addresses(self):
        """Of the gateway and of each rank."""
        status = self.service.status()
        self.assertEqual(status.metrics_address, self.service.ready["metrics"])
        ranks = [rank.worker.metrics_address for rank in status.groups[0].ranks]
        return [status.metrics_address, *ranks]

    def scrapes(self):
        return [Scrape(address) for address in self.addresses()]

    def failing(self, stream, code):
        with self.assertRaises(grpc.RpcError) as ended:
            Answer(stream)
        self.assertEqual(ended.exception.code(), code)

    def traffic(self):
        """Every kind of end that a client can bring about."""
        code = grpc.StatusCode
        generate = self.inference.Generate
        Answer(self.inference.Chat(chat_request("What is 2 + 3?"), timeout=CALL_SECONDS))
        for _ in range(3):
            Answer(generate(ids_request([756, 0], 7), timeout=CALL_SECONDS))
        stop = {"max_tokens": 200, "stop_strings": ["e"], "ignore_eos": True}
        Answer(generate(text_request("Hello", stopping=stop), timeout=CALL_SECONDS))
        stream = generate(long_request(request_id="me"), timeout=CALL_SECONDS)
        Answer(stream, stop=lambda event: event.seq == 5)
        self.inference.Cancel(stubs.inference.CancelRequest(request_ids=["me"]), timeout=10)
        self.failing(stream, code.CANCELLED)
        self.failing(generate(long_request(), timeout=1), code.DEADLINE_EXCEEDED)
        self.failing(generate(ids_request([])), code.INVALID_ARGUMENT)
        self.failing(generate(ids_request([5] * 9000)), code.INVALID_ARGUMENT)
        self.failing(generate(ids_request([5], model="who")), code.NOT_FOUND)
        self.failing(generate(ids_request([5], adapter="x")), code.UNIMPLEMENTED)
        until(self.idle, 10, "nothing runs")

    def idle(self):
        gateway = Scrape(self.service.ready["metrics"])
        handled = gateway.sum("grpc_server_handled_total", grpc_service="phalanx.v1.Inference")
        began = gateway.sum("grpc_server_started_total", grpc_service="phalanx.v1.Inference")
        kv = [rank.worker.kv_blocks_used for rank in self.service.status().groups[0].ranks]
        return handled == began and not any(kv)

    def test_promtool_has_nothing_to_say(self):
        self.traffic()

        for scrape in self.scrapes():
            said = lint(scrape.text)
            self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""))

    def test_promtool_would_say_something(self):
        self.assertNotEqual(lint("# TYPE a_total gauge\na_total 1\n").returncode, 0)

    def test_before_traffic_all_is_zero_and_warm_up_left_no_trace(self):
        gateway, *ranks = self.scrapes()

        for name in ("requests_total", "request_rejections_total", "requests_running"):
            self.assertEqual(gateway.sum("phalanx_" + name), 0, name)
        self.assertEqual(len(gateway.matching("phalanx_requests_total")), 2 * 9)
        self.assertEqual(len(gateway.matching("phalanx_request_rejections_total")), 10)
        for name in ("prompt_tokens_total", "generated_tokens_total"):
            self.assertEqual(gateway.sum("phalanx_" + name), 0, name)
        self.assertEqual(gateway.sum("grpc_server_handled_total", grpc_method="Generate"), 0)
        for rank in ranks:
            for name in (
                "step_duration_seconds_count",
                "step_tokens_sum",
                "collective_duration_seconds_count",
                "collective_bytes_total",
                "collective_failures_total",
                "collective_skew_seconds_count",
                "expert_lookups_total",
                "expert_fetched_bytes_total",
            ):
                self.assertEqual(rank.sum("phalanx_" + name), 0, name)
            self.assertEqual(rank.sum("phalanx_startup_phase", phase="ready"), 1)
            self.assertGreater(rank.sum("phalanx_startup_duration_seconds", phase="warming"), 0)
            self.assertEqual(rank.sum("phalanx_load_progress_ratio"), 1)
        self.assertEqual(ranks[0].sum("phalanx_kv_cache_used_tokens"), 0)

    def test_traffic_adds_up(self):
        self.traffic()

        gateway, *ranks = self.scrapes()
        handled = sum(
            gateway.sum("grpc_server_handled_total", grpc_method=method)
            for method in ("Generate", "Chat")
        )
        self.assertEqual(handled, 11)
        self.assertEqual(gateway.sum("phalanx_requests_total"), handled)
        outcomes = {
            "stop": 1, "length": 3, "stop_string": 1, "cancelled": 1, "deadline": 1, "rejected": 4
        }
        for outcome, count in outcomes.items():
            self.assertEqual(gateway.sum("phalanx_requests_total", outcome=outcome), count, outcome)
        self.assertEqual(gateway.sum("phalanx_request_rejections_total"), 4)
        self.assertEqual(gateway.sum("phalanx_requests_total", model="other"), 1)
        self.assertEqual(gateway.sum("phalanx_request_duration_seconds_count"), handled)
        # Seven became streams with tokens.
        self.assertEqual(gateway.sum("phalanx_time_to_first_token_seconds_count"), 7)
        self.assertEqual(gateway.sum("phalanx_request_queue_seconds_count"), 7)
        self.assertEqual(gateway.sum("phalanx_request_prefill_seconds_count"), 7)
        self.assertEqual(
            gateway.sum("phalanx_generated_tokens_total"),
            gateway.sum("phalanx_request_generated_tokens_sum"),
        )
        self.assertEqual(
            gateway.sum("phalanx_prompt_tokens_total"),
            gateway.sum("phalanx_request_prompt_tokens_sum"),
        )
        self.assertLessEqual(
            gateway.sum("phalanx_prefix_cache_hit_tokens_total"),
            gateway.sum("phalanx_prefix_cache_queried_tokens_total"),
        )
        self.assertEqual(gateway.sum("phalanx_requests_running"), 0)
        self.assertEqual(gateway.sum("phalanx_requests_waiting"), 0)
        self.assertEqual(
            gateway.sum("phalanx_worker_rpc_duration_seconds_count", method="generate"), 7
        )
        self.ranks_agree(ranks)

    def ranks_agree(self, ranks):
        """Both ran the same steps and the same calls."""
        for name in ("step_duration_seconds_count", "step_tokens_sum"):
            steps = [rank.sum("phalanx_" + name) for rank in ranks]
            self.assertGreater(steps[0], 0)
            self.assertEqual(steps[0], steps[1], name)
        for op in ("all_reduce", "all_gather"):
            calls = [
                rank.sum("phalanx_collective_duration_seconds_count", op=op) for rank in ranks
            ]
            self.assertGreater(calls[0], 0)
            self.assertEqual(calls[0], calls[1], op)
        for name in ("count", "sum"):
            skew = [rank.sum("phalanx_collective_skew_seconds_" + name) for rank in ranks]
            self.assertGreater(skew[0], 0)
            self.assertEqual(skew[0], skew[1])
        # Eight layers of two all-reduces a step.
        self.assertEqual(
            ranks[0].sum("phalanx_collective_duration_seconds_count", op="all_reduce"),
            16 * ranks[0].sum("phalanx_step_duration_seconds_count"),
        )
        self.assertEqual(
            ranks[0].sum("phalanx_collective_duration_seconds_count", op="broadcast"),
            ranks[0].sum("phalanx_step_duration_seconds_count"),
        )

    def test_memory_adds_up_to_what_the_driver_sees(self):
        self.traffic()

        for rank in self.scrapes()[1:]:
            self.assertEqual(
                rank.sum("phalanx_device_memory_bytes"),
                rank.sum("phalanx_device_memory_driver_bytes")
                + rank.sum("phalanx_device_memory_untouched_bytes"),
            )
        ranks = [rank.worker for rank in self.service.status().groups[0].ranks]
        for worker, rank in zip(ranks, self.scrapes()[1:]):
            for use in worker.memory:
                self.assertEqual(
                    rank.sum("phalanx_device_memory_bytes", category=use.category),
                    use.allocated_bytes,
                    use.category,
                )

    def test_a_running_stream_is_seen(self):
        stream = self.inference.Generate(long_request(), timeout=CALL_SECONDS)
        Answer(stream, stop=lambda event: event.seq == 5)

        gateway, leader, _ = self.scrapes()
        stream.cancel()

        self.assertEqual(gateway.sum("phalanx_requests_running"), 1)
        self.assertGreater(leader.sum("phalanx_kv_cache_used_tokens"), 0)
        self.assertGreater(leader.sum("phalanx_kv_cache_usage_ratio"), 0)
        self.assertEqual(leader.sum("phalanx_gdn_state_slots", state="active"), 1)
        slots = self.service.status().groups[0].ranks[0].worker.state_slots_total
        self.assertEqual(leader.sum("phalanx_gdn_state_slots"), slots)

    def test_steps_move_the_time_of_the_last_one(self):
        began = time.time()
        Answer(self.inference.Generate(ids_request([756, 0], 7), timeout=CALL_SECONDS))

        def last_step():
            scrape = Scrape(self.service.ready["metrics"])
            return scrape.sum("phalanx_group_last_step_timestamp_seconds")

        until(lambda: began <= last_step() <= time.time(), 5, "the step is seen")

    def test_every_series_that_an_alert_names_is_there(self):
        there = set().union(*(scrape.names() for scrape in self.scrapes()))

        self.assertEqual([n for n in ALERTS if "phalanx_" + n not in there], [])

    def test_worker_series_carry_group_and_rank(self):
        for number, scrape in enumerate(self.scrapes()[1:]):
            for name, pairs in scrape.series:
                self.assertLessEqual({("group", "0"), ("rank", str(number))}, pairs, name)

    def test_a_killed_rank_is_not_ready_but_the_gateway_is_healthy(self):
        gateway = self.service.ready["metrics"]
        self.assertEqual(get(gateway, "/readyz"), (200, "ok\n"))

        # A parent that is stopped does not start the rank again.
        self.service.kill("serve", signal.SIGSTOP)
        self.service.kill("rank 1")
        code, why = until(
            lambda: (reply := get(gateway, "/readyz"))[0] != 200 and reply, 10, "not ready"
        )
        health = get(gateway, "/healthz")
        self.service.kill("serve", signal.SIGCONT)
        until(lambda: get(gateway, "/readyz")[0] == 200, 60, "ready again")

        self.assertEqual(code, 503)
        self.assertIn("group 0 is ", why)
        self.assertEqual(health, (200, "ok\n"))
        lost = Scrape(gateway)
        self.assertGreaterEqual(
            lost.sum("phalanx_group_transitions_total", reason="rank_lost"), 1
        )
        for address in self.addresses()[1:]:
            self.assertEqual(get(address, "/readyz")[0], 200)
            rank = Scrape(address)
            self.assertEqual(rank.sum("phalanx_step_duration_seconds_count"), 0)

    def test_a_scrape_beside_64_streams_is_quick(self):
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            request = ids_request([756, 0], 40)
            streams = [
                pool.submit(lambda: Answer(self.inference.Generate(request, timeout=CALL_SECONDS)))
                for _ in range(64)
            ]
            took, sizes = [], []
            while not all(stream.done() for stream in streams):
                for address in self.addresses():
                    began = time.monotonic()
                    sizes.append(len(get(address, "/metrics")[1]))
                    took.append(time.monotonic() - began)
            answers = {tuple(stream.result().ids()) for stream in streams}

        self.assertEqual(len(answers), 1)
        took.sort()
        print(
            f"{len(took)} scrapes: median {took[len(took) // 2] * 1e3:.1f} ms,"
            f" worst {took[-1] * 1e3:.1f} ms, largest {max(sizes)} bytes"
        )
        self.assertLess(took[len(took) // 2], 1)
        self.assertLess(max(sizes), 512 * 1024)


class OffloadTest(unittest.TestCase):
    def test_lookups_and_fetches_are_those_of_requests_alone(self):
        with Service("--moe-mode", "offload", "--expert-slots", "32", tp_size=2) as service:
            service.wait_serving()
            ranks = [rank.worker for rank in service.status().groups[0].ranks]
            before = [Scrape(worker.metrics_address) for worker in ranks]
            request = ids_request([756, 0], 20)
            Answer(service.inference.Generate(request, timeout=CALL_SECONDS))
            # The last step's fetches are counted before its token is sent.
            after = [Scrape(worker.metrics_address) for worker in ranks]

        for rank in before:
            self.assertEqual(rank.sum("phalanx_expert_lookups_total"), 0)
            self.assertEqual(rank.sum("phalanx_expert_fetched_bytes_total"), 0)
            self.assertEqual(rank.sum("phalanx_expert_fetch_duration_seconds_count"), 0)
            self.assertEqual(rank.sum("phalanx_expert_cache_slots"), 32)
            self.assertGreater(
                rank.sum("phalanx_host_memory_bytes", category="offloaded_experts"), 0
            )
        for rank in after:
            fetched = rank.sum("phalanx_expert_lookups_total", result="fetched")
            self.assertGreater(fetched, 0)
            self.assertGreaterEqual(
                rank.sum("phalanx_expert_fetch_duration_seconds_count"), fetched
            )
            self.assertGreater(rank.sum("phalanx_expert_fetched_bytes_total"), 0)
            self.assertEqual(lint(rank.text).returncode, 0)


class StartTest(unittest.TestCase):
    def test_a_port_in_use_is_a_plain_error(self):
        with Service() as service:
            code, said = failed_start("--metrics-listen", service.ready["metrics"])

        self.assertEqual(code, 1)
        self.assertIn("--metrics-listen is " + service.ready["metrics"], said)
        self.assertIn("cannot be bound", said)

    def test_ranks_listen_beside_the_gateway(self):
        with Service() as taken:
            port = int(taken.ready["metrics"].rsplit(":", 1)[1])
        with Service("--metrics-listen", f"127.0.0.1:{port}", tp_size=1) as service:
            (rank,) = service.status().groups[0].ranks
            self.assertEqual(service.ready["metrics"], f"127.0.0.1:{port}")
            self.assertEqual(rank.worker.metrics_address, f"127.0.0.1:{port + 1}")

    def test_off_serves_none(self):
        with Service("--metrics-listen", "off") as service:
            self.assertEqual(service.ready["metrics"], "")
            (rank,) = service.status().groups[0].ranks
            self.assertEqual(rank.worker.metrics_address, "")

    def test_an_address_of_other_hosts_needs_insecure_bind(self):
        done = subprocess.run(
            [
                PROGRAMS + "/phalanx-gateway",
                *("--model", MODEL, "--workers", "unix:/nowhere"),
                *("--metrics-listen", "0.0.0.0:0"),
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--metrics-listen", done.stderr)
        self.assertIn("--insecure-bind", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
