# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import os
import threading
import zlib

import pytest
from conftest import error_of

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 1000, 32768, 32769, 5 * MIB, 5 * MIB + 1, 100 * MIB])
def test_object_comes_back_byte_for_byte(s3, bucket, size):
    body = os.urandom(min(size, 3 * MIB + 7)) * (size // (3 * MIB + 7) + 1)
    body = body[:size]
    put = s3.put_object(Bucket=bucket, Key="k", Body=body)
    md5 = hashlib.md5(body).hexdigest()
    assert put["ETag"] == f'"{md5}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["ETag"] == f'"{md5}"'
    assert hashlib.md5(got["Body"].read()).hexdigest() == md5
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == size and head["ETag"] == f'"{md5}"'


def test_missing_key_and_bucket(s3, bucket):
    assert error_of(s3.get_object, Bucket=bucket, Key="none") == (404, "NoSuchKey")
    assert error_of(s3.get_object, Bucket=bucket + "x", Key="none") == (404, "NoSuchBucket")
    assert error_of(s3.put_object, Bucket=bucket + "x", Key="none", Body=b"x") == (404, "NoSuchBucket")
    assert error_of(s3.head_object, Bucket=bucket, Key="none")[0] == 404
    assert s3.delete_object(Bucket=bucket, Key="none")["ResponseMetadata"]["HTTPStatusCode"] == 204


KEYS = ["a", "a/b", "a//b", "/lead", "//", "trail/", "..", "a/../b", "./x", "sp ace", "plus+plus", "per%cent", "%2F", "amp&x=1",
        "q?uestion", "semi;colon,comma", "at@eq=col:on$", "(paren)'!*~", "ünïcode-ß", "emoji-\U0001f600", "tab\there",
        "x" * 1024, "back\\slash", "hash#tag", "quote\"quote", "<xml>", "nl\nline", "{uuid}", "c++"]


@pytest.mark.parametrize("key", KEYS)
def test_any_key_is_opaque(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    listed = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == [key]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == key.encode()
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}, {"Key": "copy"}]})
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_key_limit(s3, bucket):
    assert error_of(s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"") == (400, "KeyTooLongError")


@pytest.mark.parametrize("size", [100, 9 * MIB + 3])
def test_ranges(s3, bucket, size):
    body = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="k", Body=body)

    def get(r):
        g = s3.get_object(Bucket=bucket, Key="k", Range=r)
        return g["ResponseMetadata"]["HTTPStatusCode"], g["Body"].read(), g.get("ContentRange")
    assert get("bytes=0-0") == (206, body[:1], f"bytes 0-0/{size}")
    assert get("bytes=5-9") == (206, body[5:10], f"bytes 5-9/{size}")
    assert get("bytes=50-") == (206, body[50:], f"bytes 50-{size - 1}/{size}")
    assert get("bytes=-7") == (206, body[-7:], f"bytes {size - 7}-{size - 1}/{size}")
    assert get(f"bytes=-{size + 10}") == (206, body, f"bytes 0-{size - 1}/{size}")
    assert get(f"bytes=10-{size + 1000}") == (206, body[10:], f"bytes 10-{size - 1}/{size}")
    assert get("bytes=9-5")[:2] == (200, body)
    assert get("bytes=a-b")[:2] == (200, body)
    assert error_of(s3.get_object, Bucket=bucket, Key="k", Range=f"bytes={size}-") == (416, "InvalidRange")
    if size > MIB:
        at = 4 * MIB - 5
        assert get(f"bytes={at}-{at + 9}") == (206, body[at:at + 10], f"bytes {at}-{at + 9}/{size}")


def test_range_answer_carries_no_checksum(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789", ChecksumAlgorithm="CRC32")
    g = s3.get_object(Bucket=bucket, Key="k", Range="bytes=1-3", ChecksumMode="ENABLED")
    assert g["Body"].read() == b"123" and "ChecksumCRC32" not in g


def test_stored_headers_and_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain", ContentEncoding="gzip",
                  ContentDisposition='attachment; filename="a b"', ContentLanguage="de", CacheControl="max-age=3",
                  Expires="Wed, 21 Oct 2026 07:28:00 GMT", Metadata={"MixedCase": "Value", "empty": "", "k2": "a  b"})
    for g in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        assert g["ContentType"] == "text/plain" and g["ContentEncoding"] == "gzip"
        assert g["ContentDisposition"] == 'attachment; filename="a b"'
        assert g["ContentLanguage"] == "de" and g["CacheControl"] == "max-age=3"
        assert g["ResponseMetadata"]["HTTPHeaders"]["expires"] == "Wed, 21 Oct 2026 07:28:00 GMT"
        assert g["Metadata"]["mixedcase"] == "Value" and g["Metadata"]["empty"] == ""
    s3.put_object(Bucket=bucket, Key="d", Body=b"x")
    assert s3.head_object(Bucket=bucket, Key="d")["ContentType"] == "binary/octet-stream"


def test_metadata_limit(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Metadata={"a": "x" * 2000})
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"",
                    Metadata={"a": "x" * 1100, "b": "y" * 1100}) == (400, "MetadataTooLarge")


def test_response_overrides(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    g = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a/b", ResponseCacheControl="no-cache",
                      ResponseContentDisposition="inline", ResponseContentEncoding="x", ResponseContentLanguage="fr")
    h = g["ResponseMetadata"]["HTTPHeaders"]
    assert (h["content-type"], h["cache-control"], h["content-disposition"], h["content-encoding"],
            h["content-language"]) == ("a/b", "no-cache", "inline", "x", "fr")


