"""Benchmarks: ratios against a reference that is measured in the same run.

`python -m benchmarks [--json] [NAME …]`; what each compares is in docs/benchmarks.md.
"""
