"""The pack, as `pulumi preview --policy-pack policies` runs it; making one serves it and blocks."""

import sys
from pathlib import Path

# The engine runs this folder by its path, so that the checkout is not on Python's.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import PolicyPack

from policies import RULES

PolicyPack(name="railhead", policies=list(RULES))
