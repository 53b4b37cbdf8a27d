#!/usr/bin/env python3
"""Phalanx beside llama.cpp on one model, in turns.

    compare.py measure --log LOG --llama BIN_DIR --gguf FILE \\
        --worker PROGRAM [--model DIR --weights bf16|int8|int4] [--rounds N]
    compare.py report LOG...

A round is: look at the machine, llama.cpp, look, ours, look; each engine is
loaded once for all measures, or with --apart once for each. Where the limit of a
measure, of a prefill the peak, of a decode the read bandwidth, moved by over 10 %
between any of the looks, its pair is counted and left out. `measure` appends each
round to LOG, a line of JSON, so that rounds may be taken one by one, and goes on
until N are kept of each measure, or --most were taken. `report` gives medians,
and of pairs the ratio; by placement where the machine showed more than one.
Without --model, llama.cpp is measured alone; the looks are phalanx-worker's all
the same.
"""

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time

import engines
from gguf_file import GgufFile

_MOST_MOVED = 0.1
# A cache line's way to the other core and back: 50 to 130 ns between neighbours,
# 310 to 520 ns between cores that share no cache, on the machines seen.
_FAR_NS = 200


def cost(measure, file):
    """What a token costs llama.cpp: operations of a prefill, bytes of a decode."""
    if measure.kind == "prefill":
        return file.flops_per_prompt_token()
    return file.bytes_per_step(measure.size) / measure.size


def take(measures, ours, llama, file):
    """A round of some measures."""
    looks = [ours.look()]
    began = time.monotonic()
    record = {"llama": llama.measure(measures)}
    record["llama_seconds"] = time.monotonic() - began
    record["llama_cost"] = {str(m): cost(m, file) for m in measures}
    if ours.has_model():
        began = time.monotonic()
        record["ours"], record["ours_cost"], around = ours.measure(measures)
        record["ours_seconds"] = time.monotonic() - began
        looks += around
    else:
        looks.append(ours.look())
    record["looks"] = looks
    return record


def rounds(args, take_some):
    """Records of take_some(measures), until enough are kept of each measure or
    the most were taken."""
    kept = dict.fromkeys(args.measures, 0)
    for _ in range(args.most or 2 * args.rounds):
        wanted = [m for m in args.measures if kept[m] < args.rounds]
        if not wanted:
            return
        for group in [[m] for m in wanted] if args.apart else [wanted]:
            record = take_some(group)
            for measure in group:
                kept[measure] += is_kept(record, str(measure))
            yield record


