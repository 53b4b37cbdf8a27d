"""64 mixed requests give the same bytes whatever the arrangement: alone or at once,
at every tensor-parallel size, with experts in either place, at every prefill chunk,
with caches cold, warm, or so small that sequences give them up, and though a rank
or a gateway is killed. What they give alone at TP 1 is the reference; a pairwise
cover of all arrangements is held against it.

By hand: PHALANX_EQUALITY=full runs every arrangement, PHALANX_EQUALITY=N the first
N of the cover. PHALANX_TEST_SEED moves the kills; it is printed."""

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import grpc

import pairwise
import stubs
from fleet import Gateway
from mixed_requests import mixed_requests
from service import CALL_SECONDS, Service, bits

MOST = 24
FACTORS = {
    "at once": [64, 1],
    "tp": [1, 2, 4, 8],
    "moe": ["resident", "offload"],
    "chunk": [512, 64, 16],
    "cache": ["cold", "warm"],
    "pool": ["large", "small"],
    "killed": ["nobody", "a rank", "the gateway"],
}
# The longest request needs 24 blocks, all at once some 200: answers that outgrow what
# they were promised, and requests of the highest priority, take them from others.
SMALL_POOL = 26
SEED = int(os.environ.get("PHALANX_TEST_SEED", "20261130"))
REQUESTS = mixed_requests()


def arrangements():
    """(those to run, how many there are in all)"""
    rows = list(pairwise.product(FACTORS))
    wanted = os.environ.get("PHALANX_EQUALITY", str(MOST))
    if wanted == "full":
        return rows, len(rows)
    return pairwise.cover(FACTORS)[: int(wanted)], len(rows)


class Stream:
    """What a client has of one request, however many calls it took."""

    def __init__(self):
        self.choices = {}
        self.prompt = b""
        self.notices = []
        self.token = ""
        self.summary = None

    def add(self, event):
        kind = event.WhichOneof("event")
        if kind == "accepted":
            self.token = event.accepted.resume_token
        elif kind == "prompt":
            self.prompt = event.prompt.SerializeToString(deterministic=True)
        elif kind == "notice":
            self.notices.append(event.notice.kind)
        elif kind == "summary":
            self.summary = event.summary
        elif kind == "finished":
            finished = event.finished.SerializeToString(deterministic=True)
            self.choice(event.finished.index)["finished"] = finished
        elif kind == "delta":
            self.add_delta(event.delta)

    def choice(self, index):
        return self.choices.setdefault(
            index, {"ids": [], "logprobs": [], "text": {}, "finished": b""}
        )

    def add_delta(self, delta):
        choice = self.choice(delta.index)
        choice["ids"] += delta.token_ids
        for one in delta.logprobs:
            top = [(t.token_id, bits(t.logprob)) for t in one.top]
            choice["logprobs"].append((one.token_id, bits(one.logprob), top))
        text = choice["text"]
        if delta.text:
            text[delta.channel] = text.get(delta.channel, b"") + delta.text.encode()

    def bytes(self):
        """All that must be equal."""
        return self.prompt, sorted(self.choices.items())

    def begins(self, whole):
        """Whether all that this has is the front of what `whole` has."""
        fronts = []
        for index, choice in self.choices.items():
            other = whole.choice(index)
            fronts += [(choice[key], other[key]) for key in ("ids", "logprobs")]
            fronts += [(t, other["text"].get(c, b"")) for c, t in choice["text"].items()]
        return all(whole_part[: len(part)] == part for part, whole_part in fronts)


class Kill:
    """Kills something at the time that so many deltas have come, once."""

    def __init__(self, row, service):
        # Every arrangement has its own moment, in the first third of what comes.
        self.random = random.Random(f"{SEED} {sorted(row.items())}")
        self.left = self.random.randrange(20, 400)
        self.service = service
        self.lock = threading.Lock()

    def on_delta(self):
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.strike()

    def strike(self):
        pass

    def check(self, test, streams):
        """Once all is over: it did happen, and was met as it should be."""


class KillRank(Kill):
    def __init__(self, row, service):
        super().__init__(row, service)
        self.rank = self.random.randrange(row["tp"])
        self.alone = row["at once"] == 1
        self.epoch = service.wait_serving()

    def strike(self):
        self.service.kill(f"rank {self.rank}")

    def check(self, test, streams):
        test.assertLessEqual(self.left, 0, "the rank was killed")
        self.service.wait_serving(above_epoch=self.epoch)
        if self.alone:  # The rank may have died between two requests.
            return
        resumed = stubs.inference.Notice.RESUMED
        test.assertTrue(
            any(resumed in stream.notices for stream in streams.values()), "a stream was resumed"
        )


def gateway_beside(service, key_file):
    """Another gateway before the ranks of a service."""
    with open(f"/proc/{service.processes()['gateway']}/cmdline", "rb") as file:
        flags = file.read().decode().split("\0")
    workers = flags[flags.index("--workers") + 1]
    gateway = Gateway("--workers", workers, "--resume-key-file", key_file)
    gateway.wait_state("0", "ready")
    return gateway


