"""`prsm sessions`: what a person does with sessions that were run."""
