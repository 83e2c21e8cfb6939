"""One rank of the cases: runs all functions of cases/ in turn, and prints a line for each.

A line is a JSON object: {"case": name, "error": null or text}. All ranks run all cases, so that torch
is loaded once.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

import torch
import torch.distributed as dist

import cases
from cases.common import Skip, end_process_group


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    wanted = sys.argv[1:]
    for name, case in (cases.ALL if dist.get_world_size() > 1 else cases.ALONE).items():
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1)
        dist.barrier()
        began, error = time.monotonic(), None
        try:
            case(dist.get_rank(), dist.get_world_size())
        except Skip as reason:
            error = f"skipped: {reason}"
        except Exception:
            error = traceback.format_exc()
        seconds = round(time.monotonic() - began, 2)
        print(json.dumps({"case": name, "error": error, "seconds": seconds}))
    dist.barrier()
    end_process_group()


main()
