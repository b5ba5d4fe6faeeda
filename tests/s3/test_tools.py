# SPDX-License-Identifier: Apache-2.0
"""Command-line clients as they come from Debian: aws, s3cmd, rclone, curl."""
import filecmp
import os
import subprocess

import pytest
from conftest import ACCESS, REGION, SECRET


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    for name, size in [("empty", 0), ("small.txt", 100), ("dir/sub dir/ü.bin", 70000), ("dir/big.bin", 7 << 20), ("plus+%.txt", 10)]:
        p = root / name
        p.parent.mkdir(parents=True, exist_ok=True)
        p.write_bytes(os.urandom(size))
    return root


def run(args, server, cwd=None, env=None, ok=True):
    e = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    e.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
    e.update(env or {})
    r = subprocess.run(args, env=e, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert (r.returncode == 0) == ok, f"{args}: {r.returncode}\n{r.stdout}\n{r.stderr}"
    return r.stdout


def same_tree(a, b):
    files = sorted(str(p.relative_to(a)) for p in a.rglob("*") if p.is_file())
    assert files == sorted(str(p.relative_to(b)) for p in b.rglob("*") if p.is_file())
    assert filecmp.cmpfiles(a, b, files, shallow=False)[0] == files


def test_aws_cli(server, bucket, tree, tmp_path):
    aws = ["/usr/bin/aws", "--endpoint-url", server.url]
    # Files below the multipart threshold: multipart is not offered yet.
    run(aws + ["configure", "set", "default.s3.multipart_threshold", "64MB"], server, env={"AWS_CONFIG_FILE": str(tmp_path / "cfg")})
    env = {"AWS_CONFIG_FILE": str(tmp_path / "cfg")}
    run(aws + ["s3", "sync", str(tree), f"s3://{bucket}/t"], server, env=env)
    out = run(aws + ["s3", "ls", "--recursive", f"s3://{bucket}/t"], server, env=env)
    assert "sub dir/ü.bin" in out
    (tmp_path / "back").mkdir()
    run(aws + ["s3", "sync", f"s3://{bucket}/t", str(tmp_path / "back")], server, env=env)
    same_tree(tree, tmp_path / "back")
    run(aws + ["s3", "mv", f"s3://{bucket}/t/small.txt", f"s3://{bucket}/moved"], server, env=env)
    run(aws + ["s3", "rm", "--recursive", f"s3://{bucket}/"], server, env=env)
    assert run(aws + ["s3", "ls", f"s3://{bucket}"], server, env=env) == ""
    url = run(aws + ["s3", "presign", f"s3://{bucket}/none"], server, env=env).strip()
    assert "NoSuchKey" in run(["curl", "-s", url], server)


def test_s3cmd(server, bucket, tree, tmp_path):
    cfg = tmp_path / "s3cfg"
    cfg.write_text(f"[default]\naccess_key={ACCESS}\nsecret_key={SECRET}\nhost_base=127.0.0.1:{server.port}\n"
                   f"host_bucket=127.0.0.1:{server.port}\nuse_https=False\nbucket_location={REGION}\nenable_multipart=False\n")
    s3cmd = ["s3cmd", "-c", str(cfg)]
    run(s3cmd + ["sync", f"{tree}/", f"s3://{bucket}/s/"], server)
    assert "big.bin" in run(s3cmd + ["ls", "-r", f"s3://{bucket}/"], server)
    (tmp_path / "back").mkdir()
    run(s3cmd + ["sync", f"s3://{bucket}/s/", f"{tmp_path}/back/"], server)
    same_tree(tree, tmp_path / "back")
    run(s3cmd + ["cp", f"s3://{bucket}/s/small.txt", f"s3://{bucket}/copy"], server)
    assert "100" in run(s3cmd + ["du", f"s3://{bucket}/copy"], server)
    run(s3cmd + ["del", "-r", "-f", f"s3://{bucket}/"], server)


def test_rclone(server, bucket, tree, tmp_path):
    remote = (f":s3,provider=Other,endpoint='{server.url}',access_key_id={ACCESS},secret_access_key='{SECRET}',region={REGION},"
              f"force_path_style=true,upload_cutoff=64Mi:{bucket}")
    flags = ["--config", str(tmp_path / "none"), "--retries", "1", "--low-level-retries", "1"]
    run(["rclone", "copy", str(tree), remote + "/r"] + flags, server)
    run(["rclone", "check", str(tree), remote + "/r"] + flags, server)
    run(["rclone", "check", "--download", str(tree), remote + "/r"] + flags, server)
    (tmp_path / "back").mkdir()
    run(["rclone", "sync", remote + "/r", str(tmp_path / "back")] + flags, server)
    same_tree(tree, tmp_path / "back")
    (tmp_path / "back" / "small.txt").unlink()
    run(["rclone", "sync", str(tmp_path / "back"), remote + "/r"] + flags, server)
    assert "small.txt" not in run(["rclone", "lsf", "-R", remote + "/r"] + flags, server)
    run(["rclone", "delete", remote] + flags, server)


def test_curl_sigv4(server, bucket, tree):
    curl = ["curl", "-sS", "--fail-with-body", "--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{ACCESS}:{SECRET}",
            "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    run(curl + ["-T", str(tree / "dir/big.bin"), f"{server.url}/{bucket}/curl"], server)
    r = subprocess.run(curl + [f"{server.url}/{bucket}/curl"], capture_output=True, timeout=60)
    assert r.stdout == (tree / "dir/big.bin").read_bytes()
    assert "<Key>curl</Key>" in run(curl + [f"{server.url}/{bucket}?list-type=2"], server)
    assert "x-amz-request-id" in run(curl + ["-I", f"{server.url}/{bucket}/curl"], server).lower()
    run(curl + ["-X", "DELETE", f"{server.url}/{bucket}/curl"], server)
    bad = ["curl", "-sS", "--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{ACCESS}:wrong", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    assert "SignatureDoesNotMatch" in run(bad + [f"{server.url}/{bucket}/curl"], server)
