"""Weights in int8 and int4: the service answers, says what it runs in, and the
format's bytes are the same at every size and from slots."""

import unittest

import stubs
from offload_test import MINI_EXPERTS, MODES, answers, workers
from service import Service

FORMATS = ("int8", "int4")
OFFLOAD = (*MODES["offload sharded"], "--expert-slots", str(MINI_EXPERTS // 4))


class WeightsTest(unittest.TestCase):
    def test_a_format_answers_alike_at_two_ranks_and_from_slots(self):
        for weights in FORMATS:
            flags = ("--weights", weights)
            with Service(*flags) as service:
                want = answers(service)
                self.assertTrue(all(want.values()))
            with self.subTest(weights=weights, case="TP 2"):
                with Service(*flags, tp_size=2) as service:
                    self.assertEqual(answers(service), want)
            with self.subTest(weights=weights, case="TP 2, offload"):
                with Service(*flags, *OFFLOAD, tp_size=2) as service:
                    self.assertEqual(answers(service), want)

    def test_the_service_says_what_it_runs_in(self):
        for weights in ("bf16", *FORMATS):
            with self.subTest(weights=weights), Service("--weights", weights) as service:
                service.wait_serving()
                request = stubs.inference.GetModelRequest()
                model = service.inference.GetModel(request, timeout=10)

                self.assertEqual(model.weight_format, weights)
                # With the version of what quantised, where something did.
                self.assertRegex(workers(service)[0].numerics_id,
                                 rf"/{weights}(-\d+)?/")

    def test_a_smaller_format_is_planned_and_held_smaller(self):
        planned = {}
        for weights in ("bf16", *FORMATS):
            with Service("--weights", weights) as service:
                service.wait_serving()
                shares = {use.category: use.bytes for use in workers(service)[0].memory}
                planned[weights] = shares["experts"]
        self.assertLess(planned["int8"], 0.6 * planned["bf16"])
        self.assertLess(planned["int4"], 0.7 * planned["int8"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
