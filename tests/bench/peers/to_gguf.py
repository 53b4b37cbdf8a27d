#!/usr/bin/env python3
"""A bf16 checkpoint of this family as the GGUF file that llama.cpp reads.

    to_gguf.py MODEL_DIR OUT.gguf

For measurements: no tokenizer goes along ("none"). Tensors are named, cut and
ordered as llama.cpp's own converter leaves them by default (architecture
qwen35moe): gate and up of the experts apart, value heads tiled instead of
grouped by key head, 1 + w where a norm is zero-centred, -exp(A_log), and F32
for vectors, the convolution and both routers. The file is a stream: at most
one matrix outside the experts is in memory. Python alone, no packages.
"""

import json
import math
import os
import struct
import sys
from array import array

_ALIGNMENT = 32
_F32, _BF16 = 0, 30  # As ggml numbers its types.
_FILE_TYPE_BF16 = 32
_CHUNK_BYTES = 4 << 20


class Checkpoint:
    """The tensors of a folder's safetensors files: name -> where and what."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            root = json.load(file)
        self.config = root.get("text_config", root)
        if root.get("quantization_config"):
            raise SystemExit(f"{folder} is quantised; a bf16 checkpoint is needed")
        self._at = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".safetensors"):
                self._read_header(os.path.join(folder, name))

    def _read_header(self, path):
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            at = 8 + size + begin
            short = name.removeprefix("model.").removeprefix("language_model.")
            self._at[short] = (path, at, end - begin, tensor["dtype"], tensor["shape"])

    def _tensor(self, name, *types):
        if name not in self._at:
            raise SystemExit(f"{name} is missing")
        dtype = self._at[name][3]
        if types and dtype not in types:
            raise SystemExit(f"{name} is {dtype}; must be {' or '.join(types)}")
        return self._at[name]

    def shape(self, name):
        return self._tensor(name)[4]

    def read(self, name, begin=0, size=None):
        """Bytes of a bf16 tensor, from `begin` on."""
        path, at, total, _, _ = self._tensor(name, "BF16")
        with open(path, "rb") as file:
            file.seek(at + begin)
            return file.read(total - begin if size is None else size)

    def numbers(self, name):
        """All elements of a BF16 or F32 tensor, in its order."""
        path, at, total, dtype, _ = self._tensor(name, "BF16", "F32")
        with open(path, "rb") as file:
            file.seek(at)
            data = file.read(total)
        if dtype == "F32":
            return array("f", data)
        halves = array("H", data)
        return array("f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves)))


class Tensor:
    """One tensor to be written: `pieces()` yields its bytes."""

    def __init__(self, name, kind, shape, pieces):
        self.name, self.kind, self.shape, self.pieces = name, kind, shape, pieces

    def size(self):
        return math.prod(self.shape) * (4 if self.kind == _F32 else 2)


class Converter:
    def __init__(self, checkpoint):
        self._from = checkpoint
        c = checkpoint.config
        self._keys = c["linear_num_key_heads"]
        self._values = c["linear_num_value_heads"]
        self._key_width = c["linear_key_head_dim"]
        self._value_width = c["linear_value_head_dim"]

    def tensors(self):
        c = self._from.config
        interval = c.get("full_attention_interval", 4)
        yield self._same("token_embd.weight", "embed_tokens.weight")
        for i in range(c["num_hidden_layers"]):
            yield from self._layer(i, (i + 1) % interval == 0)
        yield self._norm("output_norm.weight", "norm.weight")
        yield self._same("output.weight", "lm_head.weight")

    def _layer(self, i, attends):
        to, at = f"blk.{i}.", f"layers.{i}."
        yield self._norm(to + "attn_norm.weight", at + "input_layernorm.weight")
        yield self._norm(to + "post_attention_norm.weight", at + "post_attention_layernorm.weight")
        yield from self._attention(to, at) if attends else self._delta_net(to, at)
        yield self._widened(to + "ffn_gate_inp.weight", at + "mlp.gate.weight")
        yield from self._experts(to, at)
        shared = at + "mlp.shared_expert."
        gate = at + "mlp.shared_expert_gate.weight"
        yield self._f32(
            to + "ffn_gate_inp_shexp.weight",
            [self._from.shape(gate)[-1]],
            lambda: self._from.numbers(gate),
        )
        for part in ("gate", "up", "down"):
            yield self._same(f"{to}ffn_{part}_shexp.weight", f"{shared}{part}_proj.weight")

    def _attention(self, to, at):
        at += "self_attn."
        for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output")):
            yield self._same(f"{to}attn_{theirs}.weight", f"{at}{ours}_proj.weight")
        for part in ("q", "k"):
            yield self._norm(f"{to}attn_{part}_norm.weight", f"{at}{part}_norm.weight")

    def _delta_net(self, to, at):
        at += "linear_attn."
        hidden = self._from.config["hidden_size"]
        fixed = 2 * self._keys * self._key_width  # Rows of q and k stay.
        wide = self._value_width
        yield self._tiled_rows(to + "attn_qkv.weight", at + "in_proj_qkv.weight", fixed, wide)
        yield self._tiled_rows(to + "attn_gate.weight", at + "in_proj_z.weight", 0, wide)
        yield self._tiled_rows(to + "ssm_beta.weight", at + "in_proj_b.weight", 0, 1)
        yield self._tiled_rows(to + "ssm_alpha.weight", at + "in_proj_a.weight", 0, 1)
        yield self._convolution(to + "ssm_conv1d.weight", at + "conv1d.weight", fixed)
        yield self._f32(
            to + "ssm_a",
            [self._values],
            lambda: self._tiled([-math.exp(x) for x in self._from.numbers(at + "A_log")]),
        )
        yield self._f32(
            to + "ssm_dt.bias",
            [self._values],
            lambda: self._tiled(self._from.numbers(at + "dt_bias")),
        )
        yield self._f32(
            to + "ssm_norm.weight", [wide], lambda: self._from.numbers(at + "norm.weight")
        )
        yield self._tiled_columns(to + "ssm_out.weight", at + "out_proj.weight", hidden)

    def _experts(self, to, at):
        name = at + "mlp.experts.gate_up_proj"
        experts, rows, hidden = self._from.shape(name)
        half = rows // 2 * hidden * 2

        def part(index):
            for e in range(experts):
                yield self._from.read(name, (2 * e + index) * half, half)

        for index, which in enumerate(("gate", "up")):
            yield Tensor(
                f"{to}ffn_{which}_exps.weight",
                _BF16,
                [experts, rows // 2, hidden],
                lambda index=index: part(index),
            )
        yield self._same(to + "ffn_down_exps.weight", at + "mlp.experts.down_proj")

    def _same(self, to, name):
        shape = self._from.shape(name)
        total = 2 * math.prod(shape)

        def pieces():
            for begin in range(0, total, _CHUNK_BYTES):
                yield self._from.read(name, begin, min(_CHUNK_BYTES, total - begin))

        return Tensor(to, _BF16, shape, pieces)

    def _f32(self, to, shape, numbers):
        return Tensor(to, _F32, shape, lambda: iter([array("f", numbers()).tobytes()]))

    def _widened(self, to, name):
        return self._f32(to, self._from.shape(name), lambda: self._from.numbers(name))

    def _norm(self, to, name):
        """Zero-centred here, not there."""
        return self._f32(
            to, self._from.shape(name), lambda: [1 + w for w in self._from.numbers(name)]
        )

    def _order(self):
        """Value heads as ggml repeats key heads: 0, R, 2R, ..., 1, R+1, ..."""
        each = self._values // self._keys
        return [key * each + j for j in range(each) for key in range(self._keys)]

    def _tiled(self, numbers):
        return [numbers[head] for head in self._order()]

    def _tiled_rows(self, to, name, fixed, head_rows):
        rows, columns = self._from.shape(name)
        head = 2 * columns * head_rows

        def pieces():
            data = memoryview(self._from.read(name))
            begin = 2 * columns * fixed
            yield data[:begin]
            for index in self._order():
                yield data[begin + index * head : begin + (index + 1) * head]

        return Tensor(to, _BF16, [rows, columns], pieces)

    def _tiled_columns(self, to, name, rows):
        columns = self._values * self._value_width
        head = 2 * self._value_width

        def pieces():
            data = memoryview(self._from.read(name))
            order = self._order()
            for row in range(rows):
                at = 2 * columns * row
                yield b"".join(data[at + i * head : at + (i + 1) * head] for i in order)

        return Tensor(to, _BF16, [rows, columns], pieces)

    def _convolution(self, to, name, fixed):
        channels, _, taps = self._from.shape(name)
        head = self._value_width * taps

        def numbers():
            all_of_it = self._from.numbers(name)
            begin = fixed * taps
            out = all_of_it[:begin]
            for i in self._order():
                out.extend(all_of_it[begin + i * head : begin + (i + 1) * head])
            return out

        return self._f32(to, [channels, taps], numbers)


def metadata(c):
    """Keys and values; an int becomes a u32, a float an f32."""
    rotary = int(c["head_dim"] * c["rope_parameters"].get("partial_rotary_factor", 0.25))
    third = (rotary // 2 + 2) // 3
    of_arch = {
        "block_count": c["num_hidden_layers"],
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"],
        "attention.key_length": c["head_dim"],
        "attention.value_length": c["head_dim"],
        "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"]),
        "rope.freq_base": float(c["rope_parameters"]["rope_theta"]),
        "rope.dimension_count": rotary,
        # Text moves along all three alike, so that only the sum matters.
        "rope.dimension_sections": [third, third, rotary // 2 - 2 * third, 0],
        "expert_count": c["num_experts"],
        "expert_used_count": c["num_experts_per_tok"],
        "expert_feed_forward_length": c["moe_intermediate_size"],
        "expert_shared_feed_forward_length": c["shared_expert_intermediate_size"],
        "ssm.conv_kernel": c["linear_conv_kernel_dim"],
        "ssm.inner_size": c["linear_num_value_heads"] * c["linear_value_head_dim"],
        "ssm.state_size": c["linear_key_head_dim"],
        "ssm.time_step_rank": c["linear_num_value_heads"],
        "ssm.group_count": c["linear_num_key_heads"],
        "full_attention_interval": c.get("full_attention_interval", 4),
        "vocab_size": c["vocab_size"],
    }
    return {
        "general.architecture": "qwen35moe",
        "general.name": "synthetic",
        "general.file_type": _FILE_TYPE_BF16,
        "general.alignment": _ALIGNMENT,
        "tokenizer.ggml.model": "none",
        **{f"qwen35moe.{key}": value for key, value in of_arch.items()},
    }


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """A type and a value of it, as GGUF has them."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<II", 4, value)


def _padding(size):
    return b"\0" * (-size % _ALIGNMENT)


def _header(values, tensors):
    out = bytearray(b"GGUF")
    out += struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, value in values.items():
        out += _string(key) + _value(value)
    offset = 0
    for tensor in tensors:
        dimensions = tensor.shape[::-1]
        out += _string(tensor.name)
        out += struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        out += struct.pack("<IQ", tensor.kind, offset)
        offset += tensor.size() + len(_padding(tensor.size()))
    return bytes(out)


def write(folder, path):
    """The bytes of the file."""
    checkpoint = Checkpoint(folder)
    tensors = list(Converter(checkpoint).tensors())
    header = _header(metadata(checkpoint.config), tensors)
    total = 0
    with open(path, "wb") as file:
        total += file.write(header + _padding(len(header)))
        for tensor in tensors:
            size = sum(file.write(piece) for piece in tensor.pieces())
            if size != tensor.size():
                raise SystemExit(f"{tensor.name} has {size} bytes; must be {tensor.size()}")
            total += size + file.write(_padding(size))
    return total


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.split("\n\n")[1].strip())
    total = write(sys.argv[1], sys.argv[2])
    print(f"{sys.argv[2]}: {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
