"""What is wrong is refused at once, by name, number and limit, and harms
nobody; a service that cannot start says why and leaves nothing."""

import os
import shutil
import signal
import socket
import tempfile
import unittest

import grpc

import stubs
from service import (
    CALL_SECONDS,
    MODEL,
    Answer,
    Service,
    chat_request,
    failed_start,
    ids_request,
    reason,
    text_request,
    until,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT
OFF = grpc.StatusCode.UNIMPLEMENTED
RAISING_TEMPLATE = "{{ raise_exception('this template takes no messages') }}"


def greedy(**more):
    return {"temperature": 0.0, **more}


# (what, request, code, reason, words of the message)
REFUSED = [
    ("no tokens wanted", ids_request([5], 0), INVALID, "BAD_FIELD", ["max_tokens is 0", "1..8192"]),
    ("too many wanted", ids_request([5], 10**9), INVALID, "BAD_FIELD", ["1000000000", "8192"]),
    ("a negative number", ids_request([5], -1), INVALID, "BAD_FIELD", ["max_tokens is -1"]),
    (
        "a prompt of more than the context",
        ids_request([5] * 9000),
        INVALID,
        "PROMPT_TOO_LONG",
        ["9000", "8191"],
    ),
    ("no prompt", stubs.inference.GenerateRequest(), INVALID, "PROMPT_EMPTY", []),
    ("an empty text", text_request(""), INVALID, "PROMPT_EMPTY", []),
    ("no token ids", ids_request([]), INVALID, "PROMPT_EMPTY", []),
    ("an id beyond the vocabulary", ids_request([960]), INVALID, "BAD_FIELD", ["960", "0..959"]),
    ("a negative id", ids_request([-1]), INVALID, "BAD_FIELD", ["-1", "0..959"]),
    ("no messages", chat_request(), INVALID, "BAD_FIELD", ["messages"]),
    ("an unknown role", chat_request(("wizard", "Hello")), INVALID, "BAD_FIELD", ["role"]),
    (
        "an unknown model",
        ids_request([5], model="gpt"),
        grpc.StatusCode.NOT_FOUND,
        "MODEL",
        ["gpt", "phalanx-mini"],
    ),
    (
        "a temperature below 0",
        ids_request([5], sampling={"temperature": -1.0}),
        INVALID,
        "BAD_FIELD",
        ["temperature", "-1", "0..100"],
    ),
    (
        "a temperature that is no number",
        ids_request([5], sampling={"temperature": float("nan")}),
        INVALID,
        "BAD_FIELD",
        ["temperature"],
    ),
    (
        "top_p of 0",
        ids_request([5], sampling=greedy(top_p=0.0)),
        INVALID,
        "BAD_FIELD",
        ["top_p", "(0, 1]"],
    ),
    ("top_k below 0", ids_request([5], sampling=greedy(top_k=-1)), INVALID, "BAD_FIELD", ["top_k"]),
    ("min_p above 1", ids_request([5], sampling=greedy(min_p=2.0)), INVALID, "BAD_FIELD", ["min_p"]),
    ("too many top_n", ids_request([5], output={"top_n": 21}), INVALID, "BAD_FIELD", ["21", "0..20"]),
    ("no choices", ids_request([5], n=0), INVALID, "BAD_FIELD", ["n is 0"]),
    ("an id of 300 bytes", ids_request([5], request_id="x" * 300), INVALID, "BAD_FIELD", ["300"]),
    (
        "an empty stop string",
        ids_request([5], stopping={"stop_strings": [""]}),
        INVALID,
        "BAD_FIELD",
        ["stop_strings"],
    ),
    ("too many choices", ids_request([5], n=17), INVALID, "BAD_FIELD", ["n is 17", "1..16"]),
    (
        "a penalty that is no number",
        ids_request([5], sampling=greedy(presence_penalty=float("nan"))),
        INVALID,
        "BAD_FIELD",
        ["presence_penalty", "[-2, 2]"],
    ),
    (
        "a repetition penalty of 0",
        ids_request([5], sampling=greedy(repetition_penalty=0.0)),
        INVALID,
        "BAD_FIELD",
        ["repetition_penalty is 0", "(0, 10]"],
    ),
    (
        "an infinite bias",
        ids_request([5], sampling=greedy(logit_bias={7: float("inf")})),
        INVALID,
        "BAD_FIELD",
        ["logit_bias of 7 is inf", "[-100, 100]"],
    ),
    (
        "a bias beyond the vocabulary",
        ids_request([5], sampling=greedy(logit_bias={960: 1.0})),
        INVALID,
        "BAD_FIELD",
        ["logit_bias holds 960", "0..959"],
    ),
    (
        "all that is allowed is banned",
        ids_request([5], sampling=greedy(allowed_ids=[7], banned_ids=[7])),
        INVALID,
        "BAD_FIELD",
        ["allowed_ids leaves 0 ids"],
    ),
    (
        "more at least than at most",
        ids_request([5], stopping={"max_tokens": 3, "min_tokens": 4}),
        INVALID,
        "BAD_FIELD",
        ["min_tokens is 4", "0..3"],
    ),
    (
        "no time",
        ids_request([5], stopping={"max_time_ms": 0}),
        INVALID,
        "BAD_FIELD",
        ["max_time_ms is 0", ">= 1"],
    ),
]

# Field -> a request that sets it: defined, and not served by this build.
UNSERVED = {
    "sampling.typical_p": ids_request([5], sampling=greedy(typical_p=0.5)),
    "add_special_tokens": text_request("a", add_special_tokens=True),
    "detach_grace_ms": ids_request([5], detach_grace_ms=1),
    "adapter": ids_request([5], adapter="x"),
    "json_schema": ids_request([5], json_schema="{}"),
    "regex": ids_request([5], regex="a"),
    "ebnf": ids_request([5], ebnf="a"),
    "reasoning.effort": chat_request("Hello", reasoning={"effort": "low"}),
    "reasoning.max_tokens": chat_request("Hello", reasoning={"max_tokens": 5}),
    "tool_choice": chat_request("Hello", tool_choice="auto"),
    "image": stubs.inference.ChatRequest(
        messages=[{"role": "user", "parts": [{"type": "image", "text": "x"}]}]
    ),
}


def copy_of_the_model(test):
    folder = tempfile.mkdtemp(prefix="phalanx-model-")
    test.addCleanup(shutil.rmtree, folder)
    return shutil.copytree(MODEL, folder + "/model")


class RefusedRequestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service(tp_size=2))

    def refuse(self, request):
        """(code, reason, message)"""
        chat = isinstance(request, stubs.inference.ChatRequest)
        call = self.service.inference.Chat if chat else self.service.inference.Generate
        with self.assertRaises(grpc.RpcError) as refused:
            Answer(call(request, timeout=CALL_SECONDS))
        return *reason(refused.exception)[:2], refused.exception.details()

    def tearDown(self):
        """Whatever was refused, the next request is served."""
        answer = Answer(self.service.inference.Generate(ids_request([5], 1), timeout=10))
        self.assertEqual(len(answer.ids()), 1)

    def test_a_bad_request_is_refused_with_what_number_and_limit(self):
        for what, request, code, word, parts in REFUSED:
            with self.subTest(what):
                got_code, got_word, message = self.refuse(request)
                self.assertEqual((got_code, got_word), (code, word), message)
                for part in parts:
                    self.assertIn(part, message)

    def test_a_field_that_is_not_served_is_refused_by_name(self):
        for field, request in UNSERVED.items():
            with self.subTest(field):
                code, word, message = self.refuse(request)
                self.assertEqual((code, word), (OFF, "FEATURE_OFF"), message)
                self.assertIn(field, message)

    def test_every_field_of_a_request_is_served_or_refused(self):
        """So that a new field cannot be forgotten in both."""
        served = {"request_id", "model", "text", "token_ids", "messages", "tools_json"}
        served |= {"template_variables_json", "priority", "tag", "user", "n"}
        served |= {"cache_salt", "cache_bypass", "reasoning.enabled"}
        for part, fields in {
            "sampling": "temperature top_p top_k min_p seed presence_penalty frequency_penalty "
            "repetition_penalty repetition_window logit_bias allowed_ids banned_ids",
            "stopping": "max_tokens min_tokens max_time_ms stop_strings stop_ids include_stop "
            "ignore_eos",
            "output": "text token_ids logprobs top_n prompt_logprobs echo",
        }.items():
            served |= {f"{part}.{field}" for field in fields.split()}
        for message in (stubs.inference.GenerateRequest, stubs.inference.ChatRequest):
            for field in message.DESCRIPTOR.fields:
                names = [field.name]
                if field.name in ("sampling", "stopping", "output", "reasoning"):
                    names = [f"{field.name}.{f.name}" for f in field.message_type.fields]
                for name in names:
                    self.assertIn(name, served | set(UNSERVED))

    def test_bytes_that_are_no_utf8_are_refused(self):
        channel = self.service.channel()
        path = "/phalanx.v1.Inference/"
        wrong = b"\xff\xfe"
        message = b"\x0a\x04user\x12\x02" + wrong  # role, content
        cases = [
            ("Generate", b"\x1a\x02" + wrong),  # text
            ("Chat", b"\x1a" + bytes([len(message)]) + message),  # messages
            ("Chat", b"\x1a\x04\x0a\x02" + wrong),  # a role
        ]
        for method, request in cases:
            with self.subTest(method, request=request):
                call = channel.unary_stream(path + method)
                with self.assertRaises(grpc.RpcError) as refused:
                    list(call(request, timeout=CALL_SECONDS))
                code, word, _ = reason(refused.exception)
                self.assertEqual((code, word), (INVALID, "INVALID_UTF8"))
                self.assertIn("UTF-8", refused.exception.details())

    def test_bytes_that_are_no_message_are_refused(self):
        call = self.service.channel().unary_stream("/phalanx.v1.Inference/Generate")

        with self.assertRaises(grpc.RpcError) as refused:
            list(call(b"\xff" * 64, timeout=CALL_SECONDS))

        self.assertEqual(refused.exception.code(), INVALID)

    def test_a_message_of_more_than_the_limit_is_refused(self):
        request = text_request("a" * (33 << 20))

        code, _, message = self.refuse(request)

        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED, message)

    def test_a_request_id_in_use_is_refused(self):
        request = ids_request([5], 8000, request_id="twice")
        stream = self.service.inference.Generate(request, timeout=CALL_SECONDS)
        Answer(stream, stop=lambda event: event.seq == 2)

        code, word, _ = self.refuse(ids_request([6], request_id="twice"))
        stream.cancel()

        self.assertEqual((code, word), (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ACTIVE"))

    def test_more_tokens_than_fit_are_cut_with_a_notice(self):
        request = ids_request([5] * 8185, 100)

        answer = Answer(self.service.inference.Generate(request, timeout=CALL_SECONDS))

        notices = [e.notice for e in answer.events if e.HasField("notice")]
        self.assertEqual([n.kind for n in notices], [stubs.inference.Notice.TRUNCATED])
        self.assertEqual(len(answer.ids()), 7)

    def test_a_template_that_raises_is_an_error_of_the_request(self):
        folder = copy_of_the_model(self)
        with open(folder + "/chat_template.jinja", "w") as file:
            file.write(RAISING_TEMPLATE)
        with Service(model=folder) as service, self.assertRaises(grpc.RpcError) as refused:
            Answer(service.inference.Chat(chat_request("Hello"), timeout=CALL_SECONDS))

        self.assertEqual(reason(refused.exception)[:2], (INVALID, "BAD_FIELD"))
        self.assertIn("this template takes no messages", refused.exception.details())


class FailedStartTest(unittest.TestCase):
    def cannot_start(self, *words, **start):
        """`serve` must end by itself and say all of `words` in its last line,
        not counting a hint at --help."""
        code, said = failed_start(*start.pop("flags", ()), **start)
        self.assertNotEqual(code, 0, said)
        lines = [line for line in said.strip().splitlines() if not line.startswith("Run with")]
        for word in words:
            self.assertIn(word, lines[-1])

    def changed_model(self, name, change):
        folder = copy_of_the_model(self)
        with open(f"{folder}/{name}", "rb") as file:
            content = file.read()
        with open(f"{folder}/{name}", "wb") as file:
            file.write(change(content))
        return folder

    def test_a_folder_that_is_not_there(self):
        self.cannot_start("/no/such/model", model="/no/such/model")

    def test_a_folder_without_weights(self):
        folder = copy_of_the_model(self)
        os.remove(folder + "/model.safetensors")

        self.cannot_start("safetensors", model=folder)

    def test_truncated_weights(self):
        folder = self.changed_model("model.safetensors", lambda c: c[: len(c) // 2])

        self.cannot_start("model.safetensors", model=folder)

    def test_a_config_that_is_no_json(self):
        folder = self.changed_model("config.json", lambda c: c[: len(c) // 2])

        self.cannot_start("config.json", model=folder)

    def test_an_unknown_model_type(self):
        folder = self.changed_model(
            "config.json", lambda c: c.replace(b'"qwen3_5_moe', b'"mystery')
        )

        self.cannot_start("model_type", "mystery", model=folder)

    def test_a_shape_that_contradicts_the_config(self):
        folder = self.changed_model(
            "config.json", lambda c: c.replace(b'"hidden_size": 128', b'"hidden_size": 256')
        )

        self.cannot_start("128", "256", model=folder)

    def test_a_tokenizer_that_is_no_json(self):
        folder = self.changed_model("tokenizer.json", lambda c: c[: len(c) // 2])

        self.cannot_start("tokenizer.json", model=folder)

    def test_an_address_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"

            self.cannot_start("--address", address, "in use", flags=["--address", address])
            self.cannot_start("--admin-address", address, "in use", flags=["--admin-address", address])

    def test_an_address_for_the_world_without_tls(self):
        self.cannot_start("--insecure-bind", flags=["--address", "0.0.0.0:0"])

    def test_an_unknown_flag(self):
        self.cannot_start("--frobnicate", flags=["--frobnicate"])

    def test_a_value_outside_its_limits(self):
        self.cannot_start("--max-running", "0", "4096", flags=["--max-running", "0"])

    def test_a_worker_that_is_killed_at_start(self):
        def kill_rank_1(surroundings):
            pid = until(lambda: surroundings.processes().get("rank 1"), 20, "rank 1 runs")
            os.kill(pid, signal.SIGKILL)

        self.cannot_start("rank 1", "signal 9", tp_size=2, while_starting=kill_rank_1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
