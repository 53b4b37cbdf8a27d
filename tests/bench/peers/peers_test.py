"""to_gguf.py on the small model of the repository, and the arithmetic of
compare.py on rounds made up here."""

import math
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compare  # noqa: E402
import to_gguf  # noqa: E402
from gguf_file import GgufFile  # noqa: E402

_MINI = os.path.join(os.path.dirname(__file__), "../../../deploy/models/phalanx-mini")


class ToGgufTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls._folder.cleanup)
        cls.path = os.path.join(cls._folder.name, "mini.gguf")
        cls.size = to_gguf.write(_MINI, cls.path)
        cls.file = GgufFile(cls.path)
        cls.checkpoint = to_gguf.Checkpoint(_MINI)

    def data(self, name):
        """The bytes of a tensor, by the file's own end: sizes add up to it."""
        names = list(self.file.tensors)
        after = sum(self.file.tensors[n][2] for n in names[names.index(name) :])
        with open(self.path, "rb") as file:
            file.seek(self.size - after)
            return file.read(self.file.tensors[name][2])

    def test_has_the_size_that_it_says(self):
        self.assertEqual(self.size, os.path.getsize(self.path))

    def test_says_the_sizes_of_the_model(self):
        self.assertEqual(self.file.values["qwen35moe.block_count"], 8)
        self.assertEqual(self.file.values["qwen35moe.ssm.time_step_rank"], 16)

    def test_splits_the_experts_into_gate_and_up(self):
        gate_up = self.checkpoint.read("layers.0.mlp.experts.gate_up_proj")
        half = len(gate_up) // 16 // 2  # Of one of 16 experts.

        self.assertEqual(self.data("blk.0.ffn_gate_exps.weight")[:half], gate_up[:half])
        self.assertEqual(self.data("blk.0.ffn_up_exps.weight")[:half], gate_up[half : 2 * half])

    def test_tiles_value_heads(self):
        """With 8 key heads, value head 2 (the first of key head 1) comes second."""
        rows = self.checkpoint.read("layers.0.linear_attn.in_proj_z.weight")
        head = 16 * 128 * 2

        self.assertEqual(self.data("blk.0.attn_gate.weight")[head : 2 * head], rows[2 * head : 3 * head])

    def test_leaves_queries_and_keys_in_their_order(self):
        rows = self.checkpoint.read("layers.0.linear_attn.in_proj_qkv.weight")
        fixed = 2 * 8 * 16 * 128 * 2

        self.assertEqual(self.data("blk.0.attn_qkv.weight")[:fixed], rows[:fixed])

    def test_tiles_the_columns_of_the_output_projection(self):
        columns = self.checkpoint.read("layers.0.linear_attn.out_proj.weight")

        self.assertEqual(self.data("blk.0.ssm_out.weight")[32:64], columns[64:96])

    def test_adds_one_to_zero_centred_norms_alone(self):
        norm = self.checkpoint.numbers("layers.0.input_layernorm.weight")[0]
        gated = self.checkpoint.numbers("layers.0.linear_attn.norm.weight")[0]

        self.assertAlmostEqual(struct.unpack("<f", self.data("blk.0.attn_norm.weight")[:4])[0], 1 + norm)
        self.assertAlmostEqual(struct.unpack("<f", self.data("blk.0.ssm_norm.weight")[:4])[0], gated)

    def test_stores_the_decay_itself(self):
        logarithm = self.checkpoint.numbers("layers.0.linear_attn.A_log")[2]
        stored = struct.unpack("<16f", self.data("blk.0.ssm_a"))[1]

        self.assertAlmostEqual(stored, -math.exp(logarithm), places=5)

    def test_counts_the_experts_that_a_step_reads(self):
        experts = sum(b for n, (_, _, b) in self.file.tensors.items() if "_exps" in n)
        once = self.file.bytes_per_step(1)

        self.assertAlmostEqual(self.file.bytes_per_step(2) - once, experts * (4 / 16 * 12 / 16))


def _round(ours, llama, read_after=100.0, peak_after=400.0):
    before = {"read_bytes_per_second": 100.0, "bf16_dot_flops": 400.0, "f32_fma_flops": 200.0}
    after = {**before, "read_bytes_per_second": read_after, "bf16_dot_flops": peak_after}
    return {
        "weights": "bf16",
        "bytes": {"decode": 10, "batch": 20},
        "flops": {"prefill": 4},
        "probes": [{"roofs": before}, {"roofs": after}],
        "ours": [{"decode": rate} for rate in ours],
        "llama": [{"decode": rate, "prefill": 50, "batch": 24} for rate in llama],
    }


class CompareTest(unittest.TestCase):
    def test_takes_the_median_of_pairs(self):
        rows = compare.summary([_round([8, 9], [4, 5]), _round([6], [6])])

        self.assertEqual(rows["decode"]["ratio"], 1.8)
        self.assertEqual(rows["decode"]["ours"], 8)

    def test_holds_decode_against_reading_and_prefill_against_the_peak(self):
        rows = compare.summary([_round([8], [5])])

        self.assertAlmostEqual(rows["decode"]["llama_share"], 0.5)
        self.assertAlmostEqual(rows["batch"]["llama_share"], 0.6)
        self.assertAlmostEqual(rows["prefill"]["llama_share"], 0.5)

    def test_throws_away_what_the_moved_limit_bounds(self):
        rows = compare.summary([_round([8], [5], read_after=115.0), _round([9], [6])])

        self.assertEqual((rows["decode"]["kept"], rows["decode"]["thrown"]), (1, 1))
        self.assertEqual(rows["decode"]["ours"], 9)
        self.assertEqual((rows["prefill"]["kept"], rows["prefill"]["thrown"]), (2, 0))

    def test_has_no_figures_where_all_is_thrown_away(self):
        rows = compare.summary([_round([8], [5], peak_after=300.0)])

        self.assertNotIn("llama", rows["prefill"])

    def test_shows_one_engine_alone(self):
        rows = compare.summary([_round([], [5])])

        self.assertNotIn("ratio", rows["decode"])


if __name__ == "__main__":
    unittest.main()
