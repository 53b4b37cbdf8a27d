"""to_gguf.py on the small model of the repository, and what compare.py and
engines.py make of rounds and output made up here."""

import json
import math
import os
import struct
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compare  # noqa: E402
import engines  # noqa: E402
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

    def test_names_a_tensor_that_it_cannot_read(self):
        name = "layers.0.linear_attn.A_log"
        checkpoint = to_gguf.Checkpoint(_MINI)
        path, at, size, _, shape = checkpoint._at[name]
        checkpoint._at[name] = (path, at, size, "F16", shape)

        with self.assertRaisesRegex(SystemExit, f"{name} is F16; must be BF16 or F32"):
            checkpoint.numbers(name)
        with self.assertRaisesRegex(SystemExit, "absent is missing"):
            checkpoint.shape("absent")

    def test_counts_the_experts_that_a_step_reads(self):
        experts = sum(b for n, (_, _, b) in self.file.tensors.items() if "_exps" in n)
        once = self.file.bytes_per_step(1)

        self.assertAlmostEqual(self.file.bytes_per_step(2) - once, experts * (4 / 16 * 12 / 16))


def _round(ours=None, llama=5.0, read=100.0, peak=400.0, ping_pong=60.0):
    """`ours` and `llama` of decode1, beside a prefill of 50 tokens a second; the
    machine is so at the last look."""

    def look(read, peak, ping_pong):
        roofs = {"read_bytes_per_second": read, "f32_fma_flops": 200.0}
        roofs |= {"bf16_dot_flops": peak, "int8_dot_ops": 1000.0}
        return {"roofs": roofs, "ping_pong_ns": ping_pong}

    record = {
        "weights": "bf16",
        "llama": {"decode1": llama, "prefill512": 50.0},
        "llama_cost": {"decode1": 10.0, "prefill512": 4.0},
        "looks": [look(100.0, 400.0, 60.0), look(read, peak, ping_pong)],
    }
    if ours is not None:
        record["ours"] = {"decode1": ours, "prefill512": 100.0}
        record["ours_cost"] = {"decode1": 9.0, "prefill512": 4.0}
    return record


