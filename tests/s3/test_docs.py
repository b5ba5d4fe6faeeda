# SPDX-License-Identifier: Apache-2.0
"""Documents that are made from tables of the source say what the source says."""
import os
import subprocess

import pytest
from conftest import ROOT

BINARY = os.environ.get("STRATA_TEST_BINARY") or str(ROOT / "build/strata")


@pytest.mark.parametrize("what,file", [("ops", "s3-compatibility.md"), ("settings", "operations.md")])
def test_tables_are_current(what, file):
    table = subprocess.run([BINARY, "admin", what, "--markdown"], capture_output=True, text=True, check=True).stdout
    assert len(table.splitlines()) > 20
    assert table in (ROOT / "docs" / file).read_text()


def test_help_names_every_command():
    out = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(c in out for c in ("server", "admin", "bench", "version"))
    assert subprocess.run([BINARY, "nonsense"], capture_output=True).returncode == 2
    assert "STRATA_INLINE_MAX" in subprocess.run([BINARY, "server", "--help"], capture_output=True, text=True).stdout
