"""From a parsed stack to what everything else reads. Pure data: no Pulumi in it."""