class KillGateway(Kill):
    def __init__(self, row, service, first):
        super().__init__(row, service)
        self.first = first

    def strike(self):
        self.first.signal(signal.SIGKILL)

    def check(self, test, streams):
        test.assertLessEqual(self.left, 0, "the gateway was killed")


class Arrangement:
    """One service, and how requests are put to it."""

    def __init__(self, row, stack):
        self.row = row
        flags = ["--moe-mode", row["moe"], "--prefill-chunk", str(row["chunk"])]
        flags += ["--max-running", "64"]
        if row["pool"] == "small":
            flags += ["--kv-blocks", str(SMALL_POOL)]
        self.service = stack.enter_context(Service(*flags, tp_size=row["tp"]))
        self.stubs = [self.service.inference]
        self.kill = Kill(row, self.service)
        if row["killed"] == "a rank":
            self.kill = KillRank(row, self.service)
        if row["killed"] == "the gateway":
            key = stack.enter_context(tempfile.NamedTemporaryFile())
            key.write(b"k" * 32)
            key.flush()
            gateways = []
            for _ in range(2):
                gateways.append(gateway_beside(self.service, key.name))
                stack.callback(gateways[-1].kill)
            self.stubs = [gateway.inference for gateway in gateways]
            self.kill = KillGateway(row, self.service, gateways[0])

    def call(self, stub, request):
        chat = isinstance(request, stubs.inference.ChatRequest)
        return (stub.Chat if chat else stub.Generate)(request, timeout=CALL_SECONDS)

    def read(self, call, stream):
        for event in call:
            stream.add(event)
            if event.HasField("delta"):
                self.kill.on_delta()
        return stream

    def ask(self, request):
        stream = Stream()
        try:
            return self.read(self.call(self.stubs[0], request), stream)
        except grpc.RpcError:
            if len(self.stubs) == 1:
                raise
        return self.go_on(request, stream)

    def go_on(self, request, had):
        """On the other gateway: with the token of Accepted, which knows of nothing
        that was sent, so that all of it comes again."""
        if not had.token:
            return self.read(self.call(self.stubs[1], request), Stream())
        chat = isinstance(request, stubs.inference.ChatRequest)
        resume = stubs.inference.ResumeRequest(
            token=had.token, **{"chat" if chat else "generate": request}
        )
        whole = self.read(self.stubs[1].Resume(resume, timeout=CALL_SECONDS), Stream())
        assert had.begins(whole), "what came before is the front of what came after"
        return whole

    def ask_all(self):
        with ThreadPoolExecutor(self.row["at once"]) as pool:
            asked = {name: pool.submit(self.ask, r) for name, r in REQUESTS.items()}
            return {name: future.result() for name, future in asked.items()}


def words(row):
    return ", ".join(f"{factor} {value}" for factor, value in row.items())


class EqualityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            row = {factor: values[0] for factor, values in FACTORS.items()} | {"at once": 1}
            streams = Arrangement(row, stack).ask_all()
        cls.want = {name: stream.bytes() for name, stream in streams.items()}

    def hold(self, row):
        """(tokens that the last pass found in the cache, pre-emptions in all passes)"""
        with contextlib.ExitStack() as stack:
            arrangement = Arrangement(row, stack)
            passes = [arrangement.ask_all()]
            if row["cache"] == "warm":
                passes.append(arrangement.ask_all())
            arrangement.kill.check(self, passes[0])
        for number, streams in enumerate(passes, 1):
            wrong = [name for name, s in streams.items() if s.bytes() != self.want[name]]
            self.assertEqual(wrong, [], f"pass {number}")
        cached = sum(stream.summary.cached_tokens for stream in passes[-1].values())
        return cached, sum(s.summary.preemptions for streams in passes for s in streams.values())

    def test_every_stream_has_the_same_bytes_in_every_arrangement(self):
        chosen, total = arrangements()
        print(f"\n{len(chosen)} of {total} arrangements, seed {SEED}", flush=True)
        preempted = 0
        for row in chosen:
            with self.subTest(words(row)):
                began = time.monotonic()
                cached, given_up = self.hold(row)
                seconds = time.monotonic() - began
                print(f"  {words(row)}: {seconds:.1f} s, {cached} cached, {given_up} pre-empted",
                      flush=True)
                if row["cache"] == "warm" and row["pool"] == "large":
                    self.assertGreater(cached, 0)
                preempted += given_up
        if len(chosen) >= len(pairwise.cover(FACTORS)):
            self.assertGreater(preempted, 0, "small pools made sequences give up their caches")

    def test_the_requests_are_worth_comparing(self):
        """Every one has an answer or a prompt, and drawn ones differ by their seeds."""
        for name, (prompt, choices) in self.want.items():
            with self.subTest(name):
                self.assertTrue(prompt or any(choice["ids"] for _, choice in choices))
                for _, choice in choices:
                    self.assertTrue(choice["finished"])
        several = [c for name, (_, c) in self.want.items() if name.startswith("choices")]
        for choices in several:
            self.assertGreater(len({tuple(choice["ids"]) for _, choice in choices}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