def measure_all(args):
    file = GgufFile(args.gguf)
    ours = engines.Phalanx(args.worker, args.model, args.weights, args.threads, args.samples)
    llama = engines.Llama(args.llama, args.gguf, args.threads, args.load_mode)
    fixed = {
        "processor": ours.processor(),
        "weights": args.weights,
        "gguf": os.path.basename(args.gguf),
    }
    for record in rounds(args, lambda group: {**fixed, **take(group, ours, llama, file)}):
        record["date"] = datetime.datetime.now().isoformat(timespec="seconds")
        with open(args.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
        for name in record["llama"]:
            print(line_of(record, name), file=sys.stderr)
        took = [f"{who} {record[who + '_seconds']:.0f} s" for who in ("llama", "ours") if who in record]
        print("took " + ", ".join(took), file=sys.stderr, flush=True)


def limits(record, name):
    """What bounds a measure, at each look: the fastest products of such weights,
    or the read bandwidth; 0 where the machine has no such products."""
    for roofs in (look["roofs"] for look in record["looks"]):
        if name.startswith("decode"):
            yield roofs["read_bytes_per_second"]
        elif record["weights"] == "bf16":
            yield max(roofs["f32_fma_flops"] or 0, roofs["bf16_dot_flops"] or 0)
        else:
            yield roofs["int8_dot_ops"] or 0


def is_kept(record, name):
    """Ours is none where bench-model threw all its own samples away."""
    least, most = min(limits(record, name)), max(limits(record, name))
    if "ours" in record and record["ours"][name] is None:
        return False
    return most <= (1 + _MOST_MOVED) * least


def placement(record):
    # None where there is one core.
    far = {(look["ping_pong_ns"] or 0) >= _FAR_NS for look in record["looks"]}
    return "moved" if len(far) > 1 else "far" if far == {True} else "near"


def share(record, name, who):
    """Of the limit, by what a token costs that engine; nan where there is none."""
    limit = statistics.mean(limits(record, name))
    return record[who][name] * record[who + "_cost"][name] / limit if limit else math.nan


def line_of(record, name):
    parts = [f"{name}: llama.cpp {record['llama'][name]:.1f}"]
    ours = record.get("ours", {}).get(name)
    if ours is not None:
        parts.append(f"ours {ours:.1f}, ratio {ours / record['llama'][name]:.2f}")
    parts.append("limit " + " ".join(f"{x / 1e9:.0f}" for x in limits(record, name)))
    return ", ".join(parts + [placement(record), "kept" if is_kept(record, name) else "thrown away"])


def summary(records, name):
    """What rounds of one model give of a measure: how many were kept and thrown
    away, medians, shares of the limit, and of the pairs' ratio also the ends."""
    rounds = [r for r in records if name in r["llama"]]
    kept = [r for r in rounds if is_kept(r, name)]
    row = {"kept": len(kept), "thrown": len(rounds) - len(kept)}
    if not kept:
        return row
    row["limit"] = statistics.median(x for r in kept for x in limits(r, name))
    for who in ("llama", "ours"):
        runs = [r for r in kept if who in r]
        if runs:
            row[who] = statistics.median(r[who][name] for r in runs)
            row[who + "_share"] = statistics.median(share(r, name, who) for r in runs)
    ratios = [r["ours"][name] / r["llama"][name] for r in kept if "ours" in r]
    if ratios:
        row["ratio"] = (min(ratios), statistics.median(ratios), max(ratios))
    return row


def by_placement(records, name):
    """placement -> its rounds, where those that are kept had more than one."""
    kept = [r for r in records if name in r["llama"] and is_kept(r, name)]
    names = sorted({placement(r) for r in kept})
    return {n: [r for r in kept if placement(r) == n] for n in names} if len(names) > 1 else {}


def lines_of(row, unit):
    if "limit" not in row:
        return
    yield f"limit {row['limit'] / 1e9:.1f} {unit}"
    for who, label in (("llama", "llama.cpp"), ("ours", "ours")):
        if who in row:
            yield f"{label:9} {row[who]:8.1f} tokens/s, {row[who + '_share']:.3f} of the limit"
    if "ratio" in row:
        least, median, most = row["ratio"]
        yield f"ours / llama.cpp {median:.2f} ({least:.2f} to {most:.2f})"


def report(args):
    records = [json.loads(line) for path in args.logs for line in open(path, encoding="utf-8")]
    models = {}
    for record in records:
        key = record["processor"], record["gguf"], record["weights"]
        models.setdefault(key, []).append(record)
    for (processor, gguf, weights), rounds in models.items():
        print(f"{processor}: llama.cpp {gguf}, ours {weights}")
        for name in dict.fromkeys(name for r in rounds for name in r["llama"]):
            unit = "Gop/s" if name.startswith("prefill") else "GB/s"
            row = summary(rounds, name)
            print(f"  {name}: {row['kept']} rounds kept, {row['thrown']} thrown away")
            for line in lines_of(row, unit):
                print(f"    {line}")
            for where, some in by_placement(rounds, name).items():
                print(f"    {where}, {len(some)} rounds")
                for line in lines_of(summary(some, name), unit):
                    print(f"      {line}")


def _measures(text):
    try:
        return [engines.parse_measure(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("measure", help="take rounds")
    verb.set_defaults(run=measure_all)
    verb.add_argument("--log", required=True, help="file that gets a line a round")
    verb.add_argument("--llama", required=True, help="folder of llama-batched-bench")
    verb.add_argument("--gguf", required=True, help="the model for llama.cpp")
    verb.add_argument("--worker", required=True, help="the program phalanx-worker")
    verb.add_argument("--model", help="the model for it; without it llama.cpp alone")
    verb.add_argument("--weights", default="bf16", choices=("bf16", "int8", "int4"))
    verb.add_argument("--threads", type=int, default=os.cpu_count())
    verb.add_argument("--rounds", type=int, default=1, help="to keep of each measure")
    verb.add_argument("--most", type=int, help="to take; twice as many if not given")
    verb.add_argument("--apart", action="store_true", help="load for each measure anew: shorter pairs")
    verb.add_argument("--samples", type=int, default=1, help="that bench-model takes in a round")
    verb.add_argument(
        "--measures",
        type=_measures,
        default="prefill512,decode1,decode8",
        help="prefill or decode, and of how many tokens or sequences",
    )
    verb.add_argument("--load-mode", default="mmap", help="llama.cpp's -lm; dio leaves the page cache alone")
    verb = verbs.add_parser("report", help="medians of the rounds in logs")
    verb.set_defaults(run=report)
    verb.add_argument("logs", nargs="+")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
