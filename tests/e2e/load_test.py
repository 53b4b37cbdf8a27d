"""Many streams at once, for a while, with clients that cancel or go away: what
a service may not do, and may not keep.

By hand, at length: PHALANX_LOAD_SECONDS=60
"""

import json
import os
import subprocess
import unittest

import grpc

import stubs
from service import CALL_SECONDS, PROGRAMS, Service, ids_request, until

ROUNDS = int(os.environ.get("PHALANX_LOAD_ROUNDS", "6"))
SECONDS = float(os.environ.get("PHALANX_LOAD_SECONDS", "3"))
# Before those, until the allocators of all threads hold what they will hold.
WARM_UP_ROUNDS = 4
WARM_UP_SECONDS = 3
# 200 at once: one in ten is cancelled, one in twenty belongs to a client whose
# connection closes.
STAYING = 190
CANCEL_SHARE = 0.1
LEAVING = 10
# What a process may hold more after the last round than after half of them.
ALLOWED_BYTES = 2 << 20
SETTLE_SECONDS = 30


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def bench(service, seed, seconds):
    """A client of STAYING streams, as a process that costs little."""
    words = ["--address", service.ready["address"], "--duration", str(seconds)]
    words += ["--concurrency", str(STAYING), "--cancel", str(CANCEL_SHARE)]
    words += ["--output-tokens", "48", "--prompt-tokens", "40", "--seed", str(seed), "--json"]
    return subprocess.Popen(
        [PROGRAMS + "/phalanx", "bench", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leave(service, seed):
    """LEAVING streams of one connection, which closes under them: in the queue,
    or while their tokens come."""
    channel = grpc.insecure_channel(
        service.ready["address"], [("grpc.use_local_subchannel_pool", 1)]
    )
    inference = stubs.inference_rpc.InferenceStub(channel)
    streams = []
    for i in range(LEAVING):
        request = ids_request([54, 71, 300 + (seed + i) % 500], max_tokens=500)
        streams.append(inference.Generate(request, timeout=CALL_SECONDS))
    for i, stream in enumerate(streams):
        next(stream)  # Accepted.
        if i % 2:
            next(stream)
    channel.close()
    return LEAVING


class LoadTest(unittest.TestCase):
    def idle(self, service):
        def look():
            status = service.status()
            worker = status.groups[0].ranks[0].worker
            return status.requests_running == worker.requests_running == 0 == (
                worker.requests_waiting
            )

        until(look, SETTLE_SECONDS, "requests_running is back to 0")

    def one_round(self, service, seed, seconds=SECONDS):
        """Returns what each process then holds."""
        client = bench(service, seed, seconds)
        left = 0
        while client.poll() is None:
            left += leave(service, seed * 1000 + left)
        out, err = client.communicate()
        self.assertEqual(client.returncode, 0, out + err)
        report = json.loads(out)

        self.assertEqual(report["errors"], {})
        self.assertGreater(report["requests"]["ok"], STAYING // 2)
        self.assertGreater(report["requests"]["cancelled"], 0)
        self.assertGreater(left, 0)
        self.idle(service)
        held = {role: resident_bytes(pid) for role, pid in service.processes().items()}
        print(
            f"  round {seed}: {report['requests']}, {left} left; "
            f"{report['output_tokens_per_second']:.0f} tokens/s; resident MiB "
            + ", ".join(f"{role} {held[role] / (1 << 20):.2f}" for role in sorted(held)),
            flush=True,
        )
        return held

    def test_nothing_fails_and_nothing_is_kept(self):
        # So few blocks that all have been used soon.
        with Service("--max-running", "64", "--kv-blocks", "256") as service:
            before = service.processes()
            for seed in range(WARM_UP_ROUNDS):
                self.one_round(service, seed, WARM_UP_SECONDS)
            open_before = {role: descriptors(pid) for role, pid in before.items()}

            held = [self.one_round(service, WARM_UP_ROUNDS + i) for i in range(ROUNDS)]

            self.assertEqual(service.processes(), before)
            for role, pid in before.items():
                until(
                    lambda role=role, pid=pid: descriptors(pid) <= open_before[role],
                    SETTLE_SECONDS,
                    f"{role} has closed what it opened",
                )
            for role in before:
                grown = held[-1][role] - held[ROUNDS // 2 - 1][role]
                self.assertLessEqual(grown, ALLOWED_BYTES, role)


if __name__ == "__main__":
    unittest.main(verbosity=2)
