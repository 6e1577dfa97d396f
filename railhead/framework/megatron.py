"""Megatron-LM and Megatron Core by torchrun: sizes of its parallelism must divide the world."""

from __future__ import annotations

from collections.abc import Sequence

from railhead.framework.base import Gang
from railhead.framework.torch import Torch

#: Argument of Megatron-LM -> what it is called (megatron/training/arguments.py, core v0.16.1).
_SIZES = {
    "--tensor-model-parallel-size": "tensor",
    "--pipeline-model-parallel-size": "pipeline",
    "--context-parallel-size": "context",
    "--expert-model-parallel-size": "expert",
    "--expert-tensor-parallel-size": "expert tensor",
}


def sizes(words: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Return the sizes that a command gives, 1 where it gives none, and what is no size.

    >>> sizes(["pretrain.py", "--tensor-model-parallel-size", "8"])[0]["tensor"]
    8
    """
    results, wrong = {}, []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in _SIZES:
            continue
        text = value if equals else (words[place + 1] if place + 1 < len(words) else "")
        if text.isascii() and text.isdigit() and int(text) > 0:
            results[_SIZES[name]] = int(text)
        else:
            wrong.append(f"{name} is {text!r}, a whole number from 1 is allowed")
    every = {what: results.get(what, 1) for what in _SIZES.values()}
    # Absent, experts are cut as the rest is.
    every["expert tensor"] = results.get("expert tensor", every["tensor"])
    return every, wrong


class Megatron(Torch):
    """Megatron by torchrun."""

    def problems(self, words: Sequence[str], gang: Gang, gpus: int) -> list[tuple[str, str]]:
        """Megatron's own rule for the world, and what tensor parallelism over NICs costs."""
        size, wrong = sizes(words)
        results = [(text, "give a whole number") for text in wrong]
        world = gang.world_size
        groups = {
            "tensor x pipeline x context": size["tensor"] * size["pipeline"] * size["context"],
            "expert tensor x expert x pipeline": size["expert tensor"]
            * size["expert"]
            * size["pipeline"],
        }
        for what, product in groups.items():
            if world % product:
                near = [
                    n
                    for n in range(1, 4 * gang.nodes + product)
                    if n * gang.processes % product == 0
                ]
                fix = (
                    f"take {near[0]} nodes or a multiple, or other sizes" if near else "other sizes"
                )
                results.append(
                    (f"{what} is {product}, which does not divide the world of {world}", fix)
                )
        inside = gpus or gang.processes
        if world <= inside:
            return results
        where = "of a node" if inside <= gang.processes else "that NVLink joins"
        for what in ("tensor", "expert tensor"):
            if gang.nodes > 1 and size[what] > inside:
                results.append(
                    (
                        f"{what} parallelism of {size[what]} is more than the {inside} GPUs "
                        f"{where}: every layer's all-reduce would wait for the NICs",
                        f"at most {inside}, and pipeline or context parallelism for the rest",
                    )
                )
                break
            if size[what] <= inside and inside % size[what]:
                results.append(
                    (
                        f"{what} parallelism of {size[what]} does not divide the {inside} GPUs "
                        f"{where}: some groups would lie on two",
                        "a size that divides it",
                    )
                )
                break
        return results


FRAMEWORK = Megatron(
    name="megatron",
    source="Megatron Core v0.16.1, megatron/core/parallel_state.py (initialize_model_parallel, "
    "RankGenerator) and megatron/training/arguments.py (validate_args)",
)