class CompareTest(unittest.TestCase):
    def test_takes_the_median_of_pairs(self):
        row = compare.summary([_round(8, 4), _round(9, 5), _round(6, 6)], "decode1")

        self.assertEqual(row["ratio"], (1.0, 1.8, 2.0))
        self.assertEqual(row["ours"], 8)

    def test_holds_decode_against_reading_by_what_each_engine_reads(self):
        row = compare.summary([_round(8, 5)], "decode1")

        self.assertAlmostEqual(row["llama_share"], 0.5)
        self.assertAlmostEqual(row["ours_share"], 0.72)

    def test_holds_prefill_against_the_peak(self):
        row = compare.summary([_round(8, 5)], "prefill512")

        self.assertAlmostEqual(row["llama_share"], 0.5)

    def test_holds_quantised_prefill_against_the_int8_peak(self):
        row = compare.summary([{**_round(8, 5), "weights": "int4"}], "prefill512")

        self.assertAlmostEqual(row["llama_share"], 0.2)

    def test_has_no_share_on_a_machine_of_one_core_without_int8_products(self):
        record = {**_round(8, 5), "weights": "int8"}
        for look in record["looks"]:
            look["ping_pong_ns"] = look["roofs"]["int8_dot_ops"] = None
        row = compare.summary([record], "prefill512")

        self.assertTrue(math.isnan(row["ours_share"]))
        self.assertEqual(row["ratio"], (2.0, 2.0, 2.0))
        self.assertEqual(compare.placement(record), "near")

    def test_throws_away_what_the_moved_limit_bounds(self):
        rounds = [_round(8, 5, read=115.0), _round(9, 6)]
        decode, prefill = (compare.summary(rounds, name) for name in ("decode1", "prefill512"))

        self.assertEqual((decode["kept"], decode["thrown"]), (1, 1))
        self.assertEqual(decode["ours"], 9)
        self.assertEqual((prefill["kept"], prefill["thrown"]), (2, 0))

    def test_throws_away_what_bench_model_kept_nothing_of(self):
        record = _round(8, 5)
        record["ours"]["decode1"] = None

        self.assertEqual(compare.summary([record], "decode1"), {"kept": 0, "thrown": 1})

    def test_has_no_figures_where_all_is_thrown_away(self):
        row = compare.summary([_round(8, 5, peak=300.0)], "prefill512")

        self.assertNotIn("llama", row)

    def test_shows_one_engine_alone(self):
        row = compare.summary([_round(None, 5)], "decode1")

        self.assertEqual(row["llama"], 5)
        self.assertNotIn("ratio", row)

    def test_parts_rounds_by_placement(self):
        moved = _round(7, 5, ping_pong=320.0)

        self.assertEqual(
            compare.by_placement([_round(8, 5), moved], "decode1"),
            {"moved": [moved], "near": [_round(8, 5)]},
        )

    def test_takes_again_only_what_was_thrown_away(self):
        args = types.SimpleNamespace(measures=_measures("prefill512", "decode1"), rounds=1, most=5, apart=False)
        moved, still = _round(8, 5, read=150.0), _round(8, 5)
        answers, asked = [moved, still], []

        def take(measures):
            asked.append([str(m) for m in measures])
            return answers[len(asked) - 1]

        self.assertEqual(list(compare.rounds(args, take)), [moved, still])
        self.assertEqual(asked, [["prefill512", "decode1"], ["decode1"]])

    def test_ends_after_the_most_rounds(self):
        args = types.SimpleNamespace(measures=_measures("decode1"), rounds=1, most=3, apart=False)
        moved = _round(8, 5, read=150.0)

        self.assertEqual(list(compare.rounds(args, lambda measures: moved)), [moved] * 3)

    def test_takes_measures_one_by_one_where_they_are_apart(self):
        args = types.SimpleNamespace(measures=_measures("prefill512", "decode1"), rounds=1, most=1, apart=True)
        asked = []
        list(compare.rounds(args, lambda measures: asked.append(measures) or _round(8, 5)))

        self.assertEqual(asked, [_measures("prefill512"), _measures("decode1")])

    def test_parts_nothing_where_the_machine_stayed(self):
        self.assertEqual(compare.by_placement([_round(8, 5), _round(9, 5)], "decode1"), {})


def _measures(*names):
    return [engines.parse_measure(name) for name in names]


class LlamaTest(unittest.TestCase):
    def test_asks_for_all_measures_in_one_load(self):
        flags = engines.llama_flags(_measures("prefill512", "decode1", "decode8"))

        self.assertEqual(flags[flags.index("-npp") + 1], "512,512,16")
        self.assertEqual(flags[flags.index("-npl") + 1], "1,8")

    def test_has_no_room_for_long_prompts_of_a_batch(self):
        flags = engines.llama_flags(_measures("prefill512", "decode8"))
        cells = flags[flags.index("-c") + 1]

        self.assertGreaterEqual(cells, 512 + 32)
        self.assertLess(cells, 8 * 512)

    def test_takes_the_last_of_equal_cases(self):
        lines = [
            {"pp": 512, "pl": 1, "speed_pp": 90.0, "speed_tg": 9.0},
            {"pp": 512, "pl": 1, "speed_pp": 100.0, "speed_tg": 9.0},
            {"pp": 16, "pl": 1, "speed_pp": 30.0, "speed_tg": 10.0},
            {"pp": 16, "pl": 8, "speed_pp": 40.0, "speed_tg": 20.0},
        ]
        output = "\n".join(["loading", *map(json.dumps, lines), ""])

        self.assertEqual(
            engines.llama_rates(output, _measures("prefill512", "decode1", "decode8")),
            {"prefill512": 100.0, "decode1": 10.0, "decode8": 20.0},
        )

    def test_refuses_what_is_no_measure(self):
        for text in ("batch", "decode0", "prefill"):
            with self.assertRaises(ValueError):
                engines.parse_measure(text)


if __name__ == "__main__":
    unittest.main()
