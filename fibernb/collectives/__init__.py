"""What the ranks of a cell, or the members of a ring, do together: `calls` has the functions that users call."""
