"""A running session and the other processes of its user.

session_lock  one owner a session        server, client  a Unix socket beside the lock
wire          what goes over it        peers           who is at its other end
remote        AppHandle over it        operations      what it can be asked for
visits        who asks something now
"""
