"""Training images whose quirks a runtime must know; any other image may be named as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.catalog.parts import Variable


@dataclass(frozen=True, kw_only=True)
class Image:
    """A training image.

    Args:
        reference: repository and tag, as a runtime's ``image`` says it.
        framework: the framework inside.
        environment: variables that this image needs, each with its reason.
        source: what it is made of.
    """

    reference: str
    framework: str
    environment: tuple[Variable, ...]
    source: str


_TO_MAP = (
    "torch.distributed.run of PyTorch 1.13 under Python 3.11 fails in `to_map` while it parses the "
    "defaults of --redirects and --tee; any explicit value avoids it"
)

_RUN = "run in the lab: a two-process gloo all-reduce gave the right sum only with it"

TORCH_CPU = Image(
    reference="railhead.local/torch-cpu:lab",
    framework="torch",
    environment=(
        Variable(name="PET_REDIRECTS", value="1", reason=_TO_MAP, source=_RUN),
        Variable(name="PET_TEE", value="1", reason=_TO_MAP, source=_RUN),
    ),
    source="python3-torch of the machine's own release (1.13.1 on Debian 12), built by "
    "`railhead lab build`",
)

IMAGES: Mapping[str, Image] = MappingProxyType({i.reference: i for i in (TORCH_CPU,)})
