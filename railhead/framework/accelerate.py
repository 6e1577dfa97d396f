"""Hugging Face Accelerate, whose processes torchrun may start as well as its own launcher.

Accelerate reads the same variables under any launcher. Its own launcher needs the rendezvous as
arguments that differ from node to node; torchrun takes it from variables.
"""

from __future__ import annotations

from railhead.framework.torch import Torch

FRAMEWORK = Torch(
    name="accelerate",
    source="accelerate 1.15.0, docs/source/basic_tutorials/launch.md (torchrun) and "
    "src/accelerate/state.py (PartialState reads LOCAL_RANK, RANK, WORLD_SIZE)",
)
