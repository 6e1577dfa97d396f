"""nccl-tests output: sizes, bandwidths, how near to the line rate, and the shape of the curve."""
