# SPDX-License-Identifier: Apache-2.0
import random
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import OTHER_ACCESS, OTHER_SECRET, empty, error_of


def test_bucket_life(s3):
    name = "life-" + uuid.uuid4().hex[:16]
    s3.create_bucket(Bucket=name)
    h = s3.head_bucket(Bucket=name)
    assert h["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == "us-east-1"
    assert s3.get_bucket_location(Bucket=name).get("LocationConstraint") is None
    assert name in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    assert error_of(s3.delete_bucket, Bucket=name) == (409, "BucketNotEmpty")
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)
    assert error_of(s3.head_bucket, Bucket=name)[0] == 404
    assert error_of(s3.delete_bucket, Bucket=name) == (404, "NoSuchBucket")


@pytest.mark.parametrize("name", ["Upper", "192.168.0.1", "a..b", "-lead", "trail-", "xn--x", "under_score", "abc-s3alias"])
def test_bad_bucket_names(server, name):
    import boto3
    from botocore.config import Config
    from conftest import ACCESS, SECRET
    c = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                     region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
    assert error_of(c.create_bucket, Bucket=name) == (400, "InvalidBucketName")


def test_owners_see_only_their_own(server, s3, bucket):
    other = server.client(OTHER_ACCESS, OTHER_SECRET)
    s3.put_object(Bucket=bucket, Key="k", Body=b"secret")
    assert bucket not in [b["Name"] for b in other.list_buckets()["Buckets"]]
    assert error_of(other.list_objects_v2, Bucket=bucket) == (403, "AccessDenied")
    assert error_of(other.get_object, Bucket=bucket, Key="k") == (403, "AccessDenied")
    assert error_of(other.put_object, Bucket=bucket, Key="k", Body=b"") == (403, "AccessDenied")
    assert error_of(other.delete_object, Bucket=bucket, Key="k") == (403, "AccessDenied")
    assert error_of(other.create_bucket, Bucket=bucket) == (409, "BucketAlreadyExists")
    mine = "other-" + uuid.uuid4().hex[:12]
    other.create_bucket(Bucket=mine)
    assert error_of(other.copy_object, Bucket=mine, Key="c", CopySource={"Bucket": bucket, "Key": "k"}) == (403, "AccessDenied")
    other.delete_bucket(Bucket=mine)


def test_list_buckets_pages(server):
    c = server.client(OTHER_ACCESS, OTHER_SECRET)
    names = sorted(f"page-{i:02d}-{uuid.uuid4().hex[:8]}" for i in range(7))
    for n in names:
        c.create_bucket(Bucket=n)
    seen, token = [], None
    while True:
        r = c.list_buckets(MaxBuckets=3, Prefix="page-", **({"ContinuationToken": token} if token else {}))
        seen += [b["Name"] for b in r["Buckets"]]
        token = r.get("ContinuationToken")
        if not token:
            break
    assert seen == names
    for n in names:
        c.delete_bucket(Bucket=n)


def model_list(keys, prefix, delimiter, after, limit):
    """What one page holds, by the definition."""
    out = []
    for k in sorted(keys, key=lambda s: s.encode()):
        if not k.startswith(prefix):
            continue
        entry = (k, False)
        if delimiter:
            at = k.find(delimiter, len(prefix))
            if at >= 0:
                entry = (k[:at + len(delimiter)], True)
        if entry[0].encode() <= after.encode() or (after and entry[1] and after.startswith(entry[0])):
            continue
        if not out or out[-1] != entry:
            out.append(entry)
    return out[:limit], len(out) > limit


@pytest.fixture(scope="module")
def big(server):
    s3 = server.client(max_pool_connections=16)
    name = "big-" + uuid.uuid4().hex[:12]
    s3.create_bucket(Bucket=name)
    rnd = random.Random(7)
    keys = set()
    while len(keys) < 10000:
        depth = rnd.randint(1, 4)
        keys.add("/".join(rnd.choice(["a", "b", "cc", "d-d", "é", "z z"]) + str(rnd.randint(0, 30)) for _ in range(depth)))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: s3.put_object(Bucket=name, Key=k, Body=b"x"), keys))
    yield s3, name, keys
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("prefix,delimiter,page", [("", "", 1000), ("", "/", 7), ("a1/", "/", 10), ("a", "1", 13), ("", "/b", 50), ("", "é", 9),
                                                   ("zz", "/", 5), ("a", "", 333)])
@pytest.mark.parametrize("version", [1, 2])
def test_listing_equals_the_model(big, prefix, delimiter, page, version):
    s3, name, keys = big
    after, token, rounds = "", None, 0
    while True:
        args = dict(Bucket=name, Prefix=prefix, MaxKeys=page)
        if delimiter:
            args["Delimiter"] = delimiter
        if version == 1:
            if after:
                args["Marker"] = after
            r = s3.list_objects(**args)
        else:
            if token:
                args["ContinuationToken"] = token
            r = s3.list_objects_v2(**args)
            assert r["KeyCount"] == len(r.get("Contents", [])) + len(r.get("CommonPrefixes", []))
        want, more = model_list(keys, prefix, delimiter, after, page)
        got = sorted([(o["Key"], False) for o in r.get("Contents", [])] + [(p["Prefix"], True) for p in r.get("CommonPrefixes", [])],
                     key=lambda e: e[0].encode())
        assert got == want and r["IsTruncated"] == more
        if not more or rounds > 40:
            break
        rounds += 1
        after = want[-1][0]
        token = r.get("NextContinuationToken")
        if version == 1 and delimiter:
            assert r["NextMarker"] == after


def test_list_details(s3, bucket):
    for k in ("a", "b", "c/d"):
        s3.put_object(Bucket=bucket, Key=k, Body=b"xyz")
    r = s3.list_objects_v2(Bucket=bucket, StartAfter="a", FetchOwner=True)
    assert [o["Key"] for o in r["Contents"]] == ["b", "c/d"] and r["StartAfter"] == "a"
    assert r["Contents"][0]["Owner"]["ID"] == "alice" and r["Contents"][0]["Size"] == 3
    assert "Owner" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    r = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert r["KeyCount"] == 0 and not r["IsTruncated"]
    assert error_of(s3.list_objects_v2, Bucket=bucket, ContinuationToken="garbage") == (400, "InvalidArgument")
    assert error_of(s3.list_objects_v2, Bucket=bucket, MaxKeys=-1) == (400, "InvalidArgument")


def test_unconfigured_subresources_answer_as_aws(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert error_of(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")
    assert error_of(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")
    assert error_of(s3.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")
    assert error_of(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")
    assert error_of(s3.get_bucket_website, Bucket=bucket) == (404, "NoSuchWebsiteConfiguration")
    assert s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"] == "alice"


def test_subresources_to_come_are_refused_not_mistaken(s3, bucket):
    assert error_of(s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}) == (501, "NotImplemented")
    assert error_of(s3.create_multipart_upload, Bucket=bucket, Key="k") == (501, "NotImplemented")
