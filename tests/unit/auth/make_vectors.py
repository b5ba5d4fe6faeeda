#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.txt: random requests signed by botocore at 2013-05-24T00:00:00Z.

One request is a line "METHOD target", lines "name: value", and an empty line."""
import datetime
import random
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials

NOW = datetime.datetime(2013, 5, 24, 0, 0, 0, tzinfo=datetime.timezone.utc)
for name in ("get_current_datetime",):
    assert hasattr(botocore.auth, name)
    setattr(botocore.auth, name, lambda *a, **k: NOW.replace(tzinfo=None))

KEYS = botocore.credentials.Credentials(
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
CHARS = list("abcXYZ019-_.~+@=:&$,;'()!* %/#?[]{}\"<>|^`\\") + ["é", "ß", "漢", "😀"]
RAW = "+@=:&$,;'()!*~"  # may also travel unescaped in a path

rnd = random.Random(20130524)


def word(n):
    return "".join(rnd.choice(CHARS) for _ in range(rnd.randint(1, n)))


def quote(s, safe):
    return urllib.parse.quote(s, safe=safe)


def request(presigned):
    method = rnd.choice(["GET", "PUT", "HEAD", "DELETE", "POST"])
    path = "/bucket/" + quote(word(20), "/-_.~")
    params = [(quote(word(8), "-_.~"), quote(word(8), "-_.~") if rnd.random() < .8 else "")
              for _ in range(rnd.choice([0, 0, 1, 2, 5]))]
    query = "&".join(k + "=" + v for k, v in params)
    url = "http://examplebucket.example.com" + path + ("?" + query if query else "")
    headers = {}
    if rnd.random() < .5:
        headers["Content-Type"] = rnd.choice(["text/plain", "text/plain;  charset=utf-8"])
    for i in range(rnd.randint(0, 4)):
        headers["x-amz-meta-" + rnd.choice("abcdef") + str(i)] = \
            rnd.choice(["v", "two  words", "  edge ", "a,b", "", "caf\u00e9"])
    if rnd.random() < .2:
        headers["Range"] = "bytes=0-9"
    r = botocore.awsrequest.AWSRequest(method, url, headers, data=b"hello" if method == "PUT" and not presigned else b"")
    if presigned:
        botocore.auth.S3SigV4QueryAuth(KEYS, "s3", "us-east-1",
                                       expires=rnd.choice([1, 3600, 604800])).add_auth(r)
    else:
        if rnd.random() < .5:
            r.context["payload_signing_enabled"] = True
        botocore.auth.S3SigV4Auth(KEYS, "s3", "us-east-1").add_auth(r)
    url = r.url
    target = url[len("http://examplebucket.example.com"):]
    path, _, query = target.partition("?")
    if rnd.random() < .5:
        for c in RAW:
            path = path.replace("%%%02X" % ord(c), c)
    target = path + ("?" + query if query else "")
    lines = [method + " " + target, "Host: examplebucket.example.com"]
    items = list(r.headers.items())
    rnd.shuffle(items)
    lines += [k + ": " + (v.decode() if isinstance(v, bytes) else v) for k, v in items
              if k.lower() != "host"]
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    with open("vectors.txt", "w", encoding="utf-8") as f:
        for i in range(200):
            f.write(request(i % 2 == 1))
