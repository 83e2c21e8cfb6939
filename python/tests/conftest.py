"""Lets the tests import the package that the ranks import."""

from __future__ import annotations

import sys

from launch_ranks import PACKAGE_DIR

if PACKAGE_DIR:
    sys.path.insert(0, PACKAGE_DIR)
