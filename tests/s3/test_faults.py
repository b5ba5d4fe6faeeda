# SPDX-License-Identifier: Apache-2.0
"""TLS with real certificates, a full disk, a slow client, a restart under load."""
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import error_of, make_server, wait_for


def make_certificate(directory, name):
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def subject_of(port):
    r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}"], input=b"", capture_output=True, timeout=20)
    return r.stdout.decode(errors="replace")


def test_tls_and_reload(work_dir, tmp_path):
    import boto3
    from botocore.config import Config
    from conftest import ACCESS, SECRET
    cert, key = make_certificate(tmp_path, "first")
    server = make_server(work_dir, "tls", TLS_CERT_FILE=cert, TLS_KEY_FILE=key).start()
    assert server.scheme == "https"
    c = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name="us-east-1",
                     verify=str(cert), config=Config(s3={"addressing_style": "path"}))
    c.create_bucket(Bucket="over-tls")
    body = os.urandom(6 << 20)
    for size in (0, 10, 100000, len(body)):
        c.put_object(Bucket="over-tls", Key="k", Body=body[:size])       # unsigned trailer: the SDK's default over TLS
        assert c.get_object(Bucket="over-tls", Key="k")["Body"].read() == body[:size]
    assert "CN = first" in subject_of(server.port)
    make_certificate(tmp_path, "second")
    server.process.send_signal(signal.SIGHUP)
    assert wait_for(lambda: "CN = second" in subject_of(server.port))
    key.write_text("broken")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert "CN = second" in subject_of(server.port)
    server.stop()


def test_full_disk_refuses_and_recovers(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount a small tmpfs here (needs root)")
    try:
        server = make_server(disk, "data", SEGMENT_BYTES="16MiB", DISK_RESERVE="32MiB", GC_GRACE="0", GC_INTERVAL="200ms",
                             ROCKS_WRITE_BUFFER="4MiB").start()
        c = server.client()
        c.create_bucket(Bucket="full")
        body = os.urandom(4 << 20)
        stored = 0
        while stored < 100:
            try:
                c.put_object(Bucket="full", Key=f"k{stored:03d}", Body=body)
            except c.exceptions.ClientError as e:
                assert e.response["ResponseMetadata"]["HTTPStatusCode"] == 503, e
                break
            stored += 1
        assert 5 < stored < 60
        listed = [o["Key"] for o in c.list_objects_v2(Bucket="full")["Contents"]]
        assert listed == [f"k{i:03d}" for i in range(stored)]
        assert c.get_object(Bucket="full", Key="k003")["Body"].read() == body
        for key in listed:
            c.delete_object(Bucket="full", Key=key)

        def put_again():
            try:
                c.put_object(Bucket="full", Key="again", Body=body)
                return True
            except c.exceptions.ClientError:
                return False
        assert wait_for(put_again, 20)
        assert c.get_object(Bucket="full", Key="again")["Body"].read() == body
        server.stop()
    finally:
        subprocess.run(["umount", "-l", str(disk)], capture_output=True)


def test_slow_clients_are_timed_out_and_hurt_nobody(work_dir):
    server = make_server(work_dir, "slow", HTTP_READ_HEADER_TIMEOUT="500ms", HTTP_READ_TIMEOUT="500ms").start()
    c = server.client()
    c.create_bucket(Bucket="slow")
    socks = []
    for i in range(300):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"GET / HTTP/1.1\r\nHo" if i % 2 else b"PUT /slow/k HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        socks.append(s)
    t = time.time()
    for i in range(50):
        c.put_object(Bucket="slow", Key=f"k{i}", Body=b"x")
    assert time.time() - t < 10
    for s in socks:
        s.settimeout(10)
        out = s.recv(65536)
        assert out == b"" or out.startswith((b"HTTP/1.1 4",)), out[:60]
        s.close()
    server.stop()


def test_graceful_stop_finishes_requests_in_flight(work_dir):
    server = make_server(work_dir, "graceful").start()
    c = server.client()
    c.create_bucket(Bucket="graceful")
    s = socket.create_connection(("127.0.0.1", server.port))
    url = server.client(signature_version="s3v4").generate_presigned_url("put_object", Params={"Bucket": "graceful", "Key": "k"})
    path = url.split(str(server.port), 1)[1]
    s.sendall(f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 10\r\n\r\nabcde".encode())
    time.sleep(0.3)
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    time.sleep(0.5)
    s.sendall(b"fghij")
    s.settimeout(10)
    assert s.recv(65536).startswith(b"HTTP/1.1 200")
    stopper.join()
    server.start()
    assert server.client().get_object(Bucket="graceful", Key="k")["Body"].read() == b"abcdefghij"
    server.stop()


def test_second_server_on_the_same_directory_is_refused(work_dir):
    server = make_server(work_dir, "locked").start()
    other = make_server(work_dir, "locked")
    with pytest.raises(AssertionError, match="did not start"):
        other.start()
    assert other.process.wait(timeout=10) == 1
    server.stop()
