"""`phalanx quantize` on phalanx-mini: what it makes is served with the answers of
the model it is made from, at any size."""

import subprocess
import tempfile
import unittest

import stubs
from offload_test import MINI_EXPERTS, MODES, answers
from service import MODEL, PROGRAMS, Service, failed_start

OFFLOAD = (*MODES["offload sharded"], "--expert-slots", str(MINI_EXPERTS // 4))


def quantize(*flags):
    """(exit code, stdout, stderr) of one `phalanx quantize`."""
    done = subprocess.run(
        [PROGRAMS + "/phalanx", "quantize", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def get_model(service):
    request = stubs.inference.GetModelRequest()
    return service.inference.GetModel(request, timeout=10)


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="phalanx-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def make(self, weights):
        out = f"{self.folder}/{weights}"
        code, text, errors = quantize(
            "--model", MODEL, "--weights", weights, "--out", out)
        self.assertEqual((code, errors), (0, ""), text)
        self.assertRegex(text, rf"/{weights}: {weights}, [\d.]+ MiB in 1 file; "
                               r"was 9\.99 MiB; [\d.]+ s\n")
        return out

    def test_what_it_makes_answers_as_the_model_quantised_at_load(self):
        for weights in ("int8", "int4"):
            made = self.make(weights)
            with Service("--weights", weights) as service:
                want = answers(service)
                at_load = get_model(service)
            for case, flags, tp_size in (("TP 1", (), 1), ("TP 2, offload", OFFLOAD, 2)):
                with self.subTest(weights=weights, case=case):
                    with Service(*flags, model=made, tp_size=tp_size) as service:
                        self.assertEqual(answers(service), want)
                        model = get_model(service)
                        self.assertEqual(model.weight_format, weights)
                        # So a stream of one may go on in the other.
                        self.assertEqual(model.numerics_id, at_load.numerics_id)
                        self.assertEqual(model.model_digest, at_load.model_digest)

    def test_another_format_is_refused(self):
        made = self.make("int8")
        code, errors = failed_start("--weights", "int4", model=made)
        self.assertNotEqual(code, 0)
        self.assertIn("--weights is int4; this model is stored in int8", errors)

    def test_nothing_is_overwritten(self):
        made = self.make("int8")
        code, text, errors = quantize(
            "--model", MODEL, "--weights", "int4", "--out", made)
        self.assertEqual((code, text), (1, ""))
        self.assertIn(f"{made} is there already", errors)

    def test_flags_that_are_missing_are_named(self):
        for flags, named in (
            (("--weights", "int8", "--out", "x"), "--model"),
            (("--model", MODEL, "--out", "x"), "--weights"),
            (("--model", MODEL, "--weights", "int8"), "--out"),
            (("--model", MODEL, "--weights", "bf16", "--out", "x"), "--weights"),
        ):
            code, _, errors = quantize(*flags)
            self.assertGreater(code, 100)
            self.assertIn(named, errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
