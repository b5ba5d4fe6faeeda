#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The embedded stores with durable commits, measured by our own load generator on this machine.
# usage: ./dev bench embedded [--quick] [--out FILE]     JSON lines to FILE (default build/bench-embedded.jsonl)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=8 out=build/bench-embedded.jsonl
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) seconds=3 ;;
        --out) out=$2; shift ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
dir=$(mktemp -d "${TMPDIR:-$PWD/build}/bench.XXXXXX")
export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=benchbench
STRATA_DATA_DIR=$dir/data STRATA_LISTEN=127.0.0.1:0 STRATA_STATIC_CREDENTIALS=bench:benchbench:bench STRATA_LOG_LEVEL=warn \
    build/strata server >"$dir/out" 2>"$dir/err" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 100); do grep -q localhost: "$dir/out" 2>/dev/null && break; sleep 0.1; done
port=$(sed -n 's/.*localhost:\([0-9]*\).*/\1/p' "$dir/out" | head -1)
[ -n "$port" ] || { cat "$dir/err" >&2; exit 1; }
export S3_ENDPOINT=http://127.0.0.1:$port
: >"$out"
b() { build/strata bench s3 --pid server=$server "$@" | tee -a "$out"; }
build/strata bench s3 --op mkbucket --count 1 >/dev/null

# The floor of a durable write on this disk: append 2 KiB, fdatasync, from one thread.
python3 - "$dir/floor" $seconds <<'PY' | tee -a "$out"
import json, os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
end, n, t0 = time.time() + float(sys.argv[2]), 0, time.time()
body = b"x" * 2048
while time.time() < end:
    os.write(fd, body); os.fdatasync(fd); n += 1
print(json.dumps({"label": "bare 2 KiB append + fdatasync", "ops_s": round(n / (time.time() - t0), 1)}))
PY
for c in 1 8 32 128; do b --label put-1k --op put --size 1k --objects 100000 --concurrency $c --duration $seconds --warmup 1; done
b --label fill --op put --size 1k --objects 100000 --concurrency 128 --count 100000 --duration 0
for c in 1 8 32 128; do b --label get-1k --op get --size 1k --objects 100000 --concurrency $c --duration $seconds --warmup 1; done
b --label head-1k --op head --objects 100000 --concurrency 8 --duration $seconds --warmup 1
b --label list-100k --op list --concurrency 8 --duration $seconds --warmup 1
b --label delete-1k --op delete --objects 100000 --concurrency 8 --duration $seconds
b --label put-1m --op put --size 1m --prefix m- --objects 200 --concurrency 8 --duration $seconds --warmup 1
b --label fill-1m --op put --size 1m --prefix m- --objects 200 --concurrency 8 --count 200 --duration 0
b --label get-1m --op get --size 1m --prefix m- --objects 200 --concurrency 8 --duration $seconds --warmup 1
b --label range-1m --op range --size 1m --range 64k --prefix m- --objects 200 --concurrency 8 --duration $seconds --warmup 1
b --label put-100m --op put --size 100m --prefix h- --objects 8 --concurrency 4 --duration $seconds
b --label fill-100m --op put --size 100m --prefix h- --objects 8 --concurrency 4 --count 8 --duration 0
b --label get-100m --op get --size 100m --prefix h- --objects 8 --concurrency 4 --duration $seconds
echo "results in $out"
