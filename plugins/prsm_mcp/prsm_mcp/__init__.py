"""The orchestration tools as an MCP server, for programs that take tools in no other way.

server      the tools of one agent as MCP, over any pair of streams
bridge      the engine's end of a socket: which connection speaks for which agent
proxy       what such a program starts: it pumps bytes, and imports no MCP
wire        what goes over the bridge's socket, as lines and as MCP's messages
elicitation what waits for a person, put to a client's user
command     `prsm mcp`, by which a client leads a tree; `leading` serves that client
plugin      by which the package is listed

`mcp` costs a second of CPU, so every module here imports it only where it is used.
"""
