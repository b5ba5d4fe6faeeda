#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the house that no compiler checks: floors, sizes, banned functions, SPDX lines.

Exceptions are lines of tools/check-exceptions.txt, "rule path[:function]"; an exception that is not needed any
more is an error, so that the list only shrinks.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOOR = {"base": 0, "rt": 1, "obs": 2, "http": 2, "kv": 3, "data": 3, "meta": 4, "object": 5, "auth": 5,
         "work": 6, "s3": 6, "admin": 6, "console": 6, "cli": 7}
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)\s*\(")
FUNCTION_MAX, FILE_MAX, PARAMS_MAX, NESTING_MAX, COLUMNS_MAX = 80, 800, 6, 3, 100

found = []


def problem(rule, where, text):
    found.append((rule, where, text))


def sources():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "tests", "bench"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return sorted(n for n in names if n.endswith((".c", ".h", ".def")) and (ROOT / n).exists())


def check_includes(name, lines, edges):
    parts = name.split("/")
    if parts[0] != "src":
        return
    own = parts[1]
    for number, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include "([^"]+)"', line)
        if not m:
            continue
        other = m.group(1).split("/")[0]
        if other not in FLOOR:
            if (ROOT / name).parent.joinpath(m.group(1)).exists():
                continue
            problem("floor", name, f"line {number}: {m.group(1)} is in no floor's folder")
            continue
        if FLOOR[other] > FLOOR[own]:
            problem("floor", name, f"line {number}: floor {FLOOR[own]} ({own}) includes floor {FLOOR[other]} ({other})")
        if other != own:
            edges.setdefault(own, set()).add(other)


def check_cycles(edges):
    def reaches(a, b, seen):
        return any(n == b or (n not in seen and not seen.add(n) and reaches(n, b, seen)) for n in edges.get(a, ()))
    for folder in edges:
        if reaches(folder, folder, set()):
            problem("cycle", folder, "folders include each other in a circle")


def check_functions(name, lines):
    start = None
    for i, line in enumerate(lines):
        if line == "{" and start is None and i and not lines[i - 1].startswith(("#", "/*")):
            start = i
            j = i - 1
            while j > 0 and lines[j].startswith((" ", "\t")):
                j -= 1
            signature = " ".join(lines[j:i])
        elif line.startswith("}") and start is not None:
            m = re.search(r"(\w+)\(", signature)
            who = f"{name}:{m.group(1) if m else '?'}"
            length = i - start - 1
            if length > FUNCTION_MAX:
                problem("function", who, f"{length} lines, at most {FUNCTION_MAX}")
            inside = signature[signature.find("(") + 1:signature.rfind(")")]
            depth, params = 0, 1
            for c in inside:
                depth += (c == "(") - (c == ")")
                params += c == "," and depth == 0
            if params > PARAMS_MAX:
                problem("params", who, f"{params} parameters, at most {PARAMS_MAX}")
            for k in range(start, i):
                m = re.match(r"( +)(if|for|while|switch|do)\b", lines[k])
                if m and len(m.group(1)) // 4 > NESTING_MAX + 1:
                    problem("nesting", who, f"line {k + 1} is nested deeper than {NESTING_MAX}")
                    break
            start = None


def check_file(name, edges):
    text = (ROOT / name).read_text()
    lines = text.split("\n")
    if "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        problem("spdx", name, "the first line has no SPDX identifier")
    if len(lines) - 1 > FILE_MAX:
        problem("file", name, f"{len(lines) - 1} lines, at most {FILE_MAX}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX + (20 if "/*" in line or line.lstrip().startswith("*") else 0):
            problem("columns", name, f"line {number} has {len(line)} columns")
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
        if BANNED.search(code) and not code.lstrip().startswith("*"):
            problem("banned", name, f"line {number}: {BANNED.search(code).group(1)}")
    check_includes(name, lines, edges)
    if name.endswith(".c"):
        check_functions(name, lines)


def main():
    edges = {}
    files = sources()
    for name in files:
        check_file(name, edges)
    check_cycles(edges)
    path = ROOT / "tools/check-exceptions.txt"
    allowed = {tuple(l.split()[:2]) for l in path.read_text().splitlines() if l and not l.startswith("#")}
    used = set()
    bad = 0
    for rule, where, text in found:
        if (rule, where) in allowed:
            used.add((rule, where))
            continue
        print(f"{where}: {text} [{rule}]")
        bad += 1
    for rule, where in sorted(allowed - used):
        print(f"tools/check-exceptions.txt: \"{rule} {where}\" is not needed any more")
        bad += 1
    print(f"check: {len(files)} files, {bad} problems, {len(used)} exceptions")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
