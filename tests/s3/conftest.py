# SPDX-License-Identifier: Apache-2.0
"""Starts the real server on an ephemeral port for the real clients."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCESS, SECRET = "AKIATESTTESTTESTTEST", "secret/with+signs/0123456789abcdefghijkl"
OTHER_ACCESS, OTHER_SECRET = "AKIAOTHEROTHEROTHER1", "other0123456789other0123456789otherother"
REGION = "us-east-1"


class Server:
    """One strata process over a data directory of its own."""

    def __init__(self, directory, binary=None, **settings):
        self.directory = pathlib.Path(directory)
        self.binary = binary or os.environ.get("STRATA_TEST_BINARY") or str(ROOT / "build/strata")
        self.settings = settings
        self.process = None
        self.port = None

    def start(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "AWS_"))}
        env.update(STRATA_LISTEN="127.0.0.1:0", STRATA_DATA_DIR=str(self.directory), STRATA_LOG_FORMAT="text",
                   STRATA_STATIC_CREDENTIALS=f"{ACCESS}:{SECRET}:alice:Alice,{OTHER_ACCESS}:{OTHER_SECRET}:bob:Bob",
                   STRATA_LOG_LEVEL="warn")
        env.update({f"STRATA_{k}": str(v) for k, v in self.settings.items()})
        self.log = open(self.directory.parent / (self.directory.name + ".log"), "ab")
        self.process = subprocess.Popen([self.binary, "server"], env=env, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        m = re.search(r"(https?)://localhost:(\d+)", line)
        assert m, f"the server did not start: {line!r} {self.log_text()}"
        self.scheme, self.port = m.group(1), int(m.group(2))
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        return self

    def log_text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")[-4000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"exit status {code}: {self.log_text()}"

    def client(self, access=ACCESS, secret=SECRET, **config):
        import boto3
        from botocore.config import Config
        options = dict(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=5, read_timeout=60)
        options.update(config)
        return boto3.client("s3", endpoint_url=self.url, aws_access_key_id=access, aws_secret_access_key=secret,
                            region_name=REGION, config=Config(**options))


@pytest.fixture(scope="session")
def work_dir():
    path = pathlib.Path(tempfile.mkdtemp(prefix="strata-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def make_server(work_dir, name, **settings):
    directory = work_dir / name
    directory.mkdir(parents=True, exist_ok=True)
    return Server(directory, **settings)


@pytest.fixture(scope="session", params=["embedded", "memory"])
def server(request, work_dir):
    """The embedded stores, and everything in memory with no inlining: the same expectations on both."""
    settings = {} if request.param == "embedded" else dict(META_BACKEND="memory", DATA_BACKEND="memory", INLINE_MAX=0)
    s = make_server(work_dir, f"main-{request.param}", **settings).start()
    yield s
    s.stop()


@pytest.fixture(scope="session")
def s3(server):
    return server.client()


@pytest.fixture
def bucket(s3):
    name = "b-" + uuid.uuid4().hex[:20]
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


def empty(s3, bucket):
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        keys = [{"Key": o["Key"]} for o in page.get("Contents", [])]
        if keys:
            s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})


def error_of(call, *args, **kwargs):
    """(HTTP status, S3 code) of a call that must fail."""
    from botocore.exceptions import ClientError
    with pytest.raises(ClientError) as e:
        call(*args, **kwargs)
    r = e.value.response
    return r["ResponseMetadata"]["HTTPStatusCode"], r["Error"]["Code"]


def wait_for(condition, seconds=10):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
