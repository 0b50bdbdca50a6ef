"""The executor `sandbox`: shuts in commands by bubblewrap, and programs in boxes.

sandbox      what the core asks for: bubblewrap, the trial of it, and what cannot be created in it
view         what a command in it sees and writes    syscalls   the calls it cannot make
boxes        programs in boxes, and the trial of what makes them
box_view     what such a program sees     box_runtimes  what runc, podman and bubblewrap are told
bundles      what boxes leave is removed  cgroups       their limits, and what became of them
"""
