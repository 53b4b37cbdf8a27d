#!/usr/bin/env python3
"""Phalanx beside llama.cpp on one model, in turns.

    compare.py measure --log LOG --llama BIN_DIR --gguf FILE \\
        [--phalanx PROGRAM --model DIR] [--weights bf16|int8|int4] [--rounds N]
    compare.py report LOG...

A round is: probe, ours, llama.cpp, ours, llama.cpp, probe. `measure` appends
each to LOG, a line of JSON, so that rounds may be taken one by one. `report`
gives the medians over rounds, and over pairs their ratio; a round whose probes
moved by over 10 % is counted and left out. Without --phalanx, llama.cpp alone
is measured, between probes of --probe.
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


def probe(command):
    """What all threads of the machine can do now."""
    machine = json.loads(_run(command))["machine"]
    return {"at_start": machine["before"]["all"], "ping_pong_ns": machine["before"]["ping_pong_ns"]}


def run_llama(args):
    """Tokens per second of each measure."""
    common = ["-m", args.gguf, "-t", str(args.threads), "-lm", args.load_mode]
    out = json.loads(
        _run(
            [os.path.join(args.llama, "llama-bench"), *common, "-o", "json", "-r", "1"]
            + ["-p", str(_PROMPT if "prefill" in args.measures else 0)]
            + ["-n", str(_DECODE_STEPS if "decode" in args.measures else 0)]
        )
    )
    rates = {"prefill" if test["n_prompt"] else "decode": test["avg_ts"] for test in out}
    if "batch" in args.measures:
        lines = _run(
            [os.path.join(args.llama, "llama-batched-bench"), *common]
            + ["-c", "2048", "-npp", "16", "-ntg", str(_BATCH_STEPS), "-npl", str(_BATCH)]
            + ["--output-format", "jsonl"]
        ).splitlines()
        rates["batch"] = next(json.loads(x) for x in lines if x.startswith("{"))["speed_tg"]
    return rates


def run_phalanx(args):
    command = [args.phalanx, "bench", "model", "--model", args.model, "--json"]
    command += ["--threads", str(args.threads), "--rounds", "1", "--contexts", "0"]
    command += ["--prompts", str(_PROMPT)]
    command += ["--batches", f"1,{_BATCH}" if "batch" in args.measures else "1"]
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
        before = probe(args.probe)
        ours, theirs = [], []
        for _ in range(2):
            if args.phalanx:
                ours.append(run_phalanx(args))
            theirs.append(run_llama(args))
        record = {
            "date": datetime.datetime.now().isoformat(timespec="seconds"),
            "weights": args.weights,
            "gguf": os.path.basename(args.gguf),
            "bytes": {"decode": file.bytes_per_step(1), "batch": file.bytes_per_step(_BATCH)},
            "flops": {"prefill": file.flops_per_prompt_token()},
            "probes": [before, probe(args.probe)],
            "ours": ours,
            "llama": theirs,
        }
        with open(args.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


def moved(record):
    """By how much the machine's limits differ between the probes of a round."""
    before, after = (p["at_start"] for p in record["probes"])
    return max(
        abs(after[key] / before[key] - 1) for key in before if before[key] and after.get(key)
    )


def peak(roofs, weights):
    """The fastest products that these weights can be multiplied by."""
    if weights != "bf16":
        return roofs["int8_dot_ops"]
    return max(roofs["f32_fma_flops"], roofs["bf16_dot_flops"] or 0)


def share(record, name, rate):
    """Of the limit that bounds a measure: the peak, or the read bandwidth. For
    both engines by the bytes of the peer's file."""
    roofs = {
        key: statistics.mean(p["at_start"][key] or 0 for p in record["probes"])
        for key in record["probes"][0]["at_start"]
    }
    if name == "prefill":
        return rate * record["flops"][name] / peak(roofs, record["weights"])
    steps = rate / (_BATCH if name == "batch" else 1)
    return steps * record["bytes"][name] / roofs["read_bytes_per_second"]


def summary(records):
    """measure -> what the kept rounds of one kind of weights give."""
    out = {}
    for name in _MEASURES:
        row = {}
        for who in ("llama", "ours"):
            pairs = [(r, run[name]) for r in records for run in r[who] if name in run]
            if not pairs:
                continue
            row[who] = statistics.median(rate for _, rate in pairs)
            row[who + "_share"] = statistics.median(share(r, name, rate) for r, rate in pairs)
        ratios = [
            ours[name] / theirs[name]
            for r in records
            for ours, theirs in zip(r["ours"], r["llama"])
            if name in ours and name in theirs
        ]
        if ratios:
            row["ratio"] = statistics.median(ratios)
        if row:
            out[name] = row
    return out


def report(args):
    records = [json.loads(line) for path in args.logs for line in open(path, encoding="utf-8")]
    for kind in sorted({(r["weights"], r["gguf"]) for r in records}):
        rounds = [r for r in records if (r["weights"], r["gguf"]) == kind]
        kept = [r for r in rounds if moved(r) <= _MOST_MOVED]
        print(f"{kind[1]}, ours {kind[0]}: {len(kept)} rounds, {len(rounds) - len(kept)} thrown away")
        if not kept:
            continue
        for key in kept[0]["probes"][0]["at_start"]:
            values = [p["at_start"][key] or 0 for r in kept for p in r["probes"]]
            print(f"  {key:24}{statistics.median(values) / 1e9:10.1f} e9")
        for name, row in summary(kept).items():
            text = f"  {_NAMES[name]:18}"
            for who, label in (("llama", "llama.cpp"), ("ours", "ours")):
                if who in row:
                    text += f"{label} {row[who]:8.1f} tokens/s, {row[who + '_share']:.3f} of the limit; "
            if "ratio" in row:
                text += f"ours / llama.cpp {row['ratio']:.2f}"
            print(text.rstrip("; "))


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
    verb.add_argument("--phalanx", help="the program phalanx; without it llama.cpp alone")
    verb.add_argument("--model", help="the model for phalanx")
    verb.add_argument("--weights", default="bf16", choices=("bf16", "int8", "int4"))
    verb.add_argument("--threads", type=int, default=os.cpu_count())
    verb.add_argument("--rounds", type=int, default=1)
    verb.add_argument("--measures", default=",".join(_MEASURES), help="of prefill,decode,batch")
    verb.add_argument("--load-mode", default="mmap", help="llama.cpp's -lm; dio leaves the page cache alone")
    verb.add_argument("--probe", nargs="+", help="command that prints the machine's limits")
    verb = verbs.add_parser("report", help="medians of the rounds in logs")
    verb.set_defaults(run=report)
    verb.add_argument("logs", nargs="+")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
