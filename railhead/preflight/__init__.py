"""What a stack takes for granted, row by row, and the calls that ask for it before the first up."""
