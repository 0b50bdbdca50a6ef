"""Code of others, guarded: what it does wrong is its own failure, and stops nobody else.

provider  every call into a provider and its sessions, within its limits
failing   what a failure is called, whatever stands in the way of telling it
"""
