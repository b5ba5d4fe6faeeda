#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the JSON lines of strata bench as a Markdown table: bench/report.py FILE"""
import json
import sys

print("| cell | c | ops/s | MB/s | keys/s | errors | p50 µs | p99 µs | server µs CPU/op | server / client cores |")
print("|---|---|---|---|---|---|---|---|---|---|")
for line in open(sys.argv[1]):
    r = json.loads(line)
    lat, cpu, cores = r.get("latency_us", {}), r.get("cpu_us_per_op", {}), r.get("cpu_cores", {})

    def f(v, digits=0):
        return "" if v in (None, 0, "") else f"{v:,.{digits}f}"
    print(f"| {r['label']} | {r.get('concurrency', '')} | {f(r['ops_s'])} | {f(r.get('mb_s'))} | {f(r.get('keys_s'))} | {r.get('errors', '')} | "
          f"{f(lat.get('p50'))} | {f(lat.get('p99'))} | {f(cpu.get('server'), 1)} | {f(cores.get('server'), 2)} / {f(cores.get('client'), 2)} |")
