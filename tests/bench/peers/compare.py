#!/usr/bin/env python3
"""Phalanx beside llama.cpp on one model, in turns.

    compare.py measure --log LOG --llama BIN_DIR --gguf FILE \\
        --worker PROGRAM [--model DIR] [--weights bf16|int8|int4] [--rounds N]
    compare.py report LOG...

A round is: probe, ours, llama.cpp, ours, llama.cpp, probe; one turn of each
with --turns 1, where a round must be short. `measure` appends each to LOG, a
line of JSON, so that rounds may be taken one by one. `report` gives the medians
over rounds, and over pairs their ratio. A measure of a round whose limit moved
by over 10 % between the probes is counted and left out: of a prefill the peak,
of a decode the read bandwidth. Without --model, llama.cpp is measured alone;
the probes are phalanx-worker's all the same.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

from gguf_file import GgufFile

_PROMPT, _DECODE_STEPS, _BATCH, _BATCH_STEPS = 512, 64, 8, 16
_MOST_MOVED = 0.1
_MEASURES = ("prefill", "decode", "batch")
_NAMES = {
    "prefill": f"prefill {_PROMPT}",
    "decode": "decode, batch 1",
    "batch": f"decode, batch {_BATCH}",
}


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def probe(args):
    """What all threads of the machine can do now, before and after the least
    that bench-kernels can be asked for: the better of both."""
    command = [args.worker, "bench-kernels", "--quick", "--json", "--rounds", "1"]
    report = json.loads(_run(command + ["--only", "norm", "--threads", str(args.threads)]))
    before, after = (report["machine"][when]["all"] for when in ("before", "after"))
    roofs = {key: max(before[key] or 0, after[key] or 0) for key in before}
    ping_pong = report["machine"]["after"]["ping_pong_ns"]
    return {"processor": report["processor"], "roofs": roofs, "ping_pong_ns": ping_pong}


def run_llama(args):
    """Tokens per second of each measure."""
    common = ["-m", args.gguf, "-t", str(args.threads), "-lm", args.load_mode]
    rates = {}
    if "prefill" in args.measures or "decode" in args.measures:
        command = [os.path.join(args.llama, "llama-bench"), *common, "-o", "json", "-r", "1"]
        command += ["-p", str(_PROMPT if "prefill" in args.measures else 0)]
        command += ["-n", str(_DECODE_STEPS if "decode" in args.measures else 0)]
        for test in json.loads(_run(command)):
            rates["prefill" if test["n_prompt"] else "decode"] = test["avg_ts"]
    if "batch" in args.measures:
        lines = _run(
            [os.path.join(args.llama, "llama-batched-bench"), *common]
            + ["-c", "2048", "-npp", "16", "-ntg", str(_BATCH_STEPS), "-npl", str(_BATCH)]
            + ["--output-format", "jsonl"]
        ).splitlines()
        rates["batch"] = next(json.loads(x) for x in lines if x.startswith("{"))["speed_tg"]
    return rates


def run_phalanx(args):
    command = [args.worker, "bench-model", "--model", args.model, "--json"]
    command += ["--threads", str(args.threads), "--contexts", "0"]
    command += ["--rounds", str(args.samples)]
    command += ["--prompts", str(_PROMPT)]
    batches = {"decode": 1, "batch": _BATCH}
    command += ["--batches", ",".join(str(batches[m]) for m in batches if m in args.measures) or "1"]
    if "prefill" not in args.measures:
        command += ["--only", "decode"]
    if args.measures == ["prefill"]:
        command += ["--only", "prefill"]
    if args.weights != "bf16":
        command += ["--weights", args.weights]
    report = json.loads(_run(command))
    rates = {}
    for case in report["cases"]:
        name = "prefill" if case["kind"] == "prefill" else "decode" if case["rows"] == 1 else "batch"
        if name in args.measures and case["tokens_per_second"]:
            rates[name] = case["tokens_per_second"]
    return rates


def measure(args):
    args.measures = args.measures.split(",")
    file = GgufFile(args.gguf)
    for _ in range(args.rounds):
        before = probe(args)
        ours, theirs = [], []
        for _ in range(args.turns):
            if args.model:
                ours.append(run_phalanx(args))
            theirs.append(run_llama(args))
        record = {
            "date": datetime.datetime.now().isoformat(timespec="seconds"),
            "weights": args.weights,
            "gguf": os.path.basename(args.gguf),
            "bytes": {"decode": file.bytes_per_step(1), "batch": file.bytes_per_step(_BATCH)},
            "flops": {"prefill": file.flops_per_prompt_token()},
            "probes": [before, probe(args)],
            "ours": ours,
            "llama": theirs,
        }
        with open(args.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


def limits(record, name):
    """What bounds a measure, in each of the round's probes: the fastest
    products of such weights, or the read bandwidth."""
    for roofs in (p["roofs"] for p in record["probes"]):
        if name != "prefill":
            yield roofs["read_bytes_per_second"]
        elif record["weights"] == "bf16":
            yield max(roofs["f32_fma_flops"], roofs["bf16_dot_flops"])
        else:
            yield roofs["int8_dot_ops"]


def is_kept(record, name):
    before, after = limits(record, name)
    return abs(after - before) <= _MOST_MOVED * before


def share(record, name, rate):
    """Of the limit, by what the peer's file makes a token cost, for both."""
    limit = statistics.mean(limits(record, name))
    if name == "prefill":
        return rate * record["flops"][name] / limit
    steps = rate / (_BATCH if name == "batch" else 1)
    return steps * record["bytes"][name] / limit


