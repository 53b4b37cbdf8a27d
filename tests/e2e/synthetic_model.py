"""A checkpoint of made-up weights: large where experts are, small elsewhere,
and written as a stream, so that making it takes no memory to speak of."""

import json
import os
import random
import struct

_CHUNK_BYTES = 1 << 20
# Bytes to bytes: the high half of a bf16 number of either sign, 0.008 to 0.03.
_HIGH = bytes(0x3C | (byte & 0x80) for byte in range(256))


def config(hidden, width, experts, layers, vocab=1024):
    """As config.json of the flat dialect has it; one layer in four attends."""
    kinds = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]
    return {
        "architectures": ["Qwen3_5MoeForCausalLM"],
        "model_type": "qwen3_5_moe_text",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "attn_output_gate": True,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "linear_num_key_heads": 8,
        "linear_num_value_heads": 16,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "num_experts": experts,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": width,
        "shared_expert_intermediate_size": width,
        "layer_types": kinds,
        "max_position_embeddings": 4096,
        "dtype": "bfloat16",
        "eos_token_id": vocab - 1,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
    }


def _shapes(c):
    """Name and shape of every tensor, in the order of the file."""
    hidden, width, experts = c["hidden_size"], c["moe_intermediate_size"], c["num_experts"]
    head, heads, kv = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    values = c["linear_num_value_heads"]
    value = values * c["linear_value_head_dim"]
    yield "model.embed_tokens.weight", [c["vocab_size"], hidden]
    yield "lm_head.weight", [c["vocab_size"], hidden]
    yield "model.norm.weight", [hidden]
    for i, kind in enumerate(c["layer_types"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", [hidden]
        yield at + "post_attention_layernorm.weight", [hidden]
        if kind == "full_attention":
            yield at + "self_attn.q_proj.weight", [2 * heads * head, hidden]
            yield at + "self_attn.k_proj.weight", [kv * head, hidden]
            yield at + "self_attn.v_proj.weight", [kv * head, hidden]
            yield at + "self_attn.o_proj.weight", [hidden, heads * head]
            yield at + "self_attn.q_norm.weight", [head]
            yield at + "self_attn.k_norm.weight", [head]
        else:
            yield at + "linear_attn.in_proj_qkv.weight", [2 * key + value, hidden]
            yield at + "linear_attn.in_proj_z.weight", [value, hidden]
            yield at + "linear_attn.in_proj_b.weight", [values, hidden]
            yield at + "linear_attn.in_proj_a.weight", [values, hidden]
            yield at + "linear_attn.conv1d.weight", [2 * key + value, 1, 4]
            yield at + "linear_attn.A_log", [values]
            yield at + "linear_attn.dt_bias", [values]
            yield at + "linear_attn.norm.weight", [c["linear_value_head_dim"]]
            yield at + "linear_attn.out_proj.weight", [hidden, value]
        yield at + "mlp.gate.weight", [experts, hidden]
        yield at + "mlp.experts.gate_up_proj", [experts, 2 * width, hidden]
        yield at + "mlp.experts.down_proj", [experts, hidden, width]
        yield at + "mlp.shared_expert.gate_proj.weight", [width, hidden]
        yield at + "mlp.shared_expert.up_proj.weight", [width, hidden]
        yield at + "mlp.shared_expert.down_proj.weight", [hidden, width]
        yield at + "mlp.shared_expert_gate.weight", [1, hidden]


def _elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def write(folder, seed=1, **sizes):
    """Makes the folder; returns the bytes of its weights."""
    os.makedirs(folder, exist_ok=True)
    c = config(**sizes)
    with open(folder + "/config.json", "w") as file:
        json.dump(c, file)
    header, total = {}, 0
    for name, shape in _shapes(c):
        size = 2 * _elements(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [total, total + size]}
        total += size
    text = json.dumps(header).encode()
    noise = random.Random(seed)
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(total, 0, -_CHUNK_BYTES):
            count = min(left, _CHUNK_BYTES) // 2
            numbers = bytearray(2 * count)
            numbers[0::2] = noise.randbytes(count)
            numbers[1::2] = noise.randbytes(count).translate(_HIGH)
            file.write(numbers)
    return total
