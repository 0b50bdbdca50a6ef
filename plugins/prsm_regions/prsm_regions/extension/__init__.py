"""The run as lines of JSON, for an editor or another program that leads it.

messages   what is said on stdin and stdout, each a JSON object a line
reading    what the events of a session mean in these words                 pure
feeds      what each agent does to files, and the graph of it all           pure
ports      a port on loopback for each agent's feed
frontend   the frontend `extension`: commands in, messages out
terminal   the frontend `regions`: the same messages for a person, line by line
"""
