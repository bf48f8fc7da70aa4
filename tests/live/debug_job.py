"""A gloo job with torch's own debug server and nothing of ours; rank 1 never comes to the third call."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.debug import start_debug_server

if __name__ == "__main__":
    dist.init_process_group("gloo")
    start_debug_server(port=int(sys.argv[1]), start_method="spawn")
    for _ in range(2):
        dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(4))
    while os.getppid() != 1:
        time.sleep(1)
