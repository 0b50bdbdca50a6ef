"""Parallel regions: a plan is a program that an agent runs."""
