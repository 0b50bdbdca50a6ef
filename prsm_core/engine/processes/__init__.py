"""The processes that the engine starts: each under a shim that ends its family with the engine.

launcher     starts them, knows all that live; starts another prsm, which outlives this one
table        what the system says of a family; the mark of the engine that it is below
child, io    one process, its pipes in bounds      orphans   what a dead engine left is ended
reaper_shim  the program between, stdlib alone     shell     one command, its output in bounds
executor     which one shuts in commands and programs, and what dead engines' boxes leave
mcp_reach    asks an MCP server by its URL to begin, stdlib alone
"""
