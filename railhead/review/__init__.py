"""Reviews a pull request that changes a cluster: what it would lose, and who would notice.

`railhead review --base REF` plans each changed stack twice, as the base branch has it and as the
pull request leaves it, and compares the two. It needs no credentials and no cluster.
"""
