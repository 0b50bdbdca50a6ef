"""Guard the code of others: its mistakes are its own failures, and stop nobody else."""
