"""The checks behind `prsm doctor`, none of which changes anything."""
