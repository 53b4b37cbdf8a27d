"""The same request gives the same bytes: at every tensor-parallel size, alone
or beside others, whatever the prefill chunk. Prints what it found as a table."""

import contextlib
import json
import threading
import unittest

import grpc

import stubs
from service import (
    CALL_SECONDS,
    GOLDEN_MODELS,
    Answer,
    Service,
    chat_request,
    failed_start,
    ids_request,
    long_request,
    text_request,
    until,
)

SIZES = (1, 2, 4, 8)
CHUNKS = (512, 16)
NEIGHBOURS = 7
LOGPROBS = {"logprobs": True, "top_n": 5}
# Some 900 tokens: more than any chunk.
LONG_PROMPT = "The code for red is 512. The code for blue is 907. " * 40

# What is asked of phalanx-mini everywhere, by the name in the table.
QUESTIONS = {
    "What is 2 + 3?": chat_request("What is 2 + 3?", output=LOGPROBS),
    "a sampled chat": chat_request(
        "Tell me a story about a phalanx.",
        sampling={"temperature": 1.2, "top_p": 0.95, "top_k": 50, "min_p": 0.01, "seed": 1234},
        stopping={"max_tokens": 48},
        output=LOGPROBS,
    ),
    "a long prompt": text_request(LONG_PROMPT, stopping={"max_tokens": 16}, output=LOGPROBS),
    "token ids": ids_request(
        [54, 71, 78, 347], 32, sampling={"temperature": 1.0, "seed": 7}, output=LOGPROBS
    ),
}


def ask(service, request):
    chat = isinstance(request, stubs.inference.ChatRequest)
    call = service.inference.Chat if chat else service.inference.Generate
    return Answer(call(request, timeout=CALL_SECONDS))


def outcome(answer):
    """All that must be equal, to the bit."""
    return answer.ids(), answer.logprobs(), answer.text()


@contextlib.contextmanager
def neighbours(service):
    """Other requests of several kinds, that run all the while."""
    streams = []
    begun = []

    def drain(stream):
        try:
            for event in stream:
                if event.HasField("delta"):
                    begun.append(stream)
        except grpc.RpcError:
            pass  # Cancelled below.

    for i in range(NEIGHBOURS):
        request = long_request(sampling={"temperature": 0.3 * i, "seed": i}, tag="neighbour")
        request.token_ids.ids.extend(range(10, 10 + 9 * i))
        streams.append(service.inference.Generate(request, timeout=CALL_SECONDS))
    threads = [threading.Thread(target=drain, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(set(map(id, begun))) == NEIGHBOURS, 30, "every neighbour runs")
        yield
        running = service.status().requests_running
        assert running == NEIGHBOURS, f"{running} neighbours run to the end"
    finally:
        for stream in streams:
            stream.cancel()
        for thread in threads:
            thread.join()


def same(differences):
    return "Different: " + ", ".join(differences) if differences else "Same"


def show(title, head, rows):
    """A table for a person, on the test's output."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, *rows]:
        print("  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths)))
    print(flush=True)


class TensorParallelTest(unittest.TestCase):
    def test_phalanx_mini_answers_alike_at_every_size_and_in_every_company(self):
        want = {}
        head = ["", "alone, chunk 512", f"beside {NEIGHBOURS}, chunk 512"]
        head += ["alone, chunk 16", f"beside {NEIGHBOURS}, chunk 16", "What is 2 + 3?"]
        rows, wrong = [], []

        def cell(size, service):
            answers = {name: ask(service, request) for name, request in QUESTIONS.items()}
            texts.add(answers["What is 2 + 3?"].text(stubs.inference.CHANNEL_CONTENT).strip())
            got = {name: outcome(answer) for name, answer in answers.items()}
            if not want:
                want.update(got)
                return "the reference"
            differences = [name for name in QUESTIONS if got[name] != want[name]]
            wrong.extend((size, name) for name in differences)
            return same(differences)

        for size in SIZES:
            row, texts = [f"TP {size}"], set()
            for chunk in CHUNKS:
                flags = ("--prefill-chunk", str(chunk))
                with Service(*flags, tp_size=size) as service:
                    row.append(cell(size, service))
                    with neighbours(service):
                        row.append(cell(size, service))
            rows.append(row + [" / ".join(sorted(texts))])

        title = "phalanx-mini: token ids, log-probabilities and text of "
        show(title + ", ".join(QUESTIONS) + ", against TP 1 alone", head, rows)
        self.assertEqual(wrong, [])
        self.assertEqual({row[-1] for row in rows}, {"2 + 3 = 5."})
        for name, (ids, logprobs, _) in want.items():
            self.assertEqual(len(ids), len(logprobs), name)
            self.assertGreater(len(ids), 0, name)

    def golden(self, model, sizes):
        """The golden prompts of a model that speaks token ids alone."""
        folder = f"{stubs.ROOT}/tests/golden/expected/{model}"
        with open(folder + "/prompts.json") as file:
            prompts = {p["name"]: p["ids"] for p in json.load(file)}
        names = ["p5", "p65", "p257"]
        want, rows, wrong = {}, [], []
        for size in sizes:
            row = [f"TP {size}"]
            with Service(model=f"{GOLDEN_MODELS}/{model}", tp_size=size) as service:
                for name in names:
                    request = ids_request(prompts[name], 32, output=LOGPROBS)
                    answer = ask(service, request)
                    self.assertEqual(answer.text(), "")
                    self.assertEqual(len(answer.ids()), 32)
                    reference = name not in want
                    differs = want.setdefault(name, outcome(answer)) != outcome(answer)
                    row.append("the reference" if reference else same([name] * differs))
                    wrong += [(size, name)] * differs
            rows.append(row)
        show(f"{model}: token ids and log-probabilities against TP 1", ["", *names], rows)
        self.assertEqual(wrong, [])

    def test_golden_model_moe_answers_alike_at_every_size(self):
        self.golden("moe", SIZES)

    def test_golden_model_moe_text_answers_alike_at_every_size(self):
        self.golden("moe_text", (1, 2))

    def test_golden_model_dense_answers_alike_at_every_size(self):
        self.golden("dense", (1, 2, 4))

    def test_a_model_without_a_tokenizer_refuses_text_by_the_fields_name(self):
        with Service(model=f"{GOLDEN_MODELS}/moe_text") as service:
            stopping = {"max_tokens": 1, "stop_strings": ["a"]}
            cases = {
                "text": text_request("Hello"),
                "messages": chat_request("Hello"),
                "output.text": ids_request([5], output={"text": True}),
                "stopping.stop_strings": ids_request([5], stopping=stopping),
            }
            for field, request in cases.items():
                with self.subTest(field), self.assertRaises(grpc.RpcError) as refused:
                    ask(service, request)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
                self.assertIn(field, refused.exception.details())

    def test_a_size_that_does_not_divide_is_refused_by_the_fields_name(self):
        cases = [
            (None, 3, "num_attention_heads=8"),
            (None, 16, "num_attention_heads=8"),
            (f"{GOLDEN_MODELS}/moe_text", 4, "num_attention_heads=6"),
        ]
        for model, size, field in cases:
            with self.subTest(size=size, field=field):
                code, said = failed_start(model=model, tp_size=size)
                self.assertNotEqual(code, 0)
                last = said.strip().splitlines()[-1]
                self.assertIn(field, last)
                self.assertIn(f"tp_size={size}", last)


if __name__ == "__main__":
    unittest.main(verbosity=2)
