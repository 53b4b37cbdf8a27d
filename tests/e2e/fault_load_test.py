"""Streams under load while ranks and gateways are killed: every one ends, with
the very bytes of its undisturbed twin.

By hand, at length: PHALANX_FAULT_ROUNDS=30
"""

import os
import random
import threading
import time
import unittest

import grpc

import stubs
from service import Answer, Service, chat_request, ids_request, reason, text_request, until

ROUNDS = int(os.environ.get("PHALANX_FAULT_ROUNDS", "3"))
SEED = int(os.environ.get("PHALANX_TEST_SEED", "1"))
STREAMS = 16
TOKENS = 400
# By then a stream that has not ended hangs.
STREAM_SECONDS = 120
ROLES = ("rank 0", "rank 1", "gateway")


def requests():
    """STREAMS requests of all kinds; each is a pure function of its index."""
    made = []
    for i in range(STREAMS):
        fields = {
            "sampling": {"temperature": 0.8 if i % 2 else 0.0, "seed": 100 + i},
            "stopping": {"max_tokens": TOKENS, "ignore_eos": True},
            "output": {"logprobs": i % 3 == 0, "top_n": 2},
        }
        if i % 4 == 0:
            made.append(chat_request(f"Count from 1 to {10 + i}.", **fields))
        elif i % 4 == 1:
            made.append(text_request(f"The code for red is {i}. The code", **fields))
        else:
            made.append(ids_request([54, 71, 78, 300 + i] * (i + 1), **fields))
    return made


class Stream:
    """One request, to its end, whatever happens to those that serve it."""

    def __init__(self, service, request):
        self._service = service
        self._request = request
        self._token = ""
        self.events = []
        self.tokens = 0
        self.losses = []
        self.error = None

    def run(self):
        try:
            end = time.monotonic() + STREAM_SECONDS
            while not self._attempt(end):
                self._service.wait_serving()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def _attempt(self, end):
        """Whether the stream came to its end."""
        try:
            for event in self._call(max(0.1, end - time.monotonic())):
                if event.HasField("accepted"):
                    self._token = event.accepted.resume_token or self._token
                self.tokens += len(event.delta.token_ids)
                self.events.append(event)
            return True
        except grpc.RpcError as error:
            code, word, facts = reason(error)
            if code != grpc.StatusCode.UNAVAILABLE:
                raise
            self.losses.append(word or error.details())
            self._token = facts.get("resume_token") or self._token
            return False

    def _call(self, seconds):
        chat = isinstance(self._request, stubs.inference.ChatRequest)
        inference = self._service.inference
        if not self._token:  # Nothing of it was accepted yet.
            call = inference.Chat if chat else inference.Generate
            return call(self._request, timeout=seconds)
        answer = self.answer()
        channels = stubs.inference.Channel
        request = stubs.inference.ResumeRequest(
            token=self._token,
            emitted=[{"ids": answer.ids()}],
            seen_text=[
                {
                    "content_bytes": len(answer.text(channels.CHANNEL_CONTENT).encode()),
                    "reasoning_bytes": len(answer.text(channels.CHANNEL_REASONING).encode()),
                }
            ],
        )
        (request.chat if chat else request.generate).CopyFrom(self._request)
        return inference.Resume(request, timeout=seconds)

    def answer(self):
        return Answer(self.events)

    def seen(self):
        """All that a client may hold against another's."""
        answer = self.answer()
        finished = [e.finished for e in self.events if e.HasField("finished")]
        return {
            "ids": answer.ids(),
            "content": answer.text(stubs.inference.CHANNEL_CONTENT),
            "reasoning": answer.text(stubs.inference.CHANNEL_REASONING),
            "logprobs": answer.logprobs(),
            "reasons": [f.reason for f in finished],
            "summaries": answer.kinds().count("summary"),
            "tokens": [
                e.summary.completion_tokens for e in self.events if e.HasField("summary")
            ],
        }


class FaultLoadTest(unittest.TestCase):
    def together(self, service, at_tokens=0, meanwhile=None):
        """All streams at once; `meanwhile` is called once so many tokens came."""
        streams = [Stream(service, request) for request in requests()]
        threads = [threading.Thread(target=s.run, daemon=True) for s in streams]
        for thread in threads:
            thread.start()
        if meanwhile:
            until(
                lambda: sum(s.tokens for s in streams) >= at_tokens
                or not any(t.is_alive() for t in threads),
                STREAM_SECONDS,
                f"{at_tokens} tokens have come",
            )
            meanwhile()
        end = time.monotonic() + STREAM_SECONDS + 10
        for thread in threads:
            thread.join(max(0.1, end - time.monotonic()))
        self.assertFalse([i for i, t in enumerate(threads) if t.is_alive()], "streams that hang")
        for i, stream in enumerate(streams):
            self.assertIsNone(stream.error, f"stream {i} after {stream.losses}")
        return streams

    def test_what_is_killed_changes_no_byte(self):
        draw = random.Random(SEED)
        first = draw.sample(ROLES, len(ROLES))  # Each once, then any.
        with Service("--max-running", str(STREAMS), tp_size=2) as service:
            twins = [stream.seen() for stream in self.together(service)]
            for i, twin in enumerate(twins):
                self.assertEqual(len(twin["ids"]), TOKENS, f"stream {i}")

            for number in range(ROUNDS):
                role = first.pop() if first else draw.choice(ROLES)
                at_tokens = draw.randrange(STREAMS * TOKENS * 3 // 4)
                before = service.processes()
                streams = self.together(service, at_tokens, lambda role=role: service.kill(role))
                self.check(streams, twins, f"round {number} (seed {SEED}): {role} at {at_tokens}")
                until(
                    lambda before=before: service.processes().keys() == before.keys(),
                    30,
                    "all is restarted",
                )
                service.wait_serving()

    def check(self, streams, twins, what):
        notices = sum(s.answer().kinds().count("notice") for s in streams)
        lost = [loss for s in streams for loss in s.losses]
        print(f"  {what}: {notices} notices, {len(lost)} streams resumed by hand", flush=True)
        for i, (stream, twin) in enumerate(zip(streams, twins)):
            seen = stream.seen()
            for name, value in twin.items():
                self.assertEqual(seen[name], value, f"{what}: {name} of stream {i}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
