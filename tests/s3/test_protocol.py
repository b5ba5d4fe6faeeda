# SPDX-License-Identifier: Apache-2.0
"""What no well-behaved client sends, and what lies around the S3 operations."""
import os
import re
import socket
import subprocess
import time
import urllib.request

import pytest
from conftest import ACCESS, ROOT, SECRET, make_server


def raw(server, data, wait=5.0):
    """Sends bytes, returns everything that comes back until the end or a pause."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=wait)
    try:
        s.sendall(data)
        out = b""
        while True:
            try:
                piece = s.recv(65536)
            except (TimeoutError, socket.timeout, ConnectionResetError):
                return out
            if not piece:
                return out
            out += piece
            if b"\r\n\r\n" in out and wait < 5:
                return out
    finally:
        s.close()


MALFORMED = [
    b"GET / HTTP/1.1\r\n\r\n",                                                              # no Host
    b"GET / HTTP/1.1\nHost: x\n\n",                                                         # bare LF
    b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA\x01: b\r\n\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",                                        # a TLS hello
]


@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_requests_get_4xx_and_the_server_lives(server, data):
    out = raw(server, data + b"\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 4\d\d ", out), out[:200]
    assert raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_limits_of_head_and_target(server):
    assert b" 414 " in raw(server, b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")[:20]
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"h%d: %s\r\n" % (i, b"v" * 1000) for i in range(80)) + b"\r\n"
    assert re.match(rb"HTTP/1.1 4(31|00) ", raw(server, head))


def test_errors_are_xml_with_ids(server):
    out = raw(server, b"GET /nobucket/k HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert out.startswith(b"HTTP/1.1 403 ")
    rid = re.search(rb"(?i)x-amz-request-id: (\w+)", out).group(1)
    for part in (b"<Code>AccessDenied</Code>", b"<RequestId>" + rid, b"<HostId>", b"<Resource>"):
        assert part in out


def test_refusal_before_the_body_is_read(server):
    """With Expect: 100-continue the client sees the refusal, not a 100."""
    out = raw(server, b"PUT /nobucket/k HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", wait=2)
    assert out.startswith(b"HTTP/1.1 403 "), out[:100]


def test_answer_reaches_a_client_that_keeps_sending(server):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    s.sendall(b"PUT /nobucket/k HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n")
    sent = 0
    try:
        while sent < 8000000:
            sent += s.send(b"x" * 65536)
    except OSError:
        pass
    out = s.recv(65536)
    assert out.startswith(b"HTTP/1.1 403 "), out[:100]
    s.close()


def test_pipelined_requests_are_answered_in_order(server):
    out = raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nob/k HTTP/1.1\r\nHost: x\r\n\r\n"
                      b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", out) == [b"200", b"403", b"200"]


def get(server, path):
    with urllib.request.urlopen(server.url + path, timeout=10) as r:
        return r.status, r.read().decode()


def test_health_and_metrics(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert get(server, "/healthz")[0] == 200
    status, ready = get(server, "/readyz")
    assert status == 200 and '"meta":{"ok":true' in ready and '"data":{"ok":true' in ready
    metrics = get(server, "/metrics")[1]
    assert re.search(r'strata_http_requests_total\{[^}]*PutObject[^}]*\} [1-9]', metrics), metrics[:2000]
    assert bucket not in metrics, "labels must not grow with the number of buckets"


def test_presigned_urls(server, bucket):
    s3 = server.client(signature_version="s3v4")
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "p q+ü"}, ExpiresIn=60)
    r = urllib.request.urlopen(urllib.request.Request(put, data=b"hello", method="PUT", headers={"Content-Type": ""}))
    assert r.status == 200
    assert urllib.request.urlopen(s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "p q+ü"})).read() == b"hello"
    old = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "p q+ü"}, ExpiresIn=1)
    time.sleep(2.1)
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(old)
    assert e.value.code == 403 and b"expired" in e.value.read()


def test_virtual_host_style(work_dir):
    server = make_server(work_dir, "vhost", VHOST_PATTERN="*.s3.test,*.other.example").start()
    c = server.client()
    c.create_bucket(Bucket="vb.dots")
    c.put_object(Bucket="vb.dots", Key="k", Body=b"vh")
    for host in ("vb.dots.s3.test", "VB.DOTS.S3.TEST", "vb.dots.other.example"):
        r = subprocess.run(["curl", "-sS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS}:{SECRET}",
                            "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--connect-to", f"::127.0.0.1:{server.port}", f"http://{host}/k"],
                           capture_output=True, timeout=30)
        assert r.stdout == b"vh", r.stdout + r.stderr
    server.stop()


@pytest.mark.parametrize("name,value,word", [("LISTEN", "nonsense::x", "LISTEN"), ("INLINE_MAX", "9T", "INLINE_MAX"), ("AUTH_MODE", "maybe", "AUTH_MODE"),
                                             ("NO_SUCH", "1", "NO_SUCH"), ("META_BACKEND", "mysql", "META_BACKEND"), ("GC_INTERVAL", "-1s", "GC_INTERVAL"),
                                             ("STATIC_CREDENTIALS", "onlyakey", "")])
def test_wrong_settings_stop_the_start_with_one_line(tmp_path, name, value, word):
    env = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    env.update(STRATA_DATA_DIR=str(tmp_path / "d"), STRATA_LISTEN="127.0.0.1:0")
    env["STRATA_" + name] = value
    r = subprocess.run([str(ROOT / "build/strata"), "server"], env=env, capture_output=True, text=True, timeout=20)
    assert r.returncode in (1, 2) and len(r.stderr.strip().splitlines()) == 1, r.stderr
    assert word in r.stderr and "strata: " in r.stderr


def test_root_credentials_are_made_once_and_private(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "AWS_"))}
    env.update(STRATA_DATA_DIR=str(tmp_path / "d"), STRATA_LISTEN="127.0.0.1:0")
    for first in (True, False):
        p = subprocess.Popen([str(ROOT / "build/strata"), "server"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        p.terminate()
        out = p.communicate(timeout=20)[0].decode()
        assert ("AWS_SECRET_ACCESS_KEY=" in out) == first
    path = tmp_path / "d/root-credentials"
    assert path.stat().st_mode & 0o777 == 0o600


def test_descriptors_do_not_leak(server, s3, bucket):
    def fds():
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100000)
    before = fds()
    for i in range(300):
        raw(server, MALFORMED[i % len(MALFORMED)] + b"\r\n\r\n", wait=1)
    time.sleep(1)
    assert fds() <= before + 8
