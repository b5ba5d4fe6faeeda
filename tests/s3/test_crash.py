# SPDX-License-Identifier: Apache-2.0
"""kill -9 under load: every acknowledged object is there byte for byte, none is half there."""
import hashlib
import random
import threading
import time

from conftest import make_server


def body_of(key, version):
    rnd = random.Random(f"{key}/{version}")
    size = rnd.choice([0, 10, 1000, 32768, 40000, 300000, 5 << 20])
    return rnd.randbytes(min(size, 65536)) * (size // 65536 + 1)


def test_kill_9_loses_nothing_acknowledged(work_dir):
    server = make_server(work_dir, "crash", GC_GRACE="0", GC_INTERVAL="200ms").start()
    server.client().create_bucket(Bucket="crash")
    state = {}      # key -> last acknowledged version; -1 deleted
    doubtful = {}   # key -> version whose answer never came
    for round_ in range(4):
        stop = threading.Event()

        def work(n):
            c = server.client()
            rnd = random.Random(f"{round_}-{n}")
            version = round_ * 100000
            while not stop.is_set():
                key = f"w{n}/{rnd.randint(0, 15)}"
                version += 1
                delete = rnd.random() < 0.2
                doubtful[key] = -1 if delete else version
                try:
                    if delete:
                        c.delete_object(Bucket="crash", Key=key)
                    else:
                        b = body_of(key, version)
                        c.put_object(Bucket="crash", Key=key, Body=b)
                except Exception:
                    return
                state[key] = doubtful.pop(key)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        time.sleep(1.5 + round_ / 3)
        server.kill()
        stop.set()
        for t in threads:
            t.join()
        assert len(state) > 20
        server.start()
        c = server.client()
        listed = {o["Key"]: o for p in c.get_paginator("list_objects_v2").paginate(Bucket="crash") for o in p.get("Contents", [])}
        for key in set(state) | set(doubtful):
            allowed = {state.get(key, -1)} | ({doubtful[key]} if key in doubtful else set())
            if key not in listed:
                assert -1 in allowed, f"{key} is lost: {allowed}"
                state[key] = -1
                continue
            got = c.get_object(Bucket="crash", Key=key)["Body"].read()
            match = [v for v in allowed if v != -1 and body_of(key, v) == got]
            assert match, f"{key} holds none of {allowed}, {len(got)} bytes"
            assert listed[key]["ETag"] == f'"{hashlib.md5(got).hexdigest()}"'
            state[key] = match[0]
        doubtful.clear()
    server.stop()


def test_restart_keeps_everything(work_dir):
    server = make_server(work_dir, "restart").start()
    c = server.client()
    c.create_bucket(Bucket="keep")
    bodies = {f"k{i}": random.Random(i).randbytes(10 ** (i % 7)) for i in range(14)}
    for k, b in bodies.items():
        c.put_object(Bucket="keep", Key=k, Body=b, Metadata={"n": k})
    for _ in range(2):
        server.stop()
        server.start()
        c = server.client()
        for k, b in bodies.items():
            g = c.get_object(Bucket="keep", Key=k)
            assert g["Body"].read() == b and g["Metadata"] == {"n": k}
    server.stop()
