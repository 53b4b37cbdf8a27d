"""64 requests of every kind that phalanx-mini serves, by name; always the same."""

import json

from service import chat_request, ids_request, text_request

LOGPROBS = {"logprobs": True, "top_n": 3}
# Some 1,500 tokens, in front of a question.
LONG_TEXT = "The code for red is 512. The code for blue is 907. " * 66
SYSTEM = "You are a careful assistant. Answer in one short sentence. " * 6
TOOLS = [
    json.dumps(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": what,
                "parameters": {"type": "object", "properties": {key: {"type": "string"}}},
            },
        }
    )
    for name, what, key in (
        ("get_weather", "The weather of a city", "city"),
        ("get_time", "The time of a place", "place"),
    )
]
QUESTIONS = [
    "What is 2 + 3?",
    "What is 7 times 8?",
    "What is the capital of France?",
    "Count from one to ten.",
    "Hello!",
    "Say something about phalanxes.",
    "Which is larger, 12 or 21?",
    "Repeat after me: red green blue.",
]


def sampled(seed, **more):
    return {"temperature": 1.0, "seed": seed, **more}


def _chats():
    for i, question in enumerate(QUESTIONS):
        output = LOGPROBS if i % 2 else {}
        yield f"chat {i}", chat_request(question, stopping={"max_tokens": 28}, output=output)
    draws = [
        {"temperature": 0.7},
        {"temperature": 1.3},
        {"top_p": 0.8, "top_k": 20},
        {"min_p": 0.05, "top_k": 0, "top_p": 1.0},
        {"temperature": 2.0, "top_k": 5},
        {"temperature": 0.4, "top_p": 0.5},
        {"top_k": 1},
        {"temperature": 1.1, "top_p": 0.95, "top_k": 50, "min_p": 0.01},
    ]
    for i, draw in enumerate(draws):
        yield f"sampled chat {i}", chat_request(
            QUESTIONS[i], sampling=sampled(100 + i, **draw), stopping={"max_tokens": 24},
            output=LOGPROBS,
        )
    turns = [("system", SYSTEM), ("user", "Hello!"), ("assistant", "Hello! How can I help you?")]
    for i in range(4):
        yield f"second turn {i}", chat_request(
            *turns, ("user", QUESTIONS[i]), reasoning={"enabled": i % 2 == 0},
            stopping={"max_tokens": 20},
        )
    for i, question in enumerate(["What is the weather in Rome?", "What time is it in Oslo?"] * 3):
        yield f"tools {i}", chat_request(
            question, tools_json=TOOLS[: 1 + i % 2],
            sampling=sampled(200 + i) if i > 2 else {"temperature": 0.0},
            stopping={"max_tokens": 24},
        )


def _long():
    cases = [{}, {"output": LOGPROBS}, {"cache_salt": "another"}, {"cache_bypass": True}]
    for i, fields in enumerate(cases):
        text = LONG_TEXT + f"The code for {('red', 'blue')[i % 2]} is"
        yield f"long {i}", text_request(text, stopping={"max_tokens": 6}, **fields)


def _choices():
    free = {"temperature": 2.0, "top_k": 0, "top_p": 1.0}
    for i, n in enumerate((2, 3, 4)):
        yield f"choices of a chat {i}", chat_request(
            QUESTIONS[i], n=n, sampling=sampled(300 + i, **free), stopping={"max_tokens": 12},
            output=LOGPROBS,
        )
        yield f"choices of a text {i}", text_request(
            "Once upon a time", n=n, sampling=sampled(310 + i, **free), stopping={"max_tokens": 10}
        )


def _logits():
    penalties = [
        {"presence_penalty": 1.5},
        {"frequency_penalty": 0.7, "temperature": 0.0},
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 1.8, "repetition_window": 8, "temperature": 0.0},
        {"presence_penalty": -0.5, "frequency_penalty": -0.1},
        {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1},
    ]
    for i, penalty in enumerate(penalties):
        yield f"penalty {i}", text_request(
            "red green blue red green", sampling=sampled(400 + i, **penalty),
            stopping={"max_tokens": 140, "ignore_eos": True}, output=LOGPROBS,
        )
    masks = [
        {"logit_bias": {5: 8.0, 70: -100.0, 300: 4.5}},
        {"logit_bias": {i: -3.0 for i in range(0, 900, 3)}, "temperature": 0.0},
        {"allowed_ids": list(range(10, 200))},
        {"banned_ids": list(range(0, 895, 2))},
    ]
    for i, mask in enumerate(masks):
        yield f"mask {i}", ids_request(
            [54, 71, 78, 347], 140, sampling=sampled(420 + i, **mask), output=LOGPROBS
        )


def _ends():
    for i, least in enumerate((10, 16)):
        yield f"min tokens {i}", chat_request(
            "Hello!", reasoning={"enabled": False},
            stopping={"min_tokens": least, "max_tokens": 20},
        )
        yield f"past the end {i}", chat_request(
            "Hello!", sampling=sampled(500 + i),
            stopping={"ignore_eos": True, "max_tokens": 20},
        )
    yield "stop string 0", text_request(
        "1 2 3 4 5", stopping={"stop_strings": ["1", " the"], "max_tokens": 24}
    )
    yield "stop string 1", chat_request(
        "What is 2 + 3?",
        stopping={"stop_strings": ["= 5"], "include_stop": True, "max_tokens": 40},
    )
    yield "stop id 0", ids_request(
        [54, 71], sampling=sampled(510), stopping={"stop_ids": list(range(0, 900, 40)),
                                                   "max_tokens": 24},
    )
    yield "stop id 1", chat_request(
        "Count from one to ten.", stopping={"stop_ids": [0, 11], "max_tokens": 24}
    )


def _prompts():
    shown = {"prompt_logprobs": True, "top_n": 2}
    yield "prompt alone", text_request(
        "The capital of France is Paris. " * 8, stopping={"max_tokens": 0}, output=shown
    )
    yield "prompt and answer", text_request(
        "Once upon a time", stopping={"max_tokens": 8}, output={**shown, "echo": True}
    )
    yield "echo", text_request("Once upon a time", stopping={"max_tokens": 8}, output={"echo": True})
    yield "prompt of a chat", chat_request(
        "Hello!", stopping={"max_tokens": 8}, output=shown, n=2, sampling=sampled(600)
    )
    # Around the ends of a block.
    for length in (1, 2, 3, 63, 64, 65):
        yield f"prompt of {length}", ids_request(
            [(i * 37 + 11) % 890 for i in range(length)], 12,
            sampling=sampled(700 + length), output=LOGPROBS, priority="PRIORITY_HIGHEST",
        )


def mixed_requests():
    parts = (_chats, _long, _choices, _logits, _ends, _prompts)
    requests = {name: request for part in parts for name, request in part()}
    assert len(requests) == 64, len(requests)
    return requests
