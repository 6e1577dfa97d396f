"""The pack of `pulumi preview --policy-pack policies`; a pack blocks once it is created."""

import sys
from pathlib import Path

# The engine runs this folder by its path; without installation the checkout is not on sys.path.
if (checkout := Path(__file__).resolve().parent.parent).joinpath("railhead").is_dir():
    sys.path.insert(0, str(checkout))

from pulumi_policy import PolicyPack

from railhead.policies import RULES

PolicyPack(name="railhead", policies=list(RULES))
