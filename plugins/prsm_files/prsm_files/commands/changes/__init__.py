"""`prsm changes`: what agents changed, whose it is, and what becomes of it."""
