"""The public API through a client that is not ours: Python's grpcio."""

import unittest

import grpc

import stubs
from service import (
    CALL_SECONDS,
    Answer,
    Service,
    chat_request,
    ids_request,
    long_request,
    reason,
    text_request,
    until,
)

CONTENT = stubs.inference.CHANNEL_CONTENT
REASONING = stubs.inference.CHANNEL_REASONING
Health = stubs.health.HealthCheckResponse


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service(tp_size=2))
        cls.inference = cls.service.inference

    def chat(self, request):
        return Answer(self.inference.Chat(request, timeout=CALL_SECONDS))

    def generate(self, request):
        return Answer(self.inference.Generate(request, timeout=CALL_SECONDS))

    def test_the_ready_line_names_what_serves(self):
        ready = self.service.ready

        self.assertEqual(ready["tp_size"], "2")
        self.assertEqual(ready["moe_mode"], "resident")
        self.assertEqual(ready["model"], "phalanx-mini")
        self.assertGreater(float(ready["seconds"]), 0)

    def test_a_chat_streams_its_events_in_order(self):
        answer = self.chat(chat_request("What is 2 + 3?"))

        kinds = answer.kinds()
        self.assertEqual(kinds[0], "accepted")
        self.assertEqual(set(kinds[1:-2]), {"delta"})
        self.assertEqual(kinds[-2:], ["finished", "summary"])
        self.assertEqual([e.seq for e in answer.events], list(range(1, len(kinds) + 1)))
        self.assertEqual(len({e.request_id for e in answer.events}), 1)

    def test_a_chat_reasons_first_and_answers_right(self):
        answer = self.chat(chat_request("What is 2 + 3?"))

        channels = [d.channel for d in answer.deltas() if d.text]
        self.assertEqual(channels, sorted(channels, key=lambda c: c != REASONING))
        self.assertEqual(answer.text(CONTENT).strip(), "2 + 3 = 5.")
        self.assertIn("2 + 3 = 5", answer.text(REASONING))
        self.assertNotIn("think>", answer.text())

    def test_a_chat_without_reasoning_answers_at_once(self):
        answer = self.chat(chat_request("What is 7 times 8?", reasoning={"enabled": False}))

        self.assertEqual(answer.text(), "7 * 8 = 56.")
        self.assertEqual({d.channel for d in answer.deltas() if d.text}, {CONTENT})

    def test_the_summary_counts_and_times(self):
        answer = self.chat(chat_request("What is 2 + 3?"))

        accepted, summary = answer.events[0].accepted, answer.events[-1].summary
        self.assertEqual(summary.prompt_tokens, accepted.prompt_tokens)
        self.assertEqual(accepted.prompt_tokens, 20)
        self.assertEqual(summary.completion_tokens, 31)
        self.assertGreater(summary.reasoning_tokens, 0)
        self.assertGreater(summary.time_to_first_token_seconds, 0)
        self.assertGreaterEqual(summary.total_seconds, summary.time_to_first_token_seconds)
        self.assertGreater(summary.tokens_per_second, 0)

    def test_text_and_its_token_ids_give_the_same_answer(self):
        stopping = {"max_tokens": 12}
        by_text = self.generate(text_request("Hello!", stopping=stopping))
        by_ids = self.generate(ids_request([756, 0], stopping=stopping))

        self.assertEqual(by_text.events[0].accepted.prompt_tokens, 2)
        self.assertEqual(by_text.ids(), by_ids.ids())
        self.assertEqual(by_text.text(), by_ids.text())

    def test_added_tokens_in_a_raw_prompt_are_recognised(self):
        prompt = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        answer = self.generate(text_request(prompt))

        self.assertEqual(answer.events[0].accepted.prompt_tokens, 18)
        self.assertEqual(answer.text(), "Hello! How can I help you?")
        finished = answer.events[-2].finished
        self.assertEqual(finished.reason, stubs.inference.FINISH_REASON_STOP)

    def test_a_drawn_seed_is_echoed_and_repeats_the_answer(self):
        sampling = {"temperature": 1.5, "top_k": 0, "top_p": 1.0}
        first = self.generate(ids_request([756, 0], 40, sampling=sampling))
        sampling["seed"] = first.events[0].accepted.sampling.seed
        second = self.generate(ids_request([756, 0], 40, sampling=sampling))

        self.assertEqual(first.ids(), second.ids())
        self.assertEqual(len(first.ids()), 40)

    def test_max_tokens_ends_with_length(self):
        answer = self.generate(ids_request([756], 5))

        self.assertEqual(len(answer.ids()), 5)
        self.assertEqual(
            answer.events[-2].finished.reason, stubs.inference.FINISH_REASON_LENGTH
        )

    def test_log_probabilities_come_with_their_tokens(self):
        output = {"logprobs": True, "top_n": 3}
        answer = self.generate(ids_request([756, 0], 4, output=output))

        ones = [one for d in answer.deltas() for one in d.logprobs]
        self.assertEqual([one.token_id for one in ones], answer.ids())
        for one in ones:
            self.assertEqual(len(one.top), 3)
            self.assertEqual(one.top[0].token_id, one.token_id)  # Greedy.
            self.assertEqual(one.top[0].logprob, one.logprob)
            self.assertLessEqual(one.logprob, 0)

    def test_cancel_ends_a_stream_with_its_reason(self):
        stream = self.inference.Generate(
            long_request(request_id="to-cancel"), timeout=CALL_SECONDS
        )
        Answer(stream, stop=lambda event: event.seq == 5)

        reply = self.inference.Cancel(
            stubs.inference.CancelRequest(request_ids=["to-cancel", "unknown"]), timeout=10
        )
        with self.assertRaises(grpc.RpcError) as ended:
            Answer(stream)

        self.assertEqual(reply.cancelled, 1)
        self.assertEqual(list(reply.not_found), ["unknown"])
        code, word, _ = reason(ended.exception)
        self.assertEqual((code, word), (grpc.StatusCode.CANCELLED, "CLIENT"))
        self.idle()

    def test_a_client_that_goes_away_costs_nothing_further(self):
        channel = self.service.channel()
        stub = stubs.inference_rpc.InferenceStub(channel)
        stream = stub.Generate(long_request(), timeout=CALL_SECONDS)
        Answer(stream, stop=lambda event: event.seq == 5)
        self.assertEqual(self.service.status().requests_running, 1)

        channel.close()

        self.idle()

    def idle(self):
        """Nothing runs any more: requests, sequences, blocks and state slots."""

        def look():
            status = self.service.status()
            ranks = [rank.worker for rank in status.groups[0].ranks]
            return status.requests_running == 0 and all(
                r.kv_blocks_used == 0 and r.state_slots_used == 0 for r in ranks
            )

        until(look, 10, "nothing runs")

    def test_a_deadline_ends_a_stream(self):
        with self.assertRaises(grpc.RpcError) as ended:
            Answer(self.inference.Generate(long_request(), timeout=0.3))

        self.assertEqual(ended.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.idle()

    def test_health_check_serves(self):
        stub = stubs.health_rpc.HealthStub(self.service.channel())

        for name in ("", "phalanx.v1.Inference", "readiness", "liveness"):
            reply = stub.Check(stubs.health.HealthCheckRequest(service=name), timeout=10)
            self.assertEqual(reply.status, Health.SERVING, name)

    def test_health_watch_follows_the_loss_of_a_rank(self):
        stub = stubs.health_rpc.HealthStub(self.service.channel())
        watch = stub.Watch(stubs.health.HealthCheckRequest(service=""), timeout=CALL_SECONDS)
        seen = [next(watch).status]

        epoch = self.service.wait_serving()
        self.service.kill("rank 1")
        seen += [next(watch).status, next(watch).status]
        watch.cancel()

        self.assertEqual(seen, [Health.SERVING, Health.NOT_SERVING, Health.SERVING])
        self.assertGreater(self.service.wait_serving(), epoch)

    def test_reflection_lists_the_services(self):
        stub = stubs.reflection_rpc.ServerReflectionStub(self.service.channel())
        ask = stubs.reflection.ServerReflectionRequest(list_services="*")

        reply = next(stub.ServerReflectionInfo(iter([ask]), timeout=10))

        names = {service.name for service in reply.list_services_response.service}
        self.assertLessEqual(
            {
                "phalanx.v1.Inference",
                "grpc.health.v1.Health",
                "grpc.reflection.v1alpha.ServerReflection",
            },
            names,
        )
        self.assertNotIn("phalanx.v1.Admin", names)

    def test_get_model_tells_its_limits(self):
        model = self.inference.GetModel(stubs.inference.GetModelRequest(), timeout=10)

        self.assertEqual(model.name, "phalanx-mini")
        self.assertEqual(model.model_type, "qwen3_5_moe")
        self.assertEqual((model.vocab_size, model.num_layers), (960, 8))
        self.assertEqual((model.num_experts, model.num_experts_per_token), (16, 4))
        self.assertEqual((model.max_model_len, model.tp_size), (8192, 2))
        self.assertTrue(model.has_tokenizer and model.has_chat_template)

    def test_status_tells_of_each_rank(self):
        self.service.wait_serving()
        status = self.service.status()

        self.assertEqual((status.model, status.state), ("phalanx-mini", "ready"))
        (group,) = status.groups
        self.assertEqual([rank.worker.rank for rank in group.ranks], [0, 1])
        processes = self.service.processes()
        for rank in group.ranks:
            worker = rank.worker
            self.assertEqual(worker.epoch, group.epoch)
            self.assertEqual(worker.pid, processes[f"rank {worker.rank}"])
            self.assertGreater(worker.kv_blocks_total, 0)
            self.assertGreater(worker.state_slots_total, 0)

    def test_every_rank_holds_its_share_of_the_memory(self):
        self.service.wait_serving()
        ranks = [rank.worker for rank in self.service.status().groups[0].ranks]

        shares = [{use.category: use.bytes for use in rank.memory} for rank in ranks]
        for category in ("experts", "kv_cache", "gdn_state"):
            self.assertGreater(shares[0][category], 0)
            self.assertEqual(shares[0][category], shares[1][category], category)


if __name__ == "__main__":
    unittest.main(verbosity=2)
