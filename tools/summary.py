#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the test runners wrote into a directory and prints one closing line.

unit.txt: meson's test log with cmocka's output; s3.xml: pytest's JUnit report. Every skipped test is named.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ET

where = pathlib.Path(sys.argv[1])
passed = failed = skipped = 0

unit = where / "unit.txt"
if unit.exists():
    text = unit.read_text(errors="replace")
    passed += len(re.findall(r"^\[       OK \] ", text, re.M))
    names = set(re.findall(r"^\[  FAILED  \] (\S+)$", text, re.M))
    failed += len(names)
    for name in sorted(set(re.findall(r"^\[  SKIPPED \] (\S+)$", text, re.M))):
        skipped += 1
        print(f"skipped: {name}")
    # A program that died reports no failed case of its own.
    results = re.findall(r"^result: +(.*)$", text, re.M)
    died = sum(1 for r in results if not r.startswith("exit status 0") and "(skip" not in r)
    failed = max(failed, died)
    if not results:
        print("no unit test ran")
        failed += 1

s3 = where / "s3.xml"
if s3.exists():
    cases = ET.parse(s3).getroot().iter("testcase")
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            print(f"failed: {case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
            print(f"skipped: {case.get('classname')}.{case.get('name')}: {case.find('skipped').get('message')}")
        else:
            passed += 1

line = f"{passed} passed, {failed} failed"
print(line + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
