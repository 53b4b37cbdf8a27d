"""Both engines and the probe of the machine as programs: how each is asked for
measures, and what it says."""

import json
import os
import re
import subprocess
from typing import NamedTuple

# Steps that llama.cpp decodes for a measure, behind so many tokens.
_STEPS, _CONTEXT = 32, 16
# It rounds its cache up to whole 256 cells.
_CELLS = 256


class Measure(NamedTuple):
    kind: str  # "prefill" or "decode".
    size: int  # Tokens of the prompt, or sequences that decode at once.

    def __str__(self):
        return f"{self.kind}{self.size}"


def parse_measure(text):
    match = re.fullmatch(r"(prefill|decode)([1-9]\d*)", text)
    if not match:
        raise ValueError(f"{text} is no measure; must be such as prefill512 or decode8")
    return Measure(match[1], int(match[2]))


def sizes_of(kind, measures):
    return [m.size for m in measures if m.kind == kind]


def _run(command):
    command = [str(x) for x in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        what = " ".join(command)
        raise SystemExit(f"{what} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _list(numbers):
    return ",".join(str(n) for n in numbers)


class Phalanx:
    """`model` may be none, for the machine alone. One load for all measures."""

    def __init__(self, worker, model, weights, threads, samples):
        self._worker, self._model, self._weights = worker, model, weights
        self._threads, self._samples = threads, samples

    def has_model(self):
        return self._model is not None

    def measure(self, measures):
        """Measure -> tokens per second and what a token costs, as counted; both
        none where the machine moved under every sample. The looks at the machine
        before and after all of them."""
        command = [self._worker, "bench-model", "--json", "--model", self._model]
        command += ["--weights", self._weights, "--threads", self._threads]
        command += ["--contexts", 0, "--rounds", self._samples]
        for kind, flag in (("decode", "--batches"), ("prefill", "--prompts")):
            sizes = sizes_of(kind, measures)
            command += [flag, _list(sizes)] if sizes else []
            if len(sizes) == len(measures):
                command += ["--only", kind]
        report = json.loads(_run(command))
        rates, costs = {}, {}
        for case in report["cases"]:
            name = str(Measure(case["kind"], case["rows"]))
            rates[name] = case["tokens_per_second"]
            cost = case["flops" if case["kind"] == "prefill" else "weight_bytes"]
            costs[name] = None if cost is None else cost / case["rows"]
        return rates, costs, [_look(report, when) for when in ("before", "after")]

    def processor(self):
        return self._kernels()["processor"]

    def look(self):
        """The machine now: the better of both looks around a kernel."""
        report = self._kernels()
        before, after = (_look(report, when) for when in ("before", "after"))
        for key, roof in before["roofs"].items():
            after["roofs"][key] = max(roof or 0, after["roofs"][key] or 0)
        return after

    def _kernels(self):
        """Of bench-kernels, the least that it can be asked for."""
        command = [self._worker, "bench-kernels", "--quick", "--json", "--rounds", 1]
        return json.loads(_run(command + ["--only", "norm", "--threads", self._threads]))


def _look(report, when):
    machine = report["machine"][when]
    return {"roofs": machine["all"], "ping_pong_ns": machine["ping_pong_ns"]}


class Llama:
    """llama-batched-bench, which prefills and then decodes; one load for all
    measures."""

    def __init__(self, folder, gguf, threads, load_mode):
        self._command = [os.path.join(folder, "llama-batched-bench"), "-m", gguf]
        self._command += ["-t", threads, "-lm", load_mode, "--output-format", "jsonl"]

    def measure(self, measures):
        """Measure -> tokens per second."""
        return llama_rates(_run(self._command + llama_flags(measures)), measures)


def llama_flags(measures):
    """Prompts twice, since only the second finds all memory touched; decode last,
    behind short prompts that warm up. Sequences share the cache, so that it has
    no room for long prompts of many, which nobody asked for, and they are left
    out."""
    prompts, batches = sizes_of("prefill", measures), sizes_of("decode", measures)
    steps = _STEPS if batches else 1
    cells = max([p + steps for p in prompts] + [b * (_CONTEXT + steps) for b in batches])
    return [
        *("-kvu", "-c", -(-cells // _CELLS) * _CELLS, "-ntg", steps),
        *("-npp", _list([p for p in prompts for _ in range(2)] + [_CONTEXT] * bool(batches))),
        *("-npl", _list(sorted({1, *batches} if prompts else set(batches)))),
    ]


def llama_rates(output, measures):
    """From a line of JSON a case; of equal cases the last counts."""
    rates = {}
    for line in output.splitlines():
        if line.startswith("{"):
            case = json.loads(line)
            if case["pl"] == 1:
                rates[str(Measure("prefill", case["pp"]))] = case["speed_pp"]
            if case["pp"] == _CONTEXT:
                rates[str(Measure("decode", case["pl"]))] = case["speed_tg"]
    return {str(m): rates[str(m)] for m in measures}