def summary(records):
    """measure -> what the rounds of one model give of it: how many were kept and
    thrown away, medians, shares of the limit, and the ratio of pairs."""
    out = {}
    for name in _MEASURES:
        rounds = [r for r in records if any(name in run for run in r["llama"])]
        if not rounds:
            continue
        kept = [r for r in rounds if is_kept(r, name)]
        row = out[name] = {"kept": len(kept), "thrown": len(rounds) - len(kept)}
        for who in ("llama", "ours"):
            runs = [(r, run[name]) for r in kept for run in r[who] if name in run]
            if runs:
                row[who] = statistics.median(rate for _, rate in runs)
                row[who + "_share"] = statistics.median(share(r, name, rate) for r, rate in runs)
        ratios = [
            ours[name] / theirs[name]
            for r in kept
            for ours, theirs in zip(r["ours"], r["llama"])
            if name in ours and name in theirs
        ]
        if ratios:
            row["ratio"] = statistics.median(ratios)
        if kept:
            row["limit"] = statistics.median(x for r in kept for x in limits(r, name))
    return out


def report(args):
    records = [json.loads(line) for path in args.logs for line in open(path, encoding="utf-8")]
    for gguf, weights in sorted({(r["gguf"], r["weights"]) for r in records}):
        rounds = [r for r in records if (r["gguf"], r["weights"]) == (gguf, weights)]
        print(f"{rounds[0]['probes'][0]['processor']}: llama.cpp {gguf}, ours {weights}")
        for name, row in summary(rounds).items():
            print(f"  {_NAMES[name]}: {row['kept']} rounds, {row['thrown']} thrown away")
            if "limit" in row:
                unit = "GFLOP/s" if name == "prefill" else "GB/s"
                print(f"    limit      {row['limit'] / 1e9:8.1f} {unit}")
            for who, label in (("llama", "llama.cpp"), ("ours", "ours")):
                if who in row:
                    part = f"{row[who + '_share']:.3f} of the limit"
                    print(f"    {label:10} {row[who]:8.1f} tokens/s, {part}")
            if "ratio" in row:
                print(f"    ours / llama.cpp {row['ratio']:.2f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("measure", help="take rounds")
    verb.set_defaults(run=measure)
    verb.add_argument("--log", required=True, help="file that gets a line a round")
    verb.add_argument("--llama", required=True, help="folder of llama-bench and llama-batched-bench")
    verb.add_argument("--gguf", required=True, help="the model for llama.cpp")
    verb.add_argument("--worker", required=True, help="the program phalanx-worker")
    verb.add_argument("--model", help="the model for it; without it llama.cpp alone")
    verb.add_argument("--weights", default="bf16", choices=("bf16", "int8", "int4"))
    verb.add_argument("--threads", type=int, default=os.cpu_count())
    verb.add_argument("--rounds", type=int, default=1)
    verb.add_argument("--turns", type=int, default=2, help="of each engine in a round")
    verb.add_argument("--samples", type=int, default=1, help="that bench-model takes in a turn")
    verb.add_argument("--measures", default=",".join(_MEASURES), help="of prefill,decode,batch")
    verb.add_argument("--load-mode", default="mmap", help="llama.cpp's -lm; dio leaves the page cache alone")
    verb = verbs.add_parser("report", help="medians of the rounds in logs")
    verb.set_defaults(run=report)
    verb.add_argument("logs", nargs="+")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
