"""What a request may ask of the drawing of tokens, each through the whole service."""

import unittest

import stubs
from service import (
    CALL_SECONDS,
    Answer,
    Service,
    bits,
    chat_request,
    ids_request,
    long_request,
    text_request,
)

Finish = stubs.inference
PROMPT = [54, 71, 78, 347]
TOP = {"logprobs": True, "top_n": 20}
HELLO = {"reasoning": {"enabled": False}}
# More than two blocks, in front of a question.
SYSTEM = "You are a careful assistant. Answer in one short sentence. " * 14


def greedy(**more):
    return {"temperature": 0.0, **more}


def drawn(**more):
    return {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 9, **more}


class SamplingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service(tp_size=2))

    def ask(self, request):
        chat = isinstance(request, stubs.inference.ChatRequest)
        call = self.service.inference.Chat if chat else self.service.inference.Generate
        return Answer(call(request, timeout=CALL_SECONDS))

    def finished(self, answer):
        return [e.finished for e in answer.events if e.HasField("finished")]

    def summary(self, answer):
        return answer.events[-1].summary

    def prompt(self, answer):
        (prompt,) = [e.prompt for e in answer.events if e.HasField("prompt")]
        return prompt

    def story(self, **penalties):
        ends = {"max_tokens": 60, "ignore_eos": True}
        return self.ask(
            text_request(
                "Once upon a time", sampling=greedy(**penalties), stopping=ends, output=TOP
            )
        )

    def explained(self, answer, adjust):
        """How many choices adjust(id, logprob, ids before) has changed, where every
        one is the largest of what it makes of the raw top. A token below the top, whose
        value only falls, is passed where it might have been it."""
        ids = answer.ids()
        steps = [one for delta in answer.deltas() for one in delta.logprobs]
        told = 0
        for i, step in enumerate(steps):
            values = {t.token_id: adjust(t.token_id, t.logprob, ids[:i]) for t in step.top}
            best = max(values, key=lambda t: (values[t], -t))
            if values[best] <= step.top[-1].logprob:
                continue
            self.assertEqual(ids[i], best, f"token {i}")
            told += best != step.top[0].token_id
        return told

    def test_the_presence_penalty_counts_a_token_once(self):
        answer = self.story(presence_penalty=1.5)

        told = self.explained(answer, lambda t, value, ids: value - 1.5 * (t in ids))

        self.assertGreater(told, 0)

    def test_the_frequency_penalty_counts_it_each_time(self):
        answer = self.story(frequency_penalty=0.75)

        told = self.explained(answer, lambda t, value, ids: value - 0.75 * ids.count(t))

        self.assertGreater(told, 0)

    def test_the_repetition_penalty_makes_an_answer_less_monotonous(self):
        text = "red green blue red green blue red green"
        ends = {"max_tokens": 40, "ignore_eos": True}
        plain = self.ask(text_request(text, stopping=ends)).ids()
        varied = self.ask(
            text_request(text, stopping=ends, sampling=greedy(repetition_penalty=2.0))
        ).ids()

        self.assertGreater(len(set(varied)), len(set(plain)))

    def test_a_repetition_penalty_of_one_is_none(self):
        one = greedy(repetition_penalty=1.0, repetition_window=4)

        self.assertEqual(
            self.ask(ids_request(PROMPT, 24, sampling=one, output=TOP)).logprobs(),
            self.ask(ids_request(PROMPT, 24, output=TOP)).logprobs(),
        )

    def test_the_repetition_window_is_of_the_last_tokens(self):
        def ids(window):
            sampling = greedy(repetition_penalty=3.0, repetition_window=window)
            return self.ask(ids_request(PROMPT, 32, sampling=sampling)).ids()

        self.assertEqual(ids(0), ids(len(PROMPT) + 32))
        self.assertNotEqual(ids(0), ids(2))

    def test_a_large_bias_makes_a_token_certain(self):
        answer = self.ask(ids_request(PROMPT, 5, sampling=drawn(logit_bias={77: 100.0})))

        self.assertEqual(answer.ids(), [77] * 5)

    def test_a_bias_moves_the_choice_and_not_its_log_probability(self):
        plain = self.ask(ids_request(PROMPT, 1, output=TOP)).deltas()[0].logprobs[0]
        second = plain.top[1]
        lift = plain.top[0].logprob - second.logprob + 0.5

        biased = self.ask(
            ids_request(
                PROMPT, 1, sampling=greedy(logit_bias={second.token_id: lift}), output=TOP
            )
        )

        (one,) = biased.deltas()[0].logprobs
        self.assertEqual(one.token_id, second.token_id)
        self.assertEqual(bits(one.logprob), bits(second.logprob))

    def test_only_allowed_ids_are_drawn(self):
        allowed = {10, 20, 30}
        sampling = drawn(temperature=5.0, allowed_ids=sorted(allowed))
        answer = self.ask(ids_request(PROMPT, 60, sampling=sampling))

        self.assertEqual(set(answer.ids()), allowed)

    def test_banned_ids_are_never_drawn(self):
        banned = list(range(0, 890, 2))
        answer = self.ask(
            ids_request(PROMPT, 60, sampling=drawn(temperature=5.0, banned_ids=banned))
        )

        self.assertFalse(set(answer.ids()) & set(banned))

    def test_no_stop_id_is_drawn_before_min_tokens(self):
        stops = set(
            self.service.inference.GetModel(
                stubs.inference.GetModelRequest(), timeout=10
            ).stop_ids
        )
        short = len(self.ask(chat_request("Hello!", **HELLO)).ids())

        ids = self.ask(chat_request("Hello!", stopping={"min_tokens": short + 6}, **HELLO)).ids()

        self.assertGreater(len(ids), short + 6)
        self.assertFalse(stops & set(ids[: short + 6]))

    def test_ignore_eos_goes_on_to_the_limit(self):
        ends = {"ignore_eos": True, "max_tokens": 40}
        answer = self.ask(chat_request("Hello!", stopping=ends, **HELLO))

        self.assertEqual(len(answer.ids()), 40)
        self.assertEqual(self.finished(answer)[0].reason, Finish.FINISH_REASON_LENGTH)

    def test_the_time_limit_ends_an_answer_with_what_it_has(self):
        ends = {"max_time_ms": 400, "max_tokens": 8000, "ignore_eos": True}
        answer = self.ask(long_request(stopping=ends))

        self.assertEqual(self.finished(answer)[0].reason, Finish.FINISH_REASON_TIME_LIMIT)
        self.assertGreater(len(answer.ids()), 0)
        self.assertGreaterEqual(self.summary(answer).total_seconds, 0.4)

    def test_prompt_log_probabilities_are_those_of_the_answer_that_it_was(self):
        answer = self.ask(ids_request(PROMPT, 70, output={"logprobs": True, "top_n": 3}))
        whole = PROMPT + answer.ids()

        prompt = self.prompt(
            self.ask(ids_request(whole, 1, output={"prompt_logprobs": True, "top_n": 3}))
        )

        told = [
            (one.token_id, bits(one.logprob), [(t.token_id, bits(t.logprob)) for t in one.top])
            for one in prompt.logprobs
        ]
        self.assertEqual([one[0] for one in told], whole[1:])
        self.assertEqual(told[len(PROMPT) - 1 :], answer.logprobs())

    def test_no_tokens_and_prompt_log_probabilities(self):
        answer = self.ask(
            ids_request(
                PROMPT, stopping={"max_tokens": 0}, output={"prompt_logprobs": True}
            )
        )

        self.assertEqual(answer.kinds(), ["accepted", "prompt", "finished", "summary"])
        self.assertEqual(len(self.prompt(answer).logprobs), len(PROMPT) - 1)
        self.assertEqual(list(self.prompt(answer).token_ids), [])
        self.assertEqual(self.finished(answer)[0].reason, Finish.FINISH_REASON_LENGTH)
        self.assertEqual(self.summary(answer).completion_tokens, 0)

    def test_an_echo_has_the_prompts_text_and_ids(self):
        text = "Hello! <|im_end|>"
        answer = self.ask(text_request(text, stopping={"max_tokens": 0}, output={"echo": True}))

        prompt = self.prompt(answer)
        self.assertEqual(prompt.text, text)
        self.assertEqual(len(prompt.token_ids), answer.events[0].accepted.prompt_tokens)
        self.assertEqual(len(prompt.logprobs), 0)

    def test_choices_are_drawn_apart_and_the_first_as_if_alone(self):
        def choices(n):
            answer = self.ask(ids_request(PROMPT, 12, sampling=drawn(), n=n, output=TOP))
            ids = {}
            for delta in answer.deltas():
                ids.setdefault(delta.index, []).extend(delta.token_ids)
            self.assertEqual([f.index for f in sorted(self.finished(answer), key=lambda f: f.index)],
                             list(range(n)))
            return ids

        three = choices(3)

        self.assertEqual(three[0], choices(1)[0])
        self.assertEqual(len({tuple(ids) for ids in three.values()}), 3)

    def test_what_is_used_is_echoed(self):
        answer = self.ask(ids_request(PROMPT, 1, sampling=greedy(presence_penalty=0.5)))

        sampling = answer.events[0].accepted.sampling
        self.assertEqual(sampling.presence_penalty, 0.5)
        self.assertEqual(sampling.frequency_penalty, 0)
        self.assertEqual(sampling.repetition_penalty, 1)
        self.assertTrue(sampling.HasField("frequency_penalty"))
        self.assertTrue(sampling.HasField("seed"))

    def cached(self, **fields):
        request = chat_request(
            ("system", SYSTEM), ("user", "Hello!"), stopping={"max_tokens": 2}, **fields
        )
        return self.summary(self.ask(request)).cached_tokens

    def test_a_prompt_is_shared_among_equal_salts(self):
        self.assertEqual(self.cached(cache_salt="a"), 0)
        self.assertGreater(self.cached(cache_salt="a"), 64)
        self.assertEqual(self.cached(cache_salt="b"), 0)

    def test_a_bypass_neither_takes_nor_gives(self):
        bypass = {"cache_salt": "c", "cache_bypass": True}
        self.assertEqual(self.cached(**bypass), 0)
        self.assertEqual(self.cached(cache_salt="c"), 0)
        self.assertGreater(self.cached(cache_salt="c"), 64)
        self.assertEqual(self.cached(**bypass), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
