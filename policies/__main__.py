"""The pack of `pulumi preview --policy-pack policies`; a pack blocks once it is created."""

import sys
from pathlib import Path

# The engine runs this folder by its path; without installation the checkout is not on sys.path.
if (checkout := Path(__file__).resolve().parent.parent).joinpath("railhead").is_dir():
    sys.path.insert(0, str(checkout))

from railhead.policies.pack import serve

serve("railhead", file=__file__)
