"""For plugin authors: contracts, fakes, and a loopback model server."""
