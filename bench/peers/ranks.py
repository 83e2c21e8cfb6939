"""The beginning and the end of a measurement with PyTorch, the same for all programs here."""
import json
import os

import torch
import torch.distributed as dist


def join(interface=None):
    """Joins the group of the launcher's variables, with one thread per rank."""
    if interface:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def report(result):
    """Rank 0 prints the result as a JSON line."""
    if dist.get_rank() == 0:
        print(json.dumps(result, separators=(",", ":")), flush=True)


def leave():
    """Waits for all ranks, then ends the group: without that torch 2.x may abort; in 1.13 the call may hang."""
    dist.barrier()
    if not torch.__version__.startswith("1."):
        dist.destroy_process_group()