def test_conditional_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"x"
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfMatch='"0"') == (412, "PreconditionFailed")
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag)[0] == 304
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfModifiedSince=when)[0] == 304
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince="Wed, 21 Oct 2015 07:28:00 GMT")[0] == 412
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag,
                         IfUnmodifiedSince="Wed, 21 Oct 2015 07:28:00 GMT")["Body"].read() == b"x"


def test_conditional_writes(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*") == (412, "PreconditionFailed")
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfMatch='"0"') == (412, "PreconditionFailed")
    assert error_of(s3.put_object, Bucket=bucket, Key="new", Body=b"2", IfMatch='"0"') == (404, "NoSuchKey")
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"3"
    assert error_of(s3.delete_object, Bucket=bucket, Key="k", IfMatch=etag) == (412, "PreconditionFailed")
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=s3.head_object(Bucket=bucket, Key="k")["ETag"])
    assert error_of(s3.head_object, Bucket=bucket, Key="k")[0] == 404


def test_exactly_one_winner_of_concurrent_creates(server, bucket):
    results = []

    def put(n):
        c = server.client()
        try:
            c.put_object(Bucket=bucket, Key="race", Body=str(n).encode(), IfNoneMatch="*")
            results.append(n)
        except c.exceptions.ClientError as e:
            assert e.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict")
    threads = [threading.Thread(target=put, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 1
    assert server.client().get_object(Bucket=bucket, Key="race")["Body"].read() == str(results[0]).encode()


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
@pytest.mark.parametrize("size", [10, 5 * MIB + 1])
def test_checksums_are_kept_and_told(s3, bucket, algorithm, size):
    try:
        import awscrt  # noqa: F401
    except ImportError:
        if algorithm in ("CRC32C", "CRC64NVME"):
            pytest.skip("boto3 computes this sum only with awscrt")
    body = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    name = "Checksum" + algorithm
    want = {"SHA1": lambda: hashlib.sha1(body).digest(), "SHA256": lambda: hashlib.sha256(body).digest(),
            "CRC32": lambda: zlib.crc32(body).to_bytes(4, "big")}.get(algorithm)
    if want:
        assert put[name] == base64.b64encode(want()).decode()
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == put[name]
    assert s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == put[name]


def test_wrong_digests_are_refused_and_leave_nothing(s3, bucket):
    for extra in (dict(ContentMD5=base64.b64encode(b"0" * 16).decode()),
                  dict(ChecksumSHA256=base64.b64encode(b"0" * 32).decode()),
                  dict(ChecksumCRC32=base64.b64encode(b"0" * 4).decode())):
        assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"x" * 100000, **extra) == (400, "BadDigest")
        assert error_of(s3.head_object, Bucket=bucket, Key="k")[0] == 404
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ContentMD5="nonsense") == (400, "InvalidDigest")


@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_copy(s3, bucket, size):
    body = os.urandom(size)
    etag = s3.put_object(Bucket=bucket, Key="a", Body=body, Metadata={"m": "1"}, ContentType="t/a")["ETag"]
    src = {"Bucket": bucket, "Key": "a"}
    r = s3.copy_object(Bucket=bucket, Key="b", CopySource=src)
    assert r["CopyObjectResult"]["ETag"] == etag
    g = s3.get_object(Bucket=bucket, Key="b")
    assert g["Body"].read() == body and g["Metadata"] == {"m": "1"} and g["ContentType"] == "t/a"
    s3.copy_object(Bucket=bucket, Key="b", CopySource=src, MetadataDirective="REPLACE", Metadata={"n": "2"})
    g = s3.get_object(Bucket=bucket, Key="b")
    assert g["Body"].read() == body and g["Metadata"] == {"n": "2"}
    assert error_of(s3.copy_object, Bucket=bucket, Key="a", CopySource=src) == (400, "InvalidRequest")
    s3.copy_object(Bucket=bucket, Key="a", CopySource=src, MetadataDirective="REPLACE", Metadata={"self": "x"})
    g = s3.get_object(Bucket=bucket, Key="a")
    assert g["Body"].read() == body and g["Metadata"] == {"self": "x"}
    assert error_of(s3.copy_object, Bucket=bucket, Key="c", CopySource=src, CopySourceIfMatch='"0"') == (412, "PreconditionFailed")
    assert error_of(s3.copy_object, Bucket=bucket, Key="c", CopySource=src, CopySourceIfNoneMatch=etag) == (412, "PreconditionFailed")
    assert error_of(s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "none"}) == (404, "NoSuchKey")


def test_delete_objects(s3, bucket):
    for i in range(30):
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=b"x")
    r = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"k{i}"} for i in range(20)] + [{"Key": "never"}]})
    assert sorted(d["Key"] for d in r["Deleted"]) == sorted([f"k{i}" for i in range(20)] + ["never"])
    r = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"k{i}"} for i in range(20, 30)], "Quiet": True})
    assert "Deleted" not in r and "Errors" not in r
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    assert error_of(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": f"{i}"} for i in range(1001)]})[1] == "MalformedXML"


def test_overwrites_reclaim_space_and_keep_the_last(s3, bucket):
    for i in range(5):
        s3.put_object(Bucket=bucket, Key="k", Body=bytes([i]) * (5 * MIB))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == bytes([4]) * (5 * MIB)
