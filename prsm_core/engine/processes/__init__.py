"""The processes that the engine starts: each under a shim that ends its family with the engine.

launcher     starts them, knows all that live      table     what the system says of a family
child, io    one process, its pipes in bounds      orphans   what a dead engine left is ended
reaper_shim  the program between, stdlib alone     shell     one command, its output in bounds
sandbox      bubblewrap, where it is wanted        view      what a command in it sees and writes
hidden       secrets and sockets it does not see   syscalls  the calls it cannot make
stand_ins    what cannot be created in it       region_mounts  what an agent may write in it
detached     starts another prsm, which outlives this one
container    processes in boxes: runc, podman or bubblewrap, and the trial of them
box_view     what such a process sees      box_runtimes  what the three are told
bundles      what boxes leave is removed      cgroups   their limits, and what became of them
marks        what says below which engine a process is
mcp_reach    asks an MCP server by its URL to begin, stdlib alone
"""
